//! Whoami: what a caller is called here and what it may do, in its own rules.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use crate::domain::permission::{Permission, Rule};
use crate::domain::time::Timestamp;

use super::Asked;
use super::names;
use super::problem::Problem;
use super::query::malformed;
use super::wire::{self, Rfc3339};

#[derive(Serialize)]
struct CallerJson<'a> {
    principal: &'a str,
    /// By what it was known: nothing, where no credentials are asked for.
    credential: &'static str,
    /// The public part of its key.
    key: Option<&'a str>,
    expires_at: Option<Rfc3339>,
    /// The most specific first: the first that matches a name decides alone.
    rules: Vec<RuleJson<'a>>,
    /// The verdict that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<VerdictJson<'a>>,
}

#[derive(Serialize)]
struct RuleJson<'a> {
    prefix: &'a str,
    permissions: Vec<&'static str>,
}

#[derive(Serialize)]
struct VerdictJson<'a> {
    permission: &'static str,
    resource: &'a str,
    allowed: bool,
    /// The rule that decides; none where none speaks of the name.
    rule: Option<RuleJson<'a>>,
}

/// `GET /v1/whoami`. With `permission` and `resource` it explains one verdict, whether or not the resource exists.
pub(super) fn show(asked: &Asked<'_>) -> Result<Response, Problem> {
    let caller = asked.caller;
    let words = Permission::ALL.map(Permission::word);
    let permission = asked.query.word("permission", &words, Permission::from_word)?;
    let resource = asked.query.value("resource");
    let verdict = match (permission, resource) {
        (None, None) => None,
        (Some(permission), Some(name)) => {
            names::subject_of(name)?;
            let decides = caller.rules().deciding(name);
            Some(VerdictJson {
                permission: permission.word(),
                resource: name,
                allowed: caller.rules().allow(name, permission),
                rule: decides.map(rule),
            })
        }
        (Some(_), None) | (None, Some(_)) => {
            return Err(malformed("give permission and resource together: they ask for one verdict"));
        }
    };
    let answer = CallerJson {
        principal: caller.name().as_str(),
        credential: caller.credential(),
        key: caller.key().map(crate::access::key::KeyId::as_str),
        expires_at: caller.until().map(|end: Timestamp| Rfc3339(end)),
        rules: caller.rules().all().iter().map(rule).collect(),
        verdict,
    };
    Ok(wire::json(StatusCode::OK, &answer))
}

fn rule(rule: &Rule) -> RuleJson<'_> {
    RuleJson { prefix: rule.prefix.as_str(), permissions: rule.permissions.words() }
}
