//! `fencegate backup`: a copy of the embedded database, beside a gateway that may run.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{self, Output};
use super::{block_on_all_cores, settings, table};
use crate::app::{self, Copied, Surroundings};
use crate::config::Flags;

/// What `backup` takes.
#[derive(Args)]
pub(super) struct Backup {
    /// The file, or a folder for it [default: fencegate-TIME.db in the working directory]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

impl Backup {
    pub(super) fn run(&self, config: Option<&Path>, output: &Output) -> Result<(), Failure> {
        let settings = settings::load(config, &Flags::default())?;
        let to = self.named(&app::stamp(Surroundings::system().clock.wall()));
        let made = match block_on_all_cores(app::back_up(&settings.config, &to))? {
            Copied::Done(made) => made,
            Copied::Refused(why) => return Err(Failure::Usage(why)),
        };
        let json = json!({
            "file": to.display().to_string(),
            "database": made.database.to_string(),
            "ledger_seq": made.ledger_seq.to_string(),
            "bytes": made.bytes,
            "verified": true,
        });
        output.answer(&output::json(&json), || told(&json))
    }

    fn named(&self, time: &str) -> PathBuf {
        let name = format!("fencegate-{time}.db");
        match &self.to {
            None => PathBuf::from(name),
            Some(folder) if folder.is_dir() => folder.join(name),
            Some(file) => file.clone(),
        }
    }
}

fn told(json: &Value) -> String {
    let facts = table::facts(
        json,
        &[
            ("backup", "/file"),
            ("database", "/database"),
            ("ledger seq", "/ledger_seq"),
            ("bytes", "/bytes"),
            ("verified", "/verified"),
        ],
    );
    format!("{facts}\n\nIt is a backup together with the seal key file; keep the two in different places.")
}
