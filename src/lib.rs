//! fencegate.
pub mod domain;
