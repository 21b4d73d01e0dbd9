//! One connection to an upstream. That of HTTP/1.1 has no task of its own: whoever uses it drives it, so a request costs no
//! hop between tasks, and dropping it closes it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::unconstrained;

use super::outgoing::Outgoing;
use super::stream::Stream;

/// A connection of either version.
pub(super) enum Link {
    /// HTTP/1.1: one request at a time.
    One(Box<One>),
    /// HTTP/2: a sender of a connection that several share.
    Two(http2::SendRequest<Outgoing>),
}

/// An HTTP/1.1 connection together with its driver.
pub(super) struct One {
    sender: http1::SendRequest<Outgoing>,
    connection: http1::Connection<TokioIo<Stream>, Outgoing>,
    ended: bool,
}

/// What one try to send came to.
pub(super) enum Tried {
    /// The head of an answer.
    Answered(Response<Incoming>),
    /// Not one byte of the request was written, and here it is again.
    GivenBack(Request<Outgoing>, String),
    /// It may have been received.
    Failed(String),
}

impl Tried {
    fn of(result: Result<Response<Incoming>, TrySendError<Request<Outgoing>>>) -> Self {
        match result {
            Ok(response) => Self::Answered(response),
            Err(mut error) => match error.take_message() {
                Some(request) => Self::GivenBack(request, told(error.error())),
                None => Self::Failed(told(error.error())),
            },
        }
    }
}

/// An error with its causes: the first words alone say little.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

impl One {
    /// A fresh one.
    pub(super) const fn new(
        sender: http1::SendRequest<Outgoing>,
        connection: http1::Connection<TokioIo<Stream>, Outgoing>,
    ) -> Self {
        Self { sender, connection, ended: false }
    }

    /// Moves bytes. The outcome of a request reaches whoever waits for it, so only the end is noted here.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.ended {
            self.ended = Pin::new(&mut self.connection).poll(cx).is_ready();
        }
    }

    /// Whether another request can be sent: the last answer was read to its end, and the upstream has not hung up.
    pub(super) fn is_fit(&mut self) -> bool {
        // Outside the runtime's budget: a task that has used it up would not see that the upstream has hung up.
        let driven = unconstrained(poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(())
        }));
        let polled = pin!(driven).poll(&mut Context::from_waker(Waker::noop()));
        debug_assert!(polled.is_ready(), "driving never waits");
        !self.ended && self.sender.is_ready()
    }

    async fn send(&mut self, request: Request<Outgoing>) -> Tried {
        let Self { sender, connection, ended } = self;
        let mut answer = pin!(sender.try_send_request(request));
        let result = poll_fn(|cx| {
            if !*ended {
                *ended = Pin::new(&mut *connection).poll(cx).is_ready();
            }
            answer.as_mut().poll(cx)
        });
        Tried::of(result.await)
    }
}

impl Link {
    /// Sends one request and waits for the head of its answer. Nothing is sent twice here.
    pub(super) async fn send(&mut self, request: Request<Outgoing>) -> Tried {
        match self {
            Self::One(one) => one.send(request).await,
            Self::Two(sender) => match sender.ready().await {
                Err(error) => Tried::GivenBack(request, told(&error)),
                Ok(()) => Tried::of(sender.try_send_request(request).await),
            },
        }
    }
}
