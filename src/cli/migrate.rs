//! `fencegate migrate`: the database's schema, step by step.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{self, Output};
use super::{block_on_all_cores, settings, table};
use crate::app::{self, MigrateMode, MigrationState};
use crate::config::Flags;

/// What `migrate` takes.
#[derive(Args)]
pub(super) struct Migrate {
    /// Change nothing; show all steps and which of them are done
    #[arg(long, conflicts_with = "dry_run")]
    status: bool,
    /// Change nothing; show the steps that would be taken
    #[arg(long)]
    dry_run: bool,
}

impl Migrate {
    pub(super) fn run(&self, config: Option<&Path>, output: &Output) -> Result<(), Failure> {
        let settings = settings::load(config, &Flags::default())?;
        let mode = if self.status || self.dry_run { MigrateMode::Status } else { MigrateMode::Apply };
        let steps = block_on_all_cores(app::migrate(&settings.config, mode))?;
        let shown = steps.iter().filter(|step| !self.dry_run || !step.applied);
        let items: Vec<Value> = shown.map(step).collect();
        let json = json!({ "steps": items });
        output.answer(&output::json(&json), || told(&items))
    }
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
