//! Logs: lower case, identifiers as fields, never a payload, never a seal, never an acquisition id.
//!
//! A normal fence is one line at info; `error` is for what a person must act on.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Variable that sets what is logged, in the syntax of `tracing_subscriber::EnvFilter`.
pub const FILTER_VARIABLE: &str = "FENCEGATE_LOG";

/// Sends logs to standard error: one JSON object a line, or plain text on a terminal. A second call changes nothing.
///
/// # Errors
/// When [`FILTER_VARIABLE`] is set to something that is no filter.
pub fn install() -> anyhow::Result<()> {
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(text) => EnvFilter::try_new(&text)
            .map_err(|error| anyhow::anyhow!("{FILTER_VARIABLE}={text:?} is not a log filter: {error}"))?,
        Err(_) => EnvFilter::new("info"),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only when a subscriber is there already, as in tests.
    let installed = if std::io::stderr().is_terminal() {
        builder.with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    };
    if installed.is_err() {
        tracing::debug!("logs were set up before");
    }
    Ok(())
}
