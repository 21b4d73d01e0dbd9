//! The load: connections that each send one request after the other, and what they saw.
//!
//! Closed loop: a connection sends the next request when the last was answered. Open loop: requests are due at a fixed
//! rate whatever the answers do, and a latency counts from when its request was due, so that a stall is not left out
//! (coordinated omission). Any answer but a 2xx, and any socket error, makes the cell invalid.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::answer::{Answer, Parsed, parse};
use super::histogram::Histogram;
use super::pace::{Pace, Paced};
use super::request::{Workload, Writer};
use crate::domain::time::Clock;
use crate::limits::{BENCH_ANSWER_BYTES, BENCH_CELL_PATIENCE, BENCH_FAULT_BYTES, BENCH_LOAD_THREADS};

/// Who is asked, how, by how many, and for how long.
#[derive(Clone)]
pub(super) struct Load {
    /// The server.
    pub(super) address: SocketAddr,
    /// What is sent.
    pub(super) workload: Workload,
    /// Connections, each with one request under way at a time.
    pub(super) connections: u64,
    /// Requests a second over all connections; `None` is the closed loop.
    pub(super) rate: Option<f64>,
    /// Sent and not counted.
    pub(super) warm_up: Duration,
    /// Counted.
    pub(super) measured: Duration,
    /// Makes the operation ids of this cell its own.
    pub(super) seed: u64,
    /// How a caller is known.
    pub(super) known: Known,
}

/// By what a caller is known. The default is by nothing, without TLS.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// What stands behind `Bearer`.
    pub(super) bearer: Option<Arc<str>>,
    /// TLS, with a certificate or without.
    pub(super) tls: Option<TlsConnector>,
}

impl Known {
    /// A connection.
    pub(super) async fn connect(&self, address: SocketAddr) -> Result<Wire, String> {
        let plain = Wire::plain(address).await?;
        let Some(tls) = &self.tls else { return Ok(Wire::over(plain)) };
        let name = ServerName::IpAddress(address.ip().into());
        let spoken = tls.connect(name, plain).await;
        spoken.map(Wire::over).map_err(|error| format!("cannot agree on TLS: {error}"))
    }

    /// The host as it stands in a head, with the credential as a line of its own behind it.
    pub(super) fn host(&self, address: SocketAddr) -> String {
        let bearer = self.bearer.iter().map(|bearer| format!("\r\nauthorization: Bearer {bearer}"));
        std::iter::once(address.to_string()).chain(bearer).collect()
    }
}

/// What the connections saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Requests answered inside the measured time, with their latencies.
    pub(super) latencies: Histogram,
    /// Requests answered in all, warm-up included.
    pub(super) answered: u64,
    /// The first answer that was no success, or the first broken connection.
    pub(super) fault: Option<String>,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.latencies.add(&other.latencies);
        self.answered = self.answered.saturating_add(other.answered);
        self.fault = self.fault.take().or(other.fault);
    }
}

/// The measured time, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// From here on.
    pub(super) from: Duration,
    /// Until here.
    pub(super) until: Duration,
}

/// A load that runs on threads of its own.
pub(super) struct Running {
    /// When it is measured.
    pub(super) window: Window,
    threads: Vec<oneshot::Receiver<Seen>>,
}

impl Load {
    /// Starts the connections.
    pub(super) fn start(&self, clock: &Arc<dyn Clock>) -> anyhow::Result<Running> {
        let now = clock.monotonic();
        let from = now.saturating_add(self.warm_up);
        let window = Window { from, until: from.saturating_add(self.measured) };
        let count = BENCH_LOAD_THREADS.min(self.connections).max(1);
        let paced = self.rate.map(|rate| Paced::start(rate, self.connections, now, window.until, clock));
        let paced = paced.transpose()?;
        let threads = (0..count).map(|thread| {
            let (load, clock, paced) = (self.clone(), Arc::clone(clock), paced.clone());
            let (tell, seen) = oneshot::channel();
            let body = move || {
                let own = (thread..load.connections).step_by(usize::try_from(count).unwrap_or(1));
                // Nobody waits any more for a bench that was interrupted.
                drop(tell.send(run_thread(&load, own.collect(), window, &clock, paced.as_ref())));
            };
            std::thread::Builder::new().name(format!("load-{thread}")).spawn(body)?;
            Ok(seen)
        });
        let threads: std::io::Result<Vec<_>> = threads.collect();
        Ok(Running { window, threads: threads.context("cannot start a thread for the load")? })
    }
}

impl Running {
    /// Waits for all connections.
    pub(super) async fn seen(self) -> anyhow::Result<Seen> {
        let mut all = Seen::default();
        for thread in self.threads {
            all.add(thread.await.context("a thread of the load ended early")?);
        }
        Ok(all)
    }
}

fn run_thread(
    load: &Load,
    own: Vec<u64>,
    window: Window,
    clock: &Arc<dyn Clock>,
    paced: Option<&Paced>,
) -> Seen {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Seen { fault: Some(error.to_string()), ..Seen::default() },
    };
    let all = Rc::new(RefCell::new(Seen::default()));
    let local = LocalSet::new();
    for number in own {
        let (load, clock, all) = (load.clone(), Arc::clone(clock), Rc::clone(&all));
        let pace = paced.and_then(|paced| paced.of(number));
        local.spawn_local(async move {
            let mut seen = Seen::default();
            if let Err(fault) = connection(&load, number, window, clock.as_ref(), pace, &mut seen).await {
                seen.fault = Some(format!("connection {number}: {fault}"));
            }
            all.borrow_mut().add(seen);
        });
    }
    let patience = window.until.saturating_sub(clock.monotonic()).saturating_add(BENCH_CELL_PATIENCE);
    let late = runtime.block_on(async { tokio::time::timeout(patience, local).await.is_err() });
    let mut seen = all.take();
    if late {
        seen.fault = Some(format!("no answer within {} s", BENCH_CELL_PATIENCE.as_secs()));
    }
    seen
}

async fn connection(
    load: &Load,
    number: u64,
    window: Window,
    clock: &dyn Clock,
    mut pace: Option<Pace>,
    seen: &mut Seen,
) -> Result<(), String> {
    let mut wire = load.known.connect(load.address).await?;
    // Microseconds since the bench began: above every sequence of an earlier cell, because no connection is answered
    // a million times a second.
    let begun = u64::try_from(clock.monotonic().as_micros()).unwrap_or(u64::MAX);
    let sequence = SEQUENCE_BASE.saturating_add(begun);
    let chance = load.seed.wrapping_add(number.wrapping_mul(0x1_0000_0001));
    let share = (number, load.connections);
    let mut writer = Writer::new(load.workload, &load.known.host(load.address), share, sequence, chance);
    let tagged = load.workload == Workload::Targets;
    if tagged {
        let answer = wire.ask(writer.ask_for_tag().as_bytes()).await?;
        writer.edited(wire.tag(&answer)?);
        wire.forget(&answer);
    }
    let mut request = Vec::new();
    let mut now = clock.monotonic();
    while now < window.until {
        let sent = match &mut pace {
            None => now,
            Some(pace) => match pace.due(clock).await {
                Some(due) => due,
                None => return Ok(()),
            },
        };
        writer.compose(&mut request);
        let answer = wire.ask(&request).await?;
        now = clock.monotonic();
        seen.answered = seen.answered.saturating_add(1);
        if now >= window.from && now <= window.until {
            seen.latencies.record(now.saturating_sub(sent));
        }
        if tagged {
            writer.edited(wire.tag(&answer)?);
        }
        wire.forget(&answer);
    }
    Ok(())
}

/// Sequences have sixteen digits from the first to the last.
pub(super) const SEQUENCE_BASE: u64 = 1_000_000_000_000_000;

/// A connection, with TLS or without.
trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Line for T {}

/// One connection and what has come on it.
pub(super) struct Wire {
    stream: Box<dyn Line>,
    come: Vec<u8>,
}

impl Wire {
    /// Connects, without TLS.
    pub(super) async fn to(address: SocketAddr) -> Result<Self, String> {
        Self::plain(address).await.map(Self::over)
    }

    async fn plain(address: SocketAddr) -> Result<TcpStream, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(stream)
    }

    fn over(stream: impl Line + 'static) -> Self {
        Self { stream: Box::new(stream), come: Vec::with_capacity(BENCH_ANSWER_BYTES) }
    }

    /// Sends a request and reads its whole answer, which must be a success.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<Answer, String> {
        let answer = self.exchange(request).await?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        Err(format!("{}: {}", answer.status, self.shown(answer.body)))
    }

    /// Sends a request and reads its whole answer, whatever it says.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<Answer, String> {
        self.stream.write_all(request).await.map_err(|error| format!("cannot send: {error}"))?;
        loop {
            match parse(&self.come) {
                Parsed::Whole(answer) => return Ok(answer),
                Parsed::Foreign(why) => return Err(format!("{why}: {}", self.shown(0))),
                Parsed::Part if self.come.len() >= BENCH_ANSWER_BYTES => return Err("too long".to_owned()),
                Parsed::Part => {}
            }
            match self.stream.read_buf(&mut self.come).await {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(format!("cannot read: {error}")),
            }
        }
    }

    /// The body of an answer.
    pub(super) fn body(&self, answer: &Answer) -> &[u8] {
        self.come.get(answer.body..answer.length).unwrap_or_default()
    }

    /// Whether the head of an answer has a line that begins so, in small letters.
    pub(super) fn has_header(&self, answer: &Answer, beginning: &[u8]) -> bool {
        let head = self.come.get(..answer.body).unwrap_or_default();
        head.split(|byte| *byte == b'\n').any(|line| line.starts_with(beginning))
    }

    /// Makes room for the next answer.
    pub(super) fn forget(&mut self, answer: &Answer) {
        self.come.drain(..answer.length.min(self.come.len()));
    }

    fn tag(&self, answer: &Answer) -> Result<&[u8], String> {
        let tag = answer.etag.clone().and_then(|place| self.come.get(place));
        tag.ok_or_else(|| "the answer has no ETag".to_owned())
    }

    /// The beginning of what came, for a person.
    pub(super) fn shown(&self, from: usize) -> String {
        let shown: Vec<u8> = self.come.iter().skip(from).take(BENCH_FAULT_BYTES).copied().collect();
        String::from_utf8_lossy(&shown).into_owned()
    }
}
