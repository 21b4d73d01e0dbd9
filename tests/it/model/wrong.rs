//! Rules that are kept wrongly, on top of the real ones: each must be found out in a world of documents.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fencegate::domain::policy::{Contract, Issuer};
use fencegate::protocol::prune::Prunable;
use fencegate::protocol::rows::NamespaceRow;
use fencegate::protocol::{Change, Command, Decision, Outcome, Snapshot};

use super::bounds::Bounds;
use super::search::search;
use super::{ORDERED, SINGLE, definition};

/// What is done wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// A tripped breaker holds nobody up.
    BreakerAdmits,
    /// A new epoch ends the breaker, and begins nothing.
    EpochNotRaised,
    /// A copy of the call begins another epoch.
    EpochTwice,
    /// Records go, whether their generation lives or not.
    LivePruned,
    /// Records go, and nothing says that they were there.
    PrunedUnmarked,
    /// Whoever may write may also raise the floor.
    RaisedWithoutRight,
    /// With the record of a revocation goes what it has revoked.
    RevocationForgotten,
}

impl Bug {
    /// What a wrong gateway makes of a command.
    pub(super) fn decided(
        self,
        rows: &Snapshot,
        command: &Command,
        rules: &dyn Fn(&Snapshot, &Command) -> Decision,
    ) -> Decision {
        match (self, command) {
            (Self::BreakerAdmits, Command::Whole(_)) => rules(rows, command),
            (Self::BreakerAdmits, _) => rules(&without_breaker(rows), command),
            (Self::EpochNotRaised, Command::Whole(_)) => {
                let mut decision = rules(rows, command);
                decision.changes.iter_mut().for_each(keep_the_epoch);
                decision
            }
            (Self::EpochTwice, Command::Whole(act)) => {
                let mut forgetful = rows.clone();
                act.record_key().iter().for_each(|key| forgetful.remove_control(key));
                rules(&forgetful, command)
            }
            (Self::LivePruned, Command::Prune(prune)) => match &prune.what {
                Prunable::Operations { .. } => {
                    let all = rows.operations().cloned().map(Box::new).map(Change::OperationPruned);
                    Decision { outcome: Outcome::Tidied, changes: all.collect() }
                }
                Prunable::Control(_) | Prunable::Audit => rules(rows, command),
            },
            (Self::PrunedUnmarked, Command::Prune(_)) => {
                let mut decision = rules(rows, command);
                decision.changes.retain(|change| !matches!(change, Change::Resource { .. }));
                decision
            }
            (Self::RaisedWithoutRight, Command::Write(write)) => {
                let mut write = write.clone();
                write.members.iter_mut().for_each(|member| member.may_raise = true);
                rules(rows, &Command::Write(write))
            }
            (Self::RevocationForgotten, Command::Prune(_)) => {
                let mut decision = rules(rows, command);
                let revoked = rows.resources().filter(|row| row.revoked_through.is_some());
                decision.changes.extend(revoked.map(|row| {
                    let mut after = row.clone();
                    after.revoked_through = None;
                    Change::Resource { before: Some(Box::new(row.clone())), after: Box::new(after) }
                }));
                decision
            }
            _ => rules(rows, command),
        }
    }
}

fn without_breaker(rows: &Snapshot) -> Snapshot {
    let mut open = rows.clone();
    rows.namespaces().for_each(|row| open.insert_namespace(NamespaceRow { breaker: None, ..row.clone() }));
    open
}

fn keep_the_epoch(change: &mut Change) {
    if let Change::NamespaceChanged { before, after } = change {
        after.epoch = before.epoch;
    }
}

/// The search fails, and says this.
fn fails(bug: Bug, bounds: Bounds, says: &str) {
    let bounds = Bounds { bug: Some(bug), ..bounds };
    let failure = match catch_unwind(AssertUnwindSafe(|| search(&bounds))) {
        Ok(met) => panic!("{bug:?} is not found out in {} states", met.states),
        Err(failure) => failure,
    };
    let text = failure.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| failure.downcast_ref::<&str>().copied()).unwrap();
    println!("{bug:?}: {text}");
    assert!(text.contains(says), "{bug:?} was to be found out as {says:?}: {text}");
}

#[test]
fn whoever_gets_past_a_tripped_breaker_is_seen() {
    for issuer in [Issuer::Gateway, Issuer::Registered] {
        let bounds = Bounds::one_page(definition(SINGLE, Contract::Immediate, issuer), 2);
        fails(Bug::BreakerAdmits, Bounds { trips: true, ..bounds }, "while the breaker was tripped");
    }
}

#[test]
fn an_epoch_that_begins_nothing_is_seen() {
    let definition = definition(SINGLE, Contract::Observed, Issuer::Trusted { max_jump: None });
    fails(Bug::EpochNotRaised, Bounds::one_page(definition, 2), "the fence went back");
}

#[test]
fn a_copy_that_begins_another_epoch_is_seen() {
    let definition = definition(SINGLE, Contract::Immediate, Issuer::Gateway);
    fails(Bug::EpochTwice, Bounds::one_page(definition, 1), "replayed: false");
}

#[test]
fn records_that_are_forgotten_too_early_are_missed() {
    let definition = definition(ORDERED, Contract::Immediate, Issuer::Gateway);
    for bug in [Bug::LivePruned, Bug::PrunedUnmarked] {
        fails(bug, Bounds { prunes: true, epochs: 0, ..Bounds::one_page(definition, 2) }, "I15");
    }
}

#[test]
fn a_floor_that_is_raised_without_the_right_is_seen() {
    let definition = definition(SINGLE, Contract::Observed, Issuer::Trusted { max_jump: None });
    fails(Bug::RaisedWithoutRight, Bounds::one_page(definition, 2), "row 11");
}

#[test]
fn a_revocation_that_goes_with_its_record_is_missed() {
    let definition = definition(SINGLE, Contract::Immediate, Issuer::Gateway);
    let bounds = Bounds { forgets_calls: true, epochs: 0, ..Bounds::calls(definition, 1) };
    fails(Bug::RevocationForgotten, bounds, "I15");
}
