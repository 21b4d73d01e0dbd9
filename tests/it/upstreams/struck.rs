//! One operation of each class that is struck in the middle of its life: by the end of its gateway, or by a long pause.

use super::fleet::{Fleet, PATIENCE, Stand, Write, is_success, put, write};
use crate::support::client::{Answer, Owned};
use crate::support::engines::Kind;
use crate::support::gateway::Process;
use crate::support::postgres::patience;

/// Acknowledged before anything goes wrong.
const FIRST: Write<'_> = write("p0", 1, "before");
/// Under way when it goes wrong.
pub(super) const STRUCK: Write<'_> = Write { wait: 20, ..write("p1", 2, "struck") };
/// What comes afterwards.
const NEXT: Write<'_> = Write { wait: 20, ..write("p2", 3, "after") };

/// A fleet in which each class has a write that was acknowledged, and the owners who wrote.
pub(super) struct Story {
    pub(super) fleet: Fleet,
    owners: Vec<Owned>,
    acknowledged: Vec<Answer>,
}

impl Story {
    pub(super) async fn begin(engine: Kind, times: &str) -> Self {
        let fleet = Fleet::start(engine, times, "policy = \"ordered\"").await;
        let (mut owners, mut acknowledged) = (Vec::new(), Vec::new());
        for stand in &fleet.stands {
            let owner = fleet.first().acquire(&stand.name(), "alice").await;
            let answer = put(fleet.first(), stand.name(), owner.clone(), FIRST).await.unwrap();
            assert!(is_success(&answer), "{}: {answer:?}", stand.class);
            owners.push(owner);
            acknowledged.push(answer);
        }
        Self { fleet, owners, acknowledged }
    }

    /// The write that will be struck, sent to the first gateway; aborted, its client hangs up.
    pub(super) fn ask(&self) -> Vec<tokio::task::JoinHandle<Option<Answer>>> {
        let asked = self
            .each()
            .map(|(stand, owner)| tokio::spawn(put(self.fleet.first(), stand.name(), owner.clone(), STRUCK)));
        asked.collect()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&Stand, &Owned)> {
        self.fleet.stands.iter().zip(&self.owners)
    }

    /// Waits until something holds of every store.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&Stand) -> bool) {
        patience::until(what, PATIENCE, async || self.fleet.stands.iter().all(&holds).then_some(())).await;
    }

    /// Whoever comes after decides everything without being asked, and tells the owner who asks again; of `serial` it
    /// is uncertain, and decided by this verdict.
    pub(super) async fn decided(&self, verdict: &str) {
        let client = self.fleet.last();
        for (stand, owner) in self.each() {
            let class = stand.class;
            if class == "serial" {
                stand.operation(&client, "p1", &["uncertain"]).await;
                let again = put(client.clone(), stand.name(), owner.clone(), STRUCK).await.unwrap();
                again.refused(504, "outcome_uncertain", "unknown");
                assert!(again.header("location").unwrap().contains("p1"), "{again:?}");
                let next = Write { wait: 0, ..NEXT };
                let next = put(client.clone(), stand.name(), owner.clone(), next).await.unwrap();
                next.refused(409, "lane_busy", "none");
                // Nobody has sent it again.
                assert!(stand.writes().len() <= 2, "{:?}", stand.writes());
                if stand.writes().len() > stand.effects().len() {
                    stand.store.release();
                    stand.until_nothing_is_under_way().await;
                }
                // The verdict is what the store's log says.
                assert_eq!(stand.effects().len() == 2, verdict == "applied", "{:?}", stand.effects());
                stand.resolve(&client, "p1", verdict).await;
            } else {
                stand.operation(&client, "p1", &["applied"]).await;
            }
            let again = put(client.clone(), stand.name(), owner.clone(), STRUCK).await.unwrap();
            if class == "serial" && verdict == "not_applied" {
                assert_eq!(again.json()["code"], "operation_not_applied", "{again:?}");
                assert_eq!(again.header("fencing-effect"), Some("none"));
            } else {
                assert!(is_success(&again), "{class}: {again:?}");
                assert_eq!(again.header("fencing-effect"), Some("applied"));
                assert_eq!(again.header("idempotent-replayed"), Some("true"), "{class}");
            }
        }
    }

    /// One effect each; the lanes are free, and what was acknowledged is told again as it was.
    pub(super) async fn judged(&self, struck: impl Fn(&str) -> usize) {
        self.judged_by(&self.fleet.gateways, struck).await;
    }

    /// The same where only the last gateway can be asked.
    pub(super) async fn judged_at_the_last(&self, struck: impl Fn(&str) -> usize) {
        self.judged_by(&self.fleet.gateways[self.fleet.gateways.len() - 1..], struck).await;
    }

    async fn judged_by(&self, gateways: &[Process], struck: impl Fn(&str) -> usize) {
        let client = self.fleet.last();
        for ((stand, owner), acknowledged) in self.each().zip(&self.acknowledged) {
            let class = stand.class;
            assert_eq!(stand.effects().len(), 1 + struck(class), "{class}: {:?}", stand.effects());
            let next = put(client.clone(), stand.name(), owner.clone(), NEXT).await.unwrap();
            assert!(is_success(&next), "{class}: {next:?}");
            assert_eq!(stand.effects().len(), 2 + struck(class), "{class}: {:?}", stand.effects());
            assert_eq!(stand.content().as_deref(), Some("after"), "{class}");
            for gateway in gateways {
                let again = put(gateway.client(), stand.name(), owner.clone(), FIRST).await.unwrap();
                assert_eq!(
                    (again.status, &again.bytes, again.header("etag")),
                    (acknowledged.status, &acknowledged.bytes, acknowledged.header("etag")),
                    "{class}"
                );
            }
        }
    }
}
