//! Namespaces: the policy of each as this process has it in force.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Epoch, Incarnation};
use crate::domain::namespaces::{NamespaceRules, Namespaces};
use crate::domain::permission::{Permission, Rules};
use crate::domain::policy::{Issuer, Policy};
use crate::domain::redefinition::Redefinition;
use crate::domain::resource::Namespace;
use crate::domain::subject::Subject;
use crate::domain::upstream::Class;
use crate::protocol::NamespaceRow;
use crate::protocol::outcome::WholeView;
use crate::protocol::rows::EverywhereRow;

use super::definition::{ChangeJson, has_resources};
use super::names;
use super::problem::Problem;
use super::whole;
use super::wire::{self, Rfc3339, Shown};
use super::{Asked, Hall};

#[derive(Serialize)]
struct NamespaceJson<'a> {
    namespace: &'a str,
    policy: &'static str,
    gapless: bool,
    contract: &'static str,
    issuer: IssuerJson,
    store: &'static str,
    /// None of a document, which needs no class to say what it promises.
    class: Option<&'static str>,
    /// Where an upstream is; never with credentials.
    base: Option<&'a str>,
    guarantee: &'static str,
    scope: u16,
    epoch: Shown<Epoch>,
    max_body_bytes: u64,
    lease: LeaseRulesJson,
    recorded: bool,
    /// Of the recorded definition.
    version: Option<u32>,
    differs: Option<String>,
    /// What it would mean to record the configured one, where it differs.
    change: Option<ChangeJson>,
    /// What stopped it, until an operator advances the epoch.
    breaker: Option<BreakerJson>,
}

#[derive(Serialize)]
pub(super) struct BreakerJson {
    detector: &'static str,
    at: Rfc3339,
    found: String,
}

impl BreakerJson {
    /// For whoever may read everything.
    pub(super) fn of(breaker: &Breaker) -> Self {
        Self::telling(breaker, &breaker.found)
    }

    fn telling(breaker: &Breaker, found: &str) -> Self {
        Self { detector: breaker.detector.word(), at: Rfc3339(breaker.at), found: found.to_owned() }
    }
}

/// The answer of an act on a whole namespace: the namespace, or all of them, and what goes on meanwhile.
#[derive(Serialize)]
struct WholeJson<'a> {
    #[serde(flatten)]
    what: WhatJson<'a>,
    open_operations: Vec<OpenJson<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WhatJson<'a> {
    One(Box<NamespaceJson<'a>>),
    All { namespace: &'static str, epoch: Shown<Epoch>, items: Vec<NamespaceJson<'a>> },
}

#[derive(Serialize)]
struct OpenJson<'a> {
    resource: &'a str,
    incarnation: Shown<Incarnation>,
    operation_id: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum IssuerJson {
    Own(&'static str),
    Other { external: &'static str, max_jump: Option<Shown<u64>> },
}

#[derive(Serialize)]
struct LeaseRulesJson {
    ttl_ms: u64,
    min_ttl_ms: u64,
    max_ttl_ms: u64,
    lock_delay_ms: u64,
    /// Zero is no bound, as in the configuration.
    max_hold_ms: u64,
    order: &'static str,
}

#[derive(Serialize)]
struct ListJson<'a> {
    items: Vec<NamespaceJson<'a>>,
    any: bool,
}

/// `GET /v1/namespaces`: those that are configured by name, and with them those that were ever used where any name is
/// taken.
pub(super) async fn list(asked: Asked<'_>) -> Result<Response, Problem> {
    let (known, recorded) = (asked.hall.namespaces(), recorded(asked.hall).await?);
    let used = recorded.keys().filter_map(|name| known.rules(name).map(|rules| (name, rules)));
    let visible = |(name, _): &(&Namespace, &NamespaceRules)| asked.knows(name);
    let all: BTreeMap<&Namespace, &NamespaceRules> = known.named().chain(used).filter(visible).collect();
    let everywhere = asked.hall.read(|reader| reader.everywhere()).await?;
    let seen = Seen { known, everywhere: &everywhere, asking: asked.caller.rules() };
    let shown = |(name, rules)| namespace(name, rules, recorded.get(name), &seen);
    let items = all.into_iter().map(shown).collect();
    Ok(wire::json(StatusCode::OK, &ListJson { items, any: known.allows_any() }))
}

/// `GET /v1/namespaces/{namespace}`.
pub(super) async fn show(asked: Asked<'_>) -> Result<Response, Problem> {
    let name = names::namespace_below(&asked.head.uri, "/v1/namespaces")?;
    if !asked.knows(&name) {
        asked.require(Permission::Read, name.as_str())?;
    }
    let known = asked.hall.namespaces();
    let rules = names::rules_of(&name, known)?;
    let recorded = recorded(asked.hall).await?;
    let everywhere = asked.hall.read(|reader| reader.everywhere()).await?;
    let seen = Seen { known, everywhere: &everywhere, asking: asked.caller.rules() };
    let mut shown = namespace(&name, &rules, recorded.get(&name), &seen);
    if let Some(change) = redefinition(&rules, recorded.get(&name)) {
        let has_resources = has_resources(asked.hall, &name).await?;
        shown.change = Some(ChangeJson::of(&change, Some(has_resources)));
    }
    Ok(wire::json(StatusCode::OK, &shown))
}

/// The namespaces that were ever used.
async fn recorded(hall: &Hall) -> Result<BTreeMap<Namespace, NamespaceRow>, Problem> {
    let rows = hall.read(|reader| reader.namespaces()).await?;
    Ok(rows.into_iter().map(|row| (row.namespace.clone(), row)).collect())
}

/// How many namespaces are recorded, and which of them are configured differently, with the difference.
pub(super) async fn differing(hall: &Hall) -> Result<(usize, Vec<(Namespace, String)>), Problem> {
    let recorded = recorded(hall).await?;
    let count = recorded.len();
    let differing = recorded.into_values().filter_map(|row| {
        let rules = hall.namespaces().rules(&row.namespace)?;
        difference(rules, Some(&row)).map(|difference| (row.namespace, difference))
    });
    Ok((count, differing.collect()))
}

fn difference(rules: &NamespaceRules, recorded: Option<&NamespaceRow>) -> Option<String> {
    let recorded = recorded.filter(|row| row.definition != rules.definition)?;
    Some(wire::difference(&recorded.definition, &rules.definition))
}

fn redefinition(rules: &NamespaceRules, recorded: Option<&NamespaceRow>) -> Option<Redefinition> {
    let from = recorded.map(|row| row.definition).filter(|recorded| *recorded != rules.definition)?;
    Some(Redefinition { from, to: rules.definition })
}

/// By what a namespace is seen.
struct Seen<'a> {
    known: &'a Namespaces,
    everywhere: &'a EverywhereRow,
    /// What whoever looks may do.
    asking: &'a Rules,
}

fn namespace<'a>(
    name: &'a Namespace,
    rules: &NamespaceRules,
    recorded: Option<&'a NamespaceRow>,
    seen: &Seen<'a>,
) -> NamespaceJson<'a> {
    let definition = &rules.definition;
    let everywhere = seen.everywhere;
    NamespaceJson {
        namespace: name.as_str(),
        policy: definition.policy.word(),
        gapless: match definition.policy {
            Policy::Ordered { gapless } => gapless,
            Policy::Single | Policy::Session => false,
        },
        contract: definition.contract.word(),
        issuer: issuer(definition.issuer),
        store: definition.store.word(),
        class: definition.store.class().map(Class::word),
        base: seen.known.base(name),
        guarantee: definition.store.guarantee(),
        scope: definition.scope,
        epoch: Shown(recorded.map_or(everywhere.epoch, |row| row.epoch)),
        max_body_bytes: rules.max_body_bytes,
        lease: LeaseRulesJson {
            ttl_ms: rules.ttl.default.millis().get(),
            min_ttl_ms: rules.ttl.least.millis().get(),
            max_ttl_ms: rules.ttl.greatest.millis().get(),
            lock_delay_ms: rules.lock_delay.get(),
            max_hold_ms: rules.max_hold.unwrap_or_default().get(),
            order: rules.order.word(),
        },
        recorded: recorded.is_some(),
        version: recorded.map(|row| row.version),
        differs: difference(rules, recorded),
        change: redefinition(rules, recorded).map(|change| ChangeJson::of(&change, None)),
        breaker: recorded
            .map_or(everywhere.breaker.as_ref(), |row| row.breaker.as_ref())
            .map(|breaker| BreakerJson::telling(breaker, whole::found(breaker, name, seen.asking))),
    }
}

/// The answer of an act on a whole namespace. It is saved with the call.
#[must_use]
pub fn render_whole(view: &WholeView<'_>) -> Vec<u8> {
    let shown = |row: &'_ NamespaceRow| -> Option<_> { view.known.rules(&row.namespace).copied() };
    let rules: Vec<(&NamespaceRow, NamespaceRules)> =
        view.namespaces.iter().filter_map(|row| shown(row).map(|rules| (row, rules))).collect();
    // All of them are recorded, so nothing is told of those that are not. It is saved for whoever repeats the call.
    let seen = Seen { known: view.known, everywhere: &EverywhereRow::default(), asking: &Rules::default() };
    let mut items: Vec<NamespaceJson<'_>> =
        rules.iter().map(|(row, rules)| namespace(&row.namespace, rules, Some(row), &seen)).collect();
    let one = if matches!(view.subject, Subject::Namespace(_)) { items.pop() } else { None };
    let what = match one {
        Some(one) => WhatJson::One(Box::new(one)),
        None => WhatJson::All { namespace: "*", epoch: Shown(view.epoch), items },
    };
    let open = view.open.iter().map(|(resource, incarnation, operation_id)| OpenJson {
        resource: resource.as_str(),
        incarnation: Shown(*incarnation),
        operation_id: operation_id.as_str(),
    });
    wire::bytes(&WholeJson { what, open_operations: open.collect() })
}

fn issuer(issuer: Issuer) -> IssuerJson {
    let external = issuer.word();
    match issuer {
        Issuer::Gateway => IssuerJson::Own(external),
        Issuer::Trusted { max_jump } => IssuerJson::Other { external, max_jump: max_jump.map(Shown) },
        Issuer::Registered => IssuerJson::Other { external, max_jump: None },
    }
}
