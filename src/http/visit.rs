//! A connection, as the door sees it: from where it comes, and until when it may stay.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use hyper::body::{Body as _, Incoming};

use crate::access;
use crate::limits::CONNECTION_AGE;

use super::Front;
use super::pace::{Peer, last_of_connection};

/// One connection. Clones are the same one.
#[derive(Clone)]
pub struct Visit {
    front: Front,
    peer: IpAddr,
    /// By the process's clock.
    until: Duration,
}

impl Front {
    /// A connection from this address begins.
    #[must_use]
    pub fn visited(&self, peer: IpAddr) -> Visit {
        let now = self.hall.door.clock.monotonic();
        Visit { front: self.clone(), peer, until: now.saturating_add(CONNECTION_AGE) }
    }
}

impl Visit {
    /// Answers a request of the connection, at whose other end somebody may have shown a certificate.
    pub async fn serve(&self, request: Request<Incoming>, shown: Option<access::Peer>) -> Response {
        // Most requests have no body, and a place for one on the heap is then not needed.
        let mut request =
            request.map(|body| if body.is_end_stream() { Body::empty() } else { Body::new(body) });
        if let Some(shown) = shown {
            request.extensions_mut().insert(shown);
        }
        let door = &self.front.hall.door;
        // Nobody fails where nobody is asked, and the place for it costs an allocation.
        if !door.access.is_open() {
            request.extensions_mut().insert(Peer(self.peer));
        }
        let mut response = self.front.answer(request).await;
        if door.clock.monotonic() >= self.until {
            last_of_connection(response.headers_mut());
        }
        response
    }
}
