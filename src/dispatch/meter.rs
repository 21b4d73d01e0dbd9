//! How long stores take, and what comes of calling them.

use std::time::Duration;

use crate::backing::{Asked, CellRead, ReadAnswer, ReadFailed, Sent};
use crate::domain::resource::Namespace;
use crate::telemetry::metrics::UpstreamMeters;

use super::Shop;

/// What came of a call, in one word.
pub(super) trait Told {
    fn word(&self) -> &'static str;
}

impl Told for Sent {
    fn word(&self) -> &'static str {
        match self {
            Self::Answered(answer) if answer.relayed.is_success() => "success",
            Self::Answered(_) => "refused",
            Self::NotSent(_) => "not_sent",
            Self::Doubt(_) => "doubt",
        }
    }
}

impl Told for CellRead {
    fn word(&self) -> &'static str {
        match self {
            Self::Seen(_) => "success",
            Self::Unreadable(_) => "failed",
        }
    }
}

impl Told for Asked {
    fn word(&self) -> &'static str {
        match self {
            Self::Done(_) => "success",
            Self::NotFound => "not_found",
            Self::Unclear(_) => "failed",
        }
    }
}

impl Told for Result<ReadAnswer, ReadFailed> {
    fn word(&self) -> &'static str {
        match self {
            Ok(_) => "success",
            Err(ReadFailed::Unreachable(_)) => "not_sent",
            Err(ReadFailed::TimedOut(_) | ReadFailed::Broken(_)) => "failed",
        }
    }
}

impl Shop {
    /// The meters of a namespace's store.
    pub(super) fn meters(&self, namespace: &Namespace) -> &UpstreamMeters {
        &self.ledger.metrics().namespaces.of(namespace.as_str()).upstream
    }

    /// Begins to time one call of a store. It does not hold the call, whose future is large.
    pub(super) fn timing(&self, namespace: &Namespace, call: &'static str) -> Timing<'_> {
        Timing { shop: self, namespace: namespace.clone(), call, began: (self.elapsed)() }
    }
}

/// A call that goes on.
pub(super) struct Timing<'s> {
    shop: &'s Shop,
    namespace: Namespace,
    call: &'static str,
    began: Duration,
}

impl Timing<'_> {
    /// Counts the call by what came of it.
    pub(super) fn over<T: Told>(self, told: T) -> T {
        let meters = self.shop.meters(&self.namespace);
        meters.took.took((self.shop.elapsed)().saturating_sub(self.began));
        meters.calls.of((self.call, told.word())).one();
        told
    }
}
