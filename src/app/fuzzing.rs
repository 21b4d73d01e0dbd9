//! Doors for the harnesses of `tests/it/fuzz`, with the feature `fuzzing` alone.

use super::framing::Heads;

/// Whether the chunked request that ends a connection has one length, when its bytes arrive in these pieces.
pub fn one_length<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let mut heads = Heads::default();
    pieces.into_iter().any(|piece| heads.look(piece))
}
