//! How a connection begins: with TLS where it is configured, within a bounded time, and not too many at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::access::Peer;
use crate::domain::time::{Clock, Timestamp};
use crate::limits::{CERTIFICATE_LOOK, CERTIFICATE_WARNING, HANDSHAKE_TIMEOUT, HANDSHAKES, WRITE_TIMEOUT};
use crate::tls::listener::Listener;
use crate::tls::names::shown;

/// A socket whose writes do not wait for ever: a client that takes nothing of its answer would keep its connection and the
/// answer's memory.
type Socket = Pin<Box<TimeoutStream<TcpStream>>>;

/// The bytes of a connection, as they are or inside TLS.
pub(super) type Stream = Either<Socket, Box<TlsStream<Socket>>>;

/// Greets connections. Clones share the turns.
#[derive(Clone)]
pub(super) struct Greeter {
    tls: Option<Listener>,
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl Greeter {
    pub(super) fn new(tls: Option<Listener>) -> Self {
        Self { tls, turns: Arc::new(Semaphore::new(HANDSHAKES)), patience: HANDSHAKE_TIMEOUT }
    }

    /// The connection as requests come over it, and who is at its other end. `None`: they did not agree, or the gateway stops.
    pub(super) async fn greet(
        &self,
        stream: TcpStream,
        shutdown: &CancellationToken,
    ) -> Option<(Stream, Option<Peer>)> {
        let mut socket = TimeoutStream::new(stream);
        socket.set_write_timeout(Some(WRITE_TIMEOUT));
        let socket = Box::pin(socket);
        let Some(tls) = &self.tls else { return Some((Either::Left(socket), None)) };
        let agreeing = async {
            let turn = self.turns.acquire().await.ok()?;
            let agreed = tls.acceptor().accept(socket).await;
            drop(turn);
            agreed.map_err(|error| debug!(%error, "a connection did not agree on TLS")).ok()
        };
        let agreed = tokio::select! {
            agreed = tokio::time::timeout(self.patience, agreeing) => agreed,
            () = shutdown.cancelled() => return None,
        };
        let Ok(agreed) = agreed else {
            debug!("a connection took too long to agree on TLS");
            return None;
        };
        let stream = agreed?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let peer = match certificate.map(shown) {
            None => None,
            Some(Some(shown)) => Some(Peer::of(shown)),
            // It was verified, so that it can be read; if not, it is nobody's.
            Some(None) => return None,
        };
        Some((Either::Right(Box::new(stream)), peer))
    }
}

/// Says when the certificate ends, now and once a day, as long as the gateway runs.
pub(super) async fn watch_certificate(tls: Listener, clock: Arc<dyn Clock>, shutdown: CancellationToken) {
    loop {
        warn_of_the_end(tls.until(), clock.wall());
        tokio::select! {
            () = tokio::time::sleep(CERTIFICATE_LOOK) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// A certificate that has ended is served all the same: clients say better what is wrong than a gateway that does not start.
pub(super) fn warn_of_the_end(until: Timestamp, now: Timestamp) {
    let left = now.until(until).duration();
    let days = left.as_secs() / 86_400;
    if until <= now {
        warn!("the certificate of the listener has ended: clients refuse it; put a new one in its place");
    } else if left < CERTIFICATE_WARNING {
        warn!(days, "the certificate of the listener ends soon; put a new one in its place");
    } else {
        tracing::info!(days, "the certificate of the listener holds on");
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::tls::TlsSettings;
    use crate::tls::listener::Greeting;

    fn listener(folder: &std::path::Path) -> Listener {
        use std::os::unix::fs::PermissionsExt as _;
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (cert_file, key_file) = (folder.join("c.pem"), folder.join("k.pem"));
        std::fs::write(&cert_file, made.cert.pem()).unwrap();
        std::fs::write(&key_file, made.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        Listener::new(Greeting::read(&TlsSettings { cert_file, key_file, clients: None }).unwrap())
    }

    #[tokio::test]
    async fn who_never_agrees_is_let_go_and_takes_no_turn_along() {
        // Broken: sockets that say nothing hold all turns, and nobody is let in any more. Must hold: after its time each is
        // closed and its turn is free; and who waits for a turn waits no longer than that either.
        let folder = tempfile::tempdir().unwrap();
        let tls = Some(listener(folder.path()));
        let greeter =
            Greeter { turns: Arc::new(Semaphore::new(1)), patience: Duration::from_millis(20), tls };
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.push(TcpStream::connect(address).await.unwrap());
            let (stream, _) = socket.accept().await.unwrap();
            assert!(greeter.greet(stream, &shutdown).await.is_none());
            assert_eq!(greeter.turns.available_permits(), 1);
        }
        let turn = greeter.turns.acquire().await.unwrap();
        silent.push(TcpStream::connect(address).await.unwrap());
        let (stream, _) = socket.accept().await.unwrap();
        assert!(greeter.greet(stream, &shutdown).await.is_none());
        drop(turn);
        shutdown.cancel();
        silent.push(TcpStream::connect(address).await.unwrap());
        let (stream, _) = socket.accept().await.unwrap();
        let patient = Greeter { patience: Duration::from_mins(10), ..greeter };
        assert!(patient.greet(stream, &shutdown).await.is_none());
    }
}
