//! Few connections, many clients that leave in the middle, and a pooler in between.

use crate::stories::hang_ups::{RULES, all_is_there, hang_ups_in_lanes, rounds};
use crate::support::postgres::binaries::say;
use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::load::{self, Addresses, Load};
use crate::support::postgres::pooler::{self, Pooler};
use crate::support::postgres::replica::Site;
use crate::support::postgres::shuffler::Shuffler;
use crate::support::postgres::{fresh, needed_binaries, patience};

/// Hang-ups over the whole test.
const ROUNDS: usize = 600;

/// No session of the gateway stays in a transaction once nobody asks for anything.
async fn nothing_is_left_open(cluster: &Cluster) {
    patience::until("no session is idle in transaction", 10, async || {
        let mut admin = cluster.admin("postgres").await;
        let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway' AND state <> 'idle'";
        let open: i64 = sqlx::query_scalar(open).fetch_one(&mut admin).await.unwrap();
        (open == 0).then_some(())
    })
    .await;
}

/// A client that leaves must not take a connection along: with two of them the third such client would be the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hang_ups_with_two_connections_leave_nothing_open() {
    let name = "postgres::connections::hang_ups_with_two_connections_leave_nothing_open";
    let Some(binaries) = needed_binaries(name) else { return };
    let cluster = Cluster::start(binaries, &[]);
    let site = Site::new(&fresh(&cluster).await.url, &format!("max_connections = 2\n{RULES}"));
    let gateway = site.start();
    let each = hang_ups_in_lanes(&gateway.client(), rounds(ROUNDS)).await;
    println!("{each} hang-ups of each client");
    nothing_is_left_open(&cluster).await;
    gateway.kill();
    let second = site.start();
    all_is_there(&second.client(), each).await;
    assert_eq!(second.terminate(), Some(0));
}

/// Behind a transaction-mode pooler each transaction may run in another session: nothing may live in one.
async fn two_gateways_write_through(cluster: &Cluster, port: u16, database: &str) {
    let url = format!("{}?statement-cache-capacity=0", cluster.url_through(port, database));
    let site = Site::new(&url, load::RULES);
    let (first, second) = (site.start(), site.start());
    let addresses = Addresses::of(&[&first.base, &second.base]);
    let mut load = Load::start(8, &addresses, &[]);
    load.proceed(400, 60).await;
    load.finish_and_check(&second.client()).await;
    nothing_is_left_open(cluster).await;
    assert_eq!((first.terminate(), second.terminate()), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_never_gives_the_same_session_twice_changes_nothing() {
    let name = "postgres::connections::a_pooler_that_never_gives_the_same_session_twice_changes_nothing";
    let Some(binaries) = needed_binaries(name) else { return };
    let cluster = Cluster::start(binaries, &[]);
    let database = fresh(&cluster).await.name;
    let pooler = Shuffler::before(&cluster, &database, 5).await;
    two_gateways_write_through(&cluster, pooler.port, &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgbouncer_in_transaction_mode_changes_nothing() {
    let name = "postgres::connections::pgbouncer_in_transaction_mode_changes_nothing";
    let Some(binaries) = needed_binaries(name) else { return };
    // No package registry but Debian's has it. The test above holds the same, more strictly, on every machine.
    let program = match pooler::program() {
        Ok(program) => program,
        Err(reason) => return say(&format!("1 test could not run: {name} ({reason})")),
    };
    let cluster = Cluster::start(binaries, &[]);
    let database = fresh(&cluster).await.name;
    let pooler = Pooler::before(&cluster, &program, 3);
    two_gateways_write_through(&cluster, pooler.port, &database).await;
}
