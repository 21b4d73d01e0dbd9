//! Probes: a store earns its class when the process starts, and every day anew. Until it has, nothing is written to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::backing::Upstream;
use crate::domain::resource::Namespace;
use crate::limits::{PROBE_AGAIN, PROBE_PAUSE_LEAST, PROBE_PAUSE_MOST};

use super::Shop;

/// The resource below which probes write, in each namespace.
const SCRATCH: &str = ".fencegate-probe";

/// Where a store stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earned {
    /// The configuration asks for no probe.
    NotAsked,
    /// The first probe is under way.
    NotYet,
    /// It does what its class promises.
    Passed,
    /// It could not be reached; what is wrong, for people.
    Unreachable(String),
    /// It does not do what its class promises; which check failed, and what was seen.
    Failed(String),
}

impl Earned {
    /// The word in status answers.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NotAsked => "off",
            Self::NotYet => "pending",
            Self::Passed => "passed",
            Self::Unreachable(_) => "unreachable",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether writes may be announced.
    #[must_use]
    pub const fn admits(&self) -> bool {
        match self {
            Self::NotAsked | Self::Passed => true,
            Self::NotYet | Self::Unreachable(_) | Self::Failed(_) => false,
        }
    }
}

/// Where all stores stand.
pub(super) type Standings = BTreeMap<Namespace, watch::Sender<Earned>>;

/// Nobody has been probed yet.
pub(super) fn standings(upstreams: &super::Upstreams) -> Standings {
    let first = |upstream: &Upstream| {
        if upstream.store().probe { Earned::NotYet } else { Earned::NotAsked }
    };
    upstreams
        .iter()
        .map(|(namespace, upstream)| (namespace.clone(), watch::Sender::new(first(upstream))))
        .collect()
}

/// Probes one store until the process stops.
pub(super) async fn run(shop: Arc<Shop>, namespace: Namespace, upstream: Arc<Upstream>) {
    let Some(standing) = shop.standings.get(&namespace).cloned() else { return };
    if !upstream.store().probe {
        let (class, guarantee) = (upstream.store().class.word(), upstream.store().class.guarantee());
        info!(%namespace, class, guarantee, "the store of this namespace is not probed");
        return;
    }
    let mut pause = PROBE_PAUSE_LEAST;
    loop {
        let earned = probed(&shop, &namespace, &upstream).await;
        shop.meters(&namespace).probes.of(earned.word()).one();
        note(&namespace, &earned);
        let next: Duration = if earned.admits() {
            pause = PROBE_PAUSE_LEAST;
            PROBE_AGAIN
        } else {
            pause = pause.saturating_mul(2).min(PROBE_PAUSE_MOST);
            pause
        };
        // A store that was reached once and is away at the next probe has not lost what it had shown: only a failure
        // takes that back.
        standing.send_modify(|stands| {
            if !matches!((&*stands, &earned), (Earned::Passed, Earned::Unreachable(_))) {
                *stands = earned;
            }
        });
        if !shop.pause(next).await {
            return;
        }
    }
}

/// One probe, under a name that was never used before.
async fn probed(shop: &Shop, namespace: &Namespace, upstream: &Upstream) -> Earned {
    let Ok(drawn) = shop.entropy.draw() else {
        return Earned::Unreachable("there is no randomness to make a new name from".to_owned());
    };
    let name = Uuid::from_bytes(drawn).simple().to_string();
    let report = upstream.probe(&format!("{namespace}/{SCRATCH}/{name}")).await;
    let failed = report.checks.iter().position(|check| !check.passed);
    match failed.and_then(|index| Some((index, report.checks.get(index)?))) {
        None => Earned::Passed,
        // Whatever comes first finds out whether the store is there at all.
        Some((0, check)) => Earned::Unreachable(check.detail.clone()),
        Some((_, check)) => Earned::Failed(format!("{}: {}", check.name, check.detail)),
    }
}

fn note(namespace: &Namespace, earned: &Earned) {
    match earned {
        Earned::NotAsked | Earned::NotYet => {}
        Earned::Passed => info!(%namespace, "the store has passed the probe of its class"),
        Earned::Unreachable(reason) => {
            warn!(%namespace, reason, "the store cannot be probed; nothing is written to it");
        }
        Earned::Failed(reason) => {
            error!(%namespace, reason, "the store does not do what its class promises; nothing is written to it");
        }
    }
}
