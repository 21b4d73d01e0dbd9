//! `fencegate completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use super::failure::Failure;
use super::output::Output;

/// What `completions` takes.
#[derive(Args)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, output: &Output) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "fencegate", &mut script);
        output.raw(&script)
    }
}
