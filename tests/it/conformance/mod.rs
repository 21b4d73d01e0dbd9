//! One suite, every engine.

mod answers;
mod histories;
mod races;
mod restart;
mod sweeping;
