//! One suite, every engine.

mod answers;
mod bodies;
mod epochs;
mod forwarded;
mod happened;
mod histories;
mod lists;
mod races;
mod replicas;
mod restart;
mod retention;
mod sweeping;
mod timelines;
mod undecided;
