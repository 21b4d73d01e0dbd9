//! A TCP proxy between gateway and database that a test can make deaf at the worst moment.
//!
//! It reads the frames of PostgreSQL's protocol on both sides. Told to, it forwards a COMMIT and then nothing of
//! what the server answers: the transaction is durable, and nobody is told.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// What the proxy is told; shared by its connections.
#[derive(Debug)]
struct Orders {
    /// What becomes of the next COMMIT after a text was sent: one of the constants below. The gateway's own looks at the
    /// database end with a COMMIT too, at any moment.
    next: Mutex<(u8, &'static str)>,
    swallowed: AtomicUsize,
    refuse: AtomicBool,
    /// A text that marks the connection whose answers are delayed.
    marked: Mutex<Option<&'static str>>,
    /// Answers that may go on.
    freed: Arc<Semaphore>,
}

const PASS: u8 = 0;
/// Forwarded, and its answer kept back.
const SWALLOW: u8 = 1;
/// Forwarded, and both sides closed when the answer comes.
const CUT: u8 = 2;
/// Not forwarded; both sides closed.
const LOSE: u8 = 3;
/// Forwarded, and its answer comes late.
const DELAY: u8 = 4;

/// A proxy before one server.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    orders: Arc<Orders>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Before the server on this port of loopback.
    pub(crate) async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let orders = Arc::new(Orders {
            next: Mutex::new((PASS, "")),
            swallowed: AtomicUsize::new(0),
            refuse: AtomicBool::new(false),
            marked: Mutex::default(),
            freed: Arc::new(Semaphore::new(0)),
        });
        let accepting = tokio::spawn(accept(listener, server, orders.clone()));
        Self { port, orders, accepting }
    }

    /// From the next COMMIT of a transaction with this text on, what the server answers on that connection is kept back; the
    /// connection stays open.
    pub(crate) fn swallow_the_commit_of(&self, text: &'static str) {
        *self.orders.next.lock().unwrap() = (SWALLOW, text);
    }

    /// The next COMMIT of a transaction with this text is made, and both sides of its connection are closed as soon as the
    /// server has answered.
    pub(crate) fn cut_after_the_commit_of(&self, text: &'static str) {
        *self.orders.next.lock().unwrap() = (CUT, text);
    }

    /// The next COMMIT of a transaction with this text never arrives, and both sides of its connection are closed.
    pub(crate) fn lose_the_commit_of(&self, text: &'static str) {
        *self.orders.next.lock().unwrap() = (LOSE, text);
    }

    /// Each COMMIT of a connection that has prepared a statement with this text from now on is made, and its answer comes
    /// only when it is freed.
    pub(crate) fn delay_commits_after(&self, statement: &'static str) {
        *self.orders.marked.lock().unwrap() = Some(statement);
    }

    /// Frees an answer that is delayed.
    pub(crate) fn free(&self) {
        self.orders.freed.add_permits(1);
    }

    /// From now on new connections are closed at once, or no longer.
    pub(crate) fn refuse_connections(&self, refuse: bool) {
        self.orders.refuse.store(refuse, Ordering::SeqCst);
    }

    /// How often the server or the client was not told of a COMMIT.
    pub(crate) fn swallowed(&self) -> usize {
        self.orders.swallowed.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: u16, orders: Arc<Orders>) {
    while let Ok((client, _)) = listener.accept().await {
        if orders.refuse.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
        if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
            continue;
        }
        tokio::spawn(forward(client, server, orders.clone()));
    }
}

/// One connection, until either side is closed or it is cut.
async fn forward(client: TcpStream, server: TcpStream, orders: Arc<Orders>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let fate = AtomicU8::new(PASS);
    tokio::select! {
        _ = requests(from_client, to_server, &orders, &fate) => {}
        _ = answers(from_server, to_client, &orders, &fate) => {}
    }
}

/// Client to server, frame by frame. None when it is over.
async fn requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    orders: &Orders,
    fate: &AtomicU8,
) -> Option<()> {
    // The first message has no kind; a request for TLS is followed by another first message.
    let (mut first, mut is_marked, mut is_meant) = (true, false, false);
    loop {
        let mut head = Vec::new();
        if !first {
            head.push(client.read_u8().await.ok()?);
        }
        let length = client.read_u32().await.ok()?;
        head.extend(length.to_be_bytes());
        let mut body = vec![0; usize::try_from(length).unwrap().checked_sub(4)?];
        client.read_exact(&mut body).await.ok()?;
        first = first && body == 80_877_103_u32.to_be_bytes();
        is_marked = is_marked || orders.marked.lock().unwrap().is_some_and(|text| contains(&body, text));
        let next = *orders.next.lock().unwrap();
        is_meant = is_meant || (next.0 != PASS && contains(&body, next.1));
        if is_commit(&head, &body) && is_marked {
            fate.store(DELAY, Ordering::SeqCst);
        } else if is_commit(&head, &body) && std::mem::take(&mut is_meant) {
            let (next, _) = std::mem::take(&mut *orders.next.lock().unwrap());
            if next == LOSE {
                orders.swallowed.fetch_add(1, Ordering::SeqCst);
                return None;
            }
            fate.store(next, Ordering::SeqCst);
        }
        server.write_all(&head).await.ok()?;
        server.write_all(&body).await.ok()?;
    }
}

fn contains(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A simple query, or a statement to be prepared, that is a COMMIT.
fn is_commit(head: &[u8], body: &[u8]) -> bool {
    let text = match head.first() {
        Some(b'Q') => Some(body),
        // The statement's name stands before its text.
        Some(b'P') => body.splitn(2, |byte| *byte == 0).nth(1),
        _ => None,
    };
    text.is_some_and(|text| text.trim_ascii_start().to_ascii_uppercase().starts_with(b"COMMIT"))
}

/// Server to client, as it comes. None when it is over.
async fn answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    orders: &Orders,
    fate: &AtomicU8,
) -> Option<()> {
    let mut buffer = vec![0; 65_536];
    loop {
        let length = server.read(&mut buffer).await.ok()?;
        if length == 0 {
            return None;
        }
        match fate.load(Ordering::SeqCst) {
            DELAY => {
                orders.freed.acquire().await.ok()?.forget();
                fate.store(PASS, Ordering::SeqCst);
                client.write_all(&buffer[..length]).await.ok()?;
            }
            PASS => client.write_all(&buffer[..length]).await.ok()?,
            SWALLOW => {
                orders.swallowed.fetch_add(1, Ordering::SeqCst);
            }
            _ => {
                orders.swallowed.fetch_add(1, Ordering::SeqCst);
                return None;
            }
        }
    }
}
