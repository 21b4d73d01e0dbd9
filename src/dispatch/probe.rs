//! Probes: a store earns its class when the process starts, when it names another version, and every day anew. Until it
//! has, nothing is written to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::backing::Upstream;
use crate::domain::resource::Namespace;
use crate::limits::{
    PROBE_AGAIN, PROBE_PAUSE_LEAST, PROBE_PAUSE_MOST, PROBE_VERSION_LOOK, PROBE_VERSION_PAUSE,
};

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
    let (mut why, mut asked) = (Why::Due, None);
    loop {
        // What stands already may lead to what was there before, and what others learn meanwhile is not the probe's.
        let trial = upstream.anew();
        let earned = probed(&shop, &namespace, &trial).await;
        shop.meters(&namespace).probes.of(earned.word()).one();
        note(&namespace, &earned);
        if earned == Earned::Passed {
            upstream.has_passed(&trial, why == Why::Version);
        }
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
        why = tokio::select! {
            goes_on = shop.pause(next) => if goes_on { Why::Due } else { return },
            () = another_version(&shop, &upstream, &mut asked), if next == PROBE_AGAIN => {
                info!(%namespace, versions = ?upstream.versions(), "the store names another version");
                Why::Version
            }
        };
    }
}

/// What a probe is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Due,
    Version,
}

/// Waits for a version that no probe has met; the one after that not before a pause. `asked`: when the last one came.
async fn another_version(shop: &Shop, upstream: &Upstream, asked: &mut Option<Duration>) {
    upstream.another_version().await;
    let is_soon = |now: Duration| asked.is_some_and(|last| now.saturating_sub(last) < PROBE_VERSION_PAUSE);
    while is_soon((shop.elapsed)()) {
        sleep(PROBE_VERSION_LOOK).await;
    }
    *asked = Some((shop.elapsed)());
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
        // It went away in the middle: a check without its answer says nothing of what the store does.
        Some((_, check)) if report.silence.is_some() => {
            let silence = report.silence.as_deref().unwrap_or_default();
            Earned::Unreachable(format!("it went away at the check \"{}\": {silence}", check.name))
        }
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
