//! Writes that go to a store behind HTTP, as the door hands them to the rules.

use bytes::Bytes;
use fencegate::domain::store::StoreRules;
use fencegate::domain::time::Millis;
use fencegate::domain::upstream::{Payload, REFUSED_STATUSES, Relayed, StatusSet};
use fencegate::protocol::Command;
use fencegate::protocol::command::{Forward, Member, Write};

/// The longest that an attempt takes in these worlds.
pub(crate) const TIMEOUT_MS: u64 = 5_000;

/// How long an upstream of these worlds remembers a key.
pub(crate) const KEY_RETENTION_MS: u64 = 86_400_000;

/// What the rules know of an upstream where nothing else is configured.
pub(crate) fn store_rules() -> StoreRules {
    StoreRules {
        refused: StatusSet::of(&REFUSED_STATUSES),
        timeout: Millis::new(TIMEOUT_MS),
        key_retention: Millis::new(KEY_RETENTION_MS),
        max_uncertain: None,
    }
}

/// One delivery of a write: the body goes to the upstream, and a number drawn for the delivery tells it from others.
pub(crate) fn forwarded(member: Member, body: &'static str, claim: u64) -> Command {
    let content_type = member.document.as_ref().and_then(|document| document.content_type.clone());
    let payload = Payload::of(Bytes::from_static(body.as_bytes()));
    let forward = Forward { query: None, headers: Vec::new(), content_type, payload, claim };
    let member = Member { document: None, forward: Some(Box::new(forward)), ..member };
    Command::Write(Write::new(vec![member], false).unwrap())
}

/// A complete answer of an upstream.
pub(crate) fn answered(status: u16, etag: Option<&str>) -> Relayed {
    let body = Bytes::from(format!("upstream says {status}"));
    Relayed { status, headers: Vec::new(), etag: etag.map(str::to_owned), body }
}
