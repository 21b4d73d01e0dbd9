//! What is left to do: operations whose next step is due, whoever announced them, and leases that wait for a barrier.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::domain::resource::ResourceName;
use crate::ledger::read::{DuePlace, PendingPlace};
use crate::limits::{RECOVERED_AT_ONCE, RECOVERED_PAGES, RECOVERY_PAUSE};
use crate::protocol::command::Resume;
use crate::protocol::outcome::Settled;
use crate::protocol::rows::{IntentRow, LeaseRow};
use crate::protocol::{Command, Outcome};

use super::{Shop, barrier, drive, tell};

/// Looks for what is due until the process stops. What nobody can take up now stays due, for ever where its namespace is not
/// configured any more: a look goes on where the one before ended, so that it hides nothing.
pub(super) async fn run(shop: Arc<Shop>) {
    let (mut operation, mut lease) = (None, None);
    while shop.pause(RECOVERY_PAUSE).await {
        operation = operations(&shop, operation).await;
        lease = leases(&shop, lease).await;
    }
}

/// One look at operations, behind a place; where the next one goes on.
async fn operations(shop: &Arc<Shop>, from: Option<DuePlace>) -> Option<DuePlace> {
    let mut from = from;
    for _ in 0..RECOVERED_PAGES {
        let after = from.clone();
        let found = shop.ledger.read(|reader| {
            Box::pin(async move {
                let now = reader.time().await?;
                reader.due(now, after, RECOVERED_AT_ONCE).await
            })
        });
        let page = match found.await {
            Ok(page) => page,
            Err(error) => {
                warn!(%error, "undecided operations cannot be looked for");
                break;
            }
        };
        for intent in &page {
            take_up(shop, intent);
        }
        from = behind(&page).map(|intent| (intent.due_at, intent.key()));
        if from.is_none() {
            break;
        }
    }
    from
}

/// One look at leases that wait for a barrier, behind a place; where the next one goes on.
async fn leases(shop: &Arc<Shop>, from: Option<PendingPlace>) -> Option<PendingPlace> {
    let mut from = from;
    for _ in 0..RECOVERED_PAGES {
        let found = shop.ledger.read(move |reader| {
            Box::pin(async move {
                let now = reader.time().await?;
                reader.pending(now, from, RECOVERED_AT_ONCE).await
            })
        });
        let page = match found.await {
            Ok(page) => page,
            Err(error) => {
                warn!(%error, "leases that wait for a barrier cannot be looked for");
                break;
            }
        };
        for lease in &page {
            work_at(shop, lease);
        }
        from = behind(&page).map(|lease| (lease.granted_at, lease.acquisition));
        if from.is_none() {
            break;
        }
    }
    from
}

/// The last row of a full page: there may be more behind it.
fn behind<R>(page: &[R]) -> Option<&R> {
    let is_full = u32::try_from(page.len()).is_ok_and(|rows| rows >= RECOVERED_AT_ONCE);
    page.last().filter(|_| is_full)
}

/// Works at the barriers of a lease, unless this process does already.
fn work_at(shop: &Arc<Shop>, lease: &LeaseRow) {
    if lease.members().any(|(resource, _)| shop.raised().contains(resource)) {
        return;
    }
    let Some(share) = shop.shares.get(&lease.resource.namespace()) else { return };
    let Ok(room) = share.barriers.clone().try_acquire_owned() else { return };
    let (working, lease) = (shop.clone(), lease.clone());
    shop.spawn(async move {
        barrier::raise_for(&working, &lease).await;
        drop(room);
    });
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
    if shop.driven().contains(&key) {
        return;
    }
    let Some(share) = shop.shares.get(&key.0.namespace()) else { return };
    let Ok(room) = share.recoveries.clone().try_acquire_owned() else { return };
    let (working, resource) = (shop.clone(), key.0.clone());
    shop.spawn(async move {
        let since = (working.elapsed)();
        let resume = Command::Resume(Resume { key, attempt });
        if let Ok(Outcome::Settled(settled)) = working.ledger.submit(resume).await
            && let Settled::Again(attempt) = *settled
        {
            // Nobody of this process waits for it: it goes one step, and the log is told.
            let alone = CancellationToken::new();
            alone.cancel();
            let (resource, operation) = (resource, attempt.intent.record.operation_id.clone());
            let ended = drive::drive(&working, attempt, since, &alone).await;
            tell::settled(&resource, &operation, &ended);
        }
        drop(room);
    });
}
