//! Bodies that go to an upstream: hashed while they arrive, and on disk where they are large.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::dispatch::{SpoolError, SpoolWriter};
use crate::domain::upstream::Payload as Carried;
use crate::limits::SPOOL_BYTES;

use super::super::problem::Problem;
use super::pace::Pace;
use super::{Allowance, Payload, Room, is_too_slow, no_room, too_large};

/// A body with what is reserved for it: memory for a small one, and room on disk for a large one.
#[derive(Debug)]
pub(in super::super) struct Spooled {
    pub(in super::super) payload: Carried,
    pub(in super::super) reserved: Vec<OwnedSemaphorePermit>,
}

impl Payload {
    /// Receives the whole body, within `patience`.
    pub(in super::super) async fn spool(
        &mut self,
        allowance: &Allowance,
        memory: &Arc<Semaphore>,
        disk: &Arc<Semaphore>,
        patience: Duration,
    ) -> Result<Spooled, Problem> {
        let declared = self.length.unwrap_or_default();
        if declared > allowance.limit {
            return Err(too_large(allowance));
        }
        let received = self.received(declared, allowance, memory, disk, &Pace::begin(patience)).await;
        if is_too_slow(&received) {
            // Whoever sends this slowly is not read on.
            self.body = None;
        }
        let spooled = received?;
        self.body = None;
        Ok(spooled)
    }

    async fn received(
        &mut self,
        declared: u64,
        allowance: &Allowance,
        memory: &Arc<Semaphore>,
        disk: &Arc<Semaphore>,
        pace: &Pace,
    ) -> Result<Spooled, Problem> {
        let mut room = Room::first(memory, allowance.copies, declared.min(SPOOL_BYTES))?;
        let mut on_disk = Room::first(disk, 1, 0)?;
        let mut writer = SpoolWriter::new(std::env::temp_dir(), allowance.limit);
        let mut arrived = 0_u64;
        if let Some(body) = &mut self.body {
            while let Some(frame) = pace.next(body, arrived).await? {
                let Ok(data) = frame.into_data() else { continue };
                arrived = arrived.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
                if arrived > allowance.limit {
                    return Err(too_large(allowance));
                }
                room.grow_to(arrived.min(SPOOL_BYTES))?;
                if arrived > SPOOL_BYTES {
                    on_disk.grow_to(arrived)?;
                }
                writer.push(data).await.map_err(|error| unkept(&error, allowance))?;
            }
        }
        let payload = writer.finish().await.map_err(|error| unkept(&error, allowance))?;
        Ok(Spooled { payload, reserved: vec![room.held, on_disk.held] })
    }
}

fn unkept(error: &SpoolError, allowance: &Allowance) -> Problem {
    match error {
        SpoolError::TooLarge { .. } => too_large(allowance),
        SpoolError::Disk(error) => {
            tracing::error!(%error, "a body cannot be kept on disk");
            no_room()
        }
    }
}
