//! Writes to stores behind HTTP, as commands: what a handler would make of a request, and what an attempt would learn.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use fencegate::domain::document::{BodyDigest, ContentType};
use fencegate::domain::namespaces::NamespaceRules;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::position::Position;
use fencegate::domain::resource::Namespace;
use fencegate::domain::store::StoreRules;
use fencegate::domain::time::Millis;
use fencegate::domain::upstream::{
    Base, Bulk, CellSeen, Class, Payload, REFUSED_STATUSES, Relayed, Spooled, StatusSet, Validator,
};
use fencegate::ledger::Ledger;
use fencegate::protocol::Command;
use fencegate::protocol::command::{
    Barrier, BarrierFinding, Before, Finding, Forward, Resume, Settle, Told, Write,
};
use fencegate::protocol::outcome::{Attempt, Outcome, Settled};
use fencegate::protocol::rows::{IntentRow, LeaseRef};

use super::commands::{Draft, resource};

/// One namespace per class. `cells` and `aware` take positions from outside, so that a history needs no leases; the
/// others have leases that wait for a barrier.
pub(crate) fn namespaces() -> Vec<(Namespace, NamespaceRules)> {
    let trusted = Issuer::Trusted { max_jump: None };
    let lane = Policy::Ordered { gapless: false };
    [
        ("cells", Class::Conditional, Policy::Single, Contract::Observed, trusted),
        ("aware", Class::FenceAware, lane, Contract::Observed, trusted),
        ("keyed", Class::Idempotent, lane, Contract::Observed, trusted),
        ("lane", Class::Serial, lane, Contract::Immediate, Issuer::Gateway),
        ("guarded", Class::Conditional, Policy::Single, Contract::Immediate, Issuer::Gateway),
        ("told", Class::FenceAware, Policy::Session, Contract::LeaseBound, Issuer::Gateway),
    ]
    .map(|(name, class, policy, contract, issuer)| {
        let definition = Definition { policy, contract, issuer, store: Store::Http(class), scope: 0 };
        definition.check().unwrap();
        let upstream = StoreRules {
            refused: StatusSet::of(&REFUSED_STATUSES),
            timeout: Millis::new(5_000),
            key_retention: Millis::new(60_000),
            max_uncertain: (class == Class::Serial).then_some(Millis::new(60_000)),
        };
        let rules = NamespaceRules { definition, upstream: Some(upstream), ..NamespaceRules::default() };
        (Namespace::parse(name).unwrap(), rules)
    })
    .into()
}

/// What a draft becomes for a store behind HTTP; `claim` tells this delivery from others.
pub(crate) fn forward(ledger: &Ledger, draft: &Draft, claim: u64) -> Command {
    forward_body(ledger, draft, Payload::of(Bytes::from(draft.body.clone())), claim)
}

/// The same with a body of one's own.
pub(crate) fn forward_body(ledger: &Ledger, draft: &Draft, payload: Payload, claim: u64) -> Command {
    let mut member = draft.member(ledger);
    member.document = None;
    member.digest = payload.digest;
    member.forward = Some(Box::new(Forward {
        query: Some("versioned=yes&q=%20".to_owned()),
        headers: vec![("x-trace".to_owned(), "a: b\tc".to_owned()), ("x-trace".to_owned(), String::new())],
        content_type: Some(ContentType::parse("text/plain").unwrap()),
        payload,
        claim,
    }));
    Command::Write(Write::new(vec![member], false).unwrap())
}

/// A write under an ordered policy.
pub(crate) fn draft(name: &str, token: &str, id: &str, sequence: u64) -> Draft {
    let mut draft = Draft::put(name, token, id, &format!("body of {id}"));
    draft.sequence = (sequence > 0).then_some(sequence);
    draft
}

pub(crate) async fn announced(ledger: &Ledger, command: Command) -> Attempt {
    match ledger.submit(command).await.unwrap() {
        Outcome::Announced(attempt) => *attempt,
        other => panic!("nothing was announced: {other:?}"),
    }
}

/// What a step taught that was told with the state that the intent rests on.
pub(crate) fn settle(intent: &IntentRow, finding: Finding) -> Command {
    let recorded = match &intent.base {
        Base::Recorded(validator) => Some(validator.clone()),
        Base::Absent | Base::Unread => None,
    };
    let (claim, attempt) = (intent.claim, intent.record.attempt);
    let told = Told { claim, attempt, recorded, before: Before::Nothing };
    Command::Settle(Settle { key: intent.key(), told, finding })
}

pub(crate) fn resume(intent: &IntentRow) -> Command {
    Command::Resume(Resume { key: intent.key(), attempt: intent.record.attempt })
}

pub(crate) async fn settled(ledger: &Ledger, command: Command) -> Settled {
    match ledger.submit(command).await.unwrap() {
        Outcome::Settled(settled) => *settled,
        other => panic!("nothing was settled: {other:?}"),
    }
}

pub(crate) fn barrier(name: &str, lease: Option<LeaseRef>, learnt: BarrierFinding) -> Command {
    Command::Barrier(Barrier { resource: resource(name), lease, learnt })
}

pub(crate) fn answer(status: u16, etag: Option<&str>, body: Bytes) -> Relayed {
    let headers = [("content-language", "de"), ("x-upstream", "a,\tb"), ("x-upstream", "")];
    Relayed {
        status,
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        etag: etag.map(str::to_owned),
        body,
    }
}

pub(crate) fn answered(status: u16) -> Finding {
    Finding::Answered(Box::new(answer(status, Some("\"v1\""), Bytes::from_static(b"{}\r\n\0"))), None)
}

pub(crate) fn validator(text: &str) -> Validator {
    Validator::parse(&format!("\"{text}\"")).unwrap()
}

pub(crate) fn unstamped(text: &str) -> Finding {
    Finding::Cell(CellSeen::Unstamped(validator(text)))
}

pub(crate) fn position(text: &str) -> Position {
    Position::parse(text).unwrap()
}

/// A body that lies on something like a disk: it is read piece by piece, and says how much was asked for at most.
#[derive(Debug)]
pub(crate) struct Spool {
    bytes: Bytes,
    asked: AtomicUsize,
}

impl Spool {
    pub(crate) fn of(bytes: Bytes) -> Arc<Self> {
        Arc::new(Self { bytes, asked: AtomicUsize::new(0) })
    }

    pub(crate) fn payload(self: &Arc<Self>) -> Payload {
        let length = u64::try_from(self.bytes.len()).unwrap();
        Payload { bulk: Bulk::Disk(self.clone()), length, digest: BodyDigest::of(&self.bytes) }
    }

    /// The most that was read at once.
    pub(crate) fn most(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Spooled for Spool {
    fn read_at(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        self.asked.fetch_max(length, Ordering::SeqCst);
        let start = usize::try_from(offset).unwrap().min(self.bytes.len());
        Ok(self.bytes.slice(start..(start + length).min(self.bytes.len())))
    }
}

/// The bytes of a body, wherever they lie.
pub(crate) fn bytes_of(payload: &Payload) -> Bytes {
    match &payload.bulk {
        Bulk::Memory(bytes) => bytes.clone(),
        Bulk::Disk(spooled) => spooled.read_at(0, usize::try_from(payload.length).unwrap()).unwrap(),
    }
}
