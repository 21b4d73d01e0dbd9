//! fencegate: an HTTP fencing gateway.
pub mod domain;
pub mod protocol;
