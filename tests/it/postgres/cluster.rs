//! The servers of the tests themselves: what a test asks of one happens.

use rustix::process::Signal;
use sqlx::{Connection, PgConnection};

use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::{fresh, needed_binaries, patience};

async fn asked(connection: &mut PgConnection, question: &'static str) -> String {
    sqlx::query_scalar(question).fetch_one(connection).await.unwrap()
}

/// A test whose server did not stop, keep or follow as told would prove nothing.
#[tokio::test]
async fn a_server_of_our_own_obeys() {
    let Some(binaries) = needed_binaries("postgres::cluster::a_server_of_our_own_obeys") else { return };
    let primary = Cluster::start(binaries, &[("max_connections", "20")]);
    let database = fresh(&primary).await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    assert_eq!(asked(&mut connection, "SHOW fsync").await, "on");
    assert_eq!(asked(&mut connection, "SHOW max_connections").await, "20");
    sqlx::query("CREATE TABLE kept (word text)").execute(&mut connection).await.unwrap();
    sqlx::query("INSERT INTO kept VALUES ('before')").execute(&mut connection).await.unwrap();

    primary.kill();
    assert!(PgConnection::connect(&database.url).await.is_err());
    primary.begin();
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    assert_eq!(asked(&mut connection, "SELECT word FROM kept").await, "before");
    primary.stop();
    primary.begin();

    let standby = primary.standby("second", &[]);
    primary
        .tell(&["ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (second)'", "SELECT pg_reload_conf()"])
        .await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    patience::until("a synchronous standby", 20, async || {
        let state = "SELECT coalesce((SELECT sync_state FROM pg_stat_replication), 'none')";
        (asked(&mut primary.admin("postgres").await, state).await == "sync").then_some(())
    })
    .await;
    sqlx::query("UPDATE kept SET word = 'after'").execute(&mut connection).await.unwrap();
    primary.signal_all(Signal::STOP);
    primary.kill();
    let mut second = PgConnection::connect(&standby.url(&database.name)).await.unwrap();
    assert!(sqlx::query("UPDATE kept SET word = 'late'").execute(&mut second).await.is_err());
    standby.tell(&["SELECT pg_promote()"]).await;
    assert_eq!(asked(&mut second, "SELECT word FROM kept").await, "after");
    sqlx::query("UPDATE kept SET word = 'promoted'").execute(&mut second).await.unwrap();
}
