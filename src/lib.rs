//! fencegate: an HTTP fencing gateway.
pub mod app;
pub mod cli;
pub mod config;
pub mod domain;
pub mod limits;
pub mod protocol;
