//! One suite, every engine.

mod answers;
mod bodies;
mod forwarded;
mod histories;
mod lists;
mod races;
mod restart;
mod sweeping;
mod timelines;
mod undecided;
