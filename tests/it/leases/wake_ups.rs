//! No lost wake-up: several waiters hand one lease on, at moments that differ each time.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencegate::ledger::wakeup::instant;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::raw::Call;
use super::scene::{Dice, FIFO, RACE, Scene, Shape, acquire, id_of, release, slack, told_on, wanted};
use crate::support::client::Client;
use crate::support::postgres::binaries::say;

told_on!([sqlite Sqlite, postgres Postgres, replicas Replicas], [
    in_a_race_nobody_sleeps_beside_a_free_lease,
    in_order_nobody_sleeps_beside_a_free_lease,
]);

const WAITERS: usize = 5;

/// What they all share.
struct Table {
    /// Since when the lease has been free, as far as is known.
    free: Mutex<Option<Instant>>,
    gaps: Mutex<Vec<Duration>>,
    left: AtomicUsize,
}

/// Broken: a wake-up is lost, and a waiter sleeps beside a free lease until the next look or its own end. Must hold: in
/// hundreds of rounds at different moments, with waiters that give up and leases that expire, no free lease stays
/// untaken for longer than the promise.
async fn in_a_race_nobody_sleeps_beside_a_free_lease(shape: Shape) {
    hand_on(shape, RACE, 500).await;
}

/// The same in order, where only one may take it.
async fn in_order_nobody_sleeps_beside_a_free_lease(shape: Shape) {
    hand_on(shape, FIFO, 150).await;
}

async fn hand_on(shape: Shape, rules: &str, rounds: usize) {
    let scene = Scene::start(shape, rules).await;
    let rounds = match shape {
        Shape::Sqlite => rounds,
        Shape::Postgres => rounds / 2,
        // Each hand-over may take a look.
        Shape::Replicas => rounds / 4,
    };
    let table =
        Arc::new(Table { free: Mutex::new(None), gaps: Mutex::default(), left: AtomicUsize::new(rounds) });
    let began = instant();
    let mut waiters = JoinSet::new();
    for (number, client) in scene.clients(WAITERS).into_iter().enumerate() {
        waiters.spawn(wait_and_release(client, table.clone(), Dice(u64::try_from(number).unwrap() + 1)));
    }
    waiters.join_all().await;
    let slack = slack(&scene.client(0)).await;
    let mut gaps = table.gaps.lock().unwrap().clone();
    gaps.sort_unstable();
    let (middle, late, most) = (gaps[gaps.len() / 2], gaps[gaps.len() * 98 / 100], gaps[gaps.len() - 1]);
    say(&format!(
        "{shape:?}: {} hand-overs in {:?}; a free lease was taken after {middle:?} (median), {late:?} (98 of 100), {most:?} \
         (most); slack {slack:?}",
        gaps.len(),
        began.elapsed()
    ));
    let promise = Duration::from_millis(if shape == Shape::Replicas { 500 } else { 100 });
    assert!(late <= promise + slack, "{late:?}");
    assert!(most <= Duration::from_secs(1) + slack, "{most:?}");
    scene.end();
}

async fn wait_and_release(client: Client, table: Arc<Table>, mut dice: Dice) {
    loop {
        if dice.below(5) == 0 {
            // Somebody who waits for a moment, and is gone.
            let call = Call::acquire(&client, &wanted("jobs/a", 60, 20_000)).await;
            dice.pause(4_000).await;
            drop(call);
        }
        let dies = dice.below(10) == 0;
        let ttl = if dies { 60 } else { 5_000 };
        let answer = acquire(&client, &wanted("jobs/a", ttl, 20_000)).await;
        let got = instant();
        let lease = answer.expect(201);
        if let Some(freed) = table.free.lock().unwrap().take() {
            table.gaps.lock().unwrap().push(got.saturating_duration_since(freed));
        }
        let left = table.left.load(Ordering::SeqCst);
        if left == 0 {
            release(&client, &lease).await;
            return;
        }
        table.left.store(left - 1, Ordering::SeqCst);
        if dies {
            // Renewed once, so that what the waiters were told of its end is no longer true; then it expires.
            client.post(&format!("/v1/leases/{}/renew", id_of(&lease)), &json!({})).await;
            continue;
        }
        dice.pause(3_000).await;
        // The next one may have it before this one hears that it was released.
        *table.free.lock().unwrap() = Some(instant());
        release(&client, &lease).await;
    }
}
