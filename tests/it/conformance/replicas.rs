//! Acts on whole namespaces, with two gateways over one server.

use std::collections::BTreeSet;

use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinSet;

use super::epochs::acted;
use crate::support::code::{Code, word};
use crate::support::commands::{Draft, acquire, acquire_all, epoch, granted};
use crate::support::engines::{Kind, Running, on_engines};
use crate::support::postgres::patience;

on_engines!(
    [postgres Postgres],
    [
        what_was_answered_by_one_gateway_binds_the_other,
        advances_of_two_gateways_are_two_epochs_or_one_answer,
        nobody_waits_in_a_circle,
    ]
);

/// How often the server had to break a circle of sessions that waited for each other.
async fn circles(running: &Running) -> i64 {
    let mut admin = PgConnection::connect(&running.server().unwrap().admin).await.unwrap();
    admin.execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    let counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    sqlx::query_scalar(counted).fetch_one(&mut admin).await.unwrap()
}

/// Broken: the other gateway admits the old epoch for as long as it believes in it. Must hold: its next commit knows.
async fn what_was_answered_by_one_gateway_binds_the_other(kind: Kind) {
    let running = Running::start(kind).await;
    let (one, other) = (running.ledger.clone(), running.beside().await);
    for round in 0..20_u128 {
        let name = format!("single/{round}");
        let grant = granted(&other, acquire(&name, "alice", round + 1)).await;
        let subject = if round % 4 == 3 { "*" } else { "single" };
        acted(&one, epoch(subject, &format!("round-{round}"), "test", false)).await;
        let late = Draft::put(&name, &grant.fencing_tokens[0].0, "late", "x").command(&other);
        assert_eq!(word(&other.submit(late).await.unwrap()), Code::StaleToken);
        let new = granted(&other, acquire(&name, "bob", 100 + round)).await;
        assert_eq!(u128::from(new.view.lease.position.epoch.get()), round + 1);
    }
    drop((one, other));
    running.stop().await;
}

/// Broken: two operators meet, and one of them is told that the database contradicts itself. Must hold: two keys are two
/// epochs and one key is one, also for a name that nobody used before, and also among owners that go on working.
async fn advances_of_two_gateways_are_two_epochs_or_one_answer(kind: Kind) {
    let running = Running::start(kind).await;
    let ledgers = [running.ledger.clone(), running.beside().await];
    for subject in ["single", "ordered", "*", "gapless"] {
        let mut tasks = JoinSet::new();
        for number in 0..24_usize {
            let (ledger, key) = (ledgers[number % 2].clone(), format!("{subject}-{}", number / 2));
            let command = epoch(subject, &key.replace('*', "all"), "test", false);
            tasks.spawn(async move { acted(&ledger, command).await });
            let (ledger, name) =
                (ledgers[number % 2].clone(), format!("session/{subject}-{number}").replace('*', "all"));
            let request = u128::try_from(number).unwrap() + 1;
            tasks.spawn(async move {
                granted(&ledger, acquire(&name, "worker", request)).await;
                acted(&ledger, epoch("scoped", &format!("{}-{number}", name.len()), "test", false)).await
            });
        }
        let acts = tasks.join_all().await;
        let own = acts.iter().filter(|act| act.subject.as_str() == subject);
        let (new, replayed): (Vec<_>, Vec<_>) = own.partition(|act| !act.replayed);
        assert_eq!((new.len(), replayed.len()), (12, 12), "{subject}");
        let answers: BTreeSet<_> = new.iter().map(|act| &act.body).collect();
        assert_eq!(answers.len(), 12, "{subject}: one epoch for two advances");
    }
    assert_eq!(circles(&running).await, 0);
    drop(ledgers);
    running.stop().await;
}

/// Broken: a batch holds a copy of a namespace that is known and asks for what holds for one that is not, while an act on
/// all of them holds the latter and waits for the former. Must hold: all are served, and the server never has to choose one
/// of them to fail.
async fn nobody_waits_in_a_circle(kind: Kind) {
    let running = Running::start(kind).await;
    let (one, other) = (running.ledger.clone(), running.beside().await);
    granted(&one, acquire("single/a", "alice", 1)).await;
    let server = running.server().unwrap();
    let mut holder = PgConnection::connect(&server.admin).await.unwrap();
    holder.execute("BEGIN").await.unwrap();
    holder.execute("SELECT 1 FROM namespaces WHERE bucket = 0 FOR SHARE").await.unwrap();
    let advancing = tokio::spawn(async move { acted(&one, epoch("*", "all", "test", false)).await });
    waiting(&server.admin, 1).await;
    let first_use = acquire_all(&["single/b", "session/new"], "bob", 2);
    let using = tokio::spawn(async move { granted(&other, first_use).await });
    waiting(&server.admin, 2).await;
    holder.execute("COMMIT").await.unwrap();
    assert!(!advancing.await.unwrap().replayed);
    let grant = using.await.unwrap();
    assert_eq!(grant.view.lease.position.epoch.get(), 1, "it came after the advance");
    assert_eq!(circles(&running).await, 0);
    running.stop().await;
}

/// Waits until so many sessions wait for rows.
async fn waiting(admin: &str, sessions: i64) {
    let connection = tokio::sync::Mutex::new(PgConnection::connect(admin).await.unwrap());
    let counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    patience::until("sessions wait", 3, async || {
        let mut connection = connection.lock().await;
        let found: i64 = sqlx::query_scalar(counted).fetch_one(&mut *connection).await.unwrap();
        (found == sessions).then_some(())
    })
    .await;
}
