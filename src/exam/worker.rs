//! A worker as they are: it takes a lease, works, is paused for longer than the lease, writes all the same, repeats what was
//! not answered, leaves undone what it has no time for, and sometimes forgets to release.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::caller::{Caller, Request};
use super::events::{Act, Answered, Class, Place, Policy};
use super::payload::{self, Operation};
use super::slot::Slot;
use super::world::World;
use crate::bench::Chance;
use crate::domain::time::Clock;
use crate::limits::EXAM_DELIVERIES;

/// A worker.
pub(super) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) slot: Arc<Slot>,
    pub(super) caller: Caller,
    pub(super) chance: Chance,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) enough: Arc<AtomicBool>,
    /// Resources that nobody uses any more.
    pub(super) retired: mpsc::Sender<Arc<str>>,
    /// What it owned some time ago.
    pub(super) past: Option<Tenure>,
}

/// What an owner holds.
pub(super) struct Tenure {
    pub(super) resource: Arc<str>,
    pub(super) acquisition: String,
    token: String,
    position: Place,
    pub(super) ttl_ms: u64,
    sequence: u64,
    /// The entity tag of the last write, for the policy that asks for it.
    etag: Option<String>,
}

/// What came of an operation.
pub(super) enum Fate {
    /// It is decided.
    Done,
    /// Nobody knows, or it may be tried again.
    Open,
    /// This owner is none any more.
    Stale,
}

impl Worker {
    /// Works until it is enough.
    pub(super) async fn run(mut self) {
        while !self.enough.load(Ordering::Relaxed) {
            let (resource, retired) = self.slot.resource(self.clock.monotonic());
            if let Some(retired) = retired {
                // Whoever closes resources is slow where gateways are; workers wait for it then.
                self.retired.send(retired).await.unwrap_or_default();
            }
            if self.slot.rules.paired {
                self.work_on_a_pair(&resource).await;
                continue;
            }
            self.past = self.past.take().filter(|past| past.resource == resource);
            if self.past.is_some() && self.one_in(2) {
                self.come_back().await;
            }
            match self.acquire(&resource).await {
                Some(tenure) => {
                    let past = self.own(tenure).await;
                    if self.one_in(3) {
                        self.past = Some(past);
                    }
                }
                None => self.pause(20, 120).await,
            }
        }
    }

    pub(super) async fn pause(&mut self, least: u64, most: u64) {
        let ms = least.saturating_add(self.chance.below(most.saturating_sub(least)));
        sleep(Duration::from_millis(ms)).await;
    }

    pub(super) fn one_in(&mut self, of: u64) -> bool {
        self.chance.below(of) == 0
    }

    /// The door of some gateway.
    pub(super) fn door(&mut self) -> u16 {
        let count = u64::try_from(self.world.replicas.len()).unwrap_or(1);
        let index = usize::try_from(self.chance.below(count)).unwrap_or_default();
        self.world.replicas.get(index).map_or(0, |replica| replica.door.port)
    }

    async fn acquire(&mut self, resource: &Arc<str>) -> Option<Tenure> {
        let request = uuid::Uuid::from_u64_pair(self.chance.next(), self.chance.next()).to_string();
        let ttl_ms = 200_u64.saturating_add(self.chance.below(1_000));
        let wait_ms = if self.one_in(2) { self.chance.below(800) } else { 0 };
        let holder = format!("worker-{}", self.caller.client);
        for _ in 0..EXAM_DELIVERIES {
            let mut sent = self.caller.begin(Act::Acquire, resource);
            (sent.request, sent.ttl_ms) = (Some(request.clone()), Some(ttl_ms));
            let body = json!({"resource": &**resource, "holder": holder, "ttl_ms": ttl_ms, "wait_ms": wait_ms,
                              "request_id": request});
            let headers = vec![("content-type", "application/json".to_owned())];
            let body = body.to_string().into_bytes();
            let asked = Request { method: "POST", path: "/v1/leases".to_owned(), headers, body };
            let door = self.door();
            match self.caller.call(door, sent, asked).await {
                // The answer may have come when the lease was over.
                Some((Answered { status: 200 | 201, .. }, body)) => {
                    return tenure(resource, &body, ttl_ms);
                }
                Some((Answered { status: 202, .. }, _)) | None => self.pause(10, 150).await,
                Some((Answered { status: 503, .. }, _)) => self.pause(100, 500).await,
                Some(_) => return None,
            }
        }
        None
    }

    /// Works as an owner, and gives back what it owned.
    async fn own(&mut self, mut tenure: Tenure) -> Tenure {
        for _ in 0..payload::writes(self.slot.rules.policy, &mut self.chance) {
            // A pause that outlives the lease is what all this is about.
            match self.chance.below(10) {
                0 => self.pause(tenure.ttl_ms, tenure.ttl_ms.saturating_add(900)).await,
                1 => self.renew(&tenure).await,
                2 => self.look(&tenure.resource).await,
                3 | 4 => self.succeed(&mut tenure).await,
                _ => self.pause(0, 30).await,
            }
            let left = if self.one_in(3) { self.slot.take_up(&tenure.resource) } else { None };
            let operation = match left {
                Some(operation) => operation,
                None => self.invent(&mut tenure).await,
            };
            match self.deliver(&operation, &mut tenure).await {
                Fate::Done => {}
                Fate::Open => self.slot.leave(&tenure.resource, operation),
                Fate::Stale => {
                    if self.one_in(2) {
                        self.slot.leave(&tenure.resource, operation);
                    }
                    break;
                }
            }
        }
        if !self.one_in(4) {
            self.release(&tenure).await;
        }
        tenure
    }

    pub(super) async fn invent(&mut self, tenure: &mut Tenure) -> Operation {
        let rules = &self.slot.rules;
        let id = self.slot.fresh_id(&tenure.resource);
        let (session, class) = (rules.policy == Policy::Session, rules.class);
        if session && tenure.etag.is_none() {
            self.read(tenure).await;
        }
        let may_remove = !session && class != Class::Unfenced;
        let if_match = if session { tenure.etag.clone() } else { None };
        Operation::new(id, &mut self.chance, may_remove, if_match)
    }

    /// The same request again and again, here and there, until it is decided or it takes too long.
    pub(super) async fn deliver(&mut self, operation: &Operation, tenure: &mut Tenure) -> Fate {
        tenure.sequence = tenure.sequence.saturating_add(1);
        for attempt in 0..EXAM_DELIVERIES {
            let answer = self.write(operation, tenure).await;
            match answer {
                Some(answered) if answered.effect.as_deref() == Some("applied") => {
                    if answered.etag.is_some() {
                        tenure.etag = answered.etag;
                    }
                    if self.one_in(8) {
                        self.write(operation, tenure).await;
                    }
                    if self.one_in(16) {
                        let changed = operation.changed(&mut self.chance);
                        self.write(&changed, tenure).await;
                    }
                    return Fate::Done;
                }
                Some(Answered { status: 412 | 410 | 403, .. }) => return Fate::Stale,
                Some(Answered { status: 503, .. }) => self.pause(50, 400).await,
                Some(Answered { status: 409 | 504, .. }) | None => self.pause(5, 200).await,
                Some(_) => return Fate::Done,
            }
            if attempt > 1 && self.one_in(3) {
                break;
            }
        }
        Fate::Open
    }

    async fn write(&mut self, operation: &Operation, tenure: &Tenure) -> Option<Answered> {
        let act = if operation.method == "DELETE" { Act::Remove } else { Act::Write };
        let mut sent = self.caller.begin(act, &tenure.resource);
        sent.position = Some(tenure.position);
        sent.operation = Some(operation.id.clone());
        sent.digest = Some(operation.digest.clone());
        let mut headers = vec![("idempotency-key", operation.id.clone()), ("prefer", "wait=1".to_owned())];
        if self.slot.rules.policy == Policy::Ordered {
            sent.sequence = Some(tenure.sequence);
            headers.push(("fencing-sequence", tenure.sequence.to_string()));
        }
        if let Some(tag) = &operation.if_match {
            headers.push(("if-match", tag.clone()));
        }
        if operation.method == "PUT" {
            headers.push(("content-type", "application/json".to_owned()));
        }
        let (port, path) = if let Some(store) = self.world.past_the_gateway() {
            headers.push(("fencing-position", tenure.position.to_string()));
            headers.push(("fencing-operation", operation.id.clone()));
            (store, format!("/{}", tenure.resource))
        } else {
            headers.push(("fencing-token", tenure.token.clone()));
            (self.door(), format!("/fenced/{}", tenure.resource))
        };
        let request = Request { method: operation.method, path, headers, body: operation.body.clone() };
        let (mut answered, _) = self.caller.call(port, sent, request).await?;
        if !self.world.fenced && matches!(answered.status, 200..=299) {
            answered.effect = Some("applied".to_owned());
        }
        Some(answered)
    }

    async fn read(&mut self, tenure: &mut Tenure) {
        let sent = self.caller.begin(Act::Read, &tenure.resource);
        let request = get(format!("/fenced/{}", tenure.resource));
        let door = self.door();
        if let Some((answered, _)) = self.caller.call(door, sent, request).await
            && answered.status == 200
        {
            tenure.etag = answered.etag;
        }
    }

    async fn look(&mut self, resource: &str) {
        let sent = self.caller.begin(Act::Look, resource);
        let request = get(format!("/v1/resources/{resource}"));
        let door = self.door();
        self.caller.call(door, sent, request).await;
        let sent = self.caller.begin(Act::Read, resource);
        let request = get(format!("/fenced/{resource}"));
        let door = self.door();
        self.caller.call(door, sent, request).await;
    }

    pub(super) async fn renew(&mut self, tenure: &Tenure) {
        let mut sent = self.caller.begin(Act::Renew, &tenure.resource);
        sent.acquisition = Some(tenure.acquisition.clone());
        sent.ttl_ms = Some(tenure.ttl_ms);
        let path = format!("/v1/leases/{}/renew", tenure.acquisition);
        let headers = vec![("content-type", "application/json".to_owned())];
        let body = json!({"ttl_ms": tenure.ttl_ms}).to_string().into_bytes();
        let door = self.door();
        self.caller.call(door, sent, Request { method: "POST", path, headers, body }).await;
    }

    async fn release(&mut self, tenure: &Tenure) {
        let mut sent = self.caller.begin(Act::Release, &tenure.resource);
        sent.acquisition = Some(tenure.acquisition.clone());
        let path = format!("/v1/leases/{}", tenure.acquisition);
        let request = Request { method: "DELETE", path, headers: Vec::new(), body: Vec::new() };
        let door = self.door();
        self.caller.call(door, sent, request).await;
    }
}

fn get(path: String) -> Request<'static> {
    Request { method: "GET", path, headers: Vec::new(), body: Vec::new() }
}

pub(super) fn tenure(resource: &Arc<str>, body: &Value, ttl_ms: u64) -> Option<Tenure> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    Some(Tenure {
        resource: resource.clone(),
        acquisition: text("acquisition_id")?.to_owned(),
        token: text("fencing_token")?.to_owned(),
        position: text("position")?.parse().ok()?,
        ttl_ms,
        sequence: 0,
        etag: None,
    })
}
