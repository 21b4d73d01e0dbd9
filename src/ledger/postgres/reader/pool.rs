//! The connections that read. A read runs in a task of its own, to its end; who asked waits for its answer, and not for
//! ever. A connection on which anything failed is closed.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::Executor;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::limits::POSTGRES_READ_PATIENCE;

use super::super::super::read::ReadFailed;
use super::super::connect::{self, Live, Shared};
use super::super::fault::Fault;
use super::super::patience::Patience;

/// Connections that lie idle, and a permit for each that there may be.
pub(super) struct Pool {
    shared: Arc<Shared>,
    idle: Mutex<Vec<Live>>,
    places: Arc<Semaphore>,
}

type Doing<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// What is done with a connection; twice, where the first one had been lost while it lay idle.
pub(super) trait Work<T>: for<'c> Fn(&'c mut Live) -> Doing<'c, T> + Send + Sync + 'static {}

impl<T, F: for<'c> Fn(&'c mut Live) -> Doing<'c, T> + Send + Sync + 'static> Work<T> for F {}

impl Pool {
    pub(super) fn new(shared: Arc<Shared>, connections: u32) -> Self {
        let places = usize::try_from(connections).unwrap_or(Semaphore::MAX_PERMITS);
        Self { shared, idle: Mutex::default(), places: Arc::new(Semaphore::new(places)) }
    }

    pub(super) async fn run<T, W>(pool: Arc<Self>, work: W) -> Result<T, ReadFailed>
    where
        T: Send + 'static,
        W: Work<T>,
    {
        let mut patience = Patience::of(POSTGRES_READ_PATIENCE);
        let Some(Ok(place)) = patience.wait(pool.places.clone().acquire_owned()).await else {
            return Err(ReadFailed("every connection that reads waits for the database".to_owned()));
        };
        let (reply, answer) = oneshot::channel();
        // Nobody may wait any more when it ends: then the answer is nobody's loss.
        tokio::spawn(async move { drop(reply.send(pool.serve(work, place).await)) });
        match patience.wait(answer).await {
            Some(Ok(answer)) => Ok(answer?),
            Some(Err(_)) => Err(ReadFailed("the task of the connection ended".to_owned())),
            None => Err(ReadFailed("the database did not answer in time".to_owned())),
        }
    }

    async fn serve<T, W: Work<T>>(&self, work: W, place: OwnedSemaphorePermit) -> Result<T, Fault> {
        if let Some(mut live) = self.take() {
            match read(&work, &mut live).await {
                Ok(answer) => {
                    self.put_back(live);
                    return Ok(answer);
                }
                Err(fault) => {
                    connect::close(live.connection).await;
                    if !fault.ends_connection() {
                        return Err(fault);
                    }
                }
            }
        }
        let mut live = self.shared.connect().await?;
        let answer = read(&work, &mut live).await;
        match &answer {
            Ok(_) => self.put_back(live),
            Err(_) => connect::close(live.connection).await,
        }
        drop(place);
        answer
    }

    fn take(&self) -> Option<Live> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put_back(&self, live: Live) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(live);
    }
}

/// One statement is one view; behind a pooler it must be a transaction to reach one server as a whole.
async fn read<T, W: Work<T>>(work: &W, live: &mut Live) -> Result<T, Fault> {
    if !live.is_pooled {
        return work(live).await;
    }
    live.connection.execute(connect::LOOK).await?;
    let answer = work(live).await?;
    live.connection.execute(connect::LOOKED).await?;
    Ok(answer)
}
