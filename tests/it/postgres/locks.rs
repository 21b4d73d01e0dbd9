//! Whoever waits for a row decides by what is true after the wait: the clock, the lease and the floor of then.

use fencegate::ledger::engine::Engine as _;
use fencegate::ledger::postgres::{Address, Database, OpenMode, TimeSource};
use fencegate::protocol::Wanted;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::support::client::{Answer, Client};
use crate::support::commands::acquire;
use crate::support::gateway::Process;
use crate::support::postgres::replica::Site;
use crate::support::postgres::{Fresh, needed, patience};

const RULES: &str = "[namespaces.bound]\ncontract = \"lease_bound\"\n[namespaces.free]\n";

struct Scene {
    database: Fresh,
    gateway: Process,
    client: Client,
    site: Site,
}

impl Scene {
    async fn new(test: &str) -> Option<Self> {
        let database = needed(test).await?;
        let site = Site::new(&database.url, RULES);
        let gateway = site.start();
        Some(Self { client: gateway.client(), database, gateway, site })
    }

    /// A lease of one second; its token.
    async fn acquire(&self, name: &str) -> String {
        let lease = json!({"resource": name, "holder": "alice", "ttl_ms": 1_000});
        let lease = self.client.post("/v1/leases", &lease).await.expect(201);
        lease["fencing_token"].as_str().unwrap().to_owned()
    }

    /// Somebody else's transaction, which holds the resource's row.
    async fn hold(&self, name: &str) -> PgConnection {
        let mut other = PgConnection::connect(&self.database.admin).await.unwrap();
        other.execute("BEGIN").await.unwrap();
        let held = sqlx::query("SELECT 1 FROM resources WHERE resource = $1 FOR UPDATE").bind(name);
        held.fetch_one(&mut other).await.unwrap();
        other
    }

    /// A write that is under way and waits for the row.
    async fn waiting_put(&self, name: &'static str, token: &str) -> JoinHandle<Answer> {
        let (client, token) = (self.client.clone(), token.to_owned());
        let waiting = tokio::spawn(async move { client.put(name, &token, "late", "late", &[]).await });
        self.until("a session waits for the row", BLOCKED).await;
        waiting
    }

    async fn until(&self, what: &str, question: &'static str) {
        let mut connection = PgConnection::connect(&self.database.admin).await.unwrap();
        loop_until(&mut connection, what, question).await;
    }
}

const BLOCKED: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
const WAITS_LONG: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                          AND clock_timestamp() - xact_start > interval '20 milliseconds')";
const EXPIRED: &str = "SELECT bool_and(expires_ms < extract(epoch FROM clock_timestamp()) * 1000) FROM leases WHERE state = 'held'";

/// The server would end such a session by itself after three seconds: it must not have to.
const NOTHING_OPEN: &str = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                            AND state LIKE 'idle in transaction%')";

async fn loop_until(connection: &mut PgConnection, what: &str, question: &'static str) {
    let connection = tokio::sync::Mutex::new(connection);
    patience::until(what, 2, async || {
        let mut connection = connection.lock().await;
        let yes: bool = sqlx::query_scalar(question).fetch_one(&mut **connection).await.unwrap();
        yes.then_some(())
    })
    .await;
}

/// The lease ends while the write waits for its row. With the time at which the transaction began, or one read together
/// with the lock, the write would be admitted after the lease.
#[tokio::test]
async fn a_write_that_waited_past_its_lease_is_refused() {
    let Some(scene) = Scene::new("postgres::locks::a_write_that_waited_past_its_lease_is_refused").await
    else {
        return;
    };
    let token = scene.acquire("bound/a").await;
    let mut other = scene.hold("bound/a").await;
    let waiting = scene.waiting_put("bound/a", &token).await;
    scene.until("the lease expires", EXPIRED).await;
    other.execute("COMMIT").await.unwrap();
    waiting.await.unwrap().refused(412, "lease_expired", "none");
    scene.client.get("/fenced/bound/a").await.refused(404, "not_found", "none");
    assert_eq!(scene.gateway.terminate(), Some(0));
}

/// Broken: a load brings the time at which its transaction began. Time never goes back within a gateway, and its other tasks may
/// read the clock while the write waits: then the test above passes all the same. Must hold: a load brings the time of after
/// the wait, also where nobody else looks.
#[tokio::test]
async fn the_time_of_a_load_is_that_of_after_the_wait() {
    let Some(scene) = Scene::new("postgres::locks::the_time_of_a_load_is_that_of_after_the_wait").await
    else {
        return;
    };
    scene.acquire("free/a").await;
    let address = Address::of(&[&scene.database.url]).unwrap();
    let open = Database::open(&address, OpenMode::ExistingOnly, Uuid::nil(), TimeSource::Database, 2);
    let mut engine = open.await.unwrap().start().await.unwrap().0.remove(0);
    let mut wanted = Wanted::default();
    wanted.add(&acquire("free/a", "bob", 1));
    let mut other = scene.hold("free/a").await;
    let loading = tokio::spawn(async move {
        let loaded = engine.load(&wanted).await;
        (engine, loaded)
    });
    scene.until("a session waits for the row, and has for a while", WAITS_LONG).await;
    let clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let freed: i64 = sqlx::query_scalar(clock).fetch_one(&mut other).await.unwrap();
    other.execute("COMMIT").await.unwrap();
    let (mut engine, loaded) = loading.await.unwrap();
    assert!(loaded.unwrap().now.ms() >= freed, "the time is from before the wait");
    engine.rollback().await;
    engine.close().await;
    assert_eq!(scene.gateway.terminate(), Some(0));
}

/// The lease is released by another replica while the write waits: a lease read together with the lock is the one of
/// before.
#[tokio::test]
async fn a_write_that_waited_past_a_release_is_refused() {
    let Some(scene) = Scene::new("postgres::locks::a_write_that_waited_past_a_release_is_refused").await
    else {
        return;
    };
    let token = scene.acquire("bound/a").await;
    let mut other = scene.hold("bound/a").await;
    let waiting = scene.waiting_put("bound/a", &token).await;
    other.execute("UPDATE leases SET state = 'released' WHERE resource = 'bound/a'").await.unwrap();
    other.execute("COMMIT").await.unwrap();
    waiting.await.unwrap().refused(412, "lease_expired", "none");
    assert_eq!(scene.gateway.terminate(), Some(0));
}

/// The floor rises while the write waits: what was read before the wait would let the older write in.
#[tokio::test]
async fn a_write_that_waited_past_a_higher_floor_is_refused() {
    let Some(scene) = Scene::new("postgres::locks::a_write_that_waited_past_a_higher_floor_is_refused").await
    else {
        return;
    };
    let token = scene.acquire("free/a").await;
    let mut other = scene.hold("free/a").await;
    let waiting = scene.waiting_put("free/a", &token).await;
    other
        .execute("UPDATE resources SET issued_token = 9, floor_token = 9 WHERE resource = 'free/a'")
        .await
        .unwrap();
    other.execute("COMMIT").await.unwrap();
    waiting.await.unwrap().refused(412, "stale_token", "none");
    // A refusal is no reason to leave the transaction open.
    scene.until("no session is idle in transaction", NOTHING_OPEN).await;
    assert_eq!(scene.gateway.terminate(), Some(0));
}

/// A row that somebody holds for long is one caller's trouble: it is answered, and the others are served meanwhile or
/// right after, and nobody's transaction is left open.
#[tokio::test]
async fn a_row_that_is_held_for_long_is_unavailable_and_no_more() {
    let Some(scene) =
        Scene::new("postgres::locks::a_row_that_is_held_for_long_is_unavailable_and_no_more").await
    else {
        return;
    };
    let token = scene.acquire("free/a").await;
    let mut other = scene.hold("free/a").await;
    let waiting = scene.waiting_put("free/a", &token).await;
    waiting.await.unwrap().refused(503, "database_unavailable", "none");
    other.execute("COMMIT").await.unwrap();
    scene.client.put("free/a", &token, "late", "late", &[]).await.expect(201);
    scene.until("no session is idle in transaction", NOTHING_OPEN).await;
    assert_eq!(scene.gateway.terminate(), Some(0));
}

/// A transaction that somebody prepared, and a gateway that starts and writes beside it: neither touches the other.
#[tokio::test]
async fn prepared_transactions_of_others_are_left_alone() {
    let Some(scene) = Scene::new("postgres::locks::prepared_transactions_of_others_are_left_alone").await
    else {
        return;
    };
    let mut other = PgConnection::connect(&scene.database.admin).await.unwrap();
    other.execute("CREATE TABLE theirs (word text)").await.unwrap();
    other.execute("BEGIN").await.unwrap();
    other.execute("INSERT INTO theirs VALUES ('pending')").await.unwrap();
    other
        .execute(sqlx::AssertSqlSafe(format!("PREPARE TRANSACTION '{}'", scene.database.name)))
        .await
        .unwrap();
    let token = scene.acquire("free/a").await;
    scene.client.put("free/a", &token, "op-1", "body", &[]).await.expect(201);
    assert_eq!(scene.gateway.terminate(), Some(0));
    let again = Process::start(scene.site.path());
    again.client().put("free/a", &token, "op-1", "body", &[]).await.expect(201);
    other.execute(sqlx::AssertSqlSafe(format!("COMMIT PREPARED '{}'", scene.database.name))).await.unwrap();
    let found: i64 = sqlx::query_scalar("SELECT count(*) FROM theirs").fetch_one(&mut other).await.unwrap();
    assert_eq!(found, 1);
    assert_eq!(again.terminate(), Some(0));
}
