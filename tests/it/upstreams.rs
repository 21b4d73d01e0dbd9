//! Stores behind HTTP, through a whole gateway and judged from the store's own log: what arrived there, what had an
//! effect, and in which order.

mod delayed;
mod faults;
mod plain;
mod scene;
