//! `fencegate recover`: what contradicts itself after a loss, and the two ways out.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Ending, Failure};
use super::output::{self, Output};
use super::{block_on_all_cores, settings, table};
use crate::app::{self, Scope, Surroundings};
use crate::config::Flags;
use crate::domain::resource::Namespace;

/// What `recover` takes.
#[derive(Args)]
pub(super) struct Recover {
    /// Only this namespace [default: all]
    #[arg(value_parser = namespace)]
    namespace: Option<Namespace>,
    /// Show also the resources in which nothing contradicts
    #[arg(long)]
    all: bool,
    /// Leave the stores behind HTTP alone
    #[arg(long)]
    records_only: bool,
}

fn namespace(text: &str) -> Result<Namespace, String> {
    Namespace::parse(text).map_err(|error| error.to_string())
}

impl Recover {
    pub(super) fn run(self, config: Option<&Path>, output: &Output) -> Result<ExitCode, Failure> {
        let settings = settings::load(config, &Flags::default())?;
        let scope = Scope { namespace: self.namespace, all: self.all, records_only: self.records_only };
        let surroundings = Surroundings::system();
        let found = block_on_all_cores(app::recover(&settings.config, scope, &surroundings))?;
        output.answer(&output::json(&found.json), || told(&found.json))?;
        Ok(if found.is_wrong { Ending::Refused } else { Ending::Done }.into())
    }
}

fn listed<'a>(json: &'a Value, path: &str) -> &'a [Value] {
    json.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn told(json: &Value) -> String {
    let heading = table::facts(
        json,
        &[
            ("database", "/database/id"),
            ("engine", "/database/engine"),
            ("ledger seq", "/database/ledger_seq"),
            ("resources looked at", "/resources_looked_at"),
            ("contradictions", "/contradictions"),
            ("undecided operations", "/undecided"),
            ("stores that cannot tell", "/stores_unknown"),
            ("not shown", "/not_shown"),
        ],
    );
    let namespaces = table::rows(
        listed(json, "/namespaces"),
        &[
            ("namespace", "/namespace"),
            ("epoch", "/epoch"),
            ("breaker", "/breaker/detector"),
            ("since", "/breaker/at"),
            ("found", "/breaker/found"),
        ],
    );
    let mut parts = vec![heading, namespaces];
    let resources = listed(json, "/resources");
    if !resources.is_empty() {
        parts.push(table::rows(resources, COLUMNS));
    }
    let found: Vec<Value> = resources.iter().flat_map(contradictions).collect();
    if !found.is_empty() {
        parts.push(table::rows(
            &found,
            &[("resource", "/resource"), ("in", "/in"), ("contradicts", "/found")],
        ));
    }
    let next: Vec<String> = listed(json, "/next")
        .iter()
        .filter_map(Value::as_str)
        .map(|step| format!("  {}", table::clean(step)))
        .collect();
    parts.push(format!("next:\n{}", next.join("\n")));
    parts.join("\n\n")
}

const COLUMNS: &[(&str, &str)] = &[
    ("resource", "/resource"),
    ("incarnation", "/incarnation"),
    ("life", "/life"),
    ("issued", "/issued"),
    ("floor", "/floor"),
    ("revoked", "/revoked_through"),
    ("applied", "/applied"),
    ("commit", "/commit"),
    ("pointer", "/targets/0/etag"),
    ("newest operation", "/newest_operation/operation_id"),
    ("undecided", "/undecided/0/operation_id"),
    ("store shows", "/store/shows"),
    ("stamp", "/store/stamp"),
];

fn contradictions(resource: &Value) -> Vec<Value> {
    let name = resource.get("resource").cloned().unwrap_or_default();
    let with_name = |one: &Value| {
        let part = |key: &str| one.get(key).cloned().unwrap_or_default();
        json!({ "resource": name, "in": part("in"), "found": part("found") })
    };
    listed(resource, "/contradictions").iter().map(with_name).collect()
}
