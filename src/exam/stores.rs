//! Scripted stores behind HTTP, one of each class, and one that takes whatever comes. Each does honestly what its class
//! promises, keeps the content, and writes down what arrives in the moment of its effect.

mod rules;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::events::{Class, Event};
use super::history::Recorder;
use super::wire;

use rules::Shelf;

/// The header in which the gateway puts its stamp.
pub(super) const STAMP: &str = "x-fencing-stamp";

/// A store that runs; dropped, it ends.
pub(super) struct Store {
    pub(super) class: Class,
    pub(super) port: u16,
    shelf: Arc<Mutex<Shelf>>,
    serving: JoinHandle<()>,
}

impl Store {
    /// On a free port of loopback. Its resources are below this name.
    pub(super) async fn start(class: Class, name: &str, recorder: Arc<Recorder>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no free port on loopback")?;
        let port = listener.local_addr().context("a listener without an address")?.port();
        let shelf = Arc::new(Mutex::new(Shelf::of(class, name)));
        let serving = tokio::spawn(serve(listener, shelf.clone(), recorder));
        Ok(Self { class, port, shelf, serving })
    }

    /// The digest of what a resource holds, as a reader of the store sees it.
    pub(super) fn content(&self, resource: &str) -> Option<String> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).content(resource)
    }

    /// How often an operation had its effect: once in each life of the resource.
    pub(super) fn times_done(&self, resource: &str, operation: &str) -> usize {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).times_done(resource, operation)
    }

    /// Nobody will ask for this resource any more.
    pub(super) fn forget(&self, resource: &str) {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).forget(resource);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shelf: Arc<Mutex<Shelf>>, recorder: Arc<Recorder>) {
    while let Ok((stream, _)) = listener.accept().await {
        drop(tokio::spawn(converse(stream, shelf.clone(), recorder.clone())));
    }
}

async fn converse(mut stream: TcpStream, shelf: Arc<Mutex<Shelf>>, recorder: Arc<Recorder>) {
    stream.set_nodelay(true).unwrap_or_default();
    let mut rest = Vec::new();
    while let Some(request) = wire::read(&mut stream, &mut rest).await {
        let reply = {
            // The line is written before the next request can have an effect.
            let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
            let (reply, arrived) = shelf.take(&request);
            if let Some(arrived) = arrived {
                recorder.note(Event::Arrived(arrived));
            }
            reply
        };
        let bodyless = request.first.starts_with("HEAD ");
        let bytes = wire::answer(reply.status, &reply.headers, &reply.body, bodyless);
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
