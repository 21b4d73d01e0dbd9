//! One call of a worker, written down at both ends.

use std::sync::Arc;

use serde_json::Value;

use super::events::{Act, Answered, Event, Granted, Place, Registers, Sent, digest};
use super::history::Recorder;
use super::wire::{self, CALL, Message, OPERATIONS};
use crate::limits::EXAM_PATIENCE;

/// Writes down what it asks and what it hears.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) recorder: Arc<Recorder>,
    pub(super) client: u64,
}

/// What is sent: method, path, headers, body.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: String,
    pub(super) headers: Vec<(&'a str, String)>,
    pub(super) body: Vec<u8>,
}

impl Caller {
    /// A call that is still to be described.
    pub(super) fn begin(&self, act: Act, resource: &str) -> Sent {
        Sent {
            call: self.recorder.call(),
            client: self.client,
            act,
            resource: resource.to_owned(),
            position: None,
            sequence: None,
            operation: None,
            digest: None,
            request: None,
            acquisition: None,
            ttl_ms: None,
        }
    }

    /// Sends it. None: no answer came, and nobody knows what became of it.
    pub(super) async fn call(
        &self,
        port: u16,
        sent: Sent,
        request: Request<'_>,
    ) -> Option<(Answered, Value)> {
        let (call, act) = (sent.call, sent.act);
        let message = self.exchange(port, vec![sent], request).await?;
        let (answered, body) = understood(call, act, &message);
        self.recorder.note(Event::Answered(answered.clone()));
        Some((answered, body))
    }

    /// One request for two resources: to the judge it is a call for each of them.
    pub(super) async fn call_for_both(
        &self,
        port: u16,
        sent: [Sent; 2],
        request: Request<'_>,
    ) -> Option<([Answered; 2], Value)> {
        let calls = sent.clone().map(|sent| (sent.call, sent.act, sent.resource));
        let message = self.exchange(port, sent.to_vec(), request).await?;
        let body: Value = serde_json::from_slice(&message.body).unwrap_or_default();
        let both =
            calls.map(|(call, act, resource)| halved(understood(call, act, &message).0, &resource, &body));
        for answered in &both {
            self.recorder.note(Event::Answered(answered.clone()));
        }
        Some((both, body))
    }

    async fn exchange(&self, port: u16, sent: Vec<Sent>, mut request: Request<'_>) -> Option<Message> {
        let calls: Vec<u64> = sent.iter().map(|sent| sent.call).collect();
        let names = |sent: &Sent| Some(format!("{} {}", sent.resource, sent.operation.as_ref()?));
        let operations: Vec<String> = sent.iter().filter_map(names).collect();
        request.headers.push((OPERATIONS, operations.join(";")));
        request.headers.push((CALL, calls.first().copied().unwrap_or_default().to_string()));
        let bytes = wire::request(request.method, &request.path, &request.headers, &request.body);
        for sent in sent {
            self.recorder.note(Event::Sent(sent));
        }
        match wire::ask(port, &bytes, EXAM_PATIENCE).await {
            Ok(message) => Some(message),
            Err(why) => {
                for call in calls {
                    self.recorder.note(Event::Lost { call, why: why.clone() });
                }
                None
            }
        }
    }
}

/// What an answer for two says of one of them.
fn halved(whole: Answered, resource: &str, body: &Value) -> Answered {
    let position = |value: &Value| value.get("position")?.as_str()?.parse::<Place>().ok();
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut half = Answered { digest: None, ..whole };
    if let Some(position) = body.get("tokens").and_then(|tokens| position(tokens.get(resource)?)) {
        half.granted = text(body, "acquisition_id").zip(text(body, "state")).map(|(id, state)| {
            // One acquisition of two resources has a position in each.
            Granted { acquisition: id, position, state }
        });
    }
    let members = body.get("members").and_then(Value::as_array);
    let of_it = |member: &&Value| member.get("resource").and_then(Value::as_str) == Some(resource);
    let Some(member) = members.and_then(|members| members.iter().find(of_it)) else { return half };
    half.effect = text(member, "effect").or(half.effect);
    half.code = text(member, "code").or(half.code);
    if half.status == 200 {
        half.status =
            member.get("status").and_then(Value::as_u64).and_then(|n| n.try_into().ok()).unwrap_or(0);
        half.replayed = member.get("replayed") == Some(&Value::Bool(true));
        half.position = position(member);
        half.commit = text(member, "commit").and_then(|text| text.parse().ok());
        half.etag = text(member, "etag");
    }
    half
}

/// What an answer says, as far as the exam cares.
fn understood(call: u64, act: Act, message: &Message) -> (Answered, Value) {
    let body: Value = serde_json::from_slice(&message.body).unwrap_or_default();
    let status = message.status();
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let header = |name: &str| message.header(name).map(str::to_owned);
    let is_problem =
        message.header("content-type").is_some_and(|kind| kind.starts_with("application/problem"));
    let position = message.header("fencing-position").and_then(|text| text.parse().ok());
    let done = matches!(status, 200..=299);
    let answered = Answered {
        call,
        status,
        code: if is_problem { text("code") } else { None },
        effect: header("fencing-effect").or_else(|| if is_problem { text("effect") } else { None }),
        replayed: message.header("idempotent-replayed") == Some("true"),
        position,
        commit: message.header("fencing-commit").and_then(|text| text.parse().ok()),
        etag: header("etag"),
        incarnation: message.header("location").and_then(incarnation),
        digest: match act {
            Act::Write | Act::Remove | Act::Read | Act::Revoke | Act::Cancel | Act::Reopen | Act::Epoch => {
                Some(digest(&message.body))
            }
            Act::Acquire | Act::Renew | Act::Release | Act::Transfer | Act::Look | Act::Resolve => None,
        },
        granted: granted(&body).filter(|_| done && act != Act::Look),
        registers: if done && (act == Act::Look || act.is_control()) { registers(&body) } else { None },
        epoch: if done && act == Act::Epoch {
            text("epoch").and_then(|text| text.parse().ok())
        } else {
            None
        },
        left: if done && (act.is_control() || act == Act::Epoch) { left(&body) } else { Vec::new() },
    };
    (answered, body)
}

/// What is under way, and stays so.
fn left(body: &Value) -> Vec<String> {
    let list = |name: &str| body.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let resource = body.get("resource").and_then(Value::as_str).unwrap_or_default();
    let here = list("in_flight").into_iter().filter_map(|id| Some(format!("{resource} {}", id.as_str()?)));
    let there = list("open_operations").into_iter().filter_map(|one| {
        let text = |name: &str| one.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(format!("{} {}", text("resource")?, text("operation_id")?))
    });
    here.chain(there).collect()
}

/// The address of an operation ends with it.
fn incarnation(location: &str) -> Option<u64> {
    location.split("incarnation=").nth(1)?.split('&').next()?.parse().ok()
}

fn granted(body: &Value) -> Option<Granted> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    Some(Granted {
        acquisition: text("acquisition_id")?.to_owned(),
        position: text("position")?.parse().ok()?,
        state: text("state")?.to_owned(),
    })
}

/// The registers in the answer about a resource.
pub(super) fn registers(body: &Value) -> Option<Registers> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    Some(Registers {
        incarnation: text("incarnation")?.parse().ok()?,
        issued: text("issued")?.parse::<Place>().ok()?,
        floor: text("floor")?.parse().ok()?,
        commit: text("commit")?.parse().ok()?,
        revoked: text("revoked_through").and_then(|text| text.parse().ok()),
        epoch: text("epoch")?.parse().ok()?,
    })
}
