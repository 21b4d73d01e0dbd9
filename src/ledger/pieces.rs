//! Bodies of announced operations, in pieces: the first one stands in the announcement's row, the others in rows of their
//! own. A body on disk is never in memory as a whole on its way into the database.

use bytes::{Bytes, BytesMut};

use crate::domain::upstream::{Bulk, Payload};
use crate::limits::INTENT_PIECE_BYTES;
use crate::protocol::rows::ForwardedHead;

/// Bytes of every piece but the last.
const PIECE: u64 = {
    // The tables say it as a literal.
    assert!(INTENT_PIECE_BYTES == 1_048_576);
    1_048_576
};

/// How many pieces a body of this length has beyond the first; they are counted from 1.
pub(super) fn further(length: u64) -> u64 {
    length.saturating_sub(1).checked_div(PIECE).unwrap_or_default()
}

/// One piece of a body. It blocks on a disk where the body lies there.
///
/// # Errors
/// What stands against it, for people: the disk, or a body that is not as long as it says.
pub(super) fn piece(payload: &Payload, number: u64) -> Result<Bytes, String> {
    let from = number.saturating_mul(PIECE);
    let Ok(wanted) = usize::try_from(payload.length.saturating_sub(from).min(PIECE)) else {
        return Err("a body is too long".to_owned());
    };
    let bytes = match &payload.bulk {
        Bulk::Memory(bytes) => {
            let start = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
            bytes.slice(start..start.saturating_add(wanted).min(bytes.len()))
        }
        Bulk::Disk(spooled) => spooled
            .read_at(from, wanted)
            .map_err(|error| format!("a body that lies on disk cannot be read: {error}"))?,
    };
    if bytes.len() == wanted {
        Ok(bytes)
    } else {
        Err(format!("a body of {} bytes ends too early", payload.length))
    }
}

/// A body that is put together again.
pub(super) struct Assembly {
    head: ForwardedHead,
    bytes: BytesMut,
}

impl Assembly {
    /// From its first piece on.
    pub(super) fn of(head: ForwardedHead, first: &[u8]) -> Self {
        let mut bytes = BytesMut::with_capacity(usize::try_from(head.length).unwrap_or_default());
        bytes.extend_from_slice(first);
        Self { head, bytes }
    }

    /// The next piece.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// The whole body; none when pieces of it are missing.
    pub(super) fn whole(self) -> Option<Payload> {
        let Self { head: ForwardedHead { length, digest, .. }, bytes } = self;
        let complete = u64::try_from(bytes.len()).is_ok_and(|found| found == length);
        complete.then(|| Payload { bulk: Bulk::Memory(bytes.freeze()), length, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_cut_where_a_piece_is_full() {
        for (length, pieces) in
            [(0, 0), (1, 0), (PIECE, 0), (PIECE + 1, 1), (3 * PIECE, 2), (3 * PIECE + 1, 3)]
        {
            assert_eq!(further(length), pieces, "{length}");
        }
    }

    #[test]
    fn pieces_make_the_body_again() {
        let payload = Payload::of(Bytes::from(vec![7; 3 * INTENT_PIECE_BYTES + 5]));
        let lengths: Vec<usize> =
            (0..=further(payload.length)).map(|number| piece(&payload, number).unwrap().len()).collect();
        assert_eq!(lengths, [INTENT_PIECE_BYTES, INTENT_PIECE_BYTES, INTENT_PIECE_BYTES, 5]);
        let short = Payload { length: payload.length + 1, ..payload };
        assert!(piece(&short, 3).is_err());
    }
}
