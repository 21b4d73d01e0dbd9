//! Bounds of epochs, the breaker and what leads out of it.

/// Undecided operations that are brought for an act on a whole namespace: enough to see which they are.
pub const OPEN_OPERATIONS_SHOWN: u32 = 20;
