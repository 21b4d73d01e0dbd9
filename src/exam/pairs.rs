//! A worker whose every write changes two resources at once: both, or none.

use std::sync::Arc;

use serde_json::{Value, json};

use super::caller::Request;
use super::events::{Act, Answered, Place, Sent};
use super::payload::Operation;
use super::slot::halves;
use super::worker::Worker;
use crate::limits::EXAM_DELIVERIES;

/// A lease of two resources.
struct Both {
    names: [String; 2],
    acquisition: String,
    tokens: [String; 2],
    positions: [Place; 2],
    ttl_ms: u64,
}

fn json_headers() -> Vec<(&'static str, String)> {
    vec![("content-type", "application/json".to_owned())]
}

impl Worker {
    /// One turn: a lease, some work, a write, a release.
    pub(super) async fn work_on_a_pair(&mut self, resource: &Arc<str>) {
        let Some(both) = self.acquire_both(resource).await else { return self.pause(20, 120).await };
        if self.one_in(6) {
            self.pause(both.ttl_ms, both.ttl_ms.saturating_add(900)).await;
        }
        let left = if self.one_in(3) { self.slot.take_up(resource) } else { None };
        let operation = left
            .unwrap_or_else(|| Operation::new(self.slot.fresh_id(resource), &mut self.chance, false, None));
        let mut decided = false;
        for _ in 0..EXAM_DELIVERIES {
            match self.write_both(&both, &operation).await {
                Some([Answered { status: 409 | 503 | 504, .. }, _]) | None => self.pause(20, 300).await,
                Some([one, _]) => {
                    decided = one.effect.as_deref() == Some("applied");
                    break;
                }
            }
        }
        if !decided {
            self.slot.leave(resource, operation);
        }
        if !self.one_in(4) {
            let mut sent = halves(resource).map(|name| self.caller.begin(Act::Release, &name));
            for sent in &mut sent {
                sent.acquisition = Some(both.acquisition.clone());
            }
            let path = format!("/v1/leases/{}", both.acquisition);
            let request = Request { method: "DELETE", path, headers: Vec::new(), body: Vec::new() };
            let door = self.door();
            self.caller.call_for_both(door, sent, request).await;
        }
    }

    async fn acquire_both(&mut self, resource: &Arc<str>) -> Option<Both> {
        let request = uuid::Uuid::from_u64_pair(self.chance.next(), self.chance.next()).to_string();
        let ttl_ms = 200_u64.saturating_add(self.chance.below(1_000));
        let names = halves(resource);
        for _ in 0..EXAM_DELIVERIES {
            let mut sent = names.clone().map(|name| self.caller.begin(Act::Acquire, &name));
            for sent in &mut sent {
                (sent.request, sent.ttl_ms) = (Some(request.clone()), Some(ttl_ms));
            }
            let body = json!({"resources": names, "ttl_ms": ttl_ms, "request_id": request});
            let body = body.to_string().into_bytes();
            let asked =
                Request { method: "POST", path: "/v1/leases".to_owned(), headers: json_headers(), body };
            let door = self.door();
            match self.caller.call_for_both(door, sent, asked).await {
                Some(([Answered { status: 200 | 201, .. }, _], body)) => return both(names, &body, ttl_ms),
                Some(([Answered { status: 202 | 503, .. }, _], _)) | None => self.pause(50, 400).await,
                Some(_) => return None,
            }
        }
        None
    }

    async fn write_both(&mut self, both: &Both, operation: &Operation) -> Option<[Answered; 2]> {
        let begin = |(name, position): (&String, &Place)| -> Sent {
            let mut sent = self.caller.begin(Act::Write, name);
            sent.position = Some(*position);
            sent.operation = Some(operation.id.clone());
            sent.digest = Some(operation.digest.clone());
            sent
        };
        let [first, second] = [0, 1].map(|index| both.names.get(index).zip(both.positions.get(index)));
        let sent = [begin(first?), begin(second?)];
        let content = String::from_utf8_lossy(&operation.body);
        let member = |(name, token): (&String, &String)| {
            json!({"method": "PUT", "resource": name, "fencing_token": token, "operation_id": operation.id,
                   "content_type": "application/json", "body": content})
        };
        let members: Vec<Value> = both.names.iter().zip(&both.tokens).map(member).collect();
        let body = json!({"writes": members}).to_string().into_bytes();
        let asked = Request { method: "POST", path: "/v1/writes".to_owned(), headers: json_headers(), body };
        let door = self.door();
        Some(self.caller.call_for_both(door, sent, asked).await?.0)
    }
}

fn both(names: [String; 2], body: &Value, ttl_ms: u64) -> Option<Both> {
    let tokens = body.get("tokens")?;
    let text = |name: &str, field: &str| tokens.get(name)?.get(field)?.as_str().map(str::to_owned);
    let [a, b] = &names;
    let sealed = [text(a, "fencing_token")?, text(b, "fencing_token")?];
    let positions = [text(a, "position")?.parse().ok()?, text(b, "position")?.parse().ok()?];
    let acquisition = body.get("acquisition_id")?.as_str()?.to_owned();
    Some(Both { names, acquisition, tokens: sealed, positions, ttl_ms })
}
