//! Rows that no request makes, but that a database can hold.

use bytes::Bytes;
use fencegate::domain::counter::{Epoch, Incarnation, MAX, Token};
use fencegate::domain::document::{BodyDigest, ContentType};
use fencegate::domain::lease::{AcquisitionHash, LeaseState, Ttl};
use fencegate::domain::operation::{Fingerprint, Method, OperationId, OperationState};
use fencegate::domain::policy::{Definition, Policy};
use fencegate::domain::position::Position;
use fencegate::domain::precondition::Preconditions;
use fencegate::domain::resource::{Bucket, Namespace, Path, ResourceName};
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::{Base, Payload};
use fencegate::ledger::changeset::{ChangeSet, IntentChange, RowChange};
use fencegate::protocol::rows::{
    EverywhereRow, ForwardedHead, IntentRow, LeaseRef, LeaseRow, Life, Mark, NamespaceRow, OperationRecord,
    RequestKey, ResourceRow,
};
use uuid::Uuid;

use super::house::{DATABASE, keyring, namespaces};
use crate::support::clock::START_MS;

/// The position of everything here.
pub(super) fn at(token: u64) -> Position {
    Position::new(Epoch::ZERO, Token::new(token).unwrap())
}

/// A token of our own keys for any position, whether it was ever issued or not.
pub(super) fn sealed(resource: &str, token: u64) -> String {
    let nobody = AcquisitionHash::from_bytes([0xA5; 32]);
    keyring().seal(DATABASE, &ResourceName::parse(resource).unwrap(), at(token), &nobody).unwrap()
}

/// A resource whose floor and issued position are 5.
pub(super) fn resource(name: &str) -> ResourceRow {
    let row = namespace_row(name);
    ResourceRow {
        issued: at(5),
        floor: at(5),
        ..ResourceRow::unheard(ResourceName::parse(name).unwrap(), &row)
    }
}

pub(super) fn namespace_row(name: &str) -> NamespaceRow {
    let namespace = Namespace::parse(name.split('/').next().unwrap()).unwrap();
    let definition =
        namespaces().rules(&namespace).map_or_else(Definition::default, |rules| rules.definition);
    NamespaceRow::first_use(namespace, definition, &EverywhereRow::default())
}

/// Adds a resource, with its namespace.
pub(super) fn add(rows: &mut ChangeSet, after: ResourceRow) {
    let namespace = namespace_row(after.resource.as_str());
    rows.namespaces.insert(namespace.namespace.clone(), RowChange { before: None, after: namespace });
    rows.resources.insert(after.resource.clone(), RowChange { before: None, after });
}

/// An operation in some state, recorded for a body `x` of type text/plain at position 5.
pub(super) fn operation(name: &str, id: &str, method: Method, state: OperationState) -> OperationRecord {
    let address = Path::parse(name).unwrap().split(0).unwrap();
    let body: &[u8] = if method == Method::Delete { b"" } else { b"x" };
    let content_type = ContentType::parse("text/plain").unwrap();
    let content_type = (method != Method::Delete).then_some(&content_type);
    let digest = BodyDigest::of(body);
    OperationRecord {
        resource: address.resource.clone(),
        incarnation: Incarnation::ONE,
        operation_id: OperationId::parse(id).unwrap(),
        target: None,
        method,
        fingerprint: Fingerprint::of(
            method,
            &address,
            None,
            content_type,
            &digest,
            &Preconditions::default(),
        ),
        position: at(5),
        sequence: None,
        acquisition: None,
        state,
        attempt: 1,
        response: None,
        created_at: Timestamp::from_ms(0),
        decided_at: None,
        resolution: None,
    }
}

/// One resource for each state that refuses: `pages/cancelled`, `pages/busy` and `pages/pruned`, and the same in front of
/// `store-`; `pages/last`, `pages/almost`, `bound/broken`, and `jobs/cancelled`; and one that does not, `jobs/known`.
pub(super) fn troubled() -> ChangeSet {
    let mut rows = ChangeSet::default();
    add(&mut rows, ResourceRow { life: Life::Cancelled, ..resource("jobs/cancelled") });
    add(&mut rows, resource("jobs/known"));
    let through = Some(Mark { position: at(4), sequence: None });
    for twin in ["", "store-"] {
        let name = |name: &str| format!("{twin}{name}");
        add(&mut rows, ResourceRow { life: Life::Cancelled, ..resource(&name("pages/cancelled")) });
        add(&mut rows, ResourceRow { pruned_through: through, ..resource(&name("pages/pruned")) });
        let busy = name("pages/busy");
        add(&mut rows, resource(&busy));
        for method in [Method::Put, Method::Post, Method::Patch, Method::Delete] {
            for (id, state) in [
                ("busy", OperationState::Intent),
                ("doubt", OperationState::Uncertain),
                ("gone", OperationState::ResolvedNotApplied),
            ] {
                let id = format!("{id}-{}", method.word());
                rows.operations.push(operation(&busy, &id, method, state));
            }
        }
    }
    add(&mut rows, ResourceRow { issued: at(MAX), floor: at(MAX), ..resource("pages/last") });
    add(&mut rows, ResourceRow { issued: at(MAX - 1), floor: at(MAX - 1), ..resource("pages/almost") });
    // Its newest lease has no row: what the rules call inconsistent.
    let acquisition = AcquisitionHash::from_bytes([1; 32]);
    let lost = Some(LeaseRef { bucket: Bucket(0), acquisition });
    add(&mut rows, ResourceRow { lease: lost, ..resource("bound/broken") });
    rows
}

/// In front of an upstream: `store-pages/strange` and `store-elected/strange`, which are quarantined, and
/// `store-pages/lane`, of which the operation `ahead` is uncertain and `under-way` is being carried out.
pub(super) fn in_doubt() -> ChangeSet {
    let mut rows = ChangeSet::default();
    for name in ["store-pages/strange", "store-elected/strange"] {
        let found = Some("the cell has vanished from the store".to_owned());
        add(&mut rows, ResourceRow { quarantined: found, ..resource(name) });
    }
    add(&mut rows, resource("store-pages/lane"));
    for (id, state) in [("ahead", OperationState::Uncertain), ("under-way", OperationState::Intent)] {
        let intent = announced(operation("store-pages/lane", id, Method::Put, state));
        let change = IntentChange {
            before: None,
            after: Some(intent.clone()),
            payload: Some(Payload::of(Bytes::from_static(b"x"))),
        };
        rows.intents.insert(intent.key(), change);
    }
    rows
}

/// The announcement of an operation, which nobody takes up.
fn announced(record: OperationRecord) -> IntentRow {
    let digest = BodyDigest::of(b"x");
    IntentRow {
        record,
        named: None,
        preconditions: Preconditions::default(),
        request: ForwardedHead { query: None, headers: Vec::new(), content_type: None, length: 1, digest },
        base: Base::Unread,
        doubt: true,
        due_at: Timestamp::from_ms(i64::MAX >> 1),
        claim: 0,
    }
}

/// The namespaces `pages` and `store-pages` as they were recorded under another policy, and `gone`, which nobody has configured; with a lease
/// in each, whose ids are given in this order.
pub(super) fn recorded_differently() -> (ChangeSet, [String; 2]) {
    let mut rows = ChangeSet::default();
    let ids = ["pages/a", "gone/a"].map(|name| {
        let (id, lease) = lease(name);
        add(&mut rows, ResourceRow { lease: Some(lease.place()), ..resource(name) });
        rows.leases.insert(*lease.acquisition.as_bytes(), RowChange { before: None, after: lease });
        id
    });
    add(&mut rows, resource("store-pages/a"));
    add(&mut rows, resource("tree/a"));
    for row in rows.namespaces.values_mut() {
        row.after.definition = Definition { policy: Policy::Session, scope: 0, ..row.after.definition };
    }
    (rows, ids)
}

/// A lease at position 5, with its id.
fn lease(name: &str) -> (String, LeaseRow) {
    let (keyring, resource, nonce) = (keyring(), ResourceName::parse(name).unwrap(), [3; 16]);
    let key_id = keyring.active().id();
    let id = keyring.acquisition_id(key_id, &resource, at(5), &nonce).unwrap();
    let row = LeaseRow {
        acquisition: id.hash(),
        nonce,
        key_id,
        resource,
        position: at(5),
        holder: None,
        ttl: Ttl::from_ms(30_000),
        asked_ttl_ms: None,
        request_id: Uuid::nil(),
        request_key: RequestKey([0; 32]),
        granted_at: Timestamp::from_ms(START_MS),
        expires_at: Timestamp::from_ms(START_MS + 30_000),
        state: LeaseState::Held,
        others: Vec::new(),
        ended_at: None,
        cause: None,
    };
    (id.reveal().to_owned(), row)
}
