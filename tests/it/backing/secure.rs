//! TLS and HTTP/2: checked certificates, the agreed version, and the same care about what was sent.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fencegate::backing::Upstream;
use fencegate::domain::store::{HttpStore, Protocol};
use fencegate::domain::upstream::Class;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, Version, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{answered, bytes, is_doubt, is_unsent, order, reading, store};

/// What a request came as: version, host, method, length.
type Seen = (Version, String, String, usize);

struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    dir: TempDir,
}

impl Server {
    /// One that offers these versions; without TLS it speaks HTTP/2 at once where that is the only one.
    async fn start(tls: bool, versions: &[&str]) -> Self {
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), key.cert.pem()).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private)
            .unwrap();
        config.alpn_protocols = versions.iter().map(|version| version.as_bytes().to_vec()).collect();
        let acceptor = tls.then(|| TlsAcceptor::from(Arc::new(config)));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<AtomicUsize>::default());
        let two = !tls && versions == ["h2"];
        drop(tokio::spawn(accept(listener, acceptor, two, seen.clone(), connections.clone())));
        Self { address, seen, connections, dir }
    }

    fn client(&self, tls: bool, change: impl FnOnce(&mut HttpStore)) -> Upstream {
        let scheme = if tls { "https" } else { "http" };
        let mut settings =
            store(Class::FenceAware, &format!("{scheme}://localhost:{}/base/", self.address.port()));
        settings.ca_file = tls.then(|| self.ca_file());
        change(&mut settings);
        Upstream::open(settings).unwrap()
    }

    fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    two: bool,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (seen, acceptor, connections) = (seen.clone(), acceptor.clone(), connections.clone());
        drop(tokio::spawn(async move {
            match acceptor {
                None => serve(stream, two, seen, connections).await,
                Some(acceptor) => {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    serve(stream, two, seen, connections).await;
                }
            }
        }));
    }
}

async fn serve<S>(stream: S, two: bool, seen: Arc<Mutex<Vec<Seen>>>, connections: Arc<AtomicUsize>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    connections.fetch_add(1, Ordering::SeqCst);
    let service = service_fn(move |request| answer(request, seen.clone()));
    let io = TokioIo::new(stream);
    if two {
        drop(http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await);
    } else {
        drop(http1::Builder::new().serve_connection(io, service).await);
    }
}

/// An operation that is called `breaks` is received, and its stream is broken off.
async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let host = request.uri().authority().map(ToString::to_string);
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let host = host.or_else(|| header("host")).unwrap_or_default();
    let (version, method, breaks) = (
        request.version(),
        request.method().to_string(),
        header("fencing-operation").as_deref() == Some("breaks"),
    );
    let body = request.into_body().collect().await.unwrap().to_bytes();
    seen.lock().unwrap().push((version, host, method, body.len()));
    if breaks {
        return Err(std::io::Error::other("broken off"));
    }
    Ok::<_, Infallible>(Response::builder().header("etag", "\"1\"").body(Full::new(body)).unwrap())
        .map_err(|never| match never {})
}

#[tokio::test]
async fn over_tls_the_version_is_what_both_prefer() {
    for (offered, protocol, spoken) in [
        (&["h2", "http/1.1"][..], Protocol::Auto, Version::HTTP_2),
        (&["http/1.1"][..], Protocol::Auto, Version::HTTP_11),
        (&["h2", "http/1.1"][..], Protocol::Http1, Version::HTTP_11),
        (&["h2", "http/1.1"][..], Protocol::Http2, Version::HTTP_2),
        (&[][..], Protocol::Auto, Version::HTTP_11),
    ] {
        let server = Server::start(true, offered).await;
        let upstream = server.client(true, |store| store.protocol = protocol);
        let large = "x".repeat(300_000);
        for id in ["one", "two"] {
            let answer = answered(upstream.send(&order("n/r", 1, id, &large)).await);
            assert_eq!(answer.relayed.body, large);
        }
        assert_eq!(bytes(upstream.read(reading("n/r")).await.unwrap()).await, b"");
        let host = format!("localhost:{}", server.address.port());
        let put = (spoken, host.clone(), "PUT".to_owned(), 300_000);
        assert_eq!(server.seen(), [put.clone(), put, (spoken, host, "GET".to_owned(), 0)], "{protocol:?}");
        assert_eq!(server.connections.load(Ordering::SeqCst), 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn http2_without_tls_is_spoken_where_it_is_said_to_be() {
    let server = Server::start(false, &["h2"]).await;
    let upstream = Arc::new(server.client(false, |store| store.protocol = Protocol::Http2));
    answered(upstream.send(&order("n/r", 1, "first", "x")).await);
    let orders: Vec<_> = (0..50).map(|n| order("n/r", 1, &format!("op-{n}"), &format!("{n}"))).collect();
    let sent = futures_util::future::join_all(orders.iter().map(|order| upstream.send(order))).await;
    for (number, sent) in sent.into_iter().enumerate() {
        assert_eq!(answered(sent).relayed.body, format!("{number}"), "each gets its own answer");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1, "over one connection");
}

#[tokio::test]
async fn a_broken_stream_is_a_doubt_and_is_not_sent_again() {
    let server = Server::start(false, &["h2"]).await;
    let upstream = server.client(false, |store| store.protocol = Protocol::Http2);
    answered(upstream.send(&order("n/r", 1, "first", "x")).await);
    is_doubt(&upstream.send(&order("n/r", 1, "breaks", "x")).await);
    assert_eq!(server.seen().len(), 2);
    answered(upstream.send(&order("n/r", 1, "next", "x")).await);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_not_spoken_to() {
    let server = Server::start(true, &["h2", "http/1.1"]).await;
    let stranger = Server::start(true, &[]).await;
    // The roots of somebody else; a name that is not in the certificate; the system's roots.
    let unknown = server.client(true, |store| store.ca_file = Some(stranger.ca_file()));
    let renamed = server.client(true, |store| store.base = store.base.replace("localhost", "127.0.0.1"));
    for upstream in [unknown, renamed] {
        is_unsent(&upstream.send(&order("n/r", 1, "op", "x")).await);
    }
    // A store without TLS behind an address that asks for it, and one that does not speak the version.
    let plain = Server::start(false, &[]).await;
    let upstream = plain.client(true, |_| {});
    is_unsent(&upstream.send(&order("n/r", 1, "op", "x")).await);
    let old = Server::start(true, &["http/1.1"]).await;
    let upstream = old.client(true, |store| store.protocol = Protocol::Http2);
    is_unsent(&upstream.send(&order("n/r", 1, "op", "x")).await);
    for silent in [server, stranger, plain, old] {
        assert!(silent.seen().is_empty());
    }
}

#[tokio::test]
async fn roots_that_cannot_be_read_are_found_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for file in [dir.path().join("missing.pem"), empty] {
        let mut settings = store(Class::Serial, "https://localhost/");
        settings.ca_file = Some(file);
        assert!(Upstream::open(settings).is_err());
    }
}
