//! A TCP proxy in each place where one party speaks to another: workers to gateways, gateways to their database, gateways
//! to stores. It passes bytes, and does to them what a network does.

mod flow;

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::history::Recorder;
use super::wire;

/// What a proxy does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It passes them.
    Open,
    /// It passes them late, by so many milliseconds.
    Delay(u64),
    /// Requests wait in it, and arrive when it opens, though whoever sent them may be gone.
    Hold,
    /// Requests pass, answers wait.
    Mute,
    /// A few whole requests of workers leave it so many milliseconds later, when whoever sent them has gone for long.
    Keep(u64),
    /// No connection stands.
    Cut,
    /// Requests pass, and once more after so many milliseconds.
    Again(u64),
    /// Whoever asks says after its request that it will say no more, and still listens.
    HalfClose,
    /// Whoever answers says that it will say no more before it has answered, and still listens.
    Dumb,
    /// Answers are read a few bytes at a time, with so many milliseconds between.
    SlowRead(u64),
    /// Half of a piece passes, and then both sides are reset.
    Tear,
}

/// What goes through a proxy, as far as it matters to what may be done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    /// Whole requests, each with the number of a worker's call.
    CallsOfWorkers,
    /// Whole requests that may come twice without breaking a promise.
    Requests,
    /// Anything else.
    Bytes,
}

/// What all connections of one proxy share.
pub(super) struct Orders {
    mode: watch::Sender<Mode>,
    /// Counts the times when all that stands was to be closed; with the resets among them in the lowest bit.
    closed: watch::Sender<(u64, bool)>,
    leads_to: AtomicU16,
    waiting: AtomicU64,
    touched: AtomicU64,
    /// The resources of the requests that are kept; and whether no more is to be kept.
    kept: Mutex<Vec<String>>,
    released: watch::Sender<bool>,
    recorder: Arc<Recorder>,
}

impl Orders {
    fn touch(&self) {
        self.touched.fetch_add(1, Ordering::Relaxed);
    }
}

/// A proxy before one party.
pub(super) struct Link {
    /// Who speaks to whom.
    pub(super) name: String,
    /// Where it listens, on loopback.
    pub(super) port: u16,
    pub(super) passes: Passes,
    orders: Arc<Orders>,
    accepting: JoinHandle<()>,
}

impl Link {
    /// Before whoever will listen on this port.
    pub(super) async fn before(
        port: u16,
        name: String,
        passes: Passes,
        recorder: Arc<Recorder>,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no free port on loopback")?;
        let own = listener.local_addr().context("a listener without an address")?.port();
        let orders = Arc::new(Orders {
            mode: watch::channel(Mode::Open).0,
            closed: watch::channel((0, false)).0,
            leads_to: AtomicU16::new(port),
            waiting: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            kept: Mutex::new(Vec::new()),
            released: watch::channel(false).0,
            recorder,
        });
        let accepting = tokio::spawn(accept(listener, orders.clone()));
        Ok(Self { name, port: own, passes, orders, accepting })
    }

    /// Whoever stood behind it has another port now.
    pub(super) fn lead_to(&self, port: u16) {
        self.orders.leads_to.store(port, Ordering::SeqCst);
    }

    /// From now on it does this.
    pub(super) fn set(&self, mode: Mode) {
        self.orders.mode.send_replace(mode);
    }

    /// Closes all that stands, in good order or with a reset.
    pub(super) fn close(&self, with_reset: bool) {
        self.orders.closed.send_modify(|(count, reset)| {
            *count = count.saturating_add(1);
            *reset = with_reset;
        });
    }

    /// Requests that have gone through and are not answered.
    pub(super) fn waiting(&self) -> u64 {
        self.orders.waiting.load(Ordering::Relaxed)
    }

    /// Whether a request about a resource is still to arrive.
    pub(super) fn keeps(&self, resource: &str) -> bool {
        self.orders.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|kept| kept == resource)
    }

    /// All that is kept arrives now.
    pub(super) fn release(&self) {
        self.orders.released.send_replace(true);
    }

    /// Pieces that a mode other than open has met so far.
    pub(super) fn touched(&self) -> u64 {
        self.orders.touched.load(Ordering::Relaxed)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, orders: Arc<Orders>) {
    while let Ok((client, _)) = listener.accept().await {
        if *orders.mode.borrow() == Mode::Cut {
            orders.touch();
            continue;
        }
        let Ok(server) = wire::connect(orders.leads_to.load(Ordering::SeqCst)).await else { continue };
        if client.set_nodelay(true).is_ok() && server.set_nodelay(true).is_ok() {
            drop(tokio::spawn(flow::pass(client, server, orders.clone())));
        }
    }
}
