//! The socket: one that the service manager has opened already, or one of our own.

use std::net::SocketAddr;

use anyhow::Context as _;
use listenfd::ListenFd;
use tokio::net::TcpListener;
use tracing::info;

/// The first socket that was handed over, or the configured address.
///
/// # Errors
/// When neither can be listened on, or one was handed over that reaches beyond the configured kind of address.
pub(super) async fn listener(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let handed_over = ListenFd::from_env()
        .take_tcp_listener(0)
        .context("the socket that was handed over is no TCP listener")?;
    let Some(listener) = handed_over else {
        return TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}; set another address with --listen"));
    };
    let there = listener.local_addr().context("the socket that was handed over has no address")?;
    // What the configuration was checked for must hold of the socket too.
    anyhow::ensure!(
        there.ip().is_loopback() || !address.ip().is_loopback(),
        "the socket that was handed over listens on {there}, beyond loopback, and the configuration says {address}"
    );
    listener.set_nonblocking(true).context("the socket that was handed over cannot be used")?;
    info!(address = %there, "the service manager has opened the socket; listen is not used");
    TcpListener::from_std(listener).context("the socket that was handed over cannot be used")
}
