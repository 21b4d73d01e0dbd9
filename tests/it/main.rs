//! The one test binary.
//!
//! `cfg(test)` on each module tells the lints that helpers here are test code too: they stop at once.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names the one outcome that it wants; any other is a failure"
)]

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod backing;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod compile_fail;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod decision;
#[cfg(test)]
mod deliberate;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod exam;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod http;
#[cfg(test)]
mod issuers;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod model;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod names;
#[cfg(test)]
mod operating;
#[cfg(test)]
mod postgres;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod power;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod receiver;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod run;
#[cfg(test)]
mod secure;
#[cfg(test)]
mod seeing;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod sqlite;
#[cfg(test)]
mod stores;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod support;
#[cfg(test)]
mod upstreams;
