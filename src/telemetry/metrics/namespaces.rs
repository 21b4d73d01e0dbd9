//! What is counted for each namespace, and for how many of them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::domain::namespaces::Namespaces;
use crate::limits::{NAMESPACES_METERED, WORDS_METERED};

use super::parts::{Count, Histogram, Level, Tally};
use super::{LONG_TIMES, TIMES};

/// The label of what has no series of its own: a namespace too many, or a refusal of which it is not known where. No
/// namespace is called so, since no name has a slash in it.
pub const OTHER: &str = "/other";

/// What is counted for one namespace.
#[derive(Debug)]
pub struct NamespaceMeters {
    /// Decisions that were no refusals, by outcome.
    pub outcomes: Tally<&'static str>,
    /// Refusals, by code.
    pub refusals: Tally<&'static str>,
    /// Saved answers that were given again.
    pub replays: Count,
    /// Operation ids and request ids that came with another content.
    pub mismatches: Count,
    /// From the arrival of an acquire that waited for nobody to its lease.
    pub acquired: Histogram,
    /// How long callers waited that were granted a lease.
    pub waited: Histogram,
    /// How long callers waited in vain.
    pub waited_in_vain: Histogram,
    /// From the arrival of a write to its decision.
    pub written: Histogram,
    /// Renewals that were refused, by code.
    pub renewals_failed: Tally<&'static str>,
    /// Renewals.
    pub renewals: Count,
    /// How long after the time that the gateway had named (`renew_after_ms`) they came.
    pub lateness: Histogram,
    /// What was left of the lease when they came.
    pub remaining: Histogram,
    /// Resources that got a new owner after another one.
    pub transfers: Count,
    /// Leases that ended because nobody renewed them.
    pub expired: Count,
    /// Operations that wait for their outcome without anything being wrong.
    pub intents: Level,
    /// Operations whose outcome is not known.
    pub uncertain: Level,
    /// The store behind HTTP, where there is one.
    pub upstream: UpstreamMeters,
}

/// What is counted for one store behind HTTP.
#[derive(Debug)]
pub struct UpstreamMeters {
    /// Calls, by kind and by what came of them.
    pub calls: Tally<(&'static str, &'static str)>,
    /// How long they took.
    pub took: Histogram,
    /// Operations that this process carries at the moment.
    pub lanes: Level,
    /// Probes, by result.
    pub probes: Tally<&'static str>,
}

impl NamespaceMeters {
    fn new() -> Self {
        Self {
            outcomes: Tally::with(WORDS_METERED),
            refusals: Tally::with(WORDS_METERED),
            replays: Count::default(),
            mismatches: Count::default(),
            acquired: Histogram::of_time(TIMES),
            waited: Histogram::of_time(LONG_TIMES),
            waited_in_vain: Histogram::of_time(LONG_TIMES),
            written: Histogram::of_time(TIMES),
            renewals_failed: Tally::with(WORDS_METERED),
            renewals: Count::default(),
            lateness: Histogram::of_time(LONG_TIMES),
            remaining: Histogram::of_time(LONG_TIMES),
            transfers: Count::default(),
            expired: Count::default(),
            intents: Level::default(),
            uncertain: Level::default(),
            upstream: UpstreamMeters {
                calls: Tally::with(WORDS_METERED),
                took: Histogram::of_time(TIMES),
                lanes: Level::default(),
                probes: Tally::with(WORDS_METERED),
            },
        }
    }
}

/// Where the meters of one more namespace come to stand.
type Place = OnceLock<(Box<str>, Box<NamespaceMeters>)>;

/// The meters of all namespaces: those that are configured, the first that come beside them, and one for the rest.
#[derive(Debug)]
pub struct Metered {
    configured: BTreeMap<Box<str>, Box<NamespaceMeters>>,
    /// Filled from the front; empty where only configured names are namespaces.
    others: Box<[Place]>,
    rest: Box<NamespaceMeters>,
}

impl Metered {
    /// The configured ones have their meters from the beginning.
    pub(super) fn of_all(namespaces: &Namespaces) -> Self {
        let one = || Box::new(NamespaceMeters::new());
        let places = if namespaces.allows_any() { NAMESPACES_METERED } else { 0 };
        Self {
            configured: namespaces.named().map(|(name, _)| (name.to_string().into(), one())).collect(),
            others: std::iter::repeat_with(OnceLock::new).take(places).collect(),
            rest: one(),
        }
    }

    /// The meters of a namespace. Only the first call for a name of its own allocates.
    #[must_use]
    pub fn of(&self, namespace: &str) -> &NamespaceMeters {
        if let Some(found) = self.configured.get(namespace) {
            return found;
        }
        let new = || (namespace.into(), Box::new(NamespaceMeters::new()));
        let mut places = self.others.iter().map(|place| place.get_or_init(new));
        places.find(|(name, _)| **name == *namespace).map_or(&self.rest, |(_, meters)| meters)
    }

    /// The meters of what no namespace is known of.
    #[must_use]
    pub const fn rest(&self) -> &NamespaceMeters {
        &self.rest
    }

    /// All that there are, with their labels.
    pub fn each(&self) -> impl Iterator<Item = (&str, &NamespaceMeters)> {
        let configured = self.configured.iter().map(|(name, meters)| (&**name, &**meters));
        let others = self.others.iter().filter_map(OnceLock::get).map(|(name, meters)| (&**name, &**meters));
        configured.chain(others).chain([(OTHER, &*self.rest)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broken: whoever makes up namespaces makes the list of series grow without end. Must hold: beyond the bound they
    /// share one label, and those that came before keep theirs.
    #[test]
    fn made_up_namespaces_beyond_the_bound_share_one_label() {
        let metered = Metered::of_all(&Namespaces::default());
        for number in 0..1_000 {
            metered.of(&format!("made-up-{number}")).replays.one();
        }
        metered.of("made-up-0").replays.one();
        let counted: Vec<(&str, u64)> =
            metered.each().map(|(name, meters)| (name, meters.replays.read())).collect();
        assert_eq!(counted.len(), NAMESPACES_METERED + 1);
        assert_eq!(counted.first(), Some(&("made-up-0", 2)));
        assert_eq!(counted.last(), Some(&(OTHER, 1_000 - 64)));
    }

    /// Broken: a namespace that is not configured gets a series where none but the configured ones exist. Must hold: it is
    /// counted with the rest.
    #[test]
    fn an_unknown_namespace_is_counted_with_the_rest() {
        let metered = Metered::of_all(&Namespaces::new(BTreeMap::new(), None));
        metered.of("nobody").replays.one();
        let counted: Vec<(&str, u64)> =
            metered.each().map(|(name, meters)| (name, meters.replays.read())).collect();
        assert_eq!(counted, [(OTHER, 1)]);
    }
}
