//! What must hold on every transition: the invariants of `protocol.md` section 10 that concern a document store.
//!
//! They are judged from answers and from the changes of the store, never from what a decision says of its reasons.

use fencegate::domain::counter::CommitNo;
use fencegate::domain::lease::LeaseState;
use fencegate::domain::policy::{Contract, Issuer, Policy};
use fencegate::domain::position::Position;
use fencegate::domain::time::Timestamp;
use fencegate::protocol::outcome::{MemberVerdict, Verdict, Written};
use fencegate::protocol::rows::{AuditVerb, Life};
use fencegate::protocol::{Change, Outcome, Refusal, Snapshot};

use super::bounds::Bounds;
use super::forgetting;
use super::history::{Applied, At, Content, History};
use super::steps::{Token, Told, plain};
use crate::support::world::name;

pub(super) fn plain_position(position: Position) -> At {
    (position.epoch.get(), position.token.get())
}

/// I19: what was refused or replayed changes nothing; an end of a lease that was seen may be written down.
pub(super) fn changes_nothing(changes: &[Change]) {
    for change in changes {
        // And so it may be told.
        if let Change::Audited(line) = change {
            assert!(matches!(line.verb, AuditVerb::Expired | AuditVerb::Superseded), "I19: {line:?}");
            continue;
        }
        let Change::LeaseChanged { before, after } = change else { panic!("I19: {change:?}") };
        let ends = matches!(after.state, LeaseState::Expired | LeaseState::Superseded);
        assert!(before.state == LeaseState::Held || before.state == LeaseState::Expired, "I19: {before:?}");
        assert!(ends && before.expires_at == after.expires_at, "I19: {change:?}");
    }
}

/// Judges the answer to a write and takes it into the history.
pub(super) fn judge_write(
    history: &mut History,
    bounds: &Bounds,
    told: &[Told<'_>],
    outcome: &Outcome,
    changes: &[Change],
    now: Timestamp,
) {
    match outcome {
        Outcome::NotWritten(verdicts) => {
            changes_nothing(changes);
            assert!(outcome.refusal().is_some(), "nobody was refused, and nothing is written (I18)");
            for (told, verdict) in told.iter().zip(verdicts) {
                judge_verdict(history, told, verdict);
            }
        }
        Outcome::Written(written) => {
            assert_eq!(written.len(), told.len(), "I18: one answer each");
            let mut new = Vec::new();
            for (told, written) in told.iter().zip(written) {
                if written.replayed {
                    judge_replay(history, told, written);
                } else {
                    new.push((told, written));
                }
            }
            if new.is_empty() {
                assert_eq!(changes, [], "I19: a replay changes nothing");
            }
            for page in 0..history.pages.len() {
                let group: Vec<_> = new.iter().filter(|(told, _)| told.template.page == page).collect();
                if let Some((first, _)) = group.first() {
                    judge_effect(history, bounds, first, now);
                    for (index, (told, written)) in group.iter().enumerate() {
                        take_in(history, told, written, index == 0);
                    }
                    end_page(history, first, now);
                }
            }
        }
        other => panic!("{other:?}"),
    }
}

/// A refusal never hides what is in the store (I4), and never takes one payload for another (I6).
fn judge_verdict(history: &History, told: &Told<'_>, verdict: &MemberVerdict) {
    let template = told.template;
    let known = history.pages[template.page].outcome(template.operation, told.at, template.incarnation);
    let same = known.map(|done| done.payload == template.payload);
    match &verdict.verdict {
        Verdict::Replay(written) => judge_replay(history, told, written),
        Verdict::Refuse(Refusal::OperationMismatch) => assert_eq!(same, Some(false), "I6"),
        Verdict::Refuse(refusal) => {
            assert_eq!(same, None, "I4, I5: it is in the store");
            forgetting::refused(history, told, Some(refusal));
        }
        Verdict::Admit { .. } => assert_eq!(same, None, "I4, I5: it is in the store"),
    }
}

/// I5: all answers of one operation agree, whatever position they were asked under.
fn judge_replay(history: &History, told: &Told<'_>, written: &Written) {
    let template = told.template;
    let page = &history.pages[template.page];
    let done =
        page.outcome(template.operation, told.at, template.incarnation).expect("I5: nothing was applied");
    let answer = Applied {
        incarnation: written.incarnation.get(),
        operation: template.operation,
        payload: template.payload,
        at: plain_position(written.position),
        sequence: plain(written.sequence),
        response: written.response.clone(),
    };
    assert_eq!(*done, answer, "I5, I6: the saved answer of this payload");
    assert!(plain_position(written.floor) >= page.acknowledged.max((history.epoch, 0)), "the floor of now");
}

/// What an effect may not do, whoever admitted it.
fn judge_effect(history: &History, bounds: &Bounds, told: &Told<'_>, now: Timestamp) {
    let definition = bounds.world.definition();
    let (page, template) = (&history.pages[told.template.page], told.template);
    forgetting::refused(history, told, None);
    assert!(
        told.at >= page.acknowledged,
        "I9, I10: {:?} after {:?} was acknowledged",
        told.at,
        page.acknowledged
    );
    assert!(told.at >= (history.epoch, 0), "an older epoch after the advance");
    assert!(told.at.0 <= history.epoch, "an epoch that nobody advanced to");
    assert!(told.at > page.ended, "I16: at or below the position of the removal");
    assert!(told.at > page.revoked, "I10: {:?} after {:?} was revoked", told.at, page.revoked);
    assert!(!page.cancelled, "a cancelled job went on");
    assert!(!history.stopped, "something was admitted while the breaker was tripped");
    let born = *page.births.last().unwrap();
    assert!(told.at >= born, "I16: older than this incarnation");
    assert!(template.incarnation == 0 || template.incarnation == page.incarnation() && !page.deleted, "I16");
    match definition.issuer {
        Issuer::Gateway => {
            let Token::Grant(number) = told.token else { panic!("a position that was never issued") };
            let grant = &history.grants[number];
            assert_eq!(grant.page, template.page, "a token of another page");
            if definition.contract == Contract::LeaseBound {
                assert!(history.is_live(grant, now), "lease_bound: the lease is over");
            }
        }
        Issuer::Registered => assert!(told.at <= page.registered, "above what was registered"),
        Issuer::Trusted { .. } => {
            let known = page.acknowledged.max((history.epoch, 0));
            assert!(
                template.member.may_raise || told.at <= known,
                "row 11: the floor is raised without the right"
            );
        }
    }
    let Some((last, sequence)) = page.effect else {
        assert!(
            !matches!(definition.policy, Policy::Ordered { gapless: true }) || template.sequence == 1,
            "I14"
        );
        return;
    };
    assert!(told.at >= last, "I1: the store goes back from {last:?} to {:?}", told.at);
    let same = told.at == last;
    match definition.policy {
        Policy::Single => assert!(!same, "I14: one generation is one publication"),
        Policy::Ordered { gapless: false } => assert!(!same || template.sequence > sequence, "I14"),
        Policy::Ordered { gapless: true } => {
            assert_eq!(template.sequence, if same { sequence + 1 } else { 1 }, "I14: gapless");
        }
        Policy::Session => {
            let seen = page.contents[template.target].map(|content| content.tag);
            assert!(!same || template.if_match.is_some() && template.if_match == seen, "I14: an unseen edit");
        }
    }
}

/// Takes one new member of an effect into the history.
fn take_in(history: &mut History, told: &Told<'_>, written: &Written, first: bool) {
    let template = told.template;
    let page = &mut history.pages[template.page];
    if first {
        if page.deleted {
            assert!(!template.delete, "a removal of what is removed");
            page.births.push(told.at);
            page.deleted = false;
        }
        page.commit += 1;
        page.effect = Some((told.at, template.sequence));
        page.acknowledged = page.acknowledged.max(told.at);
    }
    let incarnation = page.incarnation();
    let known = page
        .applied
        .iter()
        .any(|done| (done.incarnation, done.operation) == (incarnation, template.operation));
    assert!(!known, "I2: a second effect of one operation");
    let content = page.contents[template.target];
    if let Some(wanted) = template.if_match {
        assert_eq!(content.map(|content| content.tag), Some(wanted), "If-Match");
    }
    assert!(!template.if_absent || content.is_none(), "If-None-Match");
    let tag = (incarnation, page.commit);
    assert_eq!(
        written.response.commit.map_or(0, CommitNo::get),
        page.commit,
        "I18: one commit for all members"
    );
    let etag = written.response.etag.map(|tag| (tag.incarnation.get(), tag.commit.get()));
    assert_eq!(etag, (!template.delete).then_some(tag));
    assert_eq!((written.incarnation.get(), plain_position(written.position)), (incarnation, told.at));
    page.contents[template.target] = (!template.delete).then_some(Content { payload: template.payload, tag });
    page.applied.push(Applied {
        incarnation,
        operation: template.operation,
        payload: template.payload,
        at: told.at,
        sequence: template.sequence,
        response: written.response.clone(),
    });
}

/// A removal of the page ends its life, and the live lease of its position.
fn end_page(history: &mut History, told: &Told<'_>, now: Timestamp) {
    if !told.template.delete || told.template.target > 0 {
        return;
    }
    if let Token::Grant(number) = told.token
        && history.is_live(&history.grants[number], now)
    {
        history.grants[number].released = true;
    }
    let page = &mut history.pages[told.template.page];
    page.deleted = true;
    page.ended = page.ended.max(told.at);
    page.contents = [None; 3];
}

/// I3, I4: what was acknowledged is in the store, and nothing else is.
pub(super) fn agree(history: &History, bounds: &Bounds, snapshot: &Snapshot) {
    let mut targets = 0;
    for (page, text) in history.pages.iter().zip(&bounds.pages) {
        let resource = name(text);
        for (target, content) in page.contents.iter().enumerate() {
            let path = if target == 0 { (*text).to_owned() } else { format!("{text}/{target}") };
            let stored = snapshot.target(&bounds.world.address(&path));
            let Some(content) = content else {
                assert_eq!(stored, None, "I4: {path} holds what nobody wrote");
                continue;
            };
            let stored = stored.expect("I3: an acknowledged write is not in the store");
            let template = bounds.templates.iter().find(|one| one.payload == content.payload).unwrap();
            assert_eq!(stored.digest, template.member.digest, "I3: {path}");
            assert_eq!((stored.tag.incarnation.get(), stored.tag.commit.get()), content.tag, "I3: {path}");
            targets += 1;
        }
        let Some(row) = snapshot.resource(&resource) else {
            assert!(
                page.effect.is_none() && page.granted == (0, 0) && !page.cancelled,
                "I3: {text} was forgotten"
            );
            continue;
        };
        let applied = row.applied.map(|mark| (plain_position(mark.position), plain(mark.sequence)));
        assert_eq!(applied, page.effect, "the mark is the last effect");
        assert_eq!((row.commit_no.get(), row.incarnation.get()), (page.commit, page.incarnation()));
        assert_eq!(plain_position(row.issued), page.granted, "I8");
        assert_eq!((row.life == Life::Deleted, row.life == Life::Cancelled), (page.deleted, page.cancelled));
        assert!(
            row.revoked_through.map_or((0, 0), plain_position) >= page.revoked,
            "I7: a revocation is gone"
        );
        assert!(plain_position(row.effective_floor(row.floor.epoch)) >= page.acknowledged, "I9: the floor");
    }
    assert_eq!(snapshot.targets().count(), targets, "I4");
    let applied: usize = history.pages.iter().map(|page| page.applied.len()).sum();
    assert_eq!(snapshot.operations().count(), applied, "I2: one record per applied operation");
}
