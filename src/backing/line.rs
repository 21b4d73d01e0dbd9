//! How an upstream is reached: its address, TLS and the version of HTTP. It connects to the configured host and to
//! nobody else: no proxy variable is read, and no answer can name another host.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hyper::client::conn::{http1, http2};
use hyper::header::HeaderValue;
use hyper::http::Uri;
use hyper::http::uri::{Authority, Scheme};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio_util::either::Either;

use super::link::{Link, One};
use super::stream::Stream;
use crate::domain::store::{HttpStore, Protocol};
use crate::domain::upstream::Class;
use crate::limits;

/// Why an upstream cannot be spoken to at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The base address cannot be used.
    #[error("{base:?} is not the address of a store: {why}")]
    Address {
        /// The address as it is configured.
        base: String,
        /// What is wrong with it.
        why: String,
    },
    /// The roots that its certificate is checked against cannot be read.
    #[error("the certificates to check the store against cannot be read from {from}: {why}")]
    Roots {
        /// The file, or the system's own.
        from: String,
        /// What is wrong.
        why: String,
    },
}

/// Where an upstream is, and how it is spoken to.
pub(super) struct Line {
    host: String,
    port: u16,
    protocol: Protocol,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// For HTTP/2, which names both in each request.
    pub(super) scheme: Scheme,
    /// The host and port as they are configured.
    pub(super) authority: Authority,
    /// The same as the `Host` header.
    pub(super) host_header: HeaderValue,
    /// The path that all names lie below, with a slash at its end.
    pub(super) prefix: String,
}

impl Line {
    /// Reads the address and the roots.
    pub(super) fn open(store: &HttpStore) -> Result<Self, OpenError> {
        let wrong = |why: &str| OpenError::Address { base: store.base.clone(), why: why.to_owned() };
        let uri: Uri = store.base.parse().map_err(|_| wrong("it is not an absolute http(s) address"))?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(wrong("write http:// or https://, a host and a path"));
        };
        let secure = match scheme.as_str() {
            "http" => false,
            "https" => true,
            other => return Err(wrong(&format!("the scheme is {other:?}; use http or https"))),
        };
        if authority.as_str().contains('@') {
            return Err(wrong("a user and password do not belong into it; use `credentials`"));
        }
        let path = parts.path_and_query.as_ref();
        if path.is_some_and(|path| path.query().is_some()) {
            return Err(wrong("it has a query"));
        }
        let mut prefix = path.map_or_else(|| "/".to_owned(), |path| path.path().to_owned());
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        // A serial store gets a connection for each request, and the plainest protocol.
        let protocol = match (store.class, store.protocol) {
            (Class::Serial, Protocol::Auto) => Protocol::Http1,
            (_, protocol) => protocol,
        };
        let tls = if secure {
            let name = ServerName::try_from(host.clone()).map_err(|_| wrong("its host is not a name"))?;
            Some((connector(store.ca_file.as_deref(), protocol)?, name))
        } else {
            None
        };
        let host_header = HeaderValue::from_str(authority.as_str());
        let host_header = host_header.map_err(|_| wrong("its host cannot stand in a header"))?;
        Ok(Self { host, port, protocol, tls, scheme, authority, host_header, prefix })
    }

    /// A connection that nothing was sent on. The caller bounds its time.
    pub(super) async fn connect(&self) -> Result<Link, String> {
        let unreachable =
            |error: &dyn std::fmt::Display| format!("no connection to {}: {error}", self.authority);
        let stream =
            TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| unreachable(&error))?;
        // Heads are small, and nothing is gained by waiting for more of them.
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let Some((connector, name)) = &self.tls else {
            let two = matches!(self.protocol, Protocol::Http2);
            return self.greet(Either::Left(stream), two).await;
        };
        let stream = connector.connect(name.clone(), stream).await;
        let stream = stream.map_err(|error| format!("no TLS with {}: {error}", self.authority))?;
        let agreed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if matches!(self.protocol, Protocol::Http2) && !agreed {
            return Err(format!("{} does not speak HTTP/2", self.authority));
        }
        self.greet(Either::Right(Box::new(stream)), agreed).await
    }

    async fn greet(&self, stream: Stream, two: bool) -> Result<Link, String> {
        let broken = |error: hyper::Error| format!("no HTTP with {}: {error}", self.authority);
        let io = TokioIo::new(stream);
        if two {
            let head = u32::try_from(limits::UPSTREAM_HEAD_BYTES).unwrap_or(u32::MAX);
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(limits::UPSTREAM_WINDOW_BYTES)
                .initial_connection_window_size(limits::UPSTREAM_WINDOW_BYTES)
                .max_header_list_size(head)
                .handshake(io)
                .await
                .map_err(broken)?;
            // It ends when the last sender is dropped or the upstream hangs up; each request learns of that by itself.
            drop(tokio::spawn(connection));
            return Ok(Link::Two(sender));
        }
        // It takes at most 100 headers of an answer; told the same number it would look for room on the heap with each.
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(limits::UPSTREAM_HEAD_BYTES)
            .handshake(io)
            .await
            .map_err(broken)?;
        Ok(Link::One(Box::new(One::new(sender, connection))))
    }
}

fn connector(ca_file: Option<&Path>, protocol: Protocol) -> Result<TlsConnector, OpenError> {
    let from = ca_file.map_or_else(|| "the system".to_owned(), |path| path.display().to_string());
    let wrong = |why: String| OpenError::Roots { from: from.clone(), why };
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?;
    let roots = roots(ca_file).map_err(&wrong)?;
    let mut config = versions.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = match protocol {
        Protocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = match ca_file {
        None => rustls_native_certs::load_native_certs().certs,
        Some(path) => CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| io::Error::other(error).to_string())?,
    };
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 { Err("there is no certificate".to_owned()) } else { Ok(roots) }
}
