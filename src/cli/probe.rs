//! `fencegate probe`: whether a store does what its class promises, tried on the store itself.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{self, Output};
use super::{block_on_all_cores, settings, table};
use crate::app::{self, ProbeReport};
use crate::config::{Config, FileText, Flags};
use crate::domain::resource::Namespace;
use crate::domain::store::HttpStore;

/// The namespace that a store on the command line gets.
const ALONE: &str = "probe";

/// What `probe` takes.
#[derive(Args)]
pub(super) struct Probe {
    /// A namespace of the configuration, or the address of a store
    #[arg(value_name = "NAMESPACE|URL")]
    target: String,
    /// Class of the store at an address: `conditional`, `fence_aware`, `idempotent` or `serial`
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// A further key of the store at an address, as in the configuration: --set 'stamp={ header = "x-fencing-stamp" }'
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Probe {
    pub(super) fn run(self, config: Option<&Path>, output: &Output) -> Result<(), Failure> {
        let (namespace, store) =
            if self.target.contains("://") { self.store_at_address()? } else { self.configured(config)? };
        let (class, guarantee) = (store.class.word(), store.class.guarantee());
        let report = block_on_all_cores(app::probe(namespace, store))?;
        let json = as_json(class, guarantee, &report);
        output.answer(&output::json(&json), || told(class, guarantee, &report))?;
        if report.passed() {
            return Ok(());
        }
        Err(Failure::Story(format!(
            "the store does not do what class {class} promises; writes to it are refused"
        )))
    }

    fn configured(&self, config: Option<&Path>) -> Result<(Namespace, HttpStore), Failure> {
        if self.class.is_some() || !self.set.is_empty() {
            let said =
                "--class and --set belong to an address; a namespace has its class in the configuration";
            return Err(Failure::Usage(said.to_owned()));
        }
        let mut config = settings::load(config, &Flags::default())?.config;
        let found = Namespace::parse(&self.target).ok().and_then(|name| config.stores.remove_entry(&name));
        found.ok_or_else(|| {
            let known: Vec<String> = config.stores.keys().map(ToString::to_string).collect();
            let target = &self.target;
            Failure::Usage(format!(
                "namespace {target:?} has no store behind HTTP in the configuration; those that have: {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))
        })
    }

    /// The configuration's own reader says what is wrong with an address or a key.
    fn store_at_address(&self) -> Result<(Namespace, HttpStore), Failure> {
        let Some(class) = &self.class else {
            return Err(Failure::Usage(
                "give --class: conditional, fence_aware, idempotent or serial".to_owned(),
            ));
        };
        let more = self.set.join("\n");
        let (address, class) = (toml_text(&self.target), toml_text(class));
        let text = format!("[namespaces.{ALONE}.store]\nhttp = {address}\nclass = {class}\n{more}");
        let file = FileText { path: Path::new("(command line)"), text: &text };
        let mut config: Config = settings::parse_alone(file)?;
        let found = config.stores.pop_first();
        found.ok_or_else(|| Failure::Usage("this is no store behind HTTP".to_owned()))
    }
}

/// A string of TOML.
fn toml_text(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

fn as_json(class: &str, guarantee: &str, report: &ProbeReport) -> Value {
    let checks: Vec<Value> = report
        .checks
        .iter()
        .map(|check| json!({"check": check.name, "passed": check.passed, "detail": check.detail}))
        .collect();
    json!({"class": class, "guarantee": guarantee, "passed": report.passed(), "checks": checks})
}

fn told(class: &str, guarantee: &str, report: &ProbeReport) -> String {
    let rows: Vec<Value> = report
        .checks
        .iter()
        .map(|check| {
            let verdict = if check.passed { "passed" } else { "FAILED" };
            json!({"check": check.name, "verdict": verdict, "detail": check.detail})
        })
        .collect();
    let verdict = if report.passed() { "passed" } else { "not passed" };
    let rows = table::rows(&rows, &[("VERDICT", "/verdict"), ("CHECK", "/check"), ("DETAIL", "/detail")]);
    format!("{rows}\n\nclass {class} ({guarantee}): {verdict}")
}
