//! What tests stand on.

pub mod clock;
pub mod commands;
pub mod engines;
