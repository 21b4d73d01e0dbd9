//! What must hold when records are forgotten (I15).

use fencegate::protocol::{Change, Refusal};

use super::history::History;
use super::promises::plain_position;
use super::steps::Told;

/// Judges what went, and takes it into the history.
pub(super) fn judge(history: &mut History, page: usize, changes: &[Change]) {
    let epoch = history.epoch;
    let page = &mut history.pages[page];
    for change in changes {
        let record = match change {
            Change::OperationPruned(record) => record,
            Change::EraForgotten(_) => continue,
            Change::Resource { before: Some(before), after } => {
                let mut marked = before.as_ref().clone();
                marked.pruned_through = after.pruned_through;
                assert_eq!(&marked, after.as_ref(), "I15: forgetting changes the mark alone");
                continue;
            }
            other => panic!("I15: {other:?}"),
        };
        let (incarnation, at) = (record.incarnation.get(), plain_position(record.position));
        let operation: u64 = record.operation_id.as_str().parse().unwrap();
        let is_it =
            |done: &super::history::Applied| (done.incarnation, done.operation) == (incarnation, operation);
        let index = page.applied.iter().position(is_it).expect("I15: what was never applied");
        let is_live = page.effect.is_some_and(|(last, _)| last == at) && !page.deleted;
        assert!(!is_live, "I15: the live generation");
        let fenced = at < page.acknowledged.max((epoch, 0)) || at <= page.revoked || at <= page.ended;
        assert!(fenced, "I15: {at:?} may still write");
        let done = page.applied.remove(index);
        page.forgotten.push(done);
    }
}

/// The record of a control call goes, and nothing else: a copy that comes later is another call.
pub(super) fn call(history: &mut History, page: usize, number: usize, changes: &[Change]) {
    let gone = matches!(changes, [Change::ControlForgotten(_)]);
    assert!(gone, "I15: {changes:?}");
    history.pages[page].called.remove(number);
}

/// A delivery of what was applied and is forgotten is refused, and nobody claims that it was never done.
pub(super) fn refused(history: &History, told: &Told<'_>, refusal: Option<&Refusal>) {
    let template = told.template;
    let same = history.pages[template.page].forgotten.iter().any(|done| {
        let named = template.incarnation == 0 || template.incarnation == done.incarnation;
        (done.operation, done.payload, done.at, done.sequence)
            == (template.operation, template.payload, told.at, template.sequence)
            && named
    });
    assert!(!same || refusal == Some(&Refusal::OperationExpired), "I15: {refusal:?} of what is in the store");
}
