//! Stores behind HTTP, through a whole gateway and judged from the store's own log: what arrived there, what had an
//! effect, and in which order.

mod ahead;
mod delayed;
mod deleted;
mod edge;
mod faults;
mod fleet;
mod frozen;
mod killed;
mod paused;
mod plain;
mod real;
pub(crate) mod scene;
mod storm;
mod streams;
mod struck;
mod versions;
