//! The body of an answer, streamed. It holds its connection: read to the end it gives the connection back to the pool,
//! dropped before that it closes it, and it never waits longer than a set time for the next piece.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use super::link::{Link, told};
use super::pool::Lease;

/// The body of an answer.
pub struct ReadBody {
    source: Source,
    patience: Duration,
    alarm: Option<Pin<Box<Sleep>>>,
}

enum Source {
    Whole(Bytes),
    Flowing(Incoming, Lease),
    Ended,
}

impl ReadBody {
    /// A body that is in memory already.
    pub(super) const fn whole(bytes: Bytes) -> Self {
        Self { source: Source::Whole(bytes), patience: Duration::ZERO, alarm: None }
    }

    /// A body that is being received, with the connection that brings it.
    pub(super) const fn flowing(incoming: Incoming, lease: Lease, patience: Duration) -> Self {
        Self { source: Source::Flowing(incoming, lease), patience, alarm: None }
    }

    /// At the end the connection is free for the next request.
    fn end(&mut self) {
        if let Source::Flowing(_, lease) = std::mem::replace(&mut self.source, Source::Ended) {
            lease.give_back();
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let (incoming, lease) = match &mut self.source {
            Source::Ended => return Poll::Ready(None),
            Source::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.source = Source::Ended;
                return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))));
            }
            Source::Flowing(incoming, lease) => (incoming, lease),
        };
        // Asking first tells the connection that more is wanted; driving it then brings it.
        let mut polled = Pin::new(&mut *incoming).poll_frame(cx);
        if polled.is_pending()
            && let Some(Link::One(one)) = lease.link()
        {
            one.drive(cx);
            polled = Pin::new(incoming).poll_frame(cx);
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(|error| io::Error::other(told(&error)))))
    }

    /// Whether the wait for the next piece has become too long.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let patience = self.patience;
        self.alarm.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(cx).is_ready()
    }
}

impl Body for ReadBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        match this.poll_source(cx) {
            Poll::Pending if this.is_late(cx) => {
                this.source = Source::Ended;
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the upstream fell silent"))))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => {
                this.alarm = None;
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.source = Source::Ended;
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.end();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Ended => true,
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Flowing(incoming, _) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Ended => SizeHint::with_exact(0),
            Source::Whole(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Source::Flowing(incoming, _) => incoming.size_hint(),
        }
    }
}

/// Servers stop asking once the end is known, without taking it.
impl Drop for ReadBody {
    fn drop(&mut self) {
        if self.is_end_stream() {
            self.end();
        }
    }
}

impl std::fmt::Debug for ReadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadBody")
    }
}
