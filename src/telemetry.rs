//! Logs: lower case, identifiers as fields, never a payload, never a seal, never an acquisition id.
//!
//! A normal fence is one line at info; `error` is for what a person must act on.

mod line;
pub mod metrics;
pub mod spans;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, reload};

use crate::limits::{LOG_LINES, LOG_PAUSE};

/// Counts the lines that were thrown away: the log is one of the process, whatever runs in it.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Log lines that were thrown away since the process started.
#[must_use]
pub fn lines_dropped() -> u64 {
    DROPPED.get().map_or(0, |counter| u64::try_from(counter.dropped_lines()).unwrap_or(u64::MAX))
}

/// Rests after each flush, so that under load lines come together: whoever logs then wakes no thread for each of them.
struct Gathering<W>(W);

impl<W: Write> Write for Gathering<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()?;
        std::thread::sleep(LOG_PAUSE);
        Ok(())
    }
}

/// What is logged, for whoever changes it. The default changes nothing.
#[derive(Clone, Default)]
pub struct Levels(Option<Set>);

type Set = Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

impl Levels {
    /// Logs this from now on, in the syntax of `tracing_subscriber::EnvFilter`.
    ///
    /// # Errors
    /// When it is no filter, or nobody logs any more.
    pub fn set(&self, text: &str) -> Result<(), String> {
        let filter = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
        self.0.as_ref().map_or(Ok(()), |set| set(filter))
    }
}

/// Sends logs to standard error: one JSON object a line, or plain text on a terminal. A second call changes nothing.
/// What is still to be written is written when the guard is dropped.
///
/// Logging never holds a request up and never fails one: lines wait in a bounded queue for a thread of their own, and
/// are thrown away when nobody reads them or standard error is gone.
///
/// # Errors
/// When `filter` is no filter.
pub fn install(filter: &str) -> anyhow::Result<(WorkerGuard, Levels)> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| anyhow::anyhow!("{filter:?} is not a log filter: {error}"))?;
    // The thread writes what has come together as one, and flushes whenever nothing waits.
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LOG_LINES)
        .finish(Gathering(BufWriter::new(std::io::stderr())));
    DROPPED.get_or_init(|| writer.error_counter());
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    // Fails only when a subscriber is there already, as in tests.
    let (levels, installed) = if std::io::stderr().is_terminal() {
        let builder = builder.with_target(false).with_filter_reloading();
        let handle = builder.reload_handle();
        (levels(move |filter| handle.reload(filter)), builder.try_init())
    } else {
        let builder = builder.fmt_fields(line::Members).event_format(line::Line).with_filter_reloading();
        let handle = builder.reload_handle();
        (levels(move |filter| handle.reload(filter)), builder.try_init())
    };
    if installed.is_err() {
        tracing::debug!("logs were set up before");
    }
    Ok((guard, levels))
}

fn levels(set: impl Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync + 'static) -> Levels {
    Levels(Some(Arc::new(move |filter| set(filter).map_err(|error| error.to_string()))))
}
