//! Names of variables that are none of ours: which of them are slips of the pen, and what was meant.

use super::super::keys::{self, LATER, ROOT};
use super::super::mistake::Mistakes;
use super::{NAMESPACE_KEYS, NAMESPACES, PREFIX, SLIP_LETTERS, TABLE_KEYS, Variable};
use crate::limits::WORD_CHARS;

/// Why the rest of a namespace's variable is no key.
pub(super) fn explain_unknown(rest: &str) -> String {
    let endings: Vec<&str> = NAMESPACE_KEYS.iter().map(|key| key.0).collect();
    let last = rest.rsplit("__").next().unwrap_or(rest);
    if keys::LEASE.later.contains(&last.to_lowercase().as_str()) {
        return LATER.to_owned();
    }
    let near = endings
        .iter()
        .filter_map(|ending| Some((keys::likeness(tail_like(rest, ending)?, ending), ending)))
        .filter(|(likeness, _)| *likeness >= keys::LIKENESS)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, near)| format!("; the nearest is `{near}`"))
        .unwrap_or_default();
    let endings = keys::list(&endings);
    format!("unknown key{near}. Write {PREFIX}{NAMESPACES}NAME__KEY with one of the keys {endings}")
}

/// The end of a variable's name that has as many parts as `ending`.
fn tail_like<'a>(rest: &'a str, ending: &str) -> Option<&'a str> {
    let parts = ending.matches("__").count();
    let starts: Vec<usize> =
        rest.match_indices("__").map(|(at, mark)| at.saturating_add(mark.len())).collect();
    let start = starts.len().checked_sub(parts.saturating_add(1)).and_then(|index| starts.get(index));
    rest.get(start.copied().unwrap_or_default()..)
}

/// Refuses what is known to come later, and what is nearly a known name. All else may be another's.
pub(super) fn refuse_slips(variable: &Variable<'_>, mistakes: &mut Mistakes) {
    let lower = variable.name.to_lowercase();
    if ROOT.later.contains(&lower.as_str()) {
        mistakes.note(variable.place, &lower, LATER);
        return;
    }
    if variable.name.starts_with("NAMESPACES") {
        mistakes.note(variable.place, "", explain_unknown(variable.name));
        return;
    }
    let known = [
        "LISTEN",
        "DATABASE",
        "SEAL_KEY_FILE",
        "SEAL_KEY",
        "WITNESS",
        "MAX_CONNECTIONS",
        "MAX_BODY_BYTES",
        "OPERATION_RETENTION",
        "PRINCIPALS",
        "TRACING__OTLP_ENDPOINT",
        "TRACING__SAMPLE_RATIO",
        "PLAINTEXT",
        "LIMITS",
    ];
    let is_short = variable.name.len() <= WORD_CHARS;
    let near = known
        .into_iter()
        .chain(TABLE_KEYS.map(|(name, ..)| name))
        .filter(|_| is_short)
        .map(|name| (strsim::damerau_levenshtein(name, variable.name), name))
        .filter(|(letters, _)| *letters <= SLIP_LETTERS)
        .min();
    if let Some((_, name)) = near {
        mistakes.note(variable.place, "", format!("unknown variable; the nearest is `{PREFIX}{name}`"));
    }
}
