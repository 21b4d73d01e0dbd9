//! Bounds of epochs, the breaker and what leads out of it.

use std::time::Duration;

/// Undecided operations that are brought for an act on a whole namespace: enough to see which they are.
pub const OPEN_OPERATIONS_SHOWN: u32 = 20;

/// Operations of a resource that `recover` looks at, the newest first: beyond them it cannot say that one is missing.
pub const RECOVER_OPERATIONS: u32 = 100;

/// Resources that `recover` shows, those with contradictions included: enough to see what kind of loss it is, and little
/// beside what a person can read.
pub const RECOVER_SHOWN: usize = 1_000;

/// Cells that could not be read in a row before `recover` leaves a store alone: one that is down would cost its time-out
/// for each resource.
pub const RECOVER_UNREADABLE_CELLS: u32 = 3;

/// Resources that `recover` looks at together, which bounds what it holds and asks of a store at once.
pub const RECOVER_AT_ONCE: usize = 16;

/// Files that are kept aside under the name of one second: a script that restores again and again is stopped here.
pub const RESTORES_OF_ONE_SECOND: u32 = 100;

/// How long until it is looked again whether another gateway has stopped a namespace: for what people are told, which no
/// decision rests on.
pub const STOPPED_PAUSE: Duration = Duration::from_secs(1);
