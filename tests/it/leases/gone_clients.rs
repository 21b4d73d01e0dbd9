//! A waiter whose client has gone: it is granted nothing, and nobody waits for it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fencegate::ledger::wakeup::instant;
use serde_json::Value;
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::raw::{Call, request};
use super::scene::{Dice, FIFO, RACE, Scene, Shape, acquire, release, slack, take_place, told_on, wanted};
use crate::support::client::{Answer, Client};
use crate::support::postgres::{needed_binaries, patience};

told_on!([sqlite Sqlite, postgres Postgres, replicas Replicas], [
    a_client_that_closed_its_connection_is_never_granted,
    a_place_in_the_queue_is_given_up_with_the_connection,
    no_hang_up_at_any_moment_leaves_a_place_behind,
    a_killed_client_is_never_granted,
]);

/// A while after which a gateway has seen what had come before, also on a busy machine.
async fn settle(client: &Client) {
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..5 {
        client.get("/livez").await;
    }
}

fn waiter(client: Client, wanted: Value) -> JoinHandle<(Answer, Instant)> {
    tokio::spawn(async move { (acquire(&client, &wanted).await, instant()) })
}

/// Broken: a lease is granted to a waiter that closed its connection, and is lost until its ttl. Must hold: it is granted
/// nothing, in a race and in order, and the next one gets the lease at once.
async fn a_client_that_closed_its_connection_is_never_granted(shape: Shape) {
    for rules in [RACE, FIFO] {
        let scene = Scene::start(shape, rules).await;
        for round in 0..5_usize {
            let resource = format!("jobs/{round}");
            let (here, there) = (scene.client(round), scene.client(round + 1));
            let held = acquire(&here, &wanted(&resource, 20_000, 0)).await.expect(201);
            // Two that give up, on both gateways, and one behind them that stays.
            let calls = [
                Call::acquire(&here, &wanted(&resource, 20_000, 20_000)).await,
                Call::acquire(&there, &wanted(&resource, 20_000, 20_000)).await,
            ];
            settle(&here).await;
            let stays = waiter(here.clone(), wanted(&resource, 20_000, 20_000));
            settle(&there).await;
            drop(calls);
            settle(&here).await;
            settle(&there).await;
            release(&there, &held).await;
            let freed = instant();
            let (answer, got) = stays.await.unwrap();
            assert_eq!(answer.expect(201)["position"], "0.2", "somebody who had gone was granted");
            let most = Duration::from_secs(1) + slack(&here).await;
            assert!(got - freed < most, "it waited for somebody who had gone: {:?}", got - freed);
        }
        scene.end();
    }
}

/// Broken: in order, the place of a client that has gone is kept, and everybody waits for its turn. Must hold: the place is
/// given up at once, and the ones behind move up.
async fn a_place_in_the_queue_is_given_up_with_the_connection(shape: Shape) {
    let scene = Scene::start(shape, FIFO).await;
    let held = acquire(&scene.client(0), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    let first = wanted("jobs/a", 20_000, 20_000);
    assert_eq!(take_place(&scene.client(0), &first).await, 1);
    let first = Call::acquire(&scene.client(1), &first).await;
    let behind = wanted("jobs/a", 20_000, 1);
    assert_eq!(take_place(&scene.client(2), &behind).await, 2);
    settle(&scene.client(1)).await;
    drop(first);
    patience::until("it moves up", 2, async || {
        (take_place(&scene.client(2), &behind).await == 1).then_some(())
    })
    .await;
    release(&scene.client(0), &held).await;
    let mut now = behind.clone();
    now["wait_ms"] = 10_000.into();
    let began = instant();
    acquire(&scene.client(0), &now).await.expect(201);
    assert!(began.elapsed() < Duration::from_millis(500) + slack(&scene.client(0)).await);
    scene.end();
}

/// Broken: a client that hangs up while its first question is being decided leaves a place in the queue that nobody gives
/// up. Must hold: whenever it hangs up, the next one does not wait for it.
async fn no_hang_up_at_any_moment_leaves_a_place_behind(shape: Shape) {
    let scene = Scene::start(shape, FIFO).await;
    let mut dice = Dice(3);
    let held = acquire(&scene.client(0), &wanted("jobs/a", 30_000, 0)).await.expect(201);
    for number in 0..120 {
        let call = Call::acquire(&scene.client(number), &wanted("jobs/a", 20_000, 20_000)).await;
        dice.pause(4_000).await;
        drop(call);
    }
    let last = wanted("jobs/a", 20_000, 1);
    patience::until("nobody stands before the last one", 3, async || {
        (take_place(&scene.client(0), &last).await == 1).then_some(())
    })
    .await;
    release(&scene.client(0), &held).await;
    let began = instant();
    acquire(&scene.client(1), &wanted("jobs/a", 20_000, 20_000)).await.expect(201);
    // The last one has its turn still: it went away in good order, and its place is kept for its repeat.
    assert!(began.elapsed() < Duration::from_millis(2_500) + slack(&scene.client(0)).await);
    scene.end();
}

/// A waiting client in a process of its own, which ends with kill -9 when this is dropped.
struct Waiting(Child);

impl Waiting {
    fn start(client: &Client, wanted: &Value) -> Self {
        let (host, port) = client.address().split_once(':').unwrap();
        let script = format!("exec 3<>/dev/tcp/{host}/{port}; printf %s \"$REQUEST\" >&3; exec cat <&3 3>&-");
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env("REQUEST", request(wanted));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Broken: a client process is killed while it waits, and the lease goes to a dead process. Must hold: it goes to the next
/// one.
async fn a_killed_client_is_never_granted(shape: Shape) {
    let scene = Scene::start(shape, FIFO).await;
    let client = scene.client(0);
    for round in 0..5 {
        let resource = format!("jobs/{round}");
        let held = acquire(&client, &wanted(&resource, 20_000, 0)).await.expect(201);
        let dead = Waiting::start(&client, &wanted(&resource, 20_000, 20_000));
        let behind = wanted(&resource, 20_000, 1);
        patience::until("the process waits", 5, async || {
            // Behind the place that is asked for and the process's there is a third one, or there is not.
            let ours = take_place(&client, &behind).await;
            (ours == 2 || take_place(&client, &wanted(&resource, 20_000, 1)).await > 2).then_some(())
        })
        .await;
        drop(dead);
        settle(&client).await;
        release(&client, &held).await;
        let mut now = behind.clone();
        now["wait_ms"] = 20_000.into();
        assert_eq!(acquire(&client, &now).await.expect(201)["position"], "0.2");
    }
    scene.end();
}

/// Broken: a waiter's question is on its way to the database, waits there for a row that somebody holds, and is granted long
/// after its client has gone. Must hold: whoever went while the row was waited for is granted nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_went_while_its_row_was_held_is_not_granted() {
    let name = "leases::gone_clients::a_client_that_went_while_its_row_was_held_is_not_granted";
    if needed_binaries(name).is_none() {
        return;
    }
    let scene = Scene::start(Shape::Postgres, RACE).await;
    let client = scene.client(0);
    let before = acquire(&client, &wanted("jobs/a", 20_000, 0)).await.expect(201);
    release(&client, &before).await;
    let mut somebody = PgConnection::connect(&scene.database.as_ref().unwrap().admin).await.unwrap();
    somebody.execute("BEGIN").await.unwrap();
    somebody.execute("SELECT 1 FROM resources WHERE resource = 'jobs/a' FOR UPDATE").await.unwrap();
    let call = Call::acquire(&client, &wanted("jobs/a", 20_000, 20_000)).await;
    patience::until("its question waits for the row", 5, async || {
        let mut look = PgConnection::connect(&scene.database.as_ref().unwrap().admin).await.unwrap();
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                     AND wait_event_type = 'Lock')";
        let waits: bool = sqlx::query_scalar(waits).fetch_one(&mut look).await.unwrap();
        waits.then_some(())
    })
    .await;
    drop(call);
    settle(&client).await;
    somebody.execute("COMMIT").await.unwrap();
    let next = acquire(&client, &wanted("jobs/a", 20_000, 0)).await;
    assert_eq!(next.expect(201)["position"], "0.2", "a client that had gone was granted");
    scene.end();
}
