//! Stores behind HTTP, through a whole gateway and judged from the store's own log: what arrived there, what had an
//! effect, and in which order.

mod plain;
mod scene;
