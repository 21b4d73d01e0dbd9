//! The way from what was noticed to the breaker.
//!
//! Whoever notices that the database has gone back in time holds no more than the rows of its own batch, shared with
//! others. So the breaker is tripped by a command of its own, which waits for nobody's client, and whoever was refused is
//! told after it has tripped.

use std::sync::{Arc, Weak};

use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::domain::breaker::{Breaker, Detector};
use crate::domain::operation::Effect;
use crate::domain::resource::Namespace;
use crate::domain::subject::Subject;
use crate::limits::ALARM_PAUSE;
use crate::protocol::outcome::Refusal;
use crate::protocol::whole::{Deed, WholeAct};
use crate::protocol::{Command, Outcome};

use super::driver::{Job, Task};
use super::guard::Guard;
use super::queues::Queue;
use super::read::{ReadFailed, Reader};
use super::{Ledger, Unserved, answered, enqueue};

impl Ledger {
    /// Trips the breaker of one namespace, or of all of them; it is durable when this returns. Dropping the future changes
    /// nothing. One that is tripped already stays as it is.
    ///
    /// # Errors
    /// [`Unserved`] when it is not known to be tripped.
    pub async fn trip(&self, subject: Subject, detector: Detector, found: String) -> Result<(), Unserved> {
        let ledger = self.clone();
        let tripping = tokio::spawn(async move {
            trip(&ledger.queues, ledger.reader.as_ref(), subject, detector, found).await
        });
        tripping.await.unwrap_or(Err(Unserved::Unavailable(Effect::Unknown)))
    }

    /// Acts on an outcome that proves that the database has gone back in time.
    pub(super) async fn heed(&self, outcome: &Outcome, proof: Option<(Namespace, String)>) {
        if let Some((namespace, found)) = proof {
            // One that could not be tripped is noticed by the next answer of that store.
            drop(self.trip(Subject::Namespace(namespace), Detector::Store, found).await);
        }
        if let Some(Refusal::IssuerBehind { issued }) = outcome.refusal() {
            let found =
                format!("a valid seal of this database above {issued}, the highest position that it issued");
            // One that could not be tripped is noticed by the next token of that kind.
            drop(self.trip(Subject::Everywhere, Detector::Seal, found).await);
        }
    }
}

async fn trip(
    queues: &[Queue],
    reader: &dyn Reader,
    subject: Subject,
    detector: Detector,
    found: String,
) -> Result<(), Unserved> {
    error!(
        namespace = %subject,
        detector = detector.word(),
        found,
        "the database has gone back in time; nothing is written or issued until an operator advances the epoch"
    );
    let at = match reader.time().await {
        Ok(at) => at,
        Err(ReadFailed(reason)) => {
            error!(reason, "the breaker cannot be tripped");
            return Err(Unserved::Unavailable(Effect::None));
        }
    };
    let deed = Deed::Trip(Breaker { detector, at, found });
    let command = Command::Whole(WholeAct { subject, deed });
    let (reply, answer) = oneshot::channel();
    enqueue(queues, Job { task: Task::Command(Box::new(command)), actor: None, reply })?;
    answered(answer).await?.map(drop).ok_or(Unserved::Inconsistent)
}

/// Trips the breaker whenever the guard raises the alarm. It does not keep the ledger in use itself, and ends with it.
pub(super) struct Vigil {
    guard: Arc<Guard>,
    queues: Weak<[Queue]>,
    reader: Weak<dyn Reader>,
}

impl Vigil {
    pub(super) fn over(guard: Arc<Guard>, queues: &Arc<[Queue]>, reader: &Arc<dyn Reader>) -> Self {
        Self { guard, queues: Arc::downgrade(queues), reader: Arc::downgrade(reader) }
    }

    /// Only waiting is ever cut short, never a step of the database.
    pub(super) async fn keep(self, ended: CancellationToken) {
        while let Some((detector, found)) = ended.run_until_cancelled(self.guard.raised()).await {
            let (Some(queues), Some(reader)) = (self.queues.upgrade(), self.reader.upgrade()) else { return };
            let tripped = trip(&queues, reader.as_ref(), Subject::Everywhere, detector, found).await;
            drop((queues, reader));
            match tripped {
                Ok(()) => self.guard.lower(),
                // Until it is tripped everything else is turned away.
                Err(_) => drop(ended.run_until_cancelled(sleep(ALARM_PAUSE)).await),
            }
        }
    }
}
