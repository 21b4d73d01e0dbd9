//! The database stopped, restarted, killed, frozen, full, read-only, or out of connections: nothing is accepted that is
//! not durable, `/readyz` says why, and everything goes on by itself afterwards.

use rustix::process::Signal;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::support::client::{Client, Owned};
use crate::support::gateway::Process;
use crate::support::postgres::binaries::{Binaries, say};
use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::load::{Addresses, Load, RULES};
use crate::support::postgres::replica::{Site, failing, recovered};
use crate::support::postgres::server::Disk;
use crate::support::postgres::{Fresh, fresh, needed_binaries, patience};

/// A server of its own with a gateway that has written something.
struct Scene {
    cluster: Cluster,
    database: Fresh,
    gateway: Process,
    client: Client,
    lease: Owned,
    _site: Site,
}

impl Scene {
    async fn new(test: &str) -> Option<Self> {
        let cluster = Cluster::start(needed_binaries(test)?, &[]);
        let database = fresh(&cluster).await;
        Some(Self::over(cluster, database).await)
    }

    async fn over(cluster: Cluster, database: Fresh) -> Self {
        let site = Site::new(&database.url, &format!("{RULES}[namespaces.jobs]\n"));
        let gateway = site.start();
        let client = gateway.client();
        let first = client.acquire("jobs/first", "alice").await;
        client.put("jobs/first", &first.token, "op-1", "before", &[]).await.expect(201);
        let lease = client.acquire("jobs/a", "alice").await;
        Self { cluster, database, gateway, client, lease, _site: site }
    }

    /// While it lasts nothing is accepted and nothing is left in doubt.
    async fn fails_closed(&self) {
        self.client.put("jobs/a", &self.lease.token, "op-1", "body", &[]).await.refused(
            503,
            "database_unavailable",
            "none",
        );
        self.client.try_acquire("jobs/b", "bob").await.refused(503, "database_unavailable", "none");
        assert_eq!(self.client.get("/livez").await.status, 200);
    }

    /// A large write is refused, and nothing of it is there; what stood can be read.
    async fn refuses(&self, large: &str) {
        let refused = self.client.put("jobs/a", &self.lease.token, "op-1", large, &[]).await;
        refused.refused(503, "database_unavailable", "none");
        assert_eq!(self.client.get("/livez").await.status, 200);
        self.client.get("/fenced/jobs/a").await.refused(404, "not_found", "none");
        assert_eq!(self.client.get("/fenced/jobs/first").await.text(), "before");
    }

    /// Afterwards everything goes on: what stood stands, what was refused can be had.
    async fn goes_on(&self) {
        recovered(&self.client).await;
        let receipt = self.client.put("jobs/a", &self.lease.token, "op-1", "body", &[]).await.expect(201);
        assert_eq!(receipt["commit"], "1");
        assert_eq!(self.client.get("/fenced/jobs/first").await.text(), "before");
        assert_eq!(self.client.get("/fenced/jobs/a").await.text(), "body");
        let again = self.client.put("jobs/first", &self.lease.token, "op-1", "before", &[]).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{}", again.text());
    }

    async fn end(self) {
        self.goes_on().await;
        assert_eq!(self.gateway.terminate(), Some(0));
    }
}

#[tokio::test]
async fn a_stopped_database_fails_closed_and_comes_back() {
    let name = "postgres::faults::a_stopped_database_fails_closed_and_comes_back";
    let Some(scene) = Scene::new(name).await else { return };
    scene.cluster.stop();
    scene.fails_closed().await;
    let failing = failing(&scene.client).await;
    assert!(failing.contains(&"ledger".to_owned()) && failing.contains(&"reads".to_owned()), "{failing:?}");
    scene.client.get("/fenced/jobs/first").await.refused(503, "database_unavailable", "none");
    scene.client.get("/v1/status").await.refused(503, "database_unavailable", "none");
    scene.cluster.begin();
    scene.end().await;
}

/// Restarted and killed under load: whatever was acknowledged stands, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_and_kills_under_load_lose_and_double_nothing() {
    let name = "postgres::faults::restarts_and_kills_under_load_lose_and_double_nothing";
    let Some(scene) = Scene::new(name).await else { return };
    let addresses = Addresses::of(&[&scene.gateway.base]);
    let mut load = Load::start(8, &addresses, &["database_unavailable"]);
    for round in 0..4 {
        load.proceed(60, 30).await;
        if round % 2 == 0 {
            scene.cluster.stop();
        } else {
            scene.cluster.kill();
        }
        scene.cluster.begin();
    }
    load.proceed(60, 30).await;
    load.finish_and_check(&scene.client).await;
    scene.end().await;
}

/// A server that is frozen answers nothing at all: the wait for it is bounded.
#[tokio::test]
async fn a_frozen_database_is_waited_for_no_longer_than_the_budget() {
    let name = "postgres::faults::a_frozen_database_is_waited_for_no_longer_than_the_budget";
    let Some(scene) = Scene::new(name).await else { return };
    scene.cluster.signal_all(Signal::STOP);
    let put = scene.client.put("jobs/a", &scene.lease.token, "op-1", "body", &[]);
    let answer = tokio::time::timeout(std::time::Duration::from_secs(20), put).await;
    answer.expect("an answer in the budget").refused(503, "database_unavailable", "none");
    assert!(failing(&scene.client).await.contains(&"ledger".to_owned()));
    scene.cluster.signal_all(Signal::CONT);
    scene.end().await;
}

#[tokio::test]
async fn without_connections_it_fails_closed() {
    let Some(scene) = Scene::new("postgres::faults::without_connections_it_fails_closed").await else {
        return;
    };
    // The server's own word for it is the same whether its connections are used up or a role's.
    let sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway'";
    scene.cluster.tell(&["ALTER ROLE gateway CONNECTION LIMIT 0", sessions]).await;
    // One request may still be served by a session that was about to end.
    patience::until("it is out of connections", 10, async || {
        (!failing(&scene.client).await.is_empty()).then_some(())
    })
    .await;
    scene.cluster.tell(&[sessions]).await;
    scene.fails_closed().await;
    assert!(failing(&scene.client).await.contains(&"ledger".to_owned()));
    scene.cluster.tell(&["ALTER ROLE gateway CONNECTION LIMIT -1"]).await;
    scene.end().await;
}

/// A primary that was made read-only, as before a switch-over: sessions that are open already must notice too.
#[tokio::test]
async fn a_read_only_database_fails_closed() {
    let Some(scene) = Scene::new("postgres::faults::a_read_only_database_fails_closed").await else { return };
    scene
        .cluster
        .tell(&["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"])
        .await;
    patience::until("read-only is in force", 10, async || {
        let mut admin = scene.cluster.admin(&scene.database.name).await;
        let word: String =
            sqlx::query_scalar("SHOW default_transaction_read_only").fetch_one(&mut admin).await.unwrap();
        (word == "on").then_some(())
    })
    .await;
    patience::until("the gateway notices", 10, async || {
        failing(&scene.client).await.contains(&"ledger".to_owned()).then_some(())
    })
    .await;
    scene.fails_closed().await;
    scene
        .cluster
        .tell(&[
            "SET default_transaction_read_only = off",
            "ALTER SYSTEM RESET default_transaction_read_only",
            "SELECT pg_reload_conf()",
        ])
        .await;
    scene.end().await;
}

/// The disk is full in the middle of a write: it had no effect, and later ones have.
#[tokio::test]
async fn a_full_disk_fails_closed() {
    let name = "postgres::faults::a_full_disk_fails_closed";
    let Some(binaries) = needed_binaries(name) else { return };
    files_may_not_grow(binaries).await;
    match binaries.has_small_disks() {
        Ok(()) => no_space_is_left(binaries).await,
        Err(reason) => {
            say(&format!(
                "{name}: full by a limit on the size of files, not by a file system of its own ({reason})"
            ));
        }
    }
}

/// The database's own files have reached the greatest size that its processes may write.
async fn files_may_not_grow(binaries: &'static Binaries) {
    let cluster = Cluster::start(binaries, &[]);
    let database = fresh(&cluster).await;
    let scene = Scene::over(cluster, database).await;
    let large = incompressible(900_000);
    for number in 0..24 {
        let name = format!("jobs/filler-{number}");
        let lease = scene.client.acquire(&name, "filler").await;
        scene.client.put(&name, &lease.token, "op-1", &large, &[]).await.expect(201);
    }
    scene.cluster.tell(&["CHECKPOINT"]).await;
    // The log is written in files of this size, so it alone can go on.
    scene.cluster.limit_files(Some(16 * 1_048_576));
    scene.refuses(&large).await;
    scene.cluster.limit_files(None);
    scene.end().await;
}

/// The file system of the database is full.
async fn no_space_is_left(binaries: &'static Binaries) {
    let cluster = Cluster::start_on(binaries, &[], Disk::Small);
    let place = cluster.small_disk().display().to_string();
    cluster.tell(&[&format!("CREATE TABLESPACE small LOCATION '{place}'")]).await;
    cluster.tell(&["CREATE DATABASE small OWNER gateway TABLESPACE small"]).await;
    let database =
        Fresh { name: "small".to_owned(), url: cluster.url("small"), admin: cluster.admin_url("small") };
    let scene = Scene::over(cluster, database).await;
    let mut admin = scene.cluster.admin("small").await;
    admin.execute("CREATE TABLE filler (body bytea)").await.unwrap();
    admin.execute("ALTER TABLE filler ALTER COLUMN body SET STORAGE EXTERNAL").await.unwrap();
    for kilobytes in [1_024, 64, 8, 1] {
        let more =
            format!("INSERT INTO filler SELECT convert_to(repeat('x', {}), 'UTF8')", kilobytes * 1_024);
        while admin.execute(AssertSqlSafe(more.clone())).await.is_ok() {}
    }
    scene.refuses(&incompressible(900_000)).await;
    admin.execute("DROP TABLE filler").await.unwrap();
    admin.execute("CHECKPOINT").await.unwrap();
    admin.close().await.unwrap();
    scene.end().await;
}

/// Text that takes as much room in a database as it is long.
fn incompressible(bytes: u32) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + u8::try_from(state % 94).unwrap())
    };
    (0..bytes).map(&mut next).collect()
}
