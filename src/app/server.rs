//! The accept loop: bounded connections, bounded headers, bounded patience, and a graceful end.

use axum::response::Response;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, body::Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::desks::Desks;
use super::framing::{Seen, Watched};
use super::greet::Greeter;
use super::peers::{Peers, PerAddress};
use crate::access::Peer;
use crate::http::{Front, Stopping, TwoLengths, Visit};
use crate::limits::HEADER_TIMEOUT;
use crate::telemetry::metrics::Metrics;

/// Bytes that hyper buffers for one request's head; larger heads it refuses itself. The door's own limit is lower, so
/// that a caller gets a problem and not an empty 431.
const HEAD_BUFFER_BYTES: usize = 65_536;

/// Header fields that hyper reads before the door counts them.
const HEAD_FIELDS: usize = 512;

/// Pause after an accept that failed for want of descriptors: without it the loop would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What one gateway serves at most.
pub(super) struct Bounds {
    /// Connections at once.
    pub(super) connections: usize,
    /// Connections from one address.
    pub(super) per_address: Box<dyn Fn() -> PerAddress + Send + Sync>,
    /// How long requests that are under way may take at the end.
    pub(super) drain_time: Box<dyn Fn() -> Duration + Send + Sync>,
    /// Where connections are counted.
    pub(super) metrics: Arc<Metrics>,
    /// How connections begin.
    pub(super) greeter: Greeter,
}

/// Serves until nothing new is to be taken in; then lets requests under way finish, ends the streams, and cuts the
/// connections that are left after the drain time: a client that does not read must not keep the process from ending.
pub(super) async fn serve(
    listener: TcpListener,
    front: Front,
    stopping: Stopping,
    bounds: Bounds,
    desks: &mut Desks,
) {
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(bounds.connections));
    let (cut, peers) = (CancellationToken::new(), Peers::default());
    bounds.metrics.connections_most.set(bounds.connections);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        // A client that has closed its sending side has gone: it must not be granted a lease any more. A command that it
        // had sent is decided all the same.
        .half_close(false)
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEAD_BUFFER_BYTES)
        .max_headers(HEAD_FIELDS);
    while let Some((stream, address)) = accept(&listener, &stopping.draining).await {
        let Some(guest) = peers.admit(address.ip(), (bounds.per_address)()) else {
            debug!(%address, "a connection was closed: its address has as many as it may have");
            continue;
        };
        // Beyond the bound, further connections wait in the kernel's queue.
        let permit = tokio::select! {
            permit = connections.clone().acquire_owned() => permit,
            () = stopping.draining.cancelled() => break,
        };
        let visit = front.visited(address.ip());
        let (http, watcher, cut) = (http.clone(), graceful.watcher(), cut.clone());
        let metrics = bounds.metrics.clone();
        metrics.connected.one();
        let (greeter, stopping) = (bounds.greeter.clone(), stopping.draining.clone());
        let Some(desk) = desks.next() else { break };
        desk.spawn(async move {
            let _open = metrics.connections.hold();
            let Some(stream) = moved(stream) else { return };
            let Some((stream, peer)) = greeter.greet(stream, &stopping).await else { return };
            let (stream, seen) = Watched::new(stream);
            let service =
                service_fn(move |request| answered(visit.clone(), peer.clone(), seen.clone(), request));
            let connection = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        debug!(%error, "a connection ended early");
                    }
                }
                () = cut.cancelled() => debug!("a connection was cut at the end of the drain time"),
            }
            drop((permit, guest));
        });
    }
    drop(listener);
    let under_way = front.under_way();
    drop(front);
    info!(open = bounds.connections.saturating_sub(connections.available_permits()), "draining");
    let finished = async {
        // Connections that are open bring renewals and releases meanwhile; each is closed with its next answer.
        under_way.close();
        under_way.wait().await;
        stopping.ending.cancel();
        graceful.shutdown().await;
    };
    let ended = tokio::time::timeout((bounds.drain_time)(), finished).await;
    stopping.ending.cancel();
    if ended.is_err() {
        warn!(
            "requests were still under way after the drain time; their operations are decided all the same"
        );
        cut.cancel();
    }
}

/// Answers one request of a connection. One with two lengths is marked, and after one that came in chunks the connection ends.
async fn answered(
    visit: Visit,
    peer: Option<Peer>,
    seen: Seen,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible> {
    let is_chunked = request.headers().contains_key(TRANSFER_ENCODING);
    if is_chunked && !seen.one_length() {
        request.extensions_mut().insert(TwoLengths);
    }
    let mut response = visit.serve(request, peer).await;
    if is_chunked {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// The connection on the runtime of the caller.
fn moved(stream: std::net::TcpStream) -> Option<TcpStream> {
    TcpStream::from_std(stream).map_err(|error| error!(%error, "a connection cannot be served")).ok()
}

/// A connection that waits on no runtime yet.
async fn accept(
    listener: &TcpListener,
    shutdown: &CancellationToken,
) -> Option<(std::net::TcpStream, SocketAddr)> {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return None,
        };
        match accepted {
            Ok((stream, address)) => {
                let ready = stream.set_nodelay(true).and_then(|()| stream.into_std());
                match ready {
                    Ok(stream) => return Some((stream, address)),
                    Err(error) => debug!(%error, "a connection was gone before it was served"),
                }
            }
            Err(error) => {
                error!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
