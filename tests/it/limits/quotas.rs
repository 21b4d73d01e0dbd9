//! Quotas of namespaces, over whole gateways: what is counted in a database that was there before, and by replicas.

use crate::support::client::Client;
use crate::support::engines::Kind;
use crate::support::gateway::Gateway;
use crate::support::postgres::needed;
use crate::support::postgres::replica::Site;

use super::config;

const TWO: &str = "[namespaces.jobs]\npolicy = \"session\"\nquota = { resources = 2, operations = 3, bytes = 8 }\n\
                   [namespaces.free]\n";

async fn refused(client: &Client, name: &str) {
    client.try_acquire(name, "alice").await.refused(429, "quota_exceeded", "none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stood_there_before_counts() {
    // Broken: a gateway counts only what it has added itself, and a restart makes room for as much again. Must hold: what is
    // in the database counts from the first request on, of resources, operations and bytes, in its own namespace alone.
    let gateway = Gateway::configured(Kind::Sqlite, &config(TWO)).await;
    let lease = gateway.client.acquire("jobs/a", "alice").await;
    gateway.client.acquire("jobs/b", "alice").await;
    gateway.client.put("jobs/a", &lease.token, "one", "1234", &[]).await.expect(201);
    refused(&gateway.client, "jobs/c").await;
    let gateway = gateway.restart().await;
    refused(&gateway.client, "jobs/c").await;
    gateway.client.acquire("free/a", "alice").await;
    let put = async |operation: &str, body: &str, tag: &str| {
        gateway.client.put("jobs/a", &lease.token, operation, body, &[("if-match", tag)]).await
    };
    let tag = gateway.client.get("/fenced/jobs/a").await.header("etag").unwrap().to_owned();
    put("two", "123456789", &tag).await.refused(429, "quota_exceeded", "none");
    let second = put("two", "12345678", &tag).await;
    second.expect(200);
    let third = put("three", "1", second.header("etag").unwrap()).await;
    third.expect(200);
    let tag = third.header("etag").unwrap();
    put("four", "1", tag).await.refused(429, "quota_exceeded", "none");
    // Repeats, renewals and releases are no additions.
    assert_eq!(
        put("three", "1", second.header("etag").unwrap()).await.header("idempotent-replayed"),
        Some("true")
    );
    gateway.client.renew(&lease).await.expect(200);
    gateway.client.release(&lease).await.expect(200);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_pass_a_quota_by_what_they_have_not_counted_yet_and_by_no_more() {
    // Broken: each replica has a quota of its own for ever, or every write asks the database for a count. Must hold: a
    // replica knows what it adds at once and what others have added when it counts again; until then the namespace may
    // have as much again for each replica, and not more.
    let test = "limits::quotas::replicas_pass_a_quota_by_what_they_have_not_counted_yet_and_by_no_more";
    let Some(database) = needed(test).await else { return };
    let site = Site::new(&database.url, TWO);
    let (one, other) = (site.start(), site.start());
    for (replica, names) in [(&one, ["jobs/a", "jobs/b"]), (&other, ["jobs/c", "jobs/d"])] {
        for name in names {
            replica.client().acquire(name, "alice").await;
        }
        refused(&replica.client(), "jobs/e").await;
    }
    // One that starts now counts first.
    let third = site.start();
    refused(&third.client(), "jobs/e").await;
    third.client().acquire("free/a", "alice").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_race_for_the_last_places_take_no_more_than_a_quota_each() {
    // Broken: of several committers each finds room for what the others are taking in the same moment, and nobody can say how
    // far a quota is passed. Must hold: however many ask at once, a gateway gives out what its quota says, neither more nor less,
    // and two of them no more than twice that.
    const QUOTA: usize = 5;
    let test = "limits::quotas::replicas_that_race_for_the_last_places_take_no_more_than_a_quota_each";
    let Some(database) = needed(test).await else { return };
    let site = Site::new(&database.url, &format!("[namespaces.jobs]\nquota = {{ resources = {QUOTA} }}\n"));
    let replicas = [site.start(), site.start()];
    let asking: Vec<_> = (0..40)
        .map(|number| {
            let client = replicas[number % 2].client();
            tokio::spawn(async move { client.try_acquire(&format!("jobs/{number}"), "alice").await.status })
        })
        .collect();
    let mut granted = [0; 2];
    for (number, asked) in asking.into_iter().enumerate() {
        match asked.await.unwrap() {
            201 => granted[number % 2] += 1,
            status => assert_eq!(status, 429),
        }
    }
    assert_eq!(granted, [QUOTA; 2], "each is exact, and knows nothing of the other yet");
    for replica in &replicas {
        refused(&replica.client(), "jobs/more").await;
    }
}
