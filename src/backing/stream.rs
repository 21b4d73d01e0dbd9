//! The bytes of a connection to an upstream, with TLS or without.

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// One type for both, so that a pool holds either without a virtual call.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
