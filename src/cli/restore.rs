//! `fencegate restore`: a backup in the place of the embedded database.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{self, Output};
use super::{block_on_all_cores, settings, table};
use crate::app::{self, Copied, Restored, Surroundings};
use crate::config::Flags;

/// What `restore` takes.
#[derive(Args)]
pub(super) struct Restore {
    /// The backup, as `fencegate backup` made it
    file: PathBuf,
    /// Restore it although the database is known to have come further: what came after the backup is forgotten
    #[arg(long)]
    older: bool,
}

impl Restore {
    pub(super) fn run(&self, config: Option<&Path>, output: &Output) -> Result<(), Failure> {
        let settings = settings::load(config, &Flags::default())?;
        let surroundings = Surroundings::system();
        let restored = app::restore(&settings.config, &self.file, self.older, &surroundings);
        let restored = match block_on_all_cores(restored)? {
            Copied::Done(restored) => restored,
            Copied::Refused(why) => return Err(Failure::Story(why)),
        };
        let json = self.as_json(&restored);
        output.answer(&output::json(&json), || told(&json))
    }

    fn as_json(&self, restored: &Restored) -> Value {
        let next = [
            "fencegate recover",
            "fencegate serve",
            "restore a newer backup, or: fencegate epoch advance '*' --reason …",
        ];
        json!({
            "file": self.file.display().to_string(),
            "database": restored.now.database.to_string(),
            "backup_ledger_seq": restored.backup.ledger_seq.to_string(),
            "reached_ledger_seq": restored.reached.map(|reached| reached.to_string()),
            "ledger_seq": restored.now.ledger_seq.to_string(),
            "kept_aside": restored.aside.as_ref().map(|path| path.display().to_string()),
            "tripped": true,
            "found": restored.found,
            "next": next,
        })
    }
}

fn told(json: &Value) -> String {
    let facts = table::facts(
        json,
        &[
            ("restored from", "/file"),
            ("database", "/database"),
            ("backup at ledger seq", "/backup_ledger_seq"),
            ("reached before", "/reached_ledger_seq"),
            ("stands at ledger seq", "/ledger_seq"),
            ("old file kept as", "/kept_aside"),
            ("breaker tripped", "/tripped"),
            ("because", "/found"),
        ],
    );
    let next = json.pointer("/next").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let steps: Vec<String> =
        next.iter().filter_map(Value::as_str).map(|step| format!("  {}", table::clean(step))).collect();
    format!("{facts}\n\nnext:\n{}", steps.join("\n"))
}
