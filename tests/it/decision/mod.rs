//! The decision table, row by row, and everything around it that a single decision can show.

mod advance;
mod batch;
mod epoch;
mod fingerprint;
mod invariants;
mod lease;
mod lease_ends;
mod life;
mod order;
mod pruned;
mod replay;
mod rows;
mod scene;
mod spoilers;
mod unchanged;
