//! What no change may do, said apart from the rules that make the changes (I7 of `protocol.md` section 10).
//!
//! The driver holds every resource change against it before it commits, and so does the model: a disagreement with
//! the rules is loud and stops the request.

use super::Inconsistent;
use super::rows::{Life, ResourceRow};

/// Holds a change of a resource row against the invariants.
///
/// # Errors
/// [`Inconsistent`] names the register that would go back or contradict another.
pub fn check(before: Option<&ResourceRow>, after: &ResourceRow) -> Result<(), Inconsistent> {
    if let Some(before) = before {
        check_monotone(before, after)?;
    }
    if let Some(applied) = after.applied
        && applied.position.is_above(after.floor)
    {
        return broken(after, "what is published lies above the floor");
    }
    match (after.life, after.revoked_through) {
        (Life::Deleted, None) => broken(after, "a tombstone has nothing revoked"),
        (Life::Active | Life::Cancelled | Life::Deleted, _) => Ok(()),
    }
}

fn check_monotone(before: &ResourceRow, after: &ResourceRow) -> Result<(), Inconsistent> {
    if before.resource != after.resource {
        return broken(after, "one resource's row became another's");
    }
    if after.floor.is_below(before.floor) {
        return broken(after, "floor went back");
    }
    if after.issued.is_below(before.issued) {
        return broken(after, "issued went back");
    }
    if after.born.is_below(before.born) {
        return broken(after, "born went back");
    }
    if after.incarnation < before.incarnation {
        return broken(after, "incarnation went back");
    }
    if after.commit_no < before.commit_no {
        return broken(after, "commit_no went back");
    }
    match (before.revoked_through, after.revoked_through) {
        (Some(_), None) => return broken(after, "revoked_through was forgotten"),
        (Some(old), Some(new)) if new.is_below(old) => return broken(after, "revoked_through went back"),
        (Some(_), Some(_)) | (None, _) => {}
    }
    match (before.pruned_through, after.pruned_through) {
        (Some(_), None) => return broken(after, "pruned_through was forgotten"),
        (Some(old), Some(new)) if new.is_before(old) => return broken(after, "pruned_through went back"),
        (Some(_), Some(_)) | (None, _) => {}
    }
    match (before.applied, after.applied) {
        (Some(_), None) => broken(after, "applied was forgotten"),
        (Some(old), Some(new)) if new.position.is_below(old.position) => broken(after, "applied went back"),
        (Some(old), Some(new)) if new.position == old.position && new.sequence < old.sequence => {
            broken(after, "the applied sequence went back")
        }
        (Some(_), Some(_)) | (None, _) => Ok(()),
    }
}

fn broken(row: &ResourceRow, what: &str) -> Result<(), Inconsistent> {
    Err(Inconsistent::because(format!("{what} on {:?}", row.resource)))
}
