//! Bounds of epochs, the breaker and what leads out of it.

use std::time::Duration;

/// Undecided operations that are brought for an act on a whole namespace: enough to see which they are.
pub const OPEN_OPERATIONS_SHOWN: u32 = 20;

/// How long until it is looked again whether another gateway has stopped a namespace: for what people are told, which no
/// decision rests on.
pub const STOPPED_PAUSE: Duration = Duration::from_secs(1);
