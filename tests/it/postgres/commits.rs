//! COMMIT was sent, and its answer never came: the caller learns the truth, or that it is not known; never a guess.

use std::time::Duration;

use sqlx::Executor;

use crate::support::client::{Answer, Client, Owned};
use crate::support::gateway::Process;
use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::proxy::Proxy;
use crate::support::postgres::replica::{Site, recovered};
use crate::support::postgres::{fresh, needed_binaries, patience};

struct Scene {
    cluster: Cluster,
    database: String,
    proxy: Proxy,
    gateway: Process,
    client: Client,
    lease: Owned,
    site: Site,
}

impl Scene {
    async fn new(test: &str) -> Option<Self> {
        let cluster = Cluster::start(needed_binaries(test)?, &[]);
        let database = fresh(&cluster).await.name;
        let proxy = Proxy::before(cluster.port()).await;
        let site = Site::new(&cluster.url_through(proxy.port, &database), "");
        let gateway = site.start();
        let client = gateway.client();
        let lease = client.acquire("jobs/a", "alice").await;
        Some(Self { cluster, database, proxy, gateway, client, lease, site })
    }

    /// The write whose COMMIT the proxy was told to spoil; answered within the budget whatever happens.
    async fn put(&self) -> Answer {
        let put = self.client.put("jobs/a", &self.lease.token, "op-1", "body", &[]);
        tokio::time::timeout(Duration::from_secs(25), put).await.expect("an answer in the budget")
    }

    /// No session of ours is left in a transaction, and the truth can be read by a process that saw nothing of it.
    async fn end(self) {
        patience::until("no session is idle in transaction", 15, async || {
            let mut admin = self.cluster.admin(&self.database).await;
            let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
            let open: i64 = sqlx::query_scalar(open).fetch_one(&mut admin).await.unwrap();
            (open == 0).then_some(())
        })
        .await;
        let second = self.site.start();
        assert_eq!(second.client().get("/fenced/jobs/a").await.text(), "body");
        let resource = second.client().get("/v1/resources/jobs/a").await.expect(200);
        assert_eq!(resource["commit"], "1");
        assert_eq!((second.terminate(), self.gateway.terminate()), (Some(0), Some(0)));
    }
}

/// The connection breaks after the server committed: the record is looked up on a new one, and found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_cut_off_is_looked_up_and_found() {
    let name = "postgres::commits::a_commit_whose_answer_was_cut_off_is_looked_up_and_found";
    let Some(scene) = Scene::new(name).await else { return };
    scene.proxy.cut_after_the_commit_of("op-1");
    let found = scene.put().await;
    assert_eq!(scene.proxy.swallowed(), 1);
    assert_eq!(found.expect(201)["commit"], "1");
    scene.end().await;
}

/// The answer never comes and the connection stays open: the wait ends, and the record is looked up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_never_answered_is_looked_up_and_found() {
    let name = "postgres::commits::a_commit_that_is_never_answered_is_looked_up_and_found";
    let Some(scene) = Scene::new(name).await else { return };
    scene.proxy.swallow_the_commit_of("op-1");
    let found = scene.put().await;
    assert!(scene.proxy.swallowed() >= 1);
    assert_eq!(found.expect(201)["commit"], "1");
    scene.end().await;
}

/// COMMIT itself was lost with the connection: the server rolled back, nothing is found, and the write is made now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_made_anew() {
    let name = "postgres::commits::a_commit_that_never_arrived_is_made_anew";
    let Some(scene) = Scene::new(name).await else { return };
    scene.proxy.lose_the_commit_of("op-1");
    let made = scene.put().await;
    assert_eq!(scene.proxy.swallowed(), 1);
    assert_eq!(made.expect(201)["commit"], "1");
    assert_eq!(made.header("idempotent-replayed"), None);
    scene.end().await;
}

/// Nobody can be asked either: "unknown" is said, with the place to ask; the retry gets what truly happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_in_doubt_is_unknown_and_the_retry_gets_the_truth() {
    let name = "postgres::commits::a_commit_in_doubt_is_unknown_and_the_retry_gets_the_truth";
    let Some(scene) = Scene::new(name).await else { return };
    scene.proxy.cut_after_the_commit_of("op-1");
    scene.proxy.refuse_connections(true);
    let unknown = scene.put().await;
    assert_eq!(scene.proxy.swallowed(), 1);
    let problem = unknown.refused(503, "database_unavailable", "unknown");
    assert_eq!(problem["retryable"], true);
    assert!(unknown.header("retry-after").is_some());
    let place = unknown.header("location").expect("a Location").to_owned();
    scene.proxy.refuse_connections(false);
    recovered(&scene.client).await;
    let operation = scene.client.get(&place).await.expect(200);
    assert_eq!(operation["state"], "applied");
    let again = scene.put().await;
    assert_eq!(again.expect(201)["commit"], "1");
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    scene.end().await;
}

/// The setting is in force only once a process of the server has read it: then a commit of anybody waits.
async fn commits_wait(cluster: &Cluster, database: &str) {
    patience::until("commits wait for a standby", 30, async || {
        let mut admin = cluster.admin(database).await;
        let commit = admin.execute("CREATE TEMPORARY TABLE probe (one integer)");
        tokio::time::timeout(Duration::from_millis(500), commit).await.is_err().then_some(())
    })
    .await;
}

/// A commit hangs at the server (no synchronous standby answers), and the resource is new: nobody can see or lock its
/// row, so it looks as if nothing had happened. Must hold: "unknown" is said, not "none", for it does become durable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_hangs_on_a_new_resource_is_not_called_without_effect() {
    let name = "postgres::commits::a_commit_that_hangs_on_a_new_resource_is_not_called_without_effect";
    let Some(binaries) = needed_binaries(name) else { return };
    let cluster = Cluster::start(binaries, &[]);
    let database = fresh(&cluster).await;
    let site = Site::new(&database.url, "[namespaces.free]\nissuer = { external = \"trusted\" }\n");
    let gateway = site.start();
    let client = gateway.client();
    client.put("free/known", "1", "op-0", "body", &[]).await.expect(201);
    cluster.tell(&["ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"]).await;
    commits_wait(&cluster, &database.name).await;
    let put = async || client.put("free/new", "1", "op-1", "body", &[]).await;
    let unknown =
        tokio::time::timeout(Duration::from_secs(30), put()).await.expect("an answer in the budget");
    unknown.refused(503, "database_unavailable", "unknown");
    cluster.tell(&["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"]).await;
    recovered(&client).await;
    let again = put().await;
    assert_eq!(again.expect(201)["commit"], "1");
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "the first delivery had been applied");
    assert_eq!(gateway.terminate(), Some(0));
}
