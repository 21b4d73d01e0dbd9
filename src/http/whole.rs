//! What is told of acts on a whole namespace, or on all of them, and of what was found about it: names of other callers and of
//! what is theirs may stand in it. Whoever may look after the whole is told everything; everybody else, that it was done, when,
//! and by which detector. The log and the audit have the rest.

use crate::domain::breaker::{Breaker, Detector};
use crate::domain::permission::{Permission, Rules};
use crate::domain::principal::PrincipalName;
use crate::domain::resource::Namespace;
use crate::domain::subject::Subject;
use crate::protocol::rows::{AuditRow, AuditVerb};

/// Whether these rules read, or operate, all of it.
fn look_after(rules: &Rules, subject: &Subject) -> bool {
    [Permission::Read, Permission::Operate].into_iter().any(|permission| match subject {
        Subject::Everywhere => rules.cover("", permission),
        Subject::Namespace(name) => {
            rules.allow(name.as_str(), permission) && rules.cover(&format!("{name}/"), permission)
        }
        Subject::Resource(name) => rules.allow(name.as_str(), permission),
    })
}

/// Who did it and why, as far as a caller with these rules is told. It may be told of the act itself.
pub(super) fn by_whom_and_why<'r>(row: &'r AuditRow, rules: &Rules) -> (Option<&'r str>, Option<&'r str>) {
    match row.subject {
        Subject::Everywhere | Subject::Namespace(_) if !look_after(rules, &row.subject) => {
            (None, detector(row))
        }
        Subject::Everywhere | Subject::Namespace(_) | Subject::Resource(_) => {
            (row.actor.as_ref().map(PrincipalName::as_str), row.reason.as_deref())
        }
    }
}

/// What tripped a breaker: the first word of the reason.
fn detector(row: &AuditRow) -> Option<&'static str> {
    let reason = row.reason.as_deref().filter(|_| row.verb == AuditVerb::Tripped)?;
    reason.split(' ').next().and_then(Detector::from_word).map(Detector::word)
}

/// What was found when the breaker of a namespace tripped, as far as a caller with these rules is told. A store speaks of its own
/// namespace; all other detectors speak of the whole database.
pub(super) fn found<'b>(breaker: &'b Breaker, namespace: &Namespace, rules: &Rules) -> &'b str {
    let about = match breaker.detector {
        Detector::Store => Subject::Namespace(namespace.clone()),
        Detector::Seal | Detector::Acks | Detector::Witness | Detector::Identity => Subject::Everywhere,
    };
    if look_after(rules, &about) { &breaker.found } else { breaker.detector.word() }
}
