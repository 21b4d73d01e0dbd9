//! A gate in front of a store: open; frozen, so that connections stand and no byte moves, as before a store that is
//! stopped; mute, so that requests pass and no answer comes back; or shut, so that not even a connection comes to stand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// Connections that the system keeps until they are accepted: more than a probe opens at once.
const QUEUE: u32 = 64;

/// A connection to loopback that stands after this time or not at all.
const AT_ONCE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    Frozen,
    Mute,
    Shut,
}

impl Mode {
    const fn lets_requests_in(self) -> bool {
        matches!(self, Self::Open | Self::Mute)
    }

    const fn lets_answers_out(self) -> bool {
        matches!(self, Self::Open)
    }
}

/// A gate that stands; dropped, it ends.
pub(crate) struct Gate {
    port: u16,
    store: Arc<AtomicU16>,
    mode: watch::Sender<Mode>,
    /// What fills the queue of a gate that is shut.
    fillers: Vec<TcpStream>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Gate {
    /// Open, in front of the store at this port of 127.0.0.1.
    pub(crate) fn before(store: u16) -> Self {
        let (mode, seen) = watch::channel(Mode::Open);
        let store = Arc::new(AtomicU16::new(store));
        let leads_to = store.clone();
        let (end, ended) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
                let listener = socket.listen(QUEUE).unwrap();
                tell.send(listener.local_addr().unwrap().port()).unwrap();
                tokio::select! {
                    () = serve(listener, leads_to, seen) => {}
                    _ = ended => {}
                }
            });
        });
        let port = told.recv().unwrap();
        Self { port, store, mode, fillers: Vec::new(), end: Some(end), thread: Some(thread) }
    }

    /// The base address, with a path and a slash at its end.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/base/", self.port)
    }

    /// What comes from now on waits, in connections that stand.
    pub(crate) fn freeze(&self) {
        self.mode.send_replace(Mode::Frozen);
    }

    /// The store hears everything from now on, and nobody hears it.
    pub(crate) fn mute(&self) {
        self.mode.send_replace(Mode::Mute);
    }

    /// Connections from now on lead to another port: the store was started again.
    pub(crate) fn lead_to(&self, port: u16) {
        self.store.store(port, Ordering::SeqCst);
    }

    /// Closes what stands, and lets no connection come to stand from now on.
    pub(crate) async fn shut(&mut self) {
        self.mode.send_replace(Mode::Shut);
        // On a busy machine one that came late says nothing yet.
        let mut full = 0;
        while full < 3 {
            match timeout(AT_ONCE, TcpStream::connect(("127.0.0.1", self.port))).await {
                Ok(filler) => self.fillers.push(filler.unwrap()),
                Err(_) => full += 1,
            }
        }
    }

    /// Lets everything through, what has waited first.
    pub(crate) fn open(&mut self) {
        self.mode.send_replace(Mode::Open);
        self.fillers.clear();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

async fn serve(listener: TcpListener, store: Arc<AtomicU16>, mut mode: watch::Receiver<Mode>) {
    loop {
        if mode.wait_for(|mode| mode.lets_requests_in()).await.is_err() {
            return;
        }
        let client = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            changed = mode.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        drop(tokio::spawn(pass(client, store.load(Ordering::SeqCst), mode.clone())));
    }
}

/// Until one side has gone, or the gate is shut.
async fn pass(client: TcpStream, store: u16, mut mode: watch::Receiver<Mode>) {
    let Ok(store) = TcpStream::connect(("127.0.0.1", store)).await else { return };
    let ((from_client, to_client), (from_store, to_store)) = (client.into_split(), store.into_split());
    tokio::select! {
        // What the client has sent arrives though it has gone.
        () = both(from_client, to_store, from_store, to_client, mode.clone()) => {}
        _ = mode.wait_for(|mode| *mode == Mode::Shut) => {}
    }
}

async fn both(
    from_client: OwnedReadHalf,
    to_store: OwnedWriteHalf,
    from_store: OwnedReadHalf,
    to_client: OwnedWriteHalf,
    mode: watch::Receiver<Mode>,
) {
    tokio::join!(
        copy(from_client, to_store, mode.clone(), Mode::lets_requests_in),
        copy(from_store, to_client, mode, Mode::lets_answers_out)
    );
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    may_pass: fn(Mode) -> bool,
) {
    let mut piece = vec![0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if mode.wait_for(|mode| may_pass(*mode)).await.is_err()
            || to.write_all(&piece[..length]).await.is_err()
        {
            return;
        }
    }
}
