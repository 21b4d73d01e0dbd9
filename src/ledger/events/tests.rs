//! Putting acts and effects in one order.

use super::*;
use crate::domain::counter::{Incarnation, Token};
use crate::domain::operation::{Fingerprint, Method, OperationId, OperationState};
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::ledger::read::AuditPlace;
use crate::protocol::rows::AuditRow;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn position() -> Position {
    Position::new(crate::domain::counter::Epoch::ZERO, Token::new(1).unwrap())
}

fn act(verb: AuditVerb, transaction: u64, ordinal: u64, ms: i64) -> AuditEntry {
    let subject = ResourceName::parse("jobs/a").unwrap().into();
    let row =
        AuditRow { subject, verb, position: position(), reason: None, holder: None, actor: None, at: at(ms) };
    AuditEntry { place: AuditPlace { at: at(ms), transaction, ordinal }, row }
}

fn operation(transaction: u64, ordinal: u64, ms: i64) -> OperationEntry {
    let record = OperationRecord {
        resource: ResourceName::parse("jobs/a").unwrap(),
        incarnation: Incarnation::ONE,
        operation_id: OperationId::parse(&format!("op-{transaction}-{ordinal}")).unwrap(),
        target: None,
        method: Method::Put,
        fingerprint: Fingerprint::from_bytes([0; 32]),
        position: position(),
        sequence: None,
        acquisition: None,
        state: OperationState::Applied,
        attempt: 0,
        created_at: at(ms),
        decided_at: Some(at(ms)),
        response: None,
        resolution: None,
    };
    OperationEntry { place: Reached { transaction, ordinal }, record }
}

fn read(acts: Vec<AuditEntry>, operations: Vec<OperationEntry>) -> EventsRead {
    let end = Reached::all_of(99);
    EventsRead { acts, operations, view: EventPlace { acts: end, operations: end }, now: at(1_000) }
}

/// The times that a page tells, and how far each of its records reaches.
fn told(page: &EventsPage) -> Vec<(i64, u8)> {
    page.told.iter().map(|one| (one.what.at().ms(), one.what.rank())).collect()
}

// Broken: a listener hears that a lease ended before it hears what was written under it. Must hold: in one millisecond a
// lease begins, then its writes, then its end.
#[test]
fn in_one_millisecond_what_was_written_stands_inside_its_lease() {
    let acts = vec![act(AuditVerb::Acquired, 1, 0, 5), act(AuditVerb::Released, 3, 0, 5)];
    let page = page(EventPlace::default(), read(acts, vec![operation(2, 0, 5)]), 10);
    assert_eq!(told(&page), [(5, 0), (5, 1), (5, 2)]);
    assert_eq!(page.place.acts, Reached::all_of(99), "all was told, so the next look begins behind the view");
}

// Broken: a page that was cut tells a write of a minute later before acts that are still to be read. Must hold: nothing is
// told that may come after something that was not read.
#[test]
fn nothing_is_told_past_what_was_cut_off() {
    let acts = vec![act(AuditVerb::Acquired, 1, 0, 5), act(AuditVerb::Released, 2, 0, 6)];
    let operations = vec![operation(1, 0, 5), operation(9, 0, 60)];
    let first = page(EventPlace::default(), read(acts, operations), 2);
    assert_eq!(told(&first), [(5, 0), (5, 1), (6, 2)]);
    assert_eq!(first.place.acts, Reached { transaction: 2, ordinal: 0 });
    assert_eq!(first.place.operations, Reached { transaction: 1, ordinal: 0 }, "the later write comes again");
}

// Broken: transactions have other times than numbers, a listener leaves after the first of a page, and what was to come
// after it is never told. Must hold: a place never passes over what was not told.
#[test]
fn a_place_never_passes_over_what_was_not_told() {
    let acts = vec![act(AuditVerb::Expired, 100, 0, 7), act(AuditVerb::Acquired, 101, 0, 5)];
    let page = page(EventPlace::default(), read(acts, Vec::new()), 10);
    assert_eq!(told(&page), [(5, 0), (7, 2)]);
    let places: Vec<Reached> = page.told.iter().map(|one| one.place.acts).collect();
    assert_eq!(places, [Reached::default(), Reached { transaction: 101, ordinal: 0 }]);
}
