//! Hundreds of connections at once that want little and hold much: some say nothing, some begin a request and stop, some ask
//! and never read, and some ask for more than they can have.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::wire;
use crate::limits::EXAM_LOOK;

/// Opens so many, and closes all of them after some time. How many calls of workers were under way at most, as `waiting` tells.
pub(super) async fn blow(port: u16, count: u64, length: Duration, waiting: impl Fn() -> u64) -> u64 {
    let mut all = JoinSet::new();
    for number in 0..count {
        all.spawn(one(port, number, length));
    }
    let mut most = 0;
    while !all.is_empty() {
        most = waiting().max(most);
        // The tasks end by themselves.
        drop(timeout(EXAM_LOOK, all.join_next()).await);
    }
    most
}

async fn one(port: u16, number: u64, length: Duration) {
    let Ok(Ok(mut stream)) = timeout(length, wire::connect(port)).await else { return };
    let whole = wire::request("GET", "/v1/resources?limit=100", &[], &[]);
    let half = whole.get(..whole.len().div_ceil(2)).unwrap_or_default();
    let lease = "{\"resource\":\"papers/storm\",\"wait_ms\":30000}";
    let wait = wire::request(
        "POST",
        "/v1/leases",
        &[("content-type", "application/json".to_owned())],
        lease.as_bytes(),
    );
    let bytes = match number.checked_rem(4) {
        Some(0) => &[],
        Some(1) => half,
        Some(2) => whole.as_slice(),
        Some(_) | None => wait.as_slice(),
    };
    stream.write_all(bytes).await.unwrap_or_default();
    sleep(length).await;
}
