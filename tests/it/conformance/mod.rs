//! One suite, every engine.

mod answers;
mod bodies;
mod forwarded;
mod histories;
mod lists;
mod races;
mod restart;
mod retention;
mod sweeping;
mod undecided;
