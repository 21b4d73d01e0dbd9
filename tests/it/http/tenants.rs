//! Stores side by side: one that is away, or that nobody leads to any more, keeps nothing of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fencegate::dispatch::{Dispatch, Upstream as Client};
use fencegate::domain::namespaces::Namespaces;
use fencegate::domain::operation::{OperationId, OperationState};
use fencegate::domain::resource::Namespace;
use fencegate::domain::upstream::Class;
use fencegate::ledger::wakeup::instant;
use fencegate::limits::{FORWARDS_OF_ONE_STORE, RECOVERED_AT_ONCE, RECOVERED_PAGES, RECOVERIES_OF_ONE_STORE};
use fencegate::protocol::command::Finding;
use fencegate::protocol::outcome::{Attempt, Settled};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::house::{House, Plan};
use super::stores;
use crate::support::clock::CountingEntropy;
use crate::support::commands::resource;
use crate::support::forwards::{self, announced, draft, forward, settle, settled};
use crate::support::upstream::{Fault, Kind, Upstream};

/// Undecided operations of `keyed` that are due before the one of `aware`.
struct Scene {
    house: House,
    keyed: Upstream,
    aware: Upstream,
}

impl Scene {
    async fn with(operations: usize) -> Self {
        let namespaces = Namespaces::new(forwards::namespaces().into_iter().collect(), None);
        let house = House::built(Plan { namespaces, ..Plan::default() }).await;
        // Its own dispatch leads nowhere, and must not take up anything.
        house.impatient.cancel();
        let scene = Self {
            house,
            keyed: Upstream::start(Kind::Idempotent),
            aware: Upstream::start(Kind::FenceAware),
        };
        for number in 0..operations {
            scene.in_doubt(&format!("keyed/{number}")).await;
        }
        scene.house.clock.advance(1);
        scene.in_doubt("aware/a").await;
        scene.house.clock.advance(1_000);
        scene
    }

    async fn announced(&self, name: &str) -> Attempt {
        let ledger = &self.house.ledger;
        announced(ledger, forward(ledger, &draft(name, "7", "op", 1), 1)).await
    }

    async fn in_doubt(&self, name: &str) {
        let intent = self.announced(name).await.intent;
        let settle = settle(&intent, Finding::Doubt);
        assert!(matches!(settled(&self.house.ledger, settle).await, Settled::Later(_)));
    }

    /// What comes of the next so many writes to `keyed`.
    fn keyed_plays(&self, times: usize, fault: &Fault) {
        for _ in 0..times {
            self.keyed.fault(fault.clone());
        }
    }

    /// A dispatch that leads to these stores.
    fn dispatch(&self, classes: &[Class]) -> Dispatch {
        let open = |class: &Class| {
            let (name, upstream) = match class {
                Class::Idempotent => ("keyed", &self.keyed),
                Class::FenceAware | Class::Conditional | Class::Serial => ("aware", &self.aware),
            };
            let client = Client::open(stores::store(*class, &upstream.url())).unwrap();
            (Namespace::parse(name).unwrap(), Arc::new(client))
        };
        Dispatch::start(
            self.house.ledger.clone(),
            classes.iter().map(open).collect::<BTreeMap<_, _>>(),
            Arc::new(|| Duration::ZERO),
            Arc::new(CountingEntropy::default()),
            CancellationToken::new(),
        )
    }

    async fn is_applied(&self, name: &str) -> bool {
        let (resource, id) = (resource(name), OperationId::parse("op").unwrap());
        let found = self.house.ledger.read(move |reader| reader.operation(resource, id, None)).await;
        found.unwrap().is_some_and(|record| record.state == OperationState::Applied)
    }

    /// Waits until something holds, while the time of the database goes on.
    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let patience = instant() + Duration::from_secs(20);
        while !holds().await {
            assert!(instant() < patience, "it never came so far: {what}");
            self.house.clock.advance(50);
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Broken: a store takes requests and does not answer, and all that is taken up at once is its own: the others wait until its
/// time-outs are over, and then for the next ones. Must hold: it has so many places, and no more.
#[tokio::test]
async fn a_store_that_does_not_answer_holds_up_its_own_operations_alone() {
    let scene = Scene::with(2 * RECOVERIES_OF_ONE_STORE + 1).await;
    scene.keyed_plays(1_000, &Fault::Hold);
    let _dispatch = scene.dispatch(&[Class::Idempotent, Class::FenceAware]);
    scene.until("the healthy one is decided", async || scene.is_applied("aware/a").await).await;
    assert!(scene.keyed.log().len() <= RECOVERIES_OF_ONE_STORE, "{}", scene.keyed.log().len());
}

/// Broken: whoever is taken up is carried through all its pauses, and as long as the store has nothing to say nobody else of it
/// has a turn. Must hold: one step, and then the next one has its turn.
#[tokio::test]
async fn everybody_has_a_turn_while_a_store_cannot_say() {
    let many = 2 * RECOVERIES_OF_ONE_STORE + 8;
    let scene = Scene::with(many).await;
    scene.keyed_plays(50_000, &Fault::Status(503));
    let _dispatch = scene.dispatch(&[Class::Idempotent]);
    let tried = async || {
        let log = scene.keyed.log();
        log.iter().map(|arrival| arrival.target.clone()).collect::<BTreeSet<_>>().len()
    };
    scene.until("all of them were tried", async || tried().await == many).await;
}

/// Broken: a namespace that is not configured any more leaves operations that are due for ever; they are the first of every
/// look, and nobody sees what stands behind them. Must hold: looks come past them, however many they are.
#[tokio::test]
async fn what_nobody_can_take_up_hides_nothing() {
    let of_one_look = usize::try_from(RECOVERED_AT_ONCE * RECOVERED_PAGES).unwrap();
    let scene = Scene::with(of_one_look + 1).await;
    let _dispatch = scene.dispatch(&[Class::FenceAware]);
    scene.until("the configured one is decided", async || scene.is_applied("aware/a").await).await;
}

/// Broken: an operation whose caller has gone keeps its room until its store is back, and a store that is away takes all room
/// there is. Must hold: half of it at most, and none between two attempts that nobody waits for.
#[tokio::test]
async fn a_store_that_is_away_leaves_room_for_others() {
    let scene = Scene::with(0).await;
    scene.keyed_plays(50_000, &Fault::Status(503));
    let dispatch = scene.dispatch(&[Class::Idempotent, Class::FenceAware]);
    let [keyed, aware] = ["keyed", "aware"].map(|name| Namespace::parse(name).unwrap());
    let attempt = scene.announced("keyed/a").await;
    let (resource, _, operation) = attempt.intent.key();
    let room = dispatch.room(&keyed).unwrap();
    let forwarding = dispatch.forward(attempt, Duration::ZERO, room);
    assert_eq!(dispatch.under_way(), 1);
    dispatch.go_on(resource, operation, forwarding);
    scene.until("its room is free", async || dispatch.under_way() == 0).await;
    assert!(!scene.is_applied("keyed/a").await, "its store is away");
    let rooms: Vec<_> = std::iter::from_fn(|| dispatch.room(&keyed)).collect();
    assert_eq!(rooms.len(), FORWARDS_OF_ONE_STORE);
    assert!(dispatch.room(&aware).is_some());
}
