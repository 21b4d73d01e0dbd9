//! The stages of a stop, one after another.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::notify;
use super::reload::InForce;
use crate::http::Stopping;

/// When it is told to stop: not ready first, then the delay, then nothing new is taken in. The rest is up to whoever
/// serves the connections.
pub(super) async fn stages(shutdown: CancellationToken, stopping: Stopping, in_force: InForce) {
    shutdown.cancelled().await;
    notify::stopping("draining");
    stopping.announced.cancel();
    let delay = in_force.load().drain_delay.duration();
    if delay > Duration::ZERO {
        info!(delay_ms = in_force.load().drain_delay.get(), "not ready any more; serving on for a while");
        sleep(delay).await;
    }
    stopping.draining.cancel();
}
