//! `[limits]`, `rate = { … }` of a principal and `quota = { … }` of a namespace: how much is let through.

use std::num::NonZeroU32;

use toml_edit::TableLike;

use super::given::{Given, Slot};
use super::keys::{LIMITS, QUOTA, RATE, note_unknown};
use super::mistake::Mistakes;
use crate::access::pace::Rate;
use crate::domain::counter;
use crate::domain::quota::Quota;
use crate::limits::{CONNECTIONS, RATE_GREATEST};

const EXAMPLE: &str = "[limits]";
pub(super) const RATE_EXAMPLE: &str = "{ requests_per_second = 100, burst = 200 }";
pub(super) const QUOTA_EXAMPLE: &str = "{ resources = 10000, operations = 1000000, bytes = 1000000000 }";

/// What is let through, over all namespaces and principals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// How often each principal may ask that has no rate of its own.
    pub rate: Option<Rate>,
    /// Connections from one address; none for a part of all, loopback excepted.
    pub connections_per_address: Option<u32>,
    /// Whether answers tell what is left of a rate.
    pub ratelimit_headers: bool,
}

/// What was said of rates.
#[derive(Default)]
pub(super) struct RateDraft {
    per_second: Slot<NonZeroU32>,
    burst: Slot<NonZeroU32>,
}

impl RateDraft {
    /// Takes one key. `false`: there is no such key.
    pub(super) fn take(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        let slot = match name {
            "requests_per_second" => &mut self.per_second,
            "burst" => &mut self.burst,
            _ => return false,
        };
        let number = given.whole(&(1..=RATE_GREATEST), mistakes);
        *slot =
            Slot::of(given, number.and_then(|number| NonZeroU32::try_from(u32::try_from(number).ok()?).ok()));
        true
    }

    /// Without a burst it is what a second brings.
    pub(super) fn settle(&self, key: &str, mistakes: &mut Mistakes) -> Option<Rate> {
        let Some(per_second) = self.per_second.found() else {
            if let (Some(burst), false) = (self.burst.found(), self.per_second.is_mistaken()) {
                let problem = "goes with requests_per_second alone; set both, or leave it out";
                mistakes.note(&burst.place, &format!("{key}burst"), problem);
            }
            return None;
        };
        Some(Rate { per_second: per_second.value, burst: self.burst.or(per_second.value) })
    }
}

/// What was said under `[limits]`.
#[derive(Default)]
pub(super) struct LimitsDraft {
    rate: RateDraft,
    connections_per_address: Slot<u32>,
    ratelimit_headers: Slot<bool>,
}

impl LimitsDraft {
    /// Takes the whole table.
    pub(super) fn take(&mut self, given: &Given<'_>, mistakes: &mut Mistakes) {
        let Some(table) = given.table(EXAMPLE, mistakes) else { return };
        for (name, given) in given.entries(table) {
            self.take_key(name, &given, mistakes);
        }
    }

    /// Takes one key of it.
    pub(super) fn take_key(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) {
        match name {
            "connections_per_address" => {
                let most = u64::try_from(CONNECTIONS).unwrap_or(u64::MAX);
                let number = given.whole(&(1..=most), mistakes).and_then(|number| u32::try_from(number).ok());
                self.connections_per_address = Slot::of(given, number);
            }
            "ratelimit_headers" => self.ratelimit_headers = Slot::of(given, given.truth(mistakes)),
            _ => {
                if !self.rate.take(name, given, mistakes) {
                    note_unknown(name, given, LIMITS, mistakes);
                }
            }
        }
    }

    pub(super) fn settle(&self, mistakes: &mut Mistakes) -> Limits {
        Limits {
            rate: self.rate.settle("limits.", mistakes),
            connections_per_address: self.connections_per_address.found().map(|found| found.value),
            ratelimit_headers: self.ratelimit_headers.or(false),
        }
    }
}

/// The rate of a principal, as a whole.
pub(super) fn rate(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Rate> {
    let table = given.table(RATE_EXAMPLE, mistakes)?;
    let mut draft = RateDraft::default();
    for (name, given) in given.entries(table) {
        if !draft.take(name, &given, mistakes) {
            note_unknown(name, &given, RATE, mistakes);
        }
    }
    let settled = draft.settle(&format!("{}.", given.key), mistakes);
    if table.is_empty() {
        given.wrong(mistakes, format!("says nothing; write {RATE_EXAMPLE}, or leave it out"));
    }
    settled
}

/// What was said of a quota.
#[derive(Default)]
pub(super) struct QuotaDraft {
    resources: Slot<u64>,
    operations: Slot<u64>,
    bytes: Slot<u64>,
}

impl QuotaDraft {
    /// Takes the whole table, which replaces what an earlier source said.
    pub(super) fn take(&mut self, table: &dyn TableLike, given: &Given<'_>, mistakes: &mut Mistakes) {
        *self = Self::default();
        for (name, given) in given.entries(table) {
            self.take_key(name, &given, mistakes);
        }
    }

    /// Takes one key of `quota = { … }`.
    pub(super) fn take_key(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) {
        let slot = match name {
            "resources" => &mut self.resources,
            "operations" => &mut self.operations,
            "bytes" => &mut self.bytes,
            _ => return note_unknown(name, given, QUOTA, mistakes),
        };
        *slot = Slot::of(given, given.whole(&(0..=counter::MAX), mistakes));
    }

    pub(super) fn settle(&self) -> Quota {
        let value = |slot: &Slot<u64>| slot.found().map(|found| found.value);
        Quota {
            resources: value(&self.resources),
            operations: value(&self.operations),
            bytes: value(&self.bytes),
        }
    }
}
