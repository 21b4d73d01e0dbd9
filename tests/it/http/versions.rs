//! How often a store is probed because it names other versions, under a clock that the test turns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencegate::dispatch::{Dispatch, Earned, ReadOrder, Upstream as Client, VersionsSeen};
use fencegate::domain::resource::{Namespace, Path};
use fencegate::domain::store::HttpStore;
use fencegate::domain::upstream::Class;
use http_body_util::BodyExt as _;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::house::House;
use super::stores;
use crate::support::clock::CountingEntropy;
use crate::support::upstream::{Kind, Upstream};

/// Long enough for a probe that would come although it must not.
const WHILE: Duration = Duration::from_millis(900);

/// A store behind a dispatch whose time stands still.
struct Scene {
    upstream: Upstream,
    dispatch: Dispatch,
    now: Arc<AtomicU64>,
    name: Namespace,
}

impl Scene {
    async fn of(versions: &[&str], header: &str) -> Self {
        let upstream = Upstream::start(Kind::FenceAware);
        upstream.call_itself(versions);
        let house = House::new().await;
        let settings = stores::store(Class::FenceAware, &upstream.url());
        let settings = HttpStore { probe: true, version_header: header.to_owned(), ..settings };
        let name = Namespace::parse("aware").unwrap();
        let now = Arc::new(AtomicU64::new(0));
        let clock = now.clone();
        let dispatch = Dispatch::start(
            house.ledger.clone(),
            BTreeMap::from([(name.clone(), Arc::new(Client::open(settings).unwrap()))]),
            Arc::new(move || Duration::from_secs(clock.load(Ordering::SeqCst))),
            Arc::new(CountingEntropy::default()),
            CancellationToken::new(),
        );
        let scene = Self { upstream, dispatch, now, name };
        assert_eq!(scene.dispatch.earned(&scene.name, Duration::from_secs(5)).await, Earned::Passed);
        scene
    }

    /// How often it was probed.
    fn probes(&self) -> usize {
        self.upstream.log().iter().filter(|arrival| arrival.target.ends_with("/reach")).count()
    }

    /// A client reads, and learns nothing of it.
    async fn read(&self) {
        let address = Path::parse("aware/a").unwrap().split(0).unwrap();
        let order = ReadOrder { address, head: false, query: None, headers: Vec::new() };
        drop(self.dispatch.read(&self.name, order).await.unwrap().body.collect().await);
    }

    fn seen(&self) -> VersionsSeen {
        self.dispatch.stores().map(|(_, _, _, seen)| seen).next().unwrap()
    }

    async fn until(&self, probed: &[&str]) {
        let comes = async {
            while self.seen().probed != probed || !self.seen().unprobed.is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let seen = || (self.probes(), self.seen());
        assert!(timeout(Duration::from_secs(5), comes).await.is_ok(), "{:?}", seen());
    }
}

/// The first new version is probed at once, the next one a minute later, and what is known causes none.
#[tokio::test]
async fn a_new_version_is_probed_soon_and_at_most_once_a_minute() {
    let scene = Scene::of(&["store/1"], "server").await;
    scene.read().await;
    assert_eq!((scene.probes(), scene.seen().probed), (1, vec!["store/1".to_owned()]));
    scene.upstream.call_itself(&["store/2"]);
    scene.read().await;
    scene.until(&["store/1", "store/2"]).await;
    assert_eq!(scene.probes(), 2);
    scene.upstream.call_itself(&["store/3"]);
    scene.now.store(59, Ordering::SeqCst);
    scene.read().await;
    sleep(WHILE).await;
    assert_eq!((scene.probes(), scene.seen().unprobed), (2, vec!["store/3".to_owned()]));
    scene.now.store(61, Ordering::SeqCst);
    scene.until(&["store/1", "store/2", "store/3"]).await;
    assert_eq!(scene.probes(), 3);
}

/// Broken: behind a balancer each answer names the other version, and the store is probed for ever. Must hold: once.
#[tokio::test]
async fn two_versions_that_take_turns_are_not_probed_for_ever() {
    let scene = Scene::of(&["store/1"], "server").await;
    scene.upstream.call_itself(&["store/1", "store/2"]);
    for minute in 0..20 {
        scene.now.store(minute * 61, Ordering::SeqCst);
        scene.read().await;
        scene.read().await;
        if minute == 0 {
            scene.until(&["store/1", "store/2"]).await;
        }
    }
    sleep(WHILE).await;
    assert_eq!(scene.probes(), 2);
}

/// The header is the operator's choice; one that the store does not send tells nothing.
#[tokio::test]
async fn a_version_is_known_by_the_header_that_is_configured() {
    let scene = Scene::of(&["store/1"], "x-release").await;
    scene.upstream.call_itself(&["store/2"]);
    scene.read().await;
    sleep(WHILE).await;
    assert_eq!((scene.probes(), scene.seen()), (1, VersionsSeen::default()));
}
