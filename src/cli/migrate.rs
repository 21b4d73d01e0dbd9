//! `fencegate migrate`: the database's schema, step by step, and the end of an upgrade.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{self, Output};
use super::{block_on_all_cores, settings, table};
use crate::app::{self, MigrateMode, MigrationState, PROTOCOL};
use crate::config::Flags;

/// What `migrate` takes.
#[derive(Args)]
pub(super) struct Migrate {
    /// Change nothing; show all steps, which of them are done, and which protocol the database demands
    #[arg(long, conflicts_with_all = ["dry_run", "finish"])]
    status: bool,
    /// Change nothing; show the steps that would be taken
    #[arg(long, conflicts_with = "finish")]
    dry_run: bool,
    /// End an upgrade: from now on the database refuses every gateway of an earlier release
    ///
    /// Call it when every gateway runs this release. Nobody can know that of the others: one that still runs an earlier
    /// release is refused with its next batch, and one that is started later at its start. There is no way back but a backup.
    /// Releases from before there was such a demand do not look at it: stop those first.
    #[arg(long)]
    finish: bool,
}

impl Migrate {
    pub(super) fn run(&self, config: Option<&Path>, output: &Output) -> Result<(), Failure> {
        let settings = settings::load(config, &Flags::default())?;
        let mode = match (self.status || self.dry_run, self.finish) {
            (true, _) => MigrateMode::Status,
            (false, true) => MigrateMode::Finish,
            (false, false) => MigrateMode::Apply,
        };
        let report = block_on_all_cores(app::migrate(&settings.config, mode))?;
        let shown = report.steps.iter().filter(|step| !self.dry_run || !step.applied);
        let items: Vec<Value> = shown.map(step).collect();
        let protocol = json!({ "least": report.least_protocol, "this": PROTOCOL });
        let json = json!({ "steps": items, "protocol": protocol });
        output.answer(&output::json(&json), || {
            let steps = told(&items);
            if self.dry_run { steps } else { format!("{steps}\n\n{}", demanded(report.least_protocol)) }
        })
    }
}

fn demanded(least: Option<u32>) -> String {
    let least = least.map_or_else(|| "none yet".to_owned(), |least| least.to_string());
    format!("protocol demanded by the database: {least}; spoken by this release: {PROTOCOL}")
}

fn told(items: &[Value]) -> String {
    if items.is_empty() {
        return "nothing to do".to_owned();
    }
    table::rows(items, &[("step", "/version"), ("what", "/description"), ("state", "/state")])
}

fn step(step: &MigrationState) -> Value {
    let state = if step.applied { "done" } else { "to do" };
    json!({ "version": step.version, "description": step.description, "applied": step.applied, "state": state })
}
