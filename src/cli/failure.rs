//! How commands end: exit codes, and what is said about each failure.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::relayed::Relayed;
use super::table::clean;
use crate::config::Mistakes;

/// Exit codes. They are a promise to scripts: never change one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// 0.
    Done,
    /// 1: refused, and a repetition with the same values is refused too.
    Refused,
    /// 2: the command line, the configuration or the machine.
    Unusable,
    /// 3: nobody knows whether it took effect; a repetition with the same operation id is safe.
    Unknown,
    /// 4: nothing took effect yet; later it may.
    Unsettled,
    /// 75: `run` did not become the owner; the command was not started.
    NeverOwned,
    /// 79: `run` was the owner and is no more; the command was stopped.
    OwnershipLost,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Done => 0,
            Ending::Refused => 1,
            Ending::Unusable => 2,
            Ending::Unknown => 3,
            Ending::Unsettled => 4,
            Ending::NeverOwned => 75,
            Ending::OwnershipLost => 79,
        })
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command line asks for what cannot be.
    Usage(String),
    /// The configuration is wrong.
    Mistakes(Mistakes),
    /// The machine does not give what a start needs.
    Start(anyhow::Error),
    /// The gateway said no.
    Refused(Box<Problem>),
    /// A store behind it said no.
    Relayed(Box<Relayed>),
    /// No connection: nothing was sent.
    Unreachable(String),
    /// Something was sent and no usable answer came.
    Lost(String),
    /// Standard output or a file does not take the answer.
    Output(io::Error),
    /// A lease waits for a barrier: it is granted, and may not be used yet.
    Pending(String),
    /// What was tried did not go as it must.
    Story(String),
    /// `run` did not become the owner.
    NeverOwned(String),
    /// `run` lost its lease while the command ran.
    OwnershipLost(String),
}

/// A refusal as the gateway sends it (RFC 9457).
#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    page: String,
    title: String,
    status: u16,
    detail: String,
    pub(super) code: String,
    effect: String,
    retryable: bool,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(default)]
    operation: Option<String>,
    #[serde(skip)]
    raw: Value,
    #[serde(skip)]
    base: String,
}

impl Problem {
    /// Reads a problem that the gateway at `base` sent. `None`: it is none.
    pub(super) fn read(body: &[u8], base: &str) -> Option<Self> {
        let raw: Value = serde_json::from_slice(body).ok()?;
        let problem = Self::deserialize(&raw).ok()?;
        Some(Self { raw, base: base.to_owned(), ..problem })
    }

    /// Its status.
    pub(super) const fn status(&self) -> u16 {
        self.status
    }

    /// Whether the same request may succeed later, or its outcome is not known: a repetition is safe then.
    pub(super) fn is_open(&self) -> bool {
        self.retryable || self.effect == "unknown"
    }

    /// Whether a repetition could find that it took effect after all.
    pub(super) fn is_doubtful(&self) -> bool {
        self.effect == "unknown"
    }

    /// How long the gateway asks to wait.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }

    /// Whether the resource of an ended lease was cancelled.
    pub(super) fn cancel_requested(&self) -> bool {
        self.raw.get("cancel_requested") == Some(&Value::Bool(true))
    }

    /// Code, status and detail on one line.
    fn brief(&self) -> String {
        format!("{} ({}): {}", self.code, self.status, self.detail)
    }

    fn ending(&self) -> Ending {
        match self.status {
            // "In progress" has no effect yet that anybody could know, and asks for a later try.
            _ if self.effect == "unknown" && self.status != 409 => Ending::Unknown,
            _ if self.retryable => Ending::Unsettled,
            400..=499 => Ending::Refused,
            _ => Ending::Unknown,
        }
    }

    fn advice(&self) -> String {
        let when = self
            .retry_after_ms
            .map(|ms| format!(" in about {}", humantime::format_duration(Duration::from_millis(ms))));
        match self.ending() {
            Ending::Unsettled if matches!(self.code.as_str(), "quarantined" | "issuer_behind") => {
                "tell an operator: it goes on when somebody has looked into it, and not by itself".to_owned()
            }
            Ending::Unsettled => {
                format!("run the same command again{}", when.unwrap_or_else(|| " later".to_owned()))
            }
            Ending::Unknown => {
                let again =
                    "run the same command again, with the same operation id: it is applied at most once";
                match &self.operation {
                    Some(link) => format!("{again}; or ask for the outcome at {}{link}", self.base),
                    None => again.to_owned(),
                }
            }
            Ending::Done
            | Ending::Refused
            | Ending::Unusable
            | Ending::NeverOwned
            | Ending::OwnershipLost => {
                "follow the line above; repeating it unchanged does not help".to_owned()
            }
        }
    }

    /// Title, detail, code, and what to do.
    fn told(&self) -> String {
        let heading = match self.ending() {
            Ending::Unsettled => "not settled",
            Ending::Unknown => "outcome unknown",
            Ending::Done
            | Ending::Refused
            | Ending::Unusable
            | Ending::NeverOwned
            | Ending::OwnershipLost => "refused",
        };
        let mut text =
            format!("{heading}: {} ({} {}, effect {})", self.title, self.status, self.code, self.effect);
        let page = if self.page.starts_with('/') {
            format!("{}{}", self.base, self.page)
        } else {
            self.page.clone()
        };
        for (label, line) in [("why", &self.detail), ("do", &self.advice()), ("see", &page)] {
            // Writing to a string cannot fail.
            write!(text, "\n  {label:<4} {line}").unwrap_or_default();
        }
        clean(&text)
    }
}

impl Failure {
    /// The exit code.
    pub(super) fn ending(&self) -> Ending {
        match self {
            Self::Refused(problem) => problem.ending(),
            Self::Relayed(relayed) => relayed.ending(),
            Self::Unreachable(_) | Self::Lost(_) => Ending::Unknown,
            // `fencegate … | head` is no failure: the reader has seen what it wanted.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ending::Done,
            Self::Usage(_) | Self::Mistakes(_) | Self::Start(_) | Self::Output(_) => Ending::Unusable,
            Self::Pending(_) => Ending::Unsettled,
            Self::Story(_) => Ending::Refused,
            Self::NeverOwned(_) => Ending::NeverOwned,
            Self::OwnershipLost(_) => Ending::OwnershipLost,
        }
    }

    /// What happened on one line, for commands that say it inside a sentence of their own.
    pub(super) fn brief(&self) -> String {
        let text = match self {
            Self::Refused(problem) => problem.brief(),
            Self::Relayed(relayed) => relayed.brief(),
            Self::Usage(text)
            | Self::Unreachable(text)
            | Self::Lost(text)
            | Self::Pending(text)
            | Self::Story(text)
            | Self::NeverOwned(text)
            | Self::OwnershipLost(text) => text.clone(),
            Self::Mistakes(mistakes) => mistakes.to_string(),
            Self::Start(error) => format!("{error:#}"),
            Self::Output(error) => error.to_string(),
        };
        clean(&text).replace('\n', " ")
    }

    /// What is said to a person; empty where nothing is to be said.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Usage(text) | Self::Unreachable(text) | Self::Lost(text) | Self::Story(text) => {
                format!("error: {}", clean(text))
            }
            Self::NeverOwned(_) | Self::OwnershipLost(_) => format!("fencegate run: {}", self.brief()),
            Self::Pending(text) => format!("not settled: {}", clean(text)),
            Self::Relayed(relayed) => format!("{}\n\n{}", relayed.brief(), relayed.told()),
            Self::Mistakes(mistakes) => clean(&mistakes.to_string()),
            Self::Start(error) => format!("error: {}", clean(&format!("{error:#}"))),
            Self::Refused(problem) => problem.told(),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => String::new(),
            Self::Output(error) => format!("error: cannot write the answer: {error}"),
        }
    }

    /// The same for a program.
    pub(super) fn as_json(&self) -> Value {
        match self {
            Self::Refused(problem) => problem.raw.clone(),
            Self::Relayed(relayed) => relayed.as_json(),
            Self::Mistakes(mistakes) => json!({ "mistakes": mistakes.iter().collect::<Vec<_>>() }),
            Self::Usage(text)
            | Self::Unreachable(text)
            | Self::Lost(text)
            | Self::Pending(text)
            | Self::Story(text)
            | Self::NeverOwned(text)
            | Self::OwnershipLost(text) => {
                json!({ "error": text })
            }
            Self::Start(error) => json!({ "error": format!("{error:#}") }),
            Self::Output(error) => json!({ "error": error.to_string() }),
        }
    }
}

impl From<io::Error> for Failure {
    /// Only writing an answer fails without a better word.
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(status: u16, effect: &str, retryable: bool) -> Problem {
        let body = json!({
            "type": "/docs/errors/some_code", "title": "Some title", "status": status, "detail": "Some detail.",
            "instance": "/x", "code": "some_code", "effect": effect, "retryable": retryable, "retry_after_ms": 1500,
            "operation": "/v1/operations/a?resource=b", "request_id": "r", "new_field": 1,
        });
        Problem::read(body.to_string().as_bytes(), "http://gate").unwrap()
    }

    #[test]
    fn each_kind_of_refusal_has_its_exit_code() {
        let table = [
            (412, "none", false, Ending::Refused),
            (404, "none", false, Ending::Refused),
            (422, "none", false, Ending::Refused),
            (409, "none", true, Ending::Unsettled),
            (409, "unknown", true, Ending::Unsettled),
            (409, "none", false, Ending::Refused),
            (408, "none", true, Ending::Unsettled),
            (429, "none", true, Ending::Unsettled),
            (503, "none", true, Ending::Unsettled),
            (503, "unknown", true, Ending::Unknown),
            (504, "unknown", false, Ending::Unknown),
            (500, "unknown", false, Ending::Unknown),
            (500, "none", false, Ending::Unknown),
            (410, "unknown", false, Ending::Unknown),
        ];
        for (status, effect, retryable, ending) in table {
            assert_eq!(problem(status, effect, retryable).ending(), ending, "{status} {effect} {retryable}");
        }
    }

    #[test]
    fn a_refusal_is_told_with_title_detail_code_and_what_to_do() {
        assert_eq!(
            problem(503, "none", true).told(),
            "not settled: Some title (503 some_code, effect none)\n  why  Some detail.\n  do   run the same command \
             again in about 1s 500ms\n  see  http://gate/docs/errors/some_code"
        );
        assert!(problem(504, "unknown", false).told().contains("http://gate/v1/operations/a?resource=b"));
        assert!(problem(412, "none", false).told().contains("repeating it unchanged does not help"));
    }

    #[test]
    fn what_is_not_a_problem_is_not_taken_for_one() {
        assert!(Problem::read(b"<html>", "http://gate").is_none());
        assert!(Problem::read(b"{\"error\":\"x\"}", "http://gate").is_none());
    }

    #[test]
    fn a_reader_that_has_gone_away_is_no_failure() {
        let gone = Failure::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!((gone.ending(), gone.told()), (Ending::Done, String::new()));
    }
}
