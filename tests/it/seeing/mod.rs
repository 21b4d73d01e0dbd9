//! What a gateway lets its operators see: metrics, traces and logs, and what must never be seen in them.

mod canary;
mod collector;
mod figures;
mod names;
mod traces;

use std::path::Path;

use crate::support::gateway::Gateway;

/// The text of a scrape.
async fn scrape(gateway: &Gateway) -> String {
    let answer = gateway.client.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    answer.text()
}

/// The value of a series that stands in a scrape exactly so.
fn value(scrape: &str, series: &str) -> f64 {
    let line = scrape.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not there:\n{scrape}")).parse().unwrap()
}

/// A file of the project.
fn read(path: &str) -> String {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&whole).unwrap_or_else(|error| panic!("{}: {error}", whole.display()))
}
