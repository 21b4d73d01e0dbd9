//! `fencegate man`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};

use super::Cli;
use super::failure::Failure;
use super::output::Output;

/// What `man` takes.
#[derive(Args)]
pub(super) struct Man {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub(super) fn run(&self, output: &Output) -> Result<(), Failure> {
        self.write()
            .with_context(|| format!("cannot write to {}", self.folder.display()))
            .map_err(Failure::Start)?;
        if output.is_for_people() {
            output.line(&format!(
                "written to {}; read one with: man -l {0}/fencegate.1",
                self.folder.display()
            ))?;
        }
        Ok(())
    }

    fn write(&self) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        clap_mangen::generate_to(Cli::command(), &self.folder)
    }
}
