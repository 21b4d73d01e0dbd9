//! fencegate: an HTTP fencing gateway.
pub mod config;
pub mod domain;
pub mod limits;
pub mod protocol;
