//! The sweeper: leases that have expired and that nobody has come across are written down as expired, so that a list of
//! the rows tells the truth and nobody has to compare times; and leases that ended long ago are forgotten.
//!
//! It only proposes: the rules judge each lease again under its resource's lock, and the update repeats the state and
//! the expiry that they saw. So two sweepers, or a sweeper and a renewal, do each other no harm.

use std::sync::{Arc, Weak};

use tokio::time::sleep;
use tracing::warn;

use crate::domain::resource::Bucket;
use crate::limits::{SWEEP_PAUSE, SWEPT_AT_ONCE};
use crate::protocol::Command;
use crate::protocol::command::Sweep;
use crate::protocol::lease::KEPT_AFTER_END;
use crate::protocol::rows::LeaseRef;

use super::queues::Queue;
use super::read::{ReadFailed, Reader};
use super::{Ledger, propose};

/// Sweeps for as long as the ledger is in use, and does not keep it in use itself.
pub struct Sweeper {
    queues: Weak<[Queue]>,
    reader: Weak<dyn Reader>,
    /// The bucket whose oldest leases are looked for next: one in each round.
    bucket: u8,
}

impl Ledger {
    /// The sweeper of this ledger.
    #[must_use]
    pub fn sweeper(&self) -> Sweeper {
        Sweeper { queues: Arc::downgrade(&self.queues), reader: Arc::downgrade(&self.reader), bucket: 0 }
    }
}

impl Sweeper {
    /// Sweeps until the ledger is gone.
    pub async fn run(mut self) {
        while self.once().await.is_some() {
            sleep(SWEEP_PAUSE).await;
        }
    }

    /// One round; none when the ledger is gone.
    ///
    /// A test may call it by itself.
    pub async fn once(&mut self) -> Option<()> {
        let reader = self.reader.upgrade()?;
        let found = match self.due(reader.as_ref()).await {
            Ok(found) => found,
            Err(ReadFailed(reason)) => {
                warn!(reason, "leases that are over cannot be looked for");
                return Some(());
            }
        };
        drop(reader);
        self.bucket = self.bucket.wrapping_add(1);
        // One that fails is found again by the next round, or written down by whoever comes across it.
        let commands = found.into_iter().map(|lease| Command::Sweep(Sweep { lease })).collect();
        propose(&self.queues, commands).await?;
        Some(())
    }

    /// Leases that have expired, and the oldest of one bucket.
    async fn due(&self, reader: &dyn Reader) -> Result<Vec<LeaseRef>, ReadFailed> {
        let now = reader.time().await?;
        let mut found = reader.expired(now, SWEPT_AT_ONCE).await?;
        found.extend(reader.ended(Bucket(self.bucket), now.less(KEPT_AFTER_END), SWEPT_AT_ONCE).await?);
        Ok(found)
    }
}
