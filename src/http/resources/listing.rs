//! A page of resources, by name, life and state.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use crate::domain::operation::OperationState;
use crate::domain::permission::Permission;
use crate::domain::resource::ResourceName;
use crate::ledger::read::{ResourceFilter, ResourceRead};
use crate::limits::{PAGE_ITEMS, PAGE_SCAN_ROWS};
use crate::protocol::outcome::Undecided;
use crate::protocol::rows::Life;

use super::super::names;
use super::super::problem::Problem;
use super::super::query::{bad_cursor, cursor_of, malformed};
use super::super::{Asked, Hall, wire};
use super::{ItemJson, Seen, State, item};

/// Longest prefix that a list takes, in bytes: that of a name.
const MAX_PREFIX_BYTES: usize = crate::domain::resource::MAX_NAME_BYTES;

#[derive(Serialize)]
struct PageJson {
    items: Vec<ItemJson>,
    next_cursor: Option<String>,
}

/// `GET /v1/resources`.
pub(in super::super) async fn list(asked: Asked<'_>) -> Result<Response, Problem> {
    let wanted = wanted_state(&asked)?;
    let limit = asked.query.limit()?;
    let mut filter = filter(&asked)?;
    match (wanted.and_then(State::life), filter.life) {
        (Some(life), None) => filter.life = Some(life),
        // No resource is in a state of another life.
        (Some(life), Some(asked_life)) if life != asked_life => return Ok(page(Vec::new(), None)),
        (Some(_) | None, _) => {}
    }
    let mut items: Vec<ItemJson> = Vec::new();
    let mut scanned = 0_u32;
    let wanted_items = usize::try_from(limit).unwrap_or(usize::MAX);
    while scanned < PAGE_SCAN_ROWS {
        // One more than is shown tells whether there is a next page.
        filter.limit = if wanted.is_some() { PAGE_ITEMS } else { limit.saturating_add(1) };
        let Candidates { rows, reach } = candidates(asked.hall, &filter, wanted).await?;
        let uncertain = uncertain(asked.hall, &rows).await?;
        for row in rows {
            if items.len() == wanted_items {
                return Ok(page(items, filter.after));
            }
            scanned = scanned.saturating_add(1);
            filter.after = Some(row.resource.resource.clone());
            let undecided = uncertain.get(&row.resource.resource).map(Vec::as_slice).unwrap_or_default();
            let seen = Seen::of(&row, undecided);
            let lives = filter.life.is_none_or(|life| row.resource.life == life);
            if lives && wanted.is_none_or(|state| state == State::of(&seen)) {
                items.push(item(&seen));
            }
        }
        if reach.is_none() {
            return Ok(page(items, None));
        }
        filter.after = reach;
    }
    Ok(page(items, filter.after))
}

/// Resources that may be in a state.
struct Candidates {
    rows: Vec<ResourceRead>,
    /// How far they reach; none where there are no others behind them.
    reach: Option<ResourceName>,
}

/// The next ones. The few that a person has to look at are found by what makes them so, however many others there are.
async fn candidates(
    hall: &Hall,
    filter: &ResourceFilter,
    wanted: Option<State>,
) -> Result<Candidates, Problem> {
    let asked_for = filter.clone();
    let is_full = |found: usize| u32::try_from(found).unwrap_or(u32::MAX) >= filter.limit;
    if wanted != Some(State::NeedsAttention) {
        let rows = hall.read(move |reader| reader.resources(asked_for)).await?;
        let last = rows.last().map(|row| row.resource.resource.clone());
        let reach = last.filter(|_| is_full(rows.len()));
        return Ok(Candidates { rows, reach });
    }
    let names = hall.read(move |reader| reader.troubled(asked_for)).await?;
    let reach = names.last().cloned().filter(|_| is_full(names.len()));
    let mut rows = hall.read(move |reader| reader.watched(names)).await?;
    rows.sort_unstable_by(|one, other| one.resource.resource.cmp(&other.resource.resource));
    Ok(Candidates { rows, reach })
}

/// Those of them with an operation whose outcome is uncertain. Only a store behind HTTP has any.
async fn uncertain(
    hall: &Hall,
    rows: &[ResourceRead],
) -> Result<BTreeMap<ResourceName, Vec<Undecided>>, Problem> {
    let forwarded = rows.iter().filter(|row| row.namespace.definition.store.class().is_some());
    let names: Vec<ResourceName> = forwarded.map(|row| row.resource.resource.clone()).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let found = hall.read(move |reader| reader.uncertain(names)).await?;
    let state = OperationState::Uncertain;
    let one = |(name, operation_id)| (name, vec![Undecided { operation_id, state }]);
    Ok(found.into_iter().map(one).collect())
}

fn wanted_state(asked: &Asked<'_>) -> Result<Option<State>, Problem> {
    let words: Vec<&str> = State::ALL.iter().map(|state| state.word()).collect();
    asked.query.word("state", &words, |text| State::ALL.into_iter().find(|state| state.word() == text))
}

fn filter(asked: &Asked<'_>) -> Result<ResourceFilter, Problem> {
    let namespace = asked.query.value("namespace").map(names::namespace_of).transpose()?;
    let within = namespace.as_ref().map(|name| format!("{name}/"));
    let beginning = asked.query.value("prefix").filter(|text| !text.is_empty());
    // A page of what the caller may see only in part would tell by its gaps, and by where it ends, what the rest is.
    asked.require_all(Permission::Read, beginning.or(within.as_deref()).unwrap_or_default())?;
    if let Some(namespace) = &namespace {
        names::rules_of(namespace, asked.hall.namespaces())?;
    }
    let prefix = asked.query.value("prefix").filter(|text| !text.is_empty());
    if prefix.is_some_and(|text| text.len() > MAX_PREFIX_BYTES) {
        return Err(malformed(format!(
            "prefix has more than {MAX_PREFIX_BYTES} bytes, the most that a name has"
        )));
    }
    let after = match asked.query.cursor()? {
        None => None,
        Some(name) => Some(ResourceName::parse(&name).map_err(|_| bad_cursor())?),
    };
    Ok(ResourceFilter {
        namespace,
        prefix: prefix.map(str::to_owned),
        life: asked.query.word("life", &["active", "deleted", "cancelled"], Life::from_word)?,
        after,
        limit: 0,
    })
}

fn page(items: Vec<ItemJson>, next: Option<ResourceName>) -> Response {
    let next_cursor = next.map(|name| cursor_of(name.as_str()));
    wire::json(StatusCode::OK, &PageJson { items, next_cursor })
}
