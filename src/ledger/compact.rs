//! The compactor: old tombstones are folded into the base of their namespace, many at once and seldom, since that holds
//! the whole namespace for a moment.
//!
//! It only proposes: the rules judge each tombstone again while it and its namespace are held.

use std::sync::{Arc, Weak};

use tokio::time::sleep;
use tracing::warn;

use crate::domain::resource::{Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::Millis;
use crate::limits::{FOLD_BREATH, FOLDED_AT_ONCE, PRUNE_PAUSE};
use crate::protocol::Command;
use crate::protocol::fold::{folds, is_foldable};
use crate::protocol::rows::Life;
use crate::protocol::whole::{Deed, WholeAct};

use super::prune::Round;
use super::queues::Queue;
use super::read::{ReadFailed, Reader, ResourceFilter};
use super::{Ledger, propose};

/// Folds for as long as the ledger is in use, and does not keep it in use itself.
pub struct Compactor {
    queues: Weak<[Queue]>,
    reader: Weak<dyn Reader>,
    kept: Millis,
    /// The last tombstone that was looked at in this walk.
    after: Option<ResourceName>,
}

/// Tombstones of one namespace.
type Old = (Namespace, Vec<ResourceName>);

impl Ledger {
    /// The compactor of this ledger, which leaves tombstones alone for so long.
    #[must_use]
    pub fn compactor(&self, kept: Millis) -> Compactor {
        let (queues, reader) = (Arc::downgrade(&self.queues), Arc::downgrade(&self.reader));
        Compactor { queues, reader, kept, after: None }
    }
}

impl Compactor {
    /// Folds until the ledger is gone.
    pub async fn run(mut self) {
        while let Some(round) = self.once().await {
            sleep(match round {
                Round::Goes => FOLD_BREATH,
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
        let old = match self.old(reader.as_ref()).await {
            Ok(old) => old,
            Err(ReadFailed(reason)) => {
                warn!(reason, "old tombstones cannot be looked for");
                return Some(Round::Ended);
            }
        };
        drop(reader);
        let kept = self.kept;
        let act = |(namespace, resources): Old| {
            let (subject, deed) = (Subject::Namespace(namespace), Deed::Fold { resources, kept });
            Command::Whole(WholeAct { subject, deed })
        };
        propose(&self.queues, old.into_iter().map(act).collect()).await?;
        Some(if self.after.is_some() { Round::Goes } else { Round::Ended })
    }

    /// The next tombstones that may be folded, of each namespace that they are in.
    async fn old(&mut self, reader: &dyn Reader) -> Result<Vec<Old>, ReadFailed> {
        let namespaces = reader.namespaces().await?;
        let (life, limit) = (Some(Life::Deleted), FOLDED_AT_ONCE);
        let filter = ResourceFilter { life, limit, after: self.after.take(), ..ResourceFilter::default() };
        let found = reader.resources(filter).await?;
        if found.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            self.after = found.last().map(|last| last.resource.resource.clone());
        }
        let mut old: Vec<Old> =
            namespaces.into_iter().filter(folds).map(|row| (row.namespace, Vec::new())).collect();
        for read in found {
            let lease = read.lease.as_ref();
            let namespace = &read.namespace;
            if is_foldable(namespace, &read.resource, lease, self.kept, read.now)
                && let Some((_, names)) = old.iter_mut().find(|(name, _)| *name == namespace.namespace)
            {
                names.push(read.resource.resource);
            }
        }
        old.retain(|(_, names)| !names.is_empty());
        Ok(old)
    }
}
