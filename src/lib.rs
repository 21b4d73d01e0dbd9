//! fencegate: an HTTP fencing gateway.
pub mod domain;
pub mod http;
pub mod ledger;
pub mod limits;
pub mod protocol;
