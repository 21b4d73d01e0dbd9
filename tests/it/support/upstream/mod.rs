//! A scripted store behind HTTP: it keeps a little store of each class, a log of what arrived, the order of its effects,
//! and it plays faults. It speaks raw HTTP/1.1 over TCP, so that an answer can be wrong in any way.

mod faults;
mod gate;
mod raw;
mod stores;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};

pub(crate) use faults::Fault;
pub(crate) use gate::Gate;
pub(crate) use raw::Arrival;
pub(crate) use stores::{Applied, Kind, Tags};

use stores::Store;

/// A running store; dropped, it ends.
pub(crate) struct Upstream {
    port: u16,
    shared: Arc<Shared>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    store: Mutex<Store>,
    log: Mutex<Vec<Arrival>>,
    /// Requests that were answered, or whose connection was closed.
    done: AtomicUsize,
    writes: Mutex<VecDeque<Fault>>,
    reads: Mutex<VecDeque<Fault>>,
    released: Semaphore,
    /// What it calls itself; several take turns, answer by answer.
    versions: Mutex<Vec<String>>,
}

impl Upstream {
    /// On a free port of 127.0.0.1, in a thread of its own.
    pub(crate) fn start(kind: Kind) -> Self {
        let shared = Arc::new(Shared {
            store: Mutex::new(Store::new(kind)),
            log: Mutex::default(),
            done: AtomicUsize::new(0),
            writes: Mutex::default(),
            reads: Mutex::default(),
            released: Semaphore::new(0),
            versions: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (end, ended) = oneshot::channel();
        let serving = shared.clone();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, serving) => {}
                    _ = ended => {}
                }
            });
        });
        Self { port, shared, end: Some(end), thread: Some(thread) }
    }

    /// The base address, with a path and a slash at its end.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/base/", self.port)
    }

    /// The port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Played for the next request that is neither GET nor HEAD and has none yet.
    pub(crate) fn fault(&self, fault: Fault) {
        self.shared.writes.lock().unwrap().push_back(fault);
    }

    /// Played for the next GET or HEAD that has none yet.
    pub(crate) fn fault_of_read(&self, fault: Fault) {
        self.shared.reads.lock().unwrap().push_back(fault);
    }

    /// What it calls itself from now on; several take turns, answer by answer.
    pub(crate) fn call_itself(&self, versions: &[&str]) {
        *self.shared.versions.lock().unwrap() = versions.iter().map(|&name| name.to_owned()).collect();
    }

    /// Another program stands there from now on, over the same data.
    pub(crate) fn become_another(&self, kind: Kind) {
        self.shared.store.lock().unwrap().become_another(kind);
    }

    /// Lets the request go on that has been held the longest; where none is held, the next one will not be.
    pub(crate) fn release(&self) {
        self.shared.released.add_permits(1);
    }

    /// What arrived, in order.
    pub(crate) fn log(&self) -> Vec<Arrival> {
        self.shared.log.lock().unwrap().clone()
    }

    /// Requests that have arrived and are not answered yet.
    pub(crate) fn under_way(&self) -> usize {
        let arrived = self.shared.log.lock().unwrap().len();
        arrived.saturating_sub(self.shared.done.load(Ordering::SeqCst))
    }

    /// What had an effect, in the order of the effects.
    pub(crate) fn effects(&self) -> Vec<Applied> {
        self.shared.store.lock().unwrap().effects.clone()
    }

    /// Somebody who can be asked for the same from anywhere.
    pub(crate) fn witness(&self) -> Arc<dyn Fn() -> Vec<Applied> + Send + Sync> {
        let shared = self.shared.clone();
        Arc::new(move || shared.store.lock().unwrap().effects.clone())
    }

    /// The bytes at a path, where there are any.
    pub(crate) fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.shared.store.lock().unwrap().content(path)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connection = 0;
    while let Ok((stream, _)) = listener.accept().await {
        connection += 1;
        drop(tokio::spawn(raw::connection(stream, connection, shared.clone())));
    }
}
