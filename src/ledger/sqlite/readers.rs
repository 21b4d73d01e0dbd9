//! The connections that read: a few, each with one user at a time, on threads that may wait for the disk.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::limits::SQLITE_READERS;

use super::fault::Fault;
use super::open::OpenError;
use super::{schema, settings};

/// The connections. Clones share them.
#[derive(Clone)]
pub(super) struct Readers {
    path: PathBuf,
    free: Arc<Semaphore>,
    idle: Arc<Mutex<Idle>>,
}

/// Connections that nobody uses at the moment.
struct Idle {
    connections: Vec<Connection>,
    /// + 1 when the file was replaced: a connection to the old one is not put back.
    generation: u64,
}

impl Readers {
    /// Opens the first one and looks whether it is as it must be; the others follow as they are needed.
    pub(super) fn open(path: PathBuf) -> Result<Self, OpenError> {
        let first = settings::reader(&path).map_err(|error| OpenError::database(&path, error))?;
        settings::verify_reader(&first).map_err(|unfit| schema::unfit_at(&path, unfit))?;
        let free = Arc::new(Semaphore::new(SQLITE_READERS));
        let idle = Idle { connections: vec![first], generation: 0 };
        Ok(Self { path, free, idle: Arc::new(Mutex::new(idle)) })
    }

    /// Runs a read on a connection of its own, all of it against one moment of the database. A connection on which
    /// something failed is not used again.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let ended = |_| Fault::unreadable("the database is closed");
        let permit = self.free.clone().acquire_owned().await.map_err(ended)?;
        let readers = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let (connection, generation) = readers.take();
            let connection = match connection {
                Some(connection) => connection,
                None => settings::reader(&readers.path)?,
            };
            let view = connection.unchecked_transaction()?;
            let answer = work(&view)?;
            view.finish()?;
            readers.put_back(connection, generation);
            // Only now is the connection free for the next one.
            drop(permit);
            Ok(answer)
        });
        reading.await.unwrap_or_else(|error| Err(Fault::unreadable(error.to_string())))
    }

    /// Waits for the reads under way and closes every connection; later reads fail.
    pub(super) async fn close(&self) {
        let all = u32::try_from(SQLITE_READERS).unwrap_or(u32::MAX);
        if let Ok(permits) = self.free.acquire_many(all).await {
            self.idle().connections.clear();
            permits.forget();
        }
        self.free.close();
    }

    /// Another file stands in the place of the old one: what is read from now on is read from that.
    pub(super) fn begin_anew(&self) {
        let mut idle = self.idle();
        idle.generation = idle.generation.wrapping_add(1);
        idle.connections.clear();
    }

    fn take(&self) -> (Option<Connection>, u64) {
        let mut idle = self.idle();
        (idle.connections.pop(), idle.generation)
    }

    fn put_back(&self, connection: Connection, generation: u64) {
        let mut idle = self.idle();
        if idle.generation == generation {
            idle.connections.push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
