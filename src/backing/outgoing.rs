//! The body of a request to an upstream: from memory, from disk piece by piece, or straight from an answer of it. It has a
//! known length always, so the upstream can tell a cut body from a whole one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use super::incoming::ReadBody;
use crate::domain::upstream::{Bulk, Payload, Spooled};
use crate::limits;

/// What is sent.
pub(super) enum Outgoing {
    /// Bytes in memory, until they are taken.
    Whole(Bytes),
    /// From disk.
    Disk {
        /// Where the bytes lie.
        file: Arc<dyn Spooled>,
        /// The offset of the next piece.
        at: u64,
        /// The length of the body.
        length: u64,
        /// The piece that is being read.
        piece: Option<JoinHandle<io::Result<Bytes>>>,
    },
    /// From an answer that is being received, and how much of it is to come.
    Piped(Box<ReadBody>, u64),
}

impl Outgoing {
    /// No body.
    pub(super) const fn none() -> Self {
        Self::Whole(Bytes::new())
    }

    /// The bytes of a payload, not copied.
    pub(super) fn of(payload: &Payload) -> Self {
        match &payload.bulk {
            Bulk::Memory(bytes) => Self::Whole(bytes.clone()),
            Bulk::Disk(file) => Self::Disk { file: file.clone(), at: 0, length: payload.length, piece: None },
        }
    }

    /// How many bytes are to come.
    pub(super) fn left(&self) -> u64 {
        match self {
            Self::Whole(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::Disk { at, length, .. } => length.saturating_sub(*at),
            Self::Piped(_, left) => *left,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if this.left() == 0 {
            return Poll::Ready(None);
        }
        let next = match this {
            Self::Whole(bytes) => Ok(std::mem::take(bytes)),
            Self::Disk { file, at, length, piece } => ready!(poll_piece(file, at, *length, piece, cx)),
            Self::Piped(body, left) => ready!(poll_piped(body, left, cx)),
        };
        Poll::Ready(Some(next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

fn poll_piece(
    file: &Arc<dyn Spooled>,
    at: &mut u64,
    length: u64,
    piece: &mut Option<JoinHandle<io::Result<Bytes>>>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Bytes>> {
    let reading = piece.get_or_insert_with(|| {
        let (file, offset) = (file.clone(), *at);
        let most = length.saturating_sub(offset);
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(limits::SPOOL_PIECE_BYTES);
        tokio::task::spawn_blocking(move || file.read_at(offset, most))
    });
    let read = ready!(Pin::new(reading).poll(cx));
    *piece = None;
    let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
    Poll::Ready(read.and_then(|bytes| {
        if bytes.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body on disk is cut off"));
        }
        *at = at.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(bytes)
    }))
}

fn poll_piped(body: &mut ReadBody, left: &mut u64, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    loop {
        let Some(frame) = ready!(Pin::new(&mut *body).poll_frame(cx)) else {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the content is cut off")));
        };
        let Ok(bytes) = frame?.into_data() else { continue };
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let Some(rest) = left.checked_sub(length) else {
            return Poll::Ready(Err(io::Error::other("the content is longer than it was said to be")));
        };
        if length > 0 {
            *left = rest;
            return Poll::Ready(Ok(bytes));
        }
    }
}
