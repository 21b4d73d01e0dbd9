//! An owner hands its lease to a successor, and sometimes does not know that it did; and some come back long after they
//! were owners.

use serde_json::json;

use super::caller::Request;
use super::events::{Act, Answered};
use super::worker::{Fate, Tenure, Worker, tenure};
use crate::limits::EXAM_DELIVERIES;

impl Worker {
    /// The lease goes to a successor, which this worker is from then on. Where no answer came it goes on as before, and is
    /// one owner too many perhaps.
    pub(super) async fn succeed(&mut self, before: &mut Tenure) {
        let Some(successor) = self.hand_over(before).await else { return };
        let mut old = std::mem::replace(before, successor);
        // The predecessor has not heard of it.
        self.act_as_if_it_owned(&mut old).await;
    }

    /// Somebody who was an owner some time ago does not know what has happened since.
    pub(super) async fn come_back(&mut self) {
        if let Some(mut old) = self.past.take() {
            self.act_as_if_it_owned(&mut old).await;
        }
    }

    async fn act_as_if_it_owned(&mut self, old: &mut Tenure) {
        if self.one_in(2) {
            self.renew(old).await;
        }
        if self.one_in(2) {
            let operation = self.invent(old).await;
            match self.deliver(&operation, old).await {
                Fate::Done => {}
                Fate::Open | Fate::Stale => self.slot.leave(&old.resource, operation),
            }
        }
    }

    async fn hand_over(&mut self, before: &Tenure) -> Option<Tenure> {
        let request = uuid::Uuid::from_u64_pair(self.chance.next(), self.chance.next()).to_string();
        let ttl_ms = 200_u64.saturating_add(self.chance.below(1_000));
        let holder = format!("successor-{}", self.caller.client);
        for _ in 0..EXAM_DELIVERIES {
            let mut sent = self.caller.begin(Act::Transfer, &before.resource);
            (sent.request, sent.ttl_ms) = (Some(request.clone()), Some(ttl_ms));
            sent.acquisition = Some(before.acquisition.clone());
            let body = json!({"holder": holder, "ttl_ms": ttl_ms, "request_id": request});
            let headers = vec![("content-type", "application/json".to_owned())];
            let path = format!("/v1/leases/{}/transfer", before.acquisition);
            let body = body.to_string().into_bytes();
            let asked = Request { method: "POST", path, headers, body };
            let door = self.door();
            match self.caller.call(door, sent, asked).await {
                Some((Answered { status: 200 | 201, .. }, body)) => {
                    return tenure(&before.resource, &body, ttl_ms);
                }
                Some((Answered { status: 202, .. }, _)) | None => self.pause(10, 150).await,
                Some((Answered { status: 503, .. }, _)) => self.pause(100, 500).await,
                Some(_) => return None,
            }
        }
        None
    }
}
