//! Dispatch: announced effects are carried to their stores, and what is learnt there is settled.
//!
//! A task does this for each operation, and belongs to no client: one that hangs up changes nothing. It
//! decides nothing either. Each step comes from the rules and has been made durable before it is taken, and what it
//! teaches goes back to them; a step that somebody else has taken meanwhile is theirs. What a crash leaves behind any
//! replica takes up when its time has come.

mod barrier;
mod drive;
mod meter;
mod probe;
mod recover;
mod step;
mod tell;
mod trace;

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use crate::backing::spool::{SpoolError, SpoolWriter};
pub use crate::backing::{ReadAnswer, ReadFailed, ReadOrder, Upstream, VersionsSeen};
use crate::domain::entropy::Entropy;
use crate::domain::operation::OperationId;
use crate::domain::resource::{Namespace, ResourceName};
use crate::domain::store::HttpStore;
use crate::ledger::{Ledger, Unserved};
use crate::limits::{FORWARDS_IN_FLIGHT, FORWARDS_OF_ONE_STORE, RECOVERIES_OF_ONE_STORE};
use crate::protocol::outcome::{Attempt, Standing, Withdrawal, Written};
use crate::protocol::rows::{IntentRow, LeaseRow};
use crate::protocol::snapshot::OperationKey;

pub use probe::Earned;
use probe::Standings;

/// The upstreams of the namespaces that have one.
pub type Upstreams = BTreeMap<Namespace, Arc<Upstream>>;

/// Time that goes on while the process or the machine sleeps, from some fixed instant.
pub type Elapsed = Arc<dyn Fn() -> Duration + Send + Sync>;

/// How the driving of an operation ended.
#[derive(Debug)]
pub enum Ended {
    /// It is decided. The body is the upstream's whole one, also where only a part of it is kept.
    Decided(Box<Written>, Bytes),
    /// It had no effect, and its id is free.
    Withdrawn(Box<IntentRow>, Withdrawal, Standing),
    /// Nothing more can be done without a person.
    Uncertain,
    /// Somebody else goes on with it: how it stands has to be looked up.
    Moved,
    /// What was learnt could not be recorded.
    Unserved(Unserved),
}

/// An operation on its way to its end: whoever polls it drives it. None when it was given up, for the process ends or
/// something broke; what became of it then the record tells. It must be driven to its end ([`Dispatch::go_on`]), or it is
/// left until its next step is due.
pub struct Forwarding {
    driving: Pin<Box<dyn Future<Output = Option<Ended>> + Send>>,
    /// Cancelled when nobody waits for it any more.
    alone: CancellationToken,
}

impl Future for Forwarding {
    type Output = Option<Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.driving.as_mut().poll(cx)
    }
}

/// Room for one operation under way.
#[derive(Debug)]
pub struct Room {
    _permits: [OwnedSemaphorePermit; 2],
}

/// What of this process one store may have at once, so that one that does not answer takes nothing from the others.
struct Share {
    forwards: Arc<Semaphore>,
    recoveries: Arc<Semaphore>,
    /// Apart from the recoveries, which a barrier may wait for.
    barriers: Arc<Semaphore>,
}

impl Share {
    fn new() -> Self {
        Self {
            forwards: Arc::new(Semaphore::new(FORWARDS_OF_ONE_STORE)),
            recoveries: Arc::new(Semaphore::new(RECOVERIES_OF_ONE_STORE)),
            barriers: Arc::new(Semaphore::new(RECOVERIES_OF_ONE_STORE)),
        }
    }
}

/// The facade. Clones share everything.
#[derive(Clone)]
pub struct Dispatch {
    shop: Arc<Shop>,
}

/// What all tasks share.
struct Shop {
    ledger: Ledger,
    upstreams: Upstreams,
    elapsed: Elapsed,
    /// Makes the names under which probes write.
    entropy: Arc<dyn Entropy>,
    room: Arc<Semaphore>,
    shares: BTreeMap<Namespace, Share>,
    tasks: TaskTracker,
    /// Ends what is still under way when the process has waited long enough.
    abandoned: CancellationToken,
    /// What this process works at: nothing is driven twice at once by one process.
    driven: Mutex<HashSet<OperationKey>>,
    raised: Mutex<HashSet<ResourceName>>,
    standings: Standings,
    stopping: CancellationToken,
}

impl Dispatch {
    /// Starts the task that looks for what is left to do. It ends with `stopping`.
    #[must_use]
    pub fn start(
        ledger: Ledger,
        upstreams: Upstreams,
        elapsed: Elapsed,
        entropy: Arc<dyn Entropy>,
        stopping: CancellationToken,
    ) -> Self {
        let standings = probe::standings(&upstreams);
        let shares = upstreams.keys().map(|namespace| (namespace.clone(), Share::new())).collect();
        let shop = Arc::new(Shop {
            ledger,
            upstreams,
            elapsed,
            entropy,
            room: Arc::new(Semaphore::new(FORWARDS_IN_FLIGHT)),
            shares,
            tasks: TaskTracker::new(),
            abandoned: CancellationToken::new(),
            driven: Mutex::default(),
            raised: Mutex::default(),
            standings,
            stopping,
        });
        if !shop.upstreams.is_empty() {
            shop.spawn(recover::run(shop.clone()));
        }
        for (namespace, upstream) in &shop.upstreams {
            shop.spawn(probe::run(shop.clone(), namespace.clone(), upstream.clone()));
        }
        Self { shop }
    }

    /// Room for one more operation of a namespace; none when too many are under way, there or everywhere.
    #[must_use]
    pub fn room(&self, namespace: &Namespace) -> Option<Room> {
        let own = self.shop.shares.get(namespace)?.forwards.clone().try_acquire_owned().ok()?;
        let whole = self.shop.room.clone().try_acquire_owned().ok()?;
        Some(Room { _permits: [own, whole] })
    }

    /// How many of them are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        FORWARDS_IN_FLIGHT.saturating_sub(self.shop.room.available_permits())
    }

    /// Time that goes on while the process or the machine sleeps, from some fixed instant.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        (self.shop.elapsed)()
    }

    /// Carries an operation to its end that was announced after `since`, by [`Self::elapsed`]. The caller drives it, in a
    /// task that belongs to no client: another task for it would be one more to wake.
    #[must_use]
    pub fn forward(&self, attempt: Attempt, since: Duration, room: Room) -> Forwarding {
        let (shop, abandoned) = (self.shop.clone(), self.shop.abandoned.clone());
        let alone = CancellationToken::new();
        let left = alone.clone();
        let driving = async move {
            let driven = async {
                let ended = drive::drive(&shop, attempt, since, &left).await;
                drop(room);
                ended
            };
            tokio::select! {
                biased;
                // What a panic leaves behind is not used again: what it drove goes with it.
                ended = AssertUnwindSafe(driven).catch_unwind() => ended.ok(),
                () = abandoned.cancelled() => None,
            }
        };
        Forwarding { driving: Box::pin(self.shop.tasks.track_future(driving)), alone }
    }

    /// Lets the step of an operation go on whose caller waits no longer; what becomes of it then the log tells. Where it
    /// comes to a pause its room is free: it is found again when its next step is due.
    pub fn go_on(&self, resource: ResourceName, operation: OperationId, forwarding: Forwarding) {
        forwarding.alone.cancel();
        tokio::spawn(async move {
            if let Some(ended) = forwarding.await {
                tell::settled(&resource, &operation, &ended);
            }
        });
    }

    /// Starts the resolution of what is undecided on a resource and due.
    pub fn resolve_soon(&self, resource: &ResourceName) {
        let (shop, resource) = (self.shop.clone(), resource.clone());
        self.shop.spawn(async move { recover::of_resource(&shop, resource).await });
    }

    /// Works at the barriers of a lease; the receiver hears when all of them stand, or nothing when it was given up.
    #[must_use]
    pub fn raise_for(&self, lease: &LeaseRow) -> oneshot::Receiver<()> {
        let (reply, done) = oneshot::channel();
        let (shop, lease) = (self.shop.clone(), lease.clone());
        self.shop.spawn(async move {
            if barrier::raise_for(&shop, &lease).await {
                let _heard = reply.send(());
            }
        });
        done
    }

    /// Works at the barrier in front of a resource; the receiver hears when it stands, or nothing when it was given up.
    #[must_use]
    pub fn raise(&self, resource: &ResourceName) -> oneshot::Receiver<()> {
        let (reply, done) = oneshot::channel();
        let (shop, resource) = (self.shop.clone(), resource.clone());
        self.shop.spawn(async move {
            if barrier::raise(&shop, &resource, None).await {
                let _heard = reply.send(());
            }
        });
        done
    }

    /// Reads through the gateway.
    ///
    /// # Errors
    /// [`ReadFailed`] says why nothing was read.
    pub async fn read(&self, namespace: &Namespace, order: ReadOrder) -> Result<ReadAnswer, ReadFailed> {
        match self.shop.upstreams.get(namespace) {
            Some(upstream) => self.shop.timing(namespace, "read").over(upstream.read(order).await),
            None => Err(ReadFailed::Unreachable("no upstream is configured for this namespace".to_owned())),
        }
    }

    /// Whether a store has earned its class; the first probe is waited for at most `patience`.
    pub async fn earned(&self, namespace: &Namespace, patience: Duration) -> Earned {
        let Some(standing) = self.shop.standings.get(namespace) else { return Earned::NotAsked };
        let mut heard = standing.subscribe();
        // Too late is answered as it stands now.
        drop(tokio::time::timeout(patience, heard.wait_for(|stands| *stands != Earned::NotYet)).await);
        standing.borrow().clone()
    }

    /// The stores in order of their namespaces, where each stands, and what it calls itself.
    pub fn stores(&self) -> impl Iterator<Item = (&Namespace, &HttpStore, Earned, VersionsSeen)> {
        let shop = &self.shop;
        shop.upstreams.iter().filter_map(|(namespace, upstream)| {
            let earned = shop.standings.get(namespace)?.borrow().clone();
            Some((namespace, upstream.store(), earned, upstream.versions()))
        })
    }

    /// The upstream of a namespace.
    #[must_use]
    pub fn upstream(&self, namespace: &Namespace) -> Option<&Arc<Upstream>> {
        self.shop.upstreams.get(namespace)
    }

    /// Waits until nothing is under way, after `stopping`, but not longer than `patience`: what is left then is taken up
    /// by another replica, or after the next start.
    pub async fn drained(&self, patience: Duration) {
        self.shop.tasks.close();
        if tokio::time::timeout(patience, self.shop.tasks.wait()).await.is_err() {
            self.shop.abandoned.cancel();
            self.shop.tasks.wait().await;
        }
    }
}

impl Shop {
    fn upstream_of(&self, resource: &ResourceName) -> Option<&Arc<Upstream>> {
        self.upstreams.get(&resource.namespace())
    }

    fn driven(&self) -> MutexGuard<'_, HashSet<OperationKey>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raised(&self) -> MutexGuard<'_, HashSet<ResourceName>> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task that belongs to nobody.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let abandoned = self.abandoned.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = abandoned.cancelled() => {}
            }
        });
    }

    /// Waits, and tells whether to go on.
    async fn pause(&self, length: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(length) => true,
            () = self.stopping.cancelled() => false,
        }
    }
}
