//! Doors for the harnesses of `tests/it/fuzz`, with the feature `fuzzing` alone.

/// How many keys of a set would be used.
///
/// # Errors
/// Why none would.
pub fn usable_keys(set: &[u8]) -> Result<usize, String> {
    super::jwt::usable_keys(set)
}
