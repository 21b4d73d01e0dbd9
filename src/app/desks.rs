//! The threads that serve connections, each with a runtime of its own.
//!
//! A request waits for its own connection, for one to an upstream, and for the committer. On a runtime with several threads
//! the one that learns of an event hands the work to another one, which has to be woken; here it does the work itself.

use std::io;
use std::num::NonZero;
use std::thread::{self, available_parallelism};

use tokio::runtime::{self, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::DESKS;

/// The threads. They end, with all that still runs on them, when this is dropped.
pub(super) struct Desks {
    threads: Vec<Handle>,
    next: usize,
    _open: DropGuard,
}

impl Desks {
    /// One for each processor.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(super) fn open() -> io::Result<Self> {
        let closed = CancellationToken::new();
        let count = available_parallelism().map_or(1, NonZero::get).min(DESKS);
        let threads = (0..count).map(|number| open(number, closed.clone())).collect::<io::Result<_>>()?;
        Ok(Self { threads, next: 0, _open: closed.drop_guard() })
    }

    /// Where the next connection is served: each in turn, since nobody knows how much a connection will bring.
    pub(super) fn next(&mut self) -> Option<&Handle> {
        self.next = self.next.wrapping_add(1);
        self.threads.get(self.next.checked_rem(self.threads.len())?)
    }
}

fn open(number: usize, closed: CancellationToken) -> io::Result<Handle> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let work = move || {
        runtime.block_on(closed.cancelled());
        // What blocks is left to its end, and nobody waits for it.
        runtime.shutdown_background();
    };
    thread::Builder::new().name(format!("desk-{number}")).spawn(work)?;
    Ok(handle)
}
