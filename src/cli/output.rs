//! The only place that writes to standard output and standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde_json::Value;

use super::failure::{Ending, Failure};

/// How a command speaks.
pub(super) struct Output {
    /// `--json` was given.
    asked_for_json: bool,
    /// Standard output is a terminal.
    terminal: bool,
}

impl Output {
    /// Looks once at what standard output is.
    pub(super) fn new(asked_for_json: bool) -> Self {
        Self { asked_for_json, terminal: io::stdout().is_terminal() }
    }

    /// Whether a person reads standard output and did not ask for JSON.
    pub(super) const fn is_for_people(&self) -> bool {
        self.terminal && !self.asked_for_json
    }

    /// Whether standard output is a terminal, whatever was asked for.
    pub(super) const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether `--json` was given.
    pub(super) const fn asked_for_json(&self) -> bool {
        self.asked_for_json
    }

    /// An answer: a table for people, else the JSON as it came, on one line.
    pub(super) fn answer(&self, json: &[u8], table: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.is_for_people() { self.line(&table()) } else { self.raw(json).and_then(|()| self.raw(b"\n")) }
    }

    /// A text and the end of its line.
    pub(super) fn line(&self, text: &str) -> Result<(), Failure> {
        self.raw(text.as_bytes())?;
        self.raw(b"\n")
    }

    /// Bytes as they are.
    #[expect(clippy::unused_self, reason = "whoever prints must hold the output")]
    pub(super) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// A remark beside the answer, to standard error.
    #[expect(clippy::unused_self, reason = "whoever prints must hold the output")]
    pub(super) fn note(&self, text: &str) {
        // When standard error is closed there is nobody left to tell.
        writeln!(io::stderr().lock(), "{text}").unwrap_or_default();
    }

    /// Says why a command failed.
    pub(super) fn failure(&self, failure: &Failure) {
        let text = if self.asked_for_json { failure.as_json().to_string() } else { failure.told() };
        if failure.ending() != Ending::Done && !text.is_empty() {
            self.note(&text);
        }
    }
}

/// Says what is wrong with a command line, or the help that it asked for.
pub(super) fn usage(error: &clap::Error) -> ExitCode {
    let code = if error.use_stderr() { Ending::Unusable } else { Ending::Done };
    match error.print() {
        Ok(()) => code.into(),
        Err(error) => Failure::Output(error).ending().into(),
    }
}

/// JSON of a value that was made here.
pub(super) fn json(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
