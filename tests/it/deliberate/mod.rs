//! Every bug that can be switched on (`src/deliberate.rs`) is found by a layer of proof that is named here.
//!
//! The test binary runs itself as a child with the bug switched on and one test of that layer: the child must fail, and by
//! that very test. `FENCEGATE_TEST_DELIBERATE=all` (or names of bugs, with commas) runs all layers against each bug and
//! prints who sees it.

mod child;
mod harness;
mod kills;
mod layers;
mod switch;
