//! fencegate: an HTTP fencing gateway.
//!
//! ```text
//! HTTP request
//!    |  http: parse once into domain words                       (no rules, no SQL)
//!    v
//! Command -> ledger queue -> batch -> one transaction: load -> decide, in order -> apply -> commit
//!                                                        ^ protocol: pure, total, no I/O, no clock
//! Outcome -> http: status, headers, body
//! ```
//!
//! `main` calls `cli`, `cli` calls `app`, and `app` puts `http`, `ledger`, `config` and `telemetry` together.
//! `http` and `ledger` know `protocol` and `domain`; `protocol` knows `domain`; `domain` knows nobody. `backing`
//! speaks to stores behind HTTP, `access` knows who may do what, and `tls` reads certificates. `bench` measures
//! all of it from outside, beside what people write by hand, and `exam` breaks everything around it and judges what it did.
//! `deliberate` breaks the gateway itself, in builds for tests.

pub mod access;
pub mod app;
pub mod backing;
pub mod bench;
pub mod cli;
pub mod config;
pub mod deliberate;
pub mod dispatch;
pub mod domain;
pub mod exam;
pub mod http;
pub mod ledger;
pub mod limits;
pub mod protocol;
pub mod telemetry;
pub mod tls;
