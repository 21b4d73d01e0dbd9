//! A store earns its class: what it promises is tried on it, under a name that nobody else uses (`protocol.md` section 7).

mod conditional;
mod fence_aware;
mod idempotent;

use std::sync::OnceLock;

use super::address::{path_of_content, path_of_resource};
use super::outgoing::Outgoing;
use super::wire::Draft;
use super::{Deadline, Order, ReadFailed, ReadOrder, Sent, Upstream};
use crate::domain::counter::{CommitNo, Epoch, Incarnation, Token};
use crate::domain::document::ContentType;
use crate::domain::operation::{Method, OperationId};
use crate::domain::position::Position;
use crate::domain::resource::{Address, ResourceName};
use crate::domain::upstream::{Base, Class, Payload, Stamp, StampKind};
use crate::limits;

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What must hold.
    pub name: &'static str,
    /// Whether it does.
    pub passed: bool,
    /// What was seen, for people.
    pub detail: String,
}

/// What a probe found, in the order in which it was tried. It ends where nothing further can be told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProbeReport {
    /// What was tried.
    pub checks: Vec<Check>,
    /// The first answer that did not come meanwhile, for people. What failed then proves nothing against the store.
    pub silence: Option<String>,
}

impl ProbeReport {
    /// Whether something was tried and all of it holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.passed)
    }

    /// Notes a check, and says whether it holds.
    fn note(&mut self, name: &'static str, found: Result<String, String>) -> bool {
        let (passed, detail) = match found {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        self.checks.push(Check { name, passed, detail });
        passed
    }
}

impl Upstream {
    /// Tries the store's class below `scratch`, a name of the form `namespace/name` that was never used before at this
    /// store; cells are removed afterwards.
    pub async fn probe(&self, scratch: &str) -> ProbeReport {
        let listening = self.listening();
        let mut report = listening.tried(scratch).await;
        report.silence = listening.silence.and_then(OnceLock::into_inner);
        report
    }

    async fn tried(&self, scratch: &str) -> ProbeReport {
        let mut report = ProbeReport::default();
        let scratch = match ResourceName::parse(&format!("{scratch}/reach")) {
            Ok(_) => scratch,
            Err(error) => {
                report.note("scratch name", Err(error.to_string()));
                return report;
            }
        };
        if !report.note("reachable", self.reach(scratch).await) {
            return report;
        }
        match self.store.class {
            Class::Conditional => self.probe_conditional(scratch, &mut report).await,
            Class::FenceAware => self.probe_fence_aware(scratch, &mut report).await,
            Class::Idempotent => self.probe_idempotent(scratch, &mut report).await,
            // It promises nothing that could be tried.
            Class::Serial => {}
        }
        report
    }

    async fn reach(&self, scratch: &str) -> Result<String, String> {
        let address = Address { resource: name(scratch, "reach")?, target: None };
        let order = ReadOrder { address, head: true, query: None, headers: Vec::new() };
        match self.read_plain(order, None).await {
            Ok(answer) => Ok(format!("it answers ({} to a HEAD)", answer.status)),
            Err(ReadFailed::Unreachable(why)) => Err(format!("the store is not reachable: {why}")),
            Err(ReadFailed::TimedOut(why)) => Err(format!("the store does not answer: {why}")),
            Err(ReadFailed::Broken(why)) => Err(format!("the store does not answer as HTTP asks: {why}")),
        }
    }

    /// Removes what a probe left. Nothing depends on whether it works.
    async fn sweep(&self, resource: &ResourceName, objects: &[String]) {
        let prefix = &self.pool.line.prefix;
        let contents = objects.iter().map(|object| path_of_content(prefix, resource, object));
        for path in std::iter::once(path_of_resource(prefix, resource)).chain(contents) {
            let removal = Draft::new(hyper::Method::DELETE, path, Outgoing::none());
            drop(self.whole(removal, self.store.max_response_bytes).await);
        }
    }
}

fn name(scratch: &str, below: &str) -> Result<ResourceName, String> {
    ResourceName::parse(&format!("{scratch}/{below}")).map_err(|error| error.to_string())
}

/// The position of epoch 0 with this token.
fn position(token: u64) -> Position {
    Position::new(Epoch::ZERO, Token::new(token).unwrap_or(Token::ONE))
}

/// The `number`th write of a probe: its own operation, with this content.
fn order(resource: &ResourceName, number: u64, content: &str, base: Base) -> Result<Order, String> {
    let operation_id =
        OperationId::parse(&format!("fencegate-probe-{number}")).map_err(|error| error.to_string())?;
    let stamp = Stamp {
        kind: StampKind::Content,
        incarnation: Incarnation::ONE,
        position: position(number),
        commit: CommitNo::new(number).unwrap_or_default(),
        operation_id: Some(operation_id.clone()),
    };
    Ok(Order {
        address: Address { resource: resource.clone(), target: None },
        method: Method::Put,
        query: None,
        headers: Vec::new(),
        // A JSON object, so that a stamp can be put into it.
        content_type: ContentType::parse("application/json").ok(),
        payload: Payload::of(format!("{{\"probe\":\"{content}\"}}").into()),
        position: position(number),
        sequence: None,
        incarnation: Incarnation::ONE,
        operation_id,
        base,
        stamp: Some(stamp),
        deadline: Deadline::default(),
    })
}

/// What was sent and what came of it, for people.
fn told(sent: &Sent) -> String {
    match sent {
        Sent::NotSent(why) => format!("not sent: {why}"),
        Sent::Doubt(why) => why.clone(),
        Sent::Answered(answer) => {
            let body = String::from_utf8_lossy(&answer.relayed.body);
            let shown: String = body.chars().take(limits::PROBE_DETAIL_BYTES).collect();
            format!("answered {} {shown:?}", answer.relayed.status)
        }
    }
}

/// Whether a condition was refused.
fn is_refusal(sent: &Sent) -> bool {
    match sent {
        Sent::Answered(answer) => matches!(answer.relayed.status, 409 | 412),
        Sent::NotSent(_) | Sent::Doubt(_) => false,
    }
}

fn is_success(sent: &Sent) -> bool {
    match sent {
        Sent::Answered(answer) => answer.relayed.is_success(),
        Sent::NotSent(_) | Sent::Doubt(_) => false,
    }
}

/// A success, with what was answered.
fn accepted(sent: &Sent) -> Result<String, String> {
    if is_success(sent) { Ok(told(sent)) } else { Err(told(sent)) }
}
