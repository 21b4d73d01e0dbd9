//! Operators: they revoke, call off and open again, and begin epochs, while everything else goes on. Each repeats a call
//! under its key until it is answered, so that what it promises holds of something.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::caller::{Caller, Request};
use super::events::{Act, Answered};
use super::slot::{Slot, halves};
use super::world::World;
use crate::bench::Chance;
use crate::limits::{EXAM_EPOCH_DELIVERIES, EXAM_OPERATOR_DELIVERIES};

/// An operator.
pub(super) struct Operator {
    pub(super) world: Arc<World>,
    /// What it looks after, and nobody else does.
    pub(super) slots: Vec<Arc<Slot>>,
    pub(super) caller: Caller,
    pub(super) chance: Chance,
    pub(super) enough: Arc<AtomicBool>,
    /// Mean pause between two acts, in milliseconds.
    pub(super) pace_ms: u64,
}

/// A call, as it is repeated.
struct Order {
    act: Act,
    resource: String,
    path: String,
    key: String,
    body: Value,
}

impl Operator {
    /// Revokes, and calls off and opens again, until it is enough.
    pub(super) async fn run(mut self) {
        while self.rest(self.pace_ms).await {
            let index = self.chance.below(u64::try_from(self.slots.len()).unwrap_or(1));
            let slot = usize::try_from(index).ok().and_then(|index| self.slots.get(index)).cloned();
            let Some(slot) = slot else { return };
            let resource = if slot.rules.paired {
                let [first, second] = halves(&slot.last());
                if self.chance.below(2) == 0 { first } else { second }
            } else {
                slot.last().to_string()
            };
            if self.chance.below(2) == 0 {
                let revoke = self.order(Act::Revoke, &resource);
                let done = self.insist(&revoke, EXAM_OPERATOR_DELIVERIES).await;
                self.send_a_copy(&revoke, done).await;
            } else {
                self.call_off(&resource).await;
            }
        }
    }

    /// Begins epochs, mostly of one namespace, until it is enough.
    pub(super) async fn begin_epochs(mut self) {
        while self.rest(self.pace_ms.saturating_mul(2)).await {
            let index = self.chance.below(u64::try_from(self.world.rules.len()).unwrap_or(1));
            let one = usize::try_from(index).ok().and_then(|index| self.world.rules.get(index));
            let Some(one) = one.map(|rules| rules.name.clone()) else { return };
            let name = if self.chance.below(8) == 0 { "*".to_owned() } else { one };
            let key = self.key(Act::Epoch);
            let leave_open = self.chance.below(3) != 0;
            let body = json!({"reason": "an exam", "confirm": name, "leave_open": leave_open});
            let path = format!("/v1/namespaces/{name}/epoch");
            let order = Order { act: Act::Epoch, resource: name, path, key, body };
            let done = self.insist(&order, EXAM_EPOCH_DELIVERIES).await;
            self.send_a_copy(&order, done).await;
        }
    }

    /// Sometimes a call that was carried out comes once more, some time later. It changes nothing then.
    async fn send_a_copy(&mut self, order: &Order, done: bool) {
        if done && self.chance.below(3) == 0 {
            let ms = self.chance.below(400);
            sleep(Duration::from_millis(ms)).await;
            self.deliver(order).await;
        }
    }

    /// Pauses. False when it is enough.
    async fn rest(&mut self, mean_ms: u64) -> bool {
        let ms = mean_ms.saturating_add(self.chance.below(mean_ms.saturating_mul(2))).saturating_div(2);
        sleep(Duration::from_millis(ms)).await;
        !self.enough.load(Ordering::Relaxed)
    }

    fn key(&mut self, act: Act) -> String {
        format!("{act:?}-{:016x}", self.chance.next()).to_lowercase()
    }

    fn order(&mut self, act: Act, resource: &str) -> Order {
        let verb = format!("{act:?}").to_lowercase();
        let path = format!("/v1/{verb}/{resource}");
        let (resource, key) = (resource.to_owned(), self.key(act));
        Order { act, resource, path, key, body: json!({"reason": "an exam"}) }
    }

    /// The work is called off; some time later it stands after all. Copies of both calls may come then.
    async fn call_off(&mut self, resource: &str) {
        let cancel = self.order(Act::Cancel, resource);
        let done = self.insist(&cancel, EXAM_OPERATOR_DELIVERIES).await;
        let ms = self.chance.below(400);
        sleep(Duration::from_millis(ms)).await;
        let reopen = self.order(Act::Reopen, resource);
        let reopened = self.insist(&reopen, EXAM_OPERATOR_DELIVERIES).await;
        self.send_a_copy(&cancel, done).await;
        self.send_a_copy(&reopen, reopened).await;
    }

    /// The same call again and again, here and there, until it is carried out or refused for good. Whether it was carried
    /// out.
    async fn insist(&mut self, order: &Order, deliveries: u32) -> bool {
        for _ in 0..deliveries {
            match self.deliver(order).await {
                Some(Answered { status: 200..=299, .. }) => return true,
                // Something is under way in the namespace that must not be left open: later it may not be.
                Some(Answered { status: 409, .. }) if order.act == Act::Epoch => {}
                Some(Answered { status: 500.., .. }) | None => {}
                Some(_) => return false,
            }
            let ms = 20_u64.saturating_add(self.chance.below(200));
            sleep(Duration::from_millis(ms)).await;
        }
        false
    }

    async fn deliver(&mut self, order: &Order) -> Option<Answered> {
        let mut sent = self.caller.begin(order.act, &order.resource);
        sent.operation = Some(order.key.clone());
        let headers =
            vec![("content-type", "application/json".to_owned()), ("idempotency-key", order.key.clone())];
        let body = order.body.to_string().into_bytes();
        let request = Request { method: "POST", path: order.path.clone(), headers, body };
        let count = u64::try_from(self.world.replicas.len()).unwrap_or(1);
        let index = usize::try_from(self.chance.below(count)).unwrap_or_default();
        let port = self.world.replicas.get(index).map_or(0, |replica| replica.door.port);
        Some(self.caller.call(port, sent, request).await?.0)
    }
}
