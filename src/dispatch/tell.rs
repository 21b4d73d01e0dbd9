//! The log line of an operation that was settled while nobody waited for it.

use tracing::{info, warn};

use crate::domain::operation::{Effect, OperationId};
use crate::domain::resource::ResourceName;
use crate::protocol::rows::Done;

use super::Ended;

/// Tells how it ended. Whoever waited for an operation is told by the line of its decision.
pub(super) fn settled(resource: &ResourceName, operation: &OperationId, ended: &Ended) {
    let (resource, operation) = (resource.as_str(), operation.as_str());
    match ended {
        Ended::Decided(written, _) => {
            let (outcome, effect) = match written.response.done {
                Done::Created | Done::Replaced | Done::Removed => ("applied", Effect::Applied),
                Done::Nothing => ("refused by the upstream", Effect::None),
            };
            info!(resource, token = %written.position, operation, outcome, effect = effect.word(), "settled");
        }
        Ended::Withdrawn(intent, ..) => {
            let (token, effect) = (intent.record.position, Effect::None.word());
            info!(resource, token = %token, operation, outcome = "withdrawn", effect, "settled");
        }
        Ended::Uncertain => {
            let effect = Effect::Unknown.word();
            warn!(
                resource,
                operation,
                outcome = "uncertain",
                effect,
                "settled: a person has to say what happened"
            );
        }
        // Whoever goes on with it tells.
        Ended::Moved => {}
        Ended::Unserved(unserved) => {
            let effect = Effect::Unknown.word();
            warn!(resource, operation, outcome = "not recorded", effect, reason = %unserved, "settled");
        }
    }
}
