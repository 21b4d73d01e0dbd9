//! What a gateway accepts as its database, and what it says of one that it refuses.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::replica::Site;
use crate::support::postgres::{fresh, needed, needed_binaries, patience};

async fn admin(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    connection.execute(AssertSqlSafe(statement.to_owned())).await.unwrap_or_else(|error| panic!("{error}"));
    connection.close().await.unwrap();
}

async fn tables(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

/// The first start needs no step before it, and says what it stands on.
#[tokio::test]
async fn an_empty_database_is_made_ready_by_the_first_start() {
    let Some(database) =
        needed("postgres::opening::an_empty_database_is_made_ready_by_the_first_start").await
    else {
        return;
    };
    let site = Site::new(&database.url, "");
    let first = site.start();
    let second = site.start();
    let status = first.client().get("/v1/status").await.expect(200);
    assert_eq!(status["database"]["engine"], "postgres", "{status}");
    assert_eq!(status["database"]["schema_version"], 5);
    let durability = status["database"]["durability"].as_str().unwrap();
    assert!(durability.contains("fsync") && durability.contains("synchronous_commit"), "{durability}");
    let other = second.client().get("/v1/status").await.expect(200);
    assert_eq!(other["database"]["id"], status["database"]["id"]);
    // A token of one replica is good at the other.
    let lease = first.client().acquire("jobs/a", "alice").await;
    second.client().put("jobs/a", &lease.token, "op-1", "body", &[]).await.expect(201);
    assert_eq!(first.client().get("/fenced/jobs/a").await.text(), "body");
    assert_eq!((first.terminate(), second.terminate()), (Some(0), Some(0)));
}

/// A gateway that writes to a schema it does not know destroys what a newer one relies on.
#[tokio::test]
async fn a_schema_of_another_version_is_refused_with_what_to_do() {
    let Some(database) =
        needed("postgres::opening::a_schema_of_another_version_is_refused_with_what_to_do").await
    else {
        return;
    };
    let site = Site::new(&database.url, "");
    let (made, said) = site.run(&["migrate"]);
    assert!(made, "{said}");
    admin(
        &database.url,
        "INSERT INTO fencegate_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'of a later release', true, '\\x00', 0)",
    )
    .await;
    let refused = site.refused();
    assert!(refused.contains("newer"), "{refused}");
    let (migrated, said) = site.run(&["migrate"]);
    assert!(!migrated && said.contains("newer"), "{said}");

    // A release without its last steps: other gateways may be at work on it, so a start changes nothing.
    admin(&database.url, "DELETE FROM fencegate_migrations").await;
    let refused = site.refused();
    assert!(refused.contains("fencegate migrate"), "{refused}");
    // Tables with the names of ours, and no word of who made them.
    admin(&database.url, "DROP TABLE fencegate_migrations").await;
    let refused = site.refused();
    assert!(refused.contains("not its own"), "{refused}");
}

/// Of two releases that follow each other the database of the first is refused by `serve`, since gateways of that release
/// may be at work on it, and brought forward by `migrate` with everything that is in it.
#[tokio::test]
async fn a_database_of_the_release_before_is_brought_forward_by_migrate() {
    let Some(database) =
        needed("postgres::opening::a_database_of_the_release_before_is_brought_forward_by_migrate").await
    else {
        return;
    };
    let site = Site::new(&database.url, "");
    let first = site.start();
    let alice = first.client().acquire("jobs/a", "alice").await;
    first.client().put("jobs/a", &alice.token, "op-1", "body", &[]).await.expect(201);
    assert_eq!(first.terminate(), Some(0));
    let to_the_second = [&BACK_TO_THE_THIRD_STEP[..], &BACK_TO_THE_SECOND_STEP].concat();
    let to_the_first = [&to_the_second[..], &BACK_TO_THE_FIRST_STEP].concat();
    for back in
        [BACK_TO_THE_FOURTH_STEP.to_vec(), BACK_TO_THE_THIRD_STEP.to_vec(), to_the_second, to_the_first]
    {
        for text in back {
            admin(&database.url, text).await;
        }
        let refused = site.refused();
        assert!(refused.contains("fencegate migrate"), "{refused}");
        let (migrated, said) = site.run(&["migrate"]);
        assert!(migrated, "{said}");
        let second = site.start();
        let replay = second.client().put("jobs/a", &alice.token, "op-1", "body", &[]).await;
        assert_eq!(replay.header("idempotent-replayed"), Some("true"));
        let lease = second.client().get("/v1/resources/jobs/a").await.expect(200);
        assert_eq!(lease["lease"]["state"], "held", "{lease}");
        assert_eq!(second.terminate(), Some(0));
    }
}

/// What the fifth step adds, taken away again. The types of the steps before were left alone.
const BACK_TO_THE_FOURTH_STEP: [&str; 4] = [DROP_ACTOR, DROP_TRANSACTION, DROP_FIFTH_TYPE, FORGET_FIFTH];
const DROP_ACTOR: &str = "ALTER TABLE audit DROP COLUMN actor";
const DROP_TRANSACTION: &str = "ALTER TABLE operations DROP COLUMN transaction_id";
const DROP_FIFTH_TYPE: &str = "DROP TYPE new_audit_v3; DROP INDEX audit_in_order";
const FORGET_FIFTH: &str = "DELETE FROM fencegate_migrations WHERE version = 5";

/// What the fourth step adds, taken away with it. The types of the steps before were left alone.
pub(super) const BACK_TO_THE_THIRD_STEP: [&str; 13] = [
    DROP_ACTOR,
    DROP_TRANSACTION,
    DROP_FIFTH_TYPE,
    FORGET_FIFTH,
    "DROP TABLE everywhere, refusals",
    "ALTER TABLE namespaces DROP COLUMN breaker",
    "ALTER TABLE ledger DROP COLUMN least_protocol",
    "ALTER TABLE audit DROP COLUMN holder",
    "DROP INDEX resources_quarantined",
    "DROP INDEX intents_uncertain",
    "DROP INDEX operations_by_hour, audit_by_time, controls_by_time",
    "DROP TYPE new_namespace_v2, changed_namespace_v1, changed_everywhere_v1, new_audit_v2, noted_refusal_v1, \
     aged_audit_v1",
    "DELETE FROM fencegate_migrations WHERE version = 4",
];

/// What the third step adds, taken away again. The types of the steps before were left alone.
const BACK_TO_THE_SECOND_STEP: [&str; 6] = [
    "DROP TABLE intents, intent_pieces",
    "DROP INDEX leases_pending",
    "ALTER TABLE resources DROP COLUMN quarantined, DROP COLUMN cell, DROP COLUMN barrier_epoch, \
     DROP COLUMN barrier_token",
    "ALTER TABLE operations DROP COLUMN relayed_status, DROP COLUMN relayed_headers, DROP COLUMN relayed_etag, \
     DROP COLUMN omitted_length, DROP COLUMN omitted_digest, DROP COLUMN resolution",
    "DROP TYPE new_resource_v3, changed_resource_v3, placed_resource_v3, new_operation_v2, new_intent_v1, \
     changed_intent_v1, closed_intent_v1, new_piece_v1",
    "DELETE FROM fencegate_migrations WHERE version = 3",
];

/// What the second step adds, taken away again. The types of the first step were left alone.
const BACK_TO_THE_FIRST_STEP: [&str; 6] = [
    "DROP TABLE controls",
    "DROP INDEX leases_held",
    "ALTER TABLE leases DROP COLUMN others, DROP COLUMN ended_ms, DROP COLUMN cause",
    "ALTER TABLE resources DROP COLUMN lease_bucket, DROP COLUMN queue, DROP COLUMN reason",
    "DROP TYPE new_resource_v2, changed_resource_v2, placed_resource_v2, new_lease_v2, changed_lease_v2, \
     new_control_v1, key_control_v1, forgotten_lease_v1",
    "DELETE FROM fencegate_migrations WHERE version = 2",
];

/// Whoever asks what would be done must not find it done.
#[tokio::test]
async fn migrate_tells_first_and_does_then() {
    let Some(database) = needed("postgres::opening::migrate_tells_first_and_does_then").await else { return };
    let site = Site::new(&database.url, "");
    for asking in [["migrate", "--status"], ["migrate", "--dry-run"]] {
        let (asked, said) = site.run(&asking);
        assert!(asked && said.contains("to do"), "{said}");
        assert_eq!(tables(&database.url).await, 0, "{asking:?} made something");
    }
    let (made, said) = site.run(&["migrate"]);
    assert!(made, "{said}");
    assert!(tables(&database.url).await > 0);
    let (_, before) = site.run(&["migrate", "--status"]);
    assert!(before.contains("done") && !before.contains("to do"), "{before}");
    let (again, said) = site.run(&["migrate"]);
    assert!(again, "{said}");
    assert_eq!(site.start().terminate(), Some(0));
}

/// A new key would call every token of this database somebody else's.
#[tokio::test]
async fn a_replica_without_the_recorded_key_does_not_start() {
    let Some(database) = needed("postgres::opening::a_replica_without_the_recorded_key_does_not_start").await
    else {
        return;
    };
    let site = Site::new(&database.url, "");
    assert_eq!(site.start().terminate(), Some(0));
    let key = site.path().join("fencegate.key");
    let recorded = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let refused = site.refused();
    assert!(refused.contains("another key"), "{refused}");
    assert!(!key.exists(), "a key was made");
    // A key of another database, under another name.
    let elsewhere = Site::new("memory", "");
    std::fs::write(elsewhere.path().join("fencegate.toml"), "").unwrap();
    assert_eq!(elsewhere.start().terminate(), Some(0));
    std::fs::copy(elsewhere.path().join("fencegate.key"), &key).unwrap();
    let refused = site.refused();
    assert!(refused.contains("key"), "{refused}");
    std::fs::write(&key, recorded).unwrap();
    assert_eq!(site.start().terminate(), Some(0));
}

/// Nothing that is written to a server which keeps nothing, or takes nothing, may be acknowledged.
#[tokio::test]
async fn a_server_that_takes_or_keeps_nothing_is_refused() {
    let name = "postgres::opening::a_server_that_takes_or_keeps_nothing_is_refused";
    let Some(binaries) = needed_binaries(name) else { return };
    let cluster = Cluster::start(binaries, &[]);
    let database = fresh(&cluster).await;
    let site = Site::new(&database.url, "");
    assert_eq!(site.start().terminate(), Some(0));

    cluster.tell(&["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"]).await;
    let refused = site.refused();
    assert!(refused.contains("read-only") && !refused.contains(cluster.password()), "{refused}");
    cluster.tell(&["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"]).await;

    for setting in ["fsync", "full_page_writes"] {
        cluster.tell(&[&format!("ALTER SYSTEM SET {setting} = off"), "SELECT pg_reload_conf()"]).await;
        patience::until("the setting is in force", 10, async || {
            let mut connection = cluster.admin("postgres").await;
            let found: String = sqlx::query_scalar("SELECT setting FROM pg_settings WHERE name = $1")
                .bind(setting)
                .fetch_one(&mut connection)
                .await
                .unwrap();
            (found == "off").then_some(())
        })
        .await;
        let refused = site.refused();
        assert!(refused.contains(setting), "{refused}");
        cluster.tell(&[&format!("ALTER SYSTEM RESET {setting}"), "SELECT pg_reload_conf()"]).await;
    }
    cluster.stop();
    let refused = site.refused();
    assert!(refused.contains(&cluster.port().to_string()) || refused.contains("reach"), "{refused}");
    assert!(!refused.contains(cluster.password()), "{refused}");
}

/// A standby reads what its primary wrote and takes nothing itself; which of the hosts is which changes over time.
#[tokio::test]
async fn a_standby_listed_first_is_passed_over() {
    let Some(binaries) = needed_binaries("postgres::opening::a_standby_listed_first_is_passed_over") else {
        return;
    };
    let primary = Cluster::start(binaries, &[]);
    let database = fresh(&primary).await;
    let standby = primary.standby("second", &[]);
    let site = Site::new(&standby.url(&database.name), "");
    let refused = site.refused();
    assert!(refused.contains("standby") || refused.contains("recovery"), "{refused}");
    site.configure(&hosts(&[&standby, &primary], &database.name), "");
    let gateway = site.start();
    let client = gateway.client();
    let lease = client.acquire("jobs/a", "alice").await;
    client.put("jobs/a", &lease.token, "op-1", "body", &[]).await.expect(201);
    assert_eq!(client.get("/fenced/jobs/a").await.text(), "body");
    assert_eq!(gateway.terminate(), Some(0));
}

/// One URL with these servers, in this order.
pub(super) fn hosts(clusters: &[&Cluster], database: &str) -> String {
    let list: Vec<String> = clusters.iter().map(|cluster| format!("127.0.0.1:{}", cluster.port())).collect();
    format!("postgres://gateway:{}@{}/{database}", clusters[0].password(), list.join(","))
}
