//! `GET /v1/audit`: what was done, anywhere, by whom and why, from the oldest line on.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use crate::domain::counter::parse_decimal;
use crate::domain::lease::Holder;
use crate::domain::permission::Permission;
use crate::domain::position::Position;
use crate::domain::principal::PrincipalName;
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::ledger::read::{AuditEntry, AuditFilter, AuditPlace};
use crate::limits::AUDIT_LINES_READ;
use crate::protocol::rows::AuditVerb;

use super::Asked;
use super::problem::{Code, Problem};
use super::query::{Query, bad_cursor, cursor_of, malformed};
use super::wire::{self, Rfc3339, Shown};

#[derive(Serialize)]
struct PageJson<'a> {
    items: Vec<LineJson<'a>>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct LineJson<'a> {
    /// The same in every answer: it tells two lines apart.
    id: String,
    at: Rfc3339,
    verb: &'static str,
    /// The resource, its namespace, or `*`.
    about: &'a str,
    position: Shown<Position>,
    actor: Option<&'a str>,
    holder: Option<&'a str>,
    reason: Option<&'a str>,
}

/// Which lines are wanted.
struct Wanted {
    /// A namespace with what lies in it and what is done to all; or `*` alone.
    within: Option<Subject>,
    verb: Option<AuditVerb>,
    actor: Option<PrincipalName>,
}

/// `GET /v1/audit`.
pub(super) async fn list(asked: Asked<'_>) -> Result<Response, Problem> {
    let query = &asked.query;
    let wanted = Wanted::of(query)?;
    asked.require_whole(Permission::Operate, wanted.within.as_ref().unwrap_or(&Subject::Everywhere))?;
    let limit = query.limit()?;
    // Without a filter each line that is looked at is shown, and one more tells whether there is a next page.
    let looked_at = if wanted.is_everything() { limit.saturating_add(1) } else { AUDIT_LINES_READ };
    let filter = AuditFilter {
        since: query.time("since")?.unwrap_or_default(),
        until: query.time("until")?.unwrap_or(Timestamp::from_ms(i64::MAX)),
        after: query.cursor()?.map(|text| place_of(&text).ok_or_else(bad_cursor)).transpose()?,
        limit: looked_at,
    };
    let lines = asked.hall.read(move |reader| reader.audit_lines(filter)).await?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let matching: Vec<&AuditEntry> = lines.iter().filter(|line| wanted.has(line)).collect();
    let last = if matching.len() > shown {
        matching.get(shown.saturating_sub(1)).copied()
    } else {
        lines.last().filter(|_| lines.len() >= usize::try_from(looked_at).unwrap_or(usize::MAX))
    };
    let next_cursor = last.map(|line| cursor_of(&text_of(line.place)));
    let items = matching.into_iter().take(shown).map(line).collect();
    Ok(wire::json(StatusCode::OK, &PageJson { items, next_cursor }))
}

impl Wanted {
    fn of(query: &Query) -> Result<Self, Problem> {
        let within = query.value("namespace").map(|text| match Subject::parse(text) {
            Ok(subject @ (Subject::Everywhere | Subject::Namespace(_))) => Ok(subject),
            Ok(Subject::Resource(_)) => Err(Problem::new(
                Code::InvalidResource,
                format!(
                    "namespace {text:?} has a slash; name a namespace, or * for what was done to all of them"
                ),
            )),
            Err(error) => Err(Problem::new(Code::InvalidResource, format!("namespace {text:?}: {error}"))),
        });
        let words = AuditVerb::ALL.map(AuditVerb::word);
        let actor = query.value("actor").map(|text| {
            PrincipalName::recorded(text).map_err(|error| malformed(format!("actor is {text:?}: {error}")))
        });
        Ok(Self {
            within: within.transpose()?,
            verb: query.word("verb", &words, AuditVerb::from_word)?,
            actor: actor.transpose()?,
        })
    }

    const fn is_everything(&self) -> bool {
        self.within.is_none() && self.verb.is_none() && self.actor.is_none()
    }

    fn has(&self, line: &AuditEntry) -> bool {
        let row = &line.row;
        self.verb.is_none_or(|verb| row.verb == verb)
            && self.actor.as_ref().is_none_or(|actor| row.actor.as_ref() == Some(actor))
            && self.within.as_ref().is_none_or(|within| touches(within, &row.subject))
    }
}

/// What is done to all namespaces is done to each.
fn touches(within: &Subject, subject: &Subject) -> bool {
    match (within, subject) {
        (_, Subject::Everywhere) => true,
        (Subject::Namespace(one), Subject::Namespace(name)) => one == name,
        (Subject::Namespace(one), Subject::Resource(name)) => *one == name.namespace(),
        (Subject::Everywhere | Subject::Resource(_), Subject::Namespace(_) | Subject::Resource(_)) => false,
    }
}

fn line(entry: &AuditEntry) -> LineJson<'_> {
    let AuditEntry { place, row } = entry;
    LineJson {
        id: format!("a.{}.{}", place.transaction, place.ordinal),
        at: Rfc3339(row.at),
        verb: row.verb.word(),
        about: row.subject.as_str(),
        position: Shown(row.position),
        actor: row.actor.as_ref().map(PrincipalName::as_str),
        holder: row.holder.as_ref().map(Holder::as_str),
        reason: row.reason.as_deref(),
    }
}

fn text_of(place: AuditPlace) -> String {
    format!("{}.{}.{}", place.at.ms(), place.transaction, place.ordinal)
}

fn place_of(text: &str) -> Option<AuditPlace> {
    let mut parts = text.split('.').map(|part| parse_decimal(part).ok());
    let (at, transaction, ordinal) = (parts.next()??, parts.next()??, parts.next()??);
    let at = Timestamp::from_ms(i64::try_from(at).ok()?);
    parts.next().is_none().then_some(AuditPlace { at, transaction, ordinal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_a_made_up_one_does_not() {
        let place = AuditPlace { at: Timestamp::from_ms(5), transaction: 7, ordinal: 0 };
        assert_eq!(place_of(&text_of(place)), Some(place));
        for bad in ["", "1", "1.2", "1.2.x", "1.2.3.4", "-1.2.3", "+1.2.3", "01.2.3"] {
            assert_eq!(place_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_done_to_all_namespaces_is_done_to_each() {
        let parse = |text| Subject::parse(text).unwrap();
        let touched = |within, subject| touches(&parse(within), &parse(subject));
        assert!(touched("jobs", "jobs/a") && touched("jobs", "jobs") && touched("jobs", "*"));
        assert!(!touched("jobs", "jobs2") && !touched("jobs", "jobs2/a"));
        assert!(touched("*", "*") && !touched("*", "jobs") && !touched("*", "jobs/a"));
    }
}
