//! Every history of one resource behind a store of each class, searched to the end.
//!
//! The rules are the real ones; the store, the network and the processes are models. A request may be written to its
//! socket late, arrive late, twice or never, and its answer may come late or never. A gateway that is killed or stopped is
//! a step that is never taken again, or much later: whatever is told to anybody stays on the list of what may still happen.
//! Judged is by the log of the store itself.
//!
//! `FENCEGATE_MODEL_DEPTH=n` lets every operation be attempted n times more, and three steps be under way at once;
//! `FENCEGATE_MODEL_ATTEMPTS=m` makes these m times.

mod bounds;
mod bugs;
mod clients;
mod heal;
mod judge;
mod rules;
mod search;
mod state;
mod steps;
mod store;
mod variants;
mod whole;
mod worlds;
mod wrong;
