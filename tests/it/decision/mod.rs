//! The decision table, row by row, and everything around it that a single decision can show.

mod advance;
mod batch;
mod control;
mod control_keys;
mod delays;
mod epoch;
mod fingerprint;
mod forward;
mod invariants;
mod lease;
mod lease_ends;
mod life;
mod order;
mod places;
mod pruned;
mod queues;
mod reopen;
mod replay;
mod rows;
mod scene;
mod several;
mod several_end;
mod spoilers;
mod sweep;
mod transfer;
mod unchanged;
