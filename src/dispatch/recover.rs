//! What is left to do: operations whose next step is due, whoever announced them, and leases that wait for a barrier.

use std::sync::Arc;

use tracing::warn;

use crate::domain::resource::ResourceName;
use crate::limits::{RECOVERED_AT_ONCE, RECOVERY_PAUSE};
use crate::protocol::command::Resume;
use crate::protocol::outcome::Settled;
use crate::protocol::rows::IntentRow;
use crate::protocol::{Command, Outcome};

use super::{Shop, barrier, drive, tell};

/// Looks for what is due until the process stops.
pub(super) async fn run(shop: Arc<Shop>) {
    while shop.pause(RECOVERY_PAUSE).await {
        once(&shop).await;
    }
}

/// One look.
async fn once(shop: &Arc<Shop>) {
    let found = shop.ledger.read(|reader| {
        Box::pin(async move {
            let now = reader.time().await?;
            let due = reader.due(now, RECOVERED_AT_ONCE).await?;
            Ok((due, reader.pending(now, RECOVERED_AT_ONCE).await?))
        })
    });
    let (due, pending) = match found.await {
        Ok(found) => found,
        Err(error) => {
            warn!(%error, "undecided operations cannot be looked for");
            return;
        }
    };
    for intent in due {
        take_up(shop, &intent);
    }
    for lease in pending {
        if lease.members().any(|(resource, _)| shop.raised().contains(resource)) {
            continue;
        }
        let Ok(room) = shop.recoveries.clone().try_acquire_owned() else { return };
        let working = shop.clone();
        shop.spawn(async move {
            barrier::raise_for(&working, &lease).await;
            drop(room);
        });
    }
}

/// Takes up what is undecided on one resource; what is not due yet is left to whoever works at it.
pub(super) async fn of_resource(shop: &Arc<Shop>, resource: ResourceName) {
    let found = shop.ledger.read(move |reader| {
        Box::pin(async move { Ok((reader.time().await?, reader.intents(resource).await?)) })
    });
    if let Ok((now, intents)) = found.await {
        for intent in intents.into_iter().filter(|intent| intent.due_at <= now) {
            take_up(shop, &intent);
        }
    }
}

/// Goes on with an operation, unless this process does already.
fn take_up(shop: &Arc<Shop>, intent: &IntentRow) {
    let (key, attempt) = (intent.key(), intent.record.attempt);
    if shop.upstream_of(&key.0).is_none() || shop.driven().contains(&key) {
        return;
    }
    let Ok(room) = shop.recoveries.clone().try_acquire_owned() else { return };
    let (working, resource) = (shop.clone(), key.0.clone());
    shop.spawn(async move {
        let since = (working.elapsed)();
        let resume = Command::Resume(Resume { key, attempt });
        if let Ok(Outcome::Settled(settled)) = working.ledger.submit(resume).await
            && let Settled::Again(attempt) = *settled
        {
            // Nobody of this process waits for it: the log is told.
            let (resource, operation) = (resource, attempt.intent.record.operation_id.clone());
            tell::settled(&resource, &operation, &drive::drive(&working, attempt, since).await);
        }
        drop(room);
    });
}
