//! `fencegate can`: the verdict of the configured rules, before anybody tries.

use std::path::Path;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::output::{self, Output};
use super::{settings, table};
use crate::access::Principal;
use crate::access::key::ApiKey;
use crate::config::Flags;
use crate::domain::permission::{Permission, Rule};
use crate::domain::subject::Subject;

/// What `can` takes.
#[derive(Args)]
pub(super) struct Can {
    /// A key's public id, a whole key, or the name of a principal in the configuration
    #[arg(value_name = "KEY")]
    who: String,
    /// What would be done: read, lease, write, advance, operate or admin
    #[arg(value_parser = permission)]
    permission: Permission,
    /// The resource, a namespace, or * for everything
    #[arg(value_parser = subject)]
    resource: Subject,
}

fn permission(text: &str) -> Result<Permission, String> {
    let known = || Permission::ALL.map(Permission::word).join(", ");
    Permission::from_word(text).ok_or_else(|| format!("write one of {}", known()))
}

fn subject(text: &str) -> Result<Subject, String> {
    Subject::parse(text).map_err(|error| error.to_string())
}

impl Can {
    pub(super) fn run(self, config: Option<&Path>, output: &Output) -> Result<(), Failure> {
        let config = settings::load(config, &Flags::default())?.config;
        let principal = found(&config.principals, &self.who)?;
        let name = match &self.resource {
            Subject::Everywhere => "",
            Subject::Namespace(_) | Subject::Resource(_) => self.resource.as_str(),
        };
        let rule = principal.rules.deciding(name);
        let allowed = principal.rules.allow(name, self.permission);
        let because = rule.map_or_else(|| "no rule speaks of it".to_owned(), told);
        let json = json!({
            "principal": principal.name.as_str(),
            "permission": self.permission.word(),
            "resource": self.resource.as_str(),
            "allowed": allowed,
            "rule": rule.map(|rule| json!({"prefix": rule.prefix.as_str(), "permissions": rule.permissions.words()})),
        });
        let verdict = if allowed { "yes" } else { "no" };
        output.answer(&output::json(&json), || {
            table::pairs(&[
                ("verdict", verdict.to_owned()),
                ("principal", principal.name.to_string()),
                ("because", because.clone()),
            ])
        })?;
        if allowed {
            return Ok(());
        }
        Err(Failure::Story(format!(
            "{} may not {} {}: {because}",
            principal.name,
            self.permission.word(),
            self.resource
        )))
    }
}

fn told(rule: &Rule) -> String {
    let words = rule.permissions.words();
    let allows = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    format!("the rule for {:?} allows {allows}", rule.prefix.as_str())
}

/// A whole key is never repeated in a message.
fn found<'a>(principals: &'a [Principal], who: &str) -> Result<&'a Principal, Failure> {
    if principals.is_empty() {
        let said = "no principals are configured: on this machine everybody may do everything";
        return Err(Failure::Usage(said.to_owned()));
    }
    if let Ok(key) = ApiKey::parse(who) {
        let held = |principal: &&Principal| {
            principal.keys.iter().any(|held| held.id == *key.id() && held.digest == key.digest())
        };
        let unknown = || Failure::Story(format!("the key {} is nobody's in this configuration", key.id()));
        return principals.iter().find(held).ok_or_else(unknown);
    }
    let is_meant = |principal: &&Principal| {
        principal.name.as_str() == who || principal.keys.iter().any(|held| held.id.as_str() == who)
    };
    principals.iter().find(is_meant).ok_or_else(|| {
        let names: Vec<&str> = principals.iter().map(|one| one.name.as_str()).collect();
        Failure::Usage(format!(
            "it is no key and no principal of the configuration, which has {}",
            names.join(", ")
        ))
    })
}
