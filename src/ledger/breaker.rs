//! The way from what was noticed to the breaker.
//!
//! Whoever notices that the database has gone back in time holds no more than the rows of its own batch, shared with
//! others. So the breaker is tripped by a command of its own, which waits for nobody's client, and whoever was refused is
//! told after it has tripped.

use tracing::error;

use crate::domain::breaker::{Breaker, Detector};
use crate::domain::operation::Effect;
use crate::domain::resource::Namespace;
use crate::domain::subject::Subject;
use crate::protocol::outcome::Refusal;
use crate::protocol::whole::{Deed, WholeAct};
use crate::protocol::{Command, Outcome};

use super::read::ReadFailed;
use super::{Ledger, Unserved};

impl Ledger {
    /// Trips the breaker of one namespace, or of all of them; it is durable when this returns. Dropping the future changes
    /// nothing. One that is tripped already stays as it is.
    ///
    /// # Errors
    /// [`Unserved`] when it is not known to be tripped.
    pub async fn trip(&self, subject: Subject, detector: Detector, found: String) -> Result<(), Unserved> {
        error!(
            namespace = %subject,
            detector = detector.word(),
            found,
            "the database has gone back in time; nothing is written or issued until an operator advances the epoch"
        );
        let ledger = self.clone();
        let tripping = tokio::spawn(async move {
            let at = match ledger.reader.time().await {
                Ok(at) => at,
                Err(ReadFailed(reason)) => {
                    error!(reason, "the breaker cannot be tripped");
                    return Err(Unserved::Unavailable(Effect::None));
                }
            };
            let deed = Deed::Trip(Breaker { detector, at, found });
            ledger.command(Command::Whole(WholeAct { subject, deed })).await.map(drop)
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
