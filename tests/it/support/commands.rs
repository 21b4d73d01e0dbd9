//! Short words for commands.

use bytes::Bytes;
use fencegate::domain::breaker::{Breaker, Detector};
use fencegate::domain::counter::{Incarnation, Sequence};
use fencegate::domain::document::{BodyDigest, ContentType, Document};
use fencegate::domain::operation::{Fingerprint, Method, OperationId};
use fencegate::domain::position::PresentedToken;
use fencegate::domain::precondition::{Preconditions, TagList};
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::resource::{Address, Path, ResourceName};
use fencegate::domain::subject::Subject;
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::ledger::Ledger;
use fencegate::protocol::Command;
use fencegate::protocol::command::{Acquire, Advance, Member, Release, Renew, Transfer, Wait, Write};
use fencegate::protocol::control::{Control, ControlVerb};
use fencegate::protocol::outcome::{Grant, Outcome, Refusal, Written};
use fencegate::protocol::whole::{Deed, WholeAct};
use uuid::Uuid;

pub(crate) fn resource(name: &str) -> ResourceName {
    ResourceName::parse(name).unwrap()
}

pub(crate) fn address(name: &str, scope: u16) -> Address {
    Path::parse(name).unwrap().split(scope).unwrap()
}

/// Whether a command goes past others that came together with it; so that a history has one order, tests send these first.
pub(crate) fn goes_first(command: &Command) -> bool {
    let whole = |act: &WholeAct| !matches!(act.deed, Deed::Fold { .. });
    matches!(command, Command::Renew(_) | Command::Release(_) | Command::Control(_) | Command::Resolve(_))
        || matches!(command, Command::Whole(act) if whole(act))
}

/// An acquire whose request id and nonce come from one number.
pub(crate) fn acquire(name: &str, holder: &str, request: u128) -> Command {
    Command::Acquire(Acquire {
        resources: vec![resource(name)],
        wait: None,
        holder: Some(fencegate::domain::lease::Holder::parse(holder).unwrap()),
        ttl_ms: None,
        request_id: Uuid::from_u128(request),
        principal: PrincipalName::anonymous(),
        nonce: request.to_be_bytes(),
    })
}

/// An acquire of several resources.
pub(crate) fn acquire_all(names: &[&str], holder: &str, request: u128) -> Command {
    let Command::Acquire(mut one) = acquire(names[0], holder, request) else { unreachable!() };
    one.resources = names.iter().map(|name| resource(name)).collect();
    one.resources.sort_unstable();
    Command::Acquire(one)
}

/// An acquire that takes its place in the queue where there is one.
pub(crate) fn acquire_waiting(name: &str, holder: &str, request: u128, wait_ms: u64) -> Command {
    let Command::Acquire(mut one) = acquire(name, holder, request) else { unreachable!() };
    one.wait = Some(Wait { left: Millis::new(wait_ms), begins: true });
    Command::Acquire(one)
}

pub(crate) fn transfer(grant: &Grant, holder: &str, request: u128) -> Command {
    Command::Transfer(Transfer {
        bucket: grant.acquisition_id.bucket(),
        acquisition: grant.acquisition_id.hash(),
        holder: fencegate::domain::lease::Holder::parse(holder).unwrap(),
        ttl_ms: None,
        request_id: Uuid::from_u128(request),
        nonce: request.to_be_bytes(),
    })
}

/// A control call of an operator, or of the owner of a token.
pub(crate) fn control(
    ledger: &Ledger,
    verb: ControlVerb,
    name: &str,
    token: Option<&str>,
    key: &str,
) -> Command {
    let resource = resource(name);
    let claim = token.map(|token| ledger.claim(&resource, &PresentedToken::parse(token).unwrap()));
    let key = (!key.is_empty()).then(|| OperationId::parse(key).unwrap());
    Command::Control(Control { verb, resource, claim, reason: "test".to_owned(), key })
}

/// What was found, for the breaker of a namespace or of all of them.
pub(crate) fn trip(subject: &str, found: &str) -> Command {
    let at = Timestamp::from_ms(7);
    let deed = Deed::Trip(Breaker { detector: Detector::Witness, at, found: found.to_owned() });
    Command::Whole(WholeAct { subject: Subject::parse(subject).unwrap(), deed })
}

/// A new epoch of a namespace or of all of them.
pub(crate) fn epoch(subject: &str, key: &str, reason: &str, leave_open: bool) -> Command {
    let (key, reason) = (OperationId::parse(key).unwrap(), reason.to_owned());
    let deed = Deed::AdvanceEpoch { key, reason, leave_open };
    Command::Whole(WholeAct { subject: Subject::parse(subject).unwrap(), deed })
}

pub(crate) fn renew(grant: &Grant) -> Command {
    let (bucket, acquisition) = (grant.acquisition_id.bucket(), grant.acquisition_id.hash());
    Command::Renew(Renew { bucket, acquisition, ttl_ms: None })
}

pub(crate) fn release(grant: &Grant) -> Command {
    Command::Release(Release {
        bucket: grant.acquisition_id.bucket(),
        acquisition: grant.acquisition_id.hash(),
    })
}

pub(crate) fn advance(ledger: &Ledger, name: &str, token: &str) -> Command {
    let resource = resource(name);
    let claim = ledger.claim(&resource, &PresentedToken::parse(token).unwrap());
    Command::Advance(Advance { resource, claim, reason: "a test".to_owned() })
}

/// A write in the making.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) scope: u16,
    pub(crate) token: String,
    pub(crate) id: String,
    pub(crate) method: Method,
    pub(crate) body: Vec<u8>,
    pub(crate) sequence: Option<u64>,
    pub(crate) incarnation: Option<u64>,
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
}

impl Draft {
    pub(crate) fn put(name: &str, token: &str, id: &str, body: &str) -> Self {
        Self {
            name: name.to_owned(),
            scope: 0,
            token: token.to_owned(),
            id: id.to_owned(),
            method: Method::Put,
            body: body.as_bytes().to_vec(),
            sequence: None,
            incarnation: None,
            if_match: None,
            if_none_match: None,
        }
    }

    pub(crate) fn member(&self, ledger: &Ledger) -> Member {
        let address = address(&self.name, self.scope);
        let document = (self.method != Method::Delete).then(|| Document {
            content_type: Some(ContentType::parse("text/plain").unwrap()),
            body: Bytes::from(self.body.clone()),
        });
        let digest = BodyDigest::of(&self.body);
        let preconditions = Preconditions {
            if_match: self.if_match.as_deref().map(|text| TagList::parse(text).unwrap()),
            if_none_match: self.if_none_match.as_deref().map(|text| TagList::parse(text).unwrap()),
        };
        let content_type = document.as_ref().and_then(|document| document.content_type.as_ref());
        let fingerprint = Fingerprint::of(self.method, &address, None, content_type, &digest, &preconditions);
        Member {
            claim: ledger.claim(&address.resource, &PresentedToken::parse(&self.token).unwrap()),
            address,
            method: self.method,
            operation_id: OperationId::parse(&self.id).unwrap(),
            sequence: self.sequence.map(|number| Sequence::new(number).unwrap()),
            incarnation: self.incarnation.map(|number| Incarnation::new(number).unwrap()),
            preconditions,
            fingerprint,
            document,
            forward: None,
            digest,
            may_raise: true,
        }
    }

    pub(crate) fn command(&self, ledger: &Ledger) -> Command {
        Command::Write(Write::new(vec![self.member(ledger)], false).unwrap())
    }
}

pub(crate) async fn granted(ledger: &Ledger, command: Command) -> Grant {
    match ledger.submit(command).await.unwrap() {
        Outcome::Granted(grant) => *grant,
        other => panic!("no lease was granted: {other:?}"),
    }
}

pub(crate) async fn written(ledger: &Ledger, draft: &Draft) -> Written {
    match ledger.submit(draft.command(ledger)).await.unwrap() {
        Outcome::Written(mut members) => members.remove(0),
        other => panic!("nothing was written: {other:?}"),
    }
}

pub(crate) async fn refused(ledger: &Ledger, command: Command) -> Refusal {
    let outcome = ledger.submit(command).await.unwrap();
    outcome.refusal().cloned().unwrap_or_else(|| panic!("it was not refused: {outcome:?}"))
}
