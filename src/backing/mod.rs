//! The client to stores behind HTTP.
//!
//! One call is one request: nothing is sent again, no redirect is followed, no proxy is used, nothing is decompressed. What
//! it must never do is to call a doubt a failure: [`Sent::NotSent`] means that not one byte was written.

mod address;
mod cells;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod headers;
mod incoming;
mod line;
mod link;
mod order;
mod outgoing;
mod plain;
mod pool;
pub mod probe;
mod read;
pub mod spool;
mod stream;
mod version;
mod wire;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::timeout;

pub use incoming::ReadBody;
pub use line::OpenError;
pub use order::{Answer, Asked, CellRead, Deadline, Order, ReadAnswer, ReadFailed, ReadOrder, Sent};
pub use version::VersionsSeen;

use crate::deliberate::{self, Bug};
use crate::domain::counter::Incarnation;
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::store::{HttpStore, StampPlace};
use crate::domain::upstream::{Base, CellSeen, Class, Stamp};
use address::{is_of_content, is_query};
use line::Line;
use pool::{Patience, Pool};
use version::Versions;

/// The store of one namespace, with its connections.
pub struct Upstream {
    store: HttpStore,
    pool: Arc<Pool>,
    /// Of a probe: the first answer that did not come.
    silence: Option<OnceLock<String>>,
}

impl Upstream {
    /// Reads the address and the certificates; nothing is connected yet.
    ///
    /// # Errors
    /// [`OpenError`] says which of them cannot be used.
    pub fn open(store: HttpStore) -> Result<Self, OpenError> {
        let line = Arc::new(Line::open(&store)?);
        Ok(Self::over(line, store))
    }

    /// The same store, with connections of its own: those that stand already may lead to what was there before.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self::over(self.pool.line.clone(), self.store.clone())
    }

    fn over(line: Arc<Line>, store: HttpStore) -> Self {
        let patience =
            Patience { connect: store.connect_timeout.duration(), answer: store.timeout.duration() };
        let fresh = matches!(store.class, Class::Serial);
        let versions = Versions::named_by(&store.version_header);
        Self { pool: Arc::new(Pool::new(line, patience, fresh, versions)), store, silence: None }
    }

    /// What its answers have called it.
    #[must_use]
    pub fn versions(&self) -> VersionsSeen {
        self.pool.versions.seen()
    }

    /// A probe was passed, over the connections of `trial` ([`Self::anew`]); `for_version`: because of a new name.
    pub fn has_passed(&self, trial: &Self, for_version: bool) {
        self.pool.versions.passed(&trial.pool.versions, for_version);
    }

    /// Waits for an answer that names a version which no passed probe has met.
    pub async fn another_version(&self) {
        self.pool.versions.another().await;
    }

    /// The same store over the same connections, which remembers that an answer did not come.
    fn listening(&self) -> Self {
        Self { store: self.store.clone(), pool: self.pool.clone(), silence: Some(OnceLock::new()) }
    }

    /// An answer did not come.
    fn note_silence(&self, why: &str) {
        if let Some(silence) = &self.silence {
            // Only the first one is told.
            silence.get_or_init(|| why.to_owned());
        }
    }

    /// What the configuration says of it.
    #[must_use]
    pub const fn store(&self) -> &HttpStore {
        &self.store
    }

    /// Why a request for this could never be sent, whatever the store does; none where it can.
    #[must_use]
    pub fn objection(
        &self,
        resource: &ResourceName,
        query: Option<&str>,
        writes: bool,
    ) -> Option<&'static str> {
        if matches!(self.store.stamp, Some(StampPlace::Pointer)) && is_of_content(resource) {
            return Some("a name that ends with .fencegate is kept for what the gateway itself writes");
        }
        let query = query?;
        if !is_query(query) {
            return Some("the query has a sign that cannot stand in an address; encode it as %XX");
        }
        let is_of_a_cell = writes && matches!(self.store.class, Class::Conditional);
        is_of_a_cell
            .then_some("a cell is one resource, of which a query would make another; leave the query out")
    }

    /// One attempt: exactly one request that has an effect. With a pointer cell an upload of the content goes before it.
    pub async fn send(&self, order: &Order) -> Sent {
        let sending = async || {
            match (self.store.class, &self.store.stamp) {
                // Apart on the heap: the future of the others is copied several times with each request.
                (Class::Conditional, Some(place)) => Box::pin(self.send_cell(place, order)).await,
                (Class::Conditional, None) => Sent::NotSent("the store has no place for a stamp".to_owned()),
                (Class::FenceAware | Class::Idempotent | Class::Serial, _) => self.send_plain(order).await,
            }
        };
        let sent = self.in_time(sending()).await;
        if deliberate::on(Bug::UpstreamRetries) && matches!(sent, Sent::Doubt(_)) {
            return Box::pin(self.in_time(sending())).await;
        }
        sent
    }

    /// `conditional`: what the cell shows.
    pub async fn read_cell(&self, resource: &ResourceName) -> CellRead {
        let Some(place) = &self.store.stamp else {
            return CellRead::Unreadable("the store has no cells".to_owned());
        };
        match timeout(self.whole_time(), self.look_at(place, resource)).await {
            Err(_) => {
                let why = "the cell was not read in time".to_owned();
                self.note_silence(&why);
                CellRead::Unreadable(why)
            }
            Ok(Ok(seen)) => CellRead::Seen(seen),
            Ok(Err(why)) => CellRead::Unreadable(why),
        }
    }

    /// `conditional`: the same content with a new stamp, on `base`; an empty cell where the stamp is that of an empty one,
    /// which it must be over a cell that is absent or a tombstone.
    pub async fn rewrite_cell(&self, resource: &ResourceName, base: &Base, stamp: &Stamp) -> Sent {
        match &self.store.stamp {
            None => Sent::NotSent("the store has no cells".to_owned()),
            Some(place) => self.in_time(self.rewrite(place, resource, base, stamp)).await,
        }
    }

    /// `fence_aware`: raises what the upstream holds, without any other effect.
    pub async fn advance(
        &self,
        resource: &ResourceName,
        incarnation: Incarnation,
        position: Position,
    ) -> Sent {
        self.in_time(self.send_advance(resource, incarnation, position)).await
    }

    /// `idempotent`: the outcome of a key, where a status address is configured.
    pub async fn ask(&self, order: &Order) -> Asked {
        match timeout(self.whole_time(), self.ask_for(order)).await {
            Ok(asked) => asked,
            Err(_) => Asked::Unclear("the upstream did not say in time".to_owned()),
        }
    }

    /// GET or HEAD, streamed: after the head the store's time-out bounds the wait for each piece of the body.
    ///
    /// # Errors
    /// [`ReadFailed`] says how far it came.
    pub async fn read(&self, order: ReadOrder) -> Result<ReadAnswer, ReadFailed> {
        match &self.store.stamp {
            None => self.read_plain(order, None).await,
            Some(StampPlace::Header(name)) => self.read_plain(order, Some(name)).await,
            // Apart on the heap: the future of the others is copied several times with each request.
            Some(StampPlace::Json(pointer)) => Box::pin(self.read_json(order, pointer)).await,
            Some(StampPlace::Pointer) => Box::pin(self.read_pointed(order)).await,
        }
    }

    /// The longest that one attempt takes (`StoreRules::timeout`), however many messages it is made of.
    const fn whole_time(&self) -> Duration {
        self.store.rules().timeout.duration()
    }

    /// What runs out of time has perhaps been sent.
    async fn in_time(&self, sending: impl Future<Output = Sent>) -> Sent {
        if let Ok(sent) = timeout(self.whole_time(), sending).await {
            return sent;
        }
        let why = format!("not done in {} ms", self.whole_time().as_millis());
        self.note_silence(&why);
        Sent::Doubt(why)
    }

    /// A success without a strong validator says nothing that a later send could rest on: the cell itself does.
    async fn read_back(&self, place: &StampPlace, resource: &ResourceName, mut answer: Answer) -> Sent {
        match self.look_at(place, resource).await {
            Ok(CellSeen::Stamped(validator, stamp)) => {
                answer.relayed.etag = Some(validator.as_str().to_owned());
                answer.stamp = Some(stamp);
                Sent::Answered(answer)
            }
            Ok(CellSeen::Absent) => Sent::Doubt("the store said yes, and there is no cell".to_owned()),
            Ok(CellSeen::Unstamped(_)) => {
                Sent::Doubt("the store said yes, and the cell has no stamp".to_owned())
            }
            Ok(CellSeen::Strange(why)) => Sent::Doubt(format!("the store said yes, and {why}")),
            Err(why) => Sent::Doubt(format!("the store said yes, and the cell cannot be read: {why}")),
        }
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upstream({})", self.store.base)
    }
}
