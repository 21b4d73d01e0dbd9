//! The pruner: records that are kept no longer are forgotten, a few at a time, so that the database stays as large as
//! what it has to remember.
//!
//! It only proposes: the rules judge each record again under its resource's lock. So two pruners, or a pruner and a
//! repeated request, do each other no harm.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tokio::time::sleep;
use tracing::warn;

use crate::domain::resource::ResourceName;
use crate::domain::time::{Millis, Timestamp};
use crate::limits::{
    CONTROLS_PRUNED_AT_ONCE, OLD_OPERATIONS_READ, PRUNE_BREATH, PRUNE_PAUSE, PRUNED_AT_ONCE,
};
use crate::protocol::Command;
use crate::protocol::prune::{Prunable, Prune};
use crate::protocol::snapshot::OperationKey;

use super::queues::Queue;
use super::read::{OldPlace, ReadFailed, Reader};
use super::{Ledger, propose};

/// Forgets for as long as the ledger is in use, and does not keep it in use itself.
pub struct Pruner {
    queues: Weak<[Queue]>,
    reader: Weak<dyn Reader>,
    kept: Millis,
    /// Where the walk through the operations goes on; none when it has come to its end.
    place: Option<OldPlace>,
    /// Operations that were found and are still to be proposed.
    found: VecDeque<OperationKey>,
}

/// What is left after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// The walk goes on.
    Goes,
    /// All old records were looked at.
    Ended,
}

impl Ledger {
    /// The pruner of this ledger, which keeps records so long.
    #[must_use]
    pub fn pruner(&self, kept: Millis) -> Pruner {
        self.feed.keeps(kept);
        let (queues, reader) = (Arc::downgrade(&self.queues), Arc::downgrade(&self.reader));
        Pruner { queues, reader, kept, place: Some(OldPlace::default()), found: VecDeque::new() }
    }
}

impl Pruner {
    /// Forgets until the ledger is gone.
    pub async fn run(mut self) {
        while let Some(round) = self.once().await {
            sleep(match round {
                Round::Goes => PRUNE_BREATH,
                Round::Ended => PRUNE_PAUSE,
            })
            .await;
        }
    }

    /// One round; none when the ledger is gone.
    ///
    /// A test may call it by itself.
    pub async fn once(&mut self) -> Option<Round> {
        let reader = self.reader.upgrade()?;
        let what = match self.due(reader.as_ref()).await {
            Ok(what) => what,
            Err(ReadFailed(reason)) => {
                warn!(reason, "records that are kept no longer cannot be looked for");
                return Some(Round::Ended);
            }
        };
        drop(reader);
        let kept = self.kept;
        let mut is_over = self.found.is_empty() && self.place.is_none();
        // There may be more of what was found than goes at once.
        is_over &= what.iter().all(|one| matches!(one, Prunable::Operations { .. }));
        let commands = what.into_iter().map(|what| Command::Prune(Prune { kept, what })).collect();
        propose(&self.queues, commands).await?;
        if is_over {
            self.place = Some(OldPlace::default());
        }
        Some(if is_over { Round::Ended } else { Round::Goes })
    }

    async fn due(&mut self, reader: &dyn Reader) -> Result<Vec<Prunable>, ReadFailed> {
        let before = reader.time().await?.less(self.kept);
        // What is exactly so old may go.
        let over = before.plus(Millis::new(1));
        let mut what = self.operations(reader, over).await?;
        let controls = reader.old_controls(over, CONTROLS_PRUNED_AT_ONCE).await?;
        what.extend(controls.into_iter().map(Prunable::Control));
        if reader.has_old_audit(before).await? {
            what.push(Prunable::Audit);
        }
        Ok(what)
    }

    /// The next operations to propose, by resource.
    async fn operations(
        &mut self,
        reader: &dyn Reader,
        before: Timestamp,
    ) -> Result<Vec<Prunable>, ReadFailed> {
        if self.found.is_empty()
            && let Some(place) = self.place
        {
            let old = reader.old_operations(place, before, OLD_OPERATIONS_READ).await?;
            self.place = old.next;
            self.found = old.found.into();
        }
        let some = self.found.len().min(PRUNED_AT_ONCE);
        let mut by_resource: Vec<(ResourceName, Vec<_>)> = Vec::new();
        for (resource, incarnation, id) in self.found.drain(..some) {
            let own = by_resource.iter_mut().find(|(name, _)| *name == resource);
            match own {
                Some((_, operations)) => operations.push((incarnation, id)),
                None => by_resource.push((resource, vec![(incarnation, id)])),
            }
        }
        let whole = |(resource, operations)| Prunable::Operations { resource, operations };
        Ok(by_resource.into_iter().map(whole).collect())
    }
}
