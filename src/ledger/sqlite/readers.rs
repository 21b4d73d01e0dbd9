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
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    /// Opens the first one and looks whether it is as it must be; the others follow as they are needed.
    pub(super) fn open(path: PathBuf) -> Result<Self, OpenError> {
        let first = settings::reader(&path).map_err(|error| OpenError::database(&path, error))?;
        settings::verify_reader(&first).map_err(|unfit| schema::unfit_at(&path, unfit))?;
        let free = Arc::new(Semaphore::new(SQLITE_READERS));
        Ok(Self { path, free, idle: Arc::new(Mutex::new(vec![first])) })
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
            let connection = readers.idle().pop();
            let connection = match connection {
                Some(connection) => connection,
                None => settings::reader(&readers.path)?,
            };
            let view = connection.unchecked_transaction()?;
            let answer = work(&view)?;
            view.finish()?;
            readers.idle().push(connection);
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
            self.idle().clear();
            permits.forget();
        }
        self.free.close();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
