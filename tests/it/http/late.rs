//! Attempts that come late: what was held up between its announcement and its send is sent only while nobody can have gone
//! on with it and its store knows its key. The clocks are turned by the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencegate::dispatch::{Dispatch, Ended, Room, Upstream as Client};
use fencegate::domain::resource::Namespace;
use fencegate::domain::store::HttpStore;
use fencegate::domain::upstream::Class;
use fencegate::limits::READS_IN_FLIGHT;
use fencegate::protocol::command::Finding;
use fencegate::protocol::outcome::{Attempt, Settled, Withdrawal};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::house::House;
use super::stores;
use crate::support::clock::CountingEntropy;
use crate::support::forwards::{announced, draft, forward, resume, settle, settled};
use crate::support::upstream::{Fault, Kind, Upstream};

/// One attempt of these stores, connecting included.
const ATTEMPT_MS: u64 = 3_000;

/// How much later than its time-outs an attempt may be begun.
const LATE_MS: u64 = 500;

/// Half of the time for which these stores keep a key.
const HALF_MS: u64 = 43_200_000;

/// A store behind a dispatch whose clock the test turns.
struct Scene {
    house: House,
    upstream: Upstream,
    dispatch: Dispatch,
    elapsed: Arc<AtomicU64>,
    token: String,
    name: &'static str,
}

impl Scene {
    async fn of(class: Class, kind: Kind, name: &'static str) -> Self {
        let upstream = Upstream::start(kind);
        let house = House::new().await;
        // Its own dispatch leads nowhere, and must not take up anything.
        house.impatient.cancel();
        let token = house.acquire(name).await.token;
        let status = (class == Class::Idempotent).then(|| "status/{key}".to_owned());
        let settings = HttpStore { status, ..stores::store(class, &upstream.url()) };
        let elapsed = Arc::new(AtomicU64::new(0));
        let clock = elapsed.clone();
        let namespace = Namespace::parse(name.split('/').next().unwrap()).unwrap();
        let dispatch = Dispatch::start(
            house.ledger.clone(),
            BTreeMap::from([(namespace, Arc::new(Client::open(settings).unwrap()))]),
            Arc::new(move || Duration::from_millis(clock.load(Ordering::SeqCst))),
            Arc::new(CountingEntropy::default()),
            CancellationToken::new(),
        );
        Self { house, upstream, dispatch, elapsed, token, name }
    }

    fn room(&self) -> Room {
        let namespace = Namespace::parse(self.name.split('/').next().unwrap()).unwrap();
        self.dispatch.room(&namespace).unwrap()
    }

    async fn announced(&self) -> Attempt {
        let ledger = &self.house.ledger;
        announced(ledger, forward(ledger, &draft(self.name, &self.token, "op", 0), 1)).await
    }

    /// The attempt that comes after one in doubt.
    async fn in_doubt(&self) -> Attempt {
        let first = self.announced().await.intent;
        let ledger = &self.house.ledger;
        assert!(matches!(settled(ledger, settle(&first, Finding::Doubt)).await, Settled::Later(_)));
        self.house.clock.advance(1_000);
        match settled(ledger, resume(&first)).await {
            Settled::Again(attempt) => attempt,
            other => panic!("{other:?}"),
        }
    }

    /// Drives an attempt that was announced now.
    fn driven(&self, attempt: Attempt) -> JoinHandle<Ended> {
        let forwarding = self.dispatch.forward(attempt, self.dispatch.elapsed(), self.room());
        tokio::spawn(async { forwarding.await.unwrap() })
    }

    /// How it ends, while the time of the database goes on.
    async fn end(&self, driven: JoinHandle<Ended>) -> Ended {
        let mut driven = driven;
        loop {
            if let Ok(ended) = timeout(Duration::from_millis(20), &mut driven).await {
                return ended.unwrap();
            }
            self.house.clock.advance(100);
        }
    }

    fn writes(&self) -> usize {
        self.upstream.log().iter().filter(|arrival| !arrival.reads()).count()
    }
}

/// The second attempt, whose status address hangs while this much time passes: how it ends, how many writes arrived, and the
/// last attempt.
async fn asked_for(passes: u64) -> (Ended, usize, u32) {
    let scene = Scene::of(Class::Idempotent, Kind::Idempotent, "keyed/a").await;
    let attempt = scene.in_doubt().await;
    let key = attempt.intent.key();
    scene.upstream.fault_of_read(Fault::Hold);
    let driven = scene.driven(attempt);
    while scene.upstream.log().is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    scene.elapsed.fetch_add(passes, Ordering::SeqCst);
    scene.house.clock.advance(passes);
    scene.upstream.release();
    let ended = scene.end(driven).await;
    let (resource, incarnation, id) = key;
    let record = scene
        .house
        .ledger
        .read(move |reader| reader.operation(resource, id, Some(incarnation)))
        .await
        .unwrap();
    (ended, scene.writes(), record.unwrap().attempt)
}

/// Broken: the machine sleeps while the status address is asked. Its answer is lost, the store has forgotten the key when the
/// machine wakes, and the same is sent: a second effect (I2). Must hold: nothing is sent, and a person has to look.
#[tokio::test]
async fn a_key_that_may_be_forgotten_is_not_sent_after_a_long_sleep() {
    let (ended, writes, attempt) = asked_for(HALF_MS).await;
    assert!(matches!(ended, Ended::Uncertain), "{ended:?}");
    assert_eq!((writes, attempt), (0, 2));
}

/// Broken: whoever was stopped after it had looked once more sends when another one has given the operation up. Must hold:
/// time to ask and to send, and from then on that attempt is over; the next one has its own time.
#[tokio::test]
async fn who_asks_first_sends_within_its_time_or_not_at_all() {
    for (passes, sent) in [(2 * ATTEMPT_MS + LATE_MS, 2), (2 * ATTEMPT_MS + LATE_MS + 1, 3)] {
        let (ended, writes, attempt) = asked_for(passes).await;
        assert!(matches!(ended, Ended::Decided(..)), "{passes}: {ended:?}");
        assert_eq!((writes, attempt), (1, sent), "{passes}");
    }
}

/// Broken: the database hiccups when a late announcement is looked at again. The gateway sends nothing and says nothing, and
/// the next step of a serial store is `uncertain`: a person has to resolve what was never sent. Must hold: withdrawn.
#[tokio::test]
async fn what_was_not_sent_because_of_a_failed_read_is_no_doubt() {
    let scene = Scene::of(Class::Serial, Kind::Serial, "store-pages/a").await;
    let attempt = scene.announced().await;
    scene.house.script.reads_fail.store(true, Ordering::SeqCst);
    let forwarding = scene.dispatch.forward(attempt, Duration::ZERO, scene.room());
    scene.elapsed.store(300, Ordering::SeqCst);
    let ended = forwarding.await.unwrap();
    assert!(matches!(ended, Ended::Withdrawn(_, Withdrawal::Unreachable, _)), "{ended:?}");
    assert_eq!(scene.writes(), 0);
}

/// Broken: readers take all places, and what is late is not sent because of it. Must hold: that look has a place of its own.
#[tokio::test]
async fn readers_do_not_keep_back_what_is_to_be_sent() {
    let scene = Scene::of(Class::Serial, Kind::Serial, "store-pages/a").await;
    let attempt = scene.announced().await;
    scene.house.script.stands_still.store(true, Ordering::SeqCst);
    for _ in 0..READS_IN_FLIGHT {
        let ledger = scene.house.ledger.clone();
        drop(tokio::spawn(async move { ledger.read(|reader| reader.time()).await.is_ok() }));
    }
    sleep(Duration::from_millis(100)).await;
    scene.house.script.stands_still.store(false, Ordering::SeqCst);
    assert!(scene.house.ledger.read(|reader| reader.time()).await.is_err(), "all places are taken");
    let forwarding = scene.dispatch.forward(attempt, Duration::ZERO, scene.room());
    scene.elapsed.store(300, Ordering::SeqCst);
    let ended = forwarding.await.unwrap();
    assert!(matches!(ended, Ended::Decided(..)), "{ended:?}");
    assert_eq!(scene.writes(), 1);
}
