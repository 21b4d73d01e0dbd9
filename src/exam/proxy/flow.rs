//! One connection through a proxy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Mode, Orders};
use crate::exam::events::Event;
use crate::exam::wire::{self, CALL, OPERATIONS};
use crate::limits::{EXAM_FEW_BYTES, EXAM_HOLD, EXAM_KEEP, EXAM_KEPT, EXAM_LINGER, EXAM_LISTEN, EXAM_LOOK};

/// Whether a request of this connection is under way; counted among all of the proxy while it is.
struct Under<'a> {
    orders: &'a Orders,
    way: AtomicBool,
}

impl Under<'_> {
    fn begins(&self) {
        if !self.way.swap(true, Ordering::Relaxed) {
            self.orders.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn ends(&self) {
        if self.way.swap(false, Ordering::Relaxed) {
            self.orders.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.ends();
    }
}

/// How one direction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// There was no more to pass.
    Quiet,
    /// In the middle of something; both sides are to be reset.
    Torn,
}

/// Until both sides have said all, or it is closed from here.
pub(super) async fn pass(client: TcpStream, server: TcpStream, orders: Arc<Orders>) {
    let mut closed = orders.closed.subscribe();
    let (from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let under = Under { orders: &orders, way: AtomicBool::new(false) };
    let both = async {
        let requests = requests(from_client, &mut to_server, &orders, &under);
        let answers = answers(from_server, &mut to_client, &orders, &under);
        tokio::pin!(requests, answers);
        tokio::select! {
            // What was sent has arrived by now though its sender may be gone; who is left may still answer.
            end = &mut requests => match end {
                End::Torn => End::Torn,
                End::Quiet => timeout(EXAM_LINGER, answers).await.unwrap_or(End::Quiet),
            },
            // Whoever answers has gone: what is held for it arrives nowhere.
            end = &mut answers => end,
        }
    };
    let reset = tokio::select! {
        end = both => end == End::Torn,
        changed = closed.changed() => changed.is_ok() && closed.borrow().1,
    };
    if reset {
        reset_both(&to_client, &to_server);
    }
}

fn reset_both(client: &OwnedWriteHalf, server: &OwnedWriteHalf) {
    for half in [client, server] {
        // A side that is gone already needs none.
        let stream: &TcpStream = half.as_ref();
        stream.set_zero_linger().unwrap_or_default();
    }
}

/// Waits until requests may go on. False where nothing goes on any more.
async fn through(modes: &mut watch::Receiver<Mode>, orders: &Orders, is_held: fn(Mode) -> bool) -> bool {
    let mode = *modes.borrow_and_update();
    if let Mode::Delay(ms) = mode {
        orders.touch();
        sleep(Duration::from_millis(ms)).await;
    }
    if is_held(mode) {
        orders.touch();
        if modes.wait_for(|mode| !is_held(*mode)).await.is_err() {
            return false;
        }
    }
    *modes.borrow() != Mode::Cut
}

async fn requests(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    orders: &Arc<Orders>,
    under: &Under<'_>,
) -> End {
    let mut modes = orders.mode.subscribe();
    let mut piece = vec![0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let Some(bytes) = piece.get(..length) else { return End::Quiet };
        under.begins();
        if !through(&mut modes, orders, |mode| mode == Mode::Hold).await {
            return End::Quiet;
        }
        let mode = *modes.borrow();
        if mode == Mode::Tear {
            return torn(bytes, to, orders).await;
        }
        if let Mode::Keep(ms) = mode
            && keep(bytes, ms, orders)
        {
            under.ends();
            continue;
        }
        if to.write_all(bytes).await.is_err() {
            return End::Quiet;
        }
        if mode == Mode::HalfClose {
            orders.touch();
            break;
        }
        if let (Mode::Again(ms), Some((_, whole))) = (mode, wire::parse(bytes))
            && whole == length
        {
            orders.touch();
            drop(tokio::spawn(again(bytes.to_vec(), ms, orders.clone())));
        }
    }
    to.shutdown().await.unwrap_or_default();
    End::Quiet
}

async fn answers(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    orders: &Orders,
    under: &Under<'_>,
) -> End {
    let mut modes = orders.mode.subscribe();
    let mut piece = vec![0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if !through(&mut modes, orders, |mode| mode == Mode::Mute).await {
            return End::Quiet;
        }
        let Some(bytes) = piece.get(..length) else { return End::Quiet };
        let mode = *modes.borrow();
        match mode {
            Mode::Tear => return torn(bytes, to, orders).await,
            Mode::Dumb => {
                orders.touch();
                to.shutdown().await.unwrap_or_default();
                // It reads on what is still sent to it, and its answers reach nobody.
                while let Ok(1..) = from.read(&mut piece).await {}
                return End::Quiet;
            }
            Mode::SlowRead(ms) => {
                orders.touch();
                for few in bytes.chunks(EXAM_FEW_BYTES) {
                    to.write_all(few).await.unwrap_or_default();
                    if *modes.borrow() == mode {
                        sleep(Duration::from_millis(ms)).await;
                    }
                }
            }
            Mode::Open
            | Mode::Delay(_)
            | Mode::Hold
            | Mode::Keep(_)
            | Mode::Mute
            | Mode::Cut
            | Mode::Again(_)
            | Mode::HalfClose => {
                // A client that has gone hears nothing, and what it sent still arrives.
                to.write_all(bytes).await.unwrap_or_default();
            }
        }
        under.ends();
    }
    to.shutdown().await.unwrap_or_default();
    End::Quiet
}

/// Half of it passes.
async fn torn(bytes: &[u8], to: &mut OwnedWriteHalf, orders: &Orders) -> End {
    orders.touch();
    let half = bytes.get(..bytes.len().div_ceil(2)).unwrap_or_default();
    to.write_all(half).await.unwrap_or_default();
    // It arrives before the reset does, which would take it along.
    sleep(EXAM_LOOK).await;
    End::Torn
}

/// Takes out a whole request of a worker that names its operations, so that nobody closes a resource for which it is still
/// to come. Whether it did: there are never more than a few.
fn keep(bytes: &[u8], ms: u64, orders: &Arc<Orders>) -> bool {
    let Some((message, _)) = wire::parse(bytes).filter(|(_, whole)| *whole == bytes.len()) else {
        return false;
    };
    let (Some(_), Some(operations)) = (message.header(CALL), message.header(OPERATIONS)) else {
        return false;
    };
    let resources = operations.split(';').filter_map(|pair| Some(pair.split_once(' ')?.0.to_owned()));
    // An epoch is of all resources.
    let resources: Vec<String> = resources.filter(|name| name.contains('/')).collect();
    let mut kept = orders.kept.lock().unwrap_or_else(PoisonError::into_inner);
    if resources.is_empty() || kept.len() >= EXAM_KEPT || *orders.released.borrow() {
        return false;
    }
    kept.extend(resources.iter().cloned());
    drop(kept);
    orders.touch();
    drop(tokio::spawn(late(bytes.to_vec(), ms, resources, orders.clone())));
    true
}

/// It arrives as if it had been on its way so long; nobody listens any more.
async fn late(bytes: Vec<u8>, ms: u64, resources: Vec<String>, orders: Arc<Orders>) {
    let mut released = orders.released.subscribe();
    let length = Duration::from_millis(ms).min(EXAM_KEEP);
    drop(timeout(length, released.wait_for(|released| *released)).await);
    let port = orders.leads_to.load(Ordering::SeqCst);
    drop(wire::ask(port, &bytes, EXAM_LISTEN).await);
    let mut kept = orders.kept.lock().unwrap_or_else(PoisonError::into_inner);
    for resource in resources {
        if let Some(index) = kept.iter().position(|kept| *kept == resource) {
            kept.swap_remove(index);
        }
    }
}

/// The same request once more, late, on a connection of its own; nobody wants the answer.
async fn again(bytes: Vec<u8>, ms: u64, orders: Arc<Orders>) {
    sleep(Duration::from_millis(ms).min(EXAM_HOLD)).await;
    if let Some((message, _)) = wire::parse(&bytes)
        && let Some(call) = message.header(CALL).and_then(|text| text.parse().ok())
    {
        let operations = message.header(OPERATIONS).unwrap_or_default();
        for (resource, operation) in operations.split(';').filter_map(|pair| pair.split_once(' ')) {
            let (resource, operation) = (resource.to_owned(), operation.to_owned());
            orders.recorder.note(Event::Again { call, resource, operation });
        }
    }
    let port = orders.leads_to.load(Ordering::SeqCst);
    drop(wire::ask(port, &bytes, EXAM_LISTEN).await);
}
