//! What is told to the service manager (`sd_notify(3)`), where there is one. Without one each of these does nothing.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::ledger::{Ledger, Unserved};
use crate::limits::{PROBE_TIMEOUT, WATCHDOG_FEEDINGS};

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!(%error, "the service manager cannot be told");
    }
}

/// It serves.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It reads its configuration anew; [`ready`] ends that.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => debug!(%error, "the service manager cannot be told of a reload"),
    }
}

/// It stops.
pub(super) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Feeds the watchdog, where the service manager keeps one, for as long as the committers answer or go on with what they
/// have: a process that only looks alive is started again. A database that is away is no reason for that.
pub(super) async fn feed_watchdog(ledger: Ledger, stopping: CancellationToken) {
    let Some(patience) = sd_notify::watchdog_enabled() else { return };
    let pause = patience.checked_div(WATCHDOG_FEEDINGS).unwrap_or(patience);
    let mut served = None;
    loop {
        if answers(&ledger, &mut served, PROBE_TIMEOUT.min(pause)).await {
            tell(&[NotifyState::Watchdog]);
        } else {
            warn!("the committers do not answer; the watchdog of the service manager is not fed");
        }
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Only the waiting is given up, never the transaction. A full queue is no answer; committers that go on with it are.
async fn answers(ledger: &Ledger, served: &mut Option<u64>, within: Duration) -> bool {
    let before = served.replace(ledger.batches());
    match tokio::time::timeout(within, ledger.probe()).await {
        Err(_) => before.is_some_and(|before| before != ledger.batches()),
        Ok(Err(Unserved::Overloaded)) => before != Some(ledger.batches()),
        Ok(Ok(()) | Err(_)) => true,
    }
}
