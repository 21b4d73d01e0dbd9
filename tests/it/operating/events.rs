//! What happened, as it is told to those who listen: once each, in order, and on from where one stopped.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection};

use super::listener::{Heard, Listener};
use crate::leases::scene::{Scene, Shape, acquire, id_of, told_on, wanted};
use crate::support::client::{Answer, Client};

told_on!([sqlite Sqlite, postgres Postgres, replicas Replicas], [
    a_listener_hears_of_each_thing_once_and_goes_on_where_it_stopped,
    nothing_that_many_write_at_once_is_missed_or_told_twice,
    a_killed_gateway_costs_a_listener_nothing,
    what_cannot_be_gone_on_from_is_said,
]);

const RULES: &str = "[namespaces.rows]\npolicy = \"ordered\"\n[namespaces.jobs]\nlease = { ttl_ms = 30000, min_ttl_ms = 50 }\n[namespaces.others]\n";

fn told(heard: &[Heard]) -> Vec<String> {
    heard.iter().map(Heard::told).collect()
}

async fn advance_epoch(client: &Client, namespace: &str, key: &str) {
    let request = client.request(Method::POST, &format!("/v1/namespaces/{namespace}/epoch"));
    let body = json!({"reason": "a drill", "confirm": namespace});
    Answer::of(request.header("idempotency-key", key).json(&body)).await.expect(200);
}

/// Broken: a listener misses what another gateway did, hears it twice, in a wrong order, or hears of a payload or a seal.
/// Must hold: whatever was committed anywhere is told once, in the order in which it happened to a resource; and whoever
/// comes back with an id is told exactly what came after it.
async fn a_listener_hears_of_each_thing_once_and_goes_on_where_it_stopped(shape: Shape) {
    let scene = Scene::start(shape, RULES).await;
    let mut listener = Listener::begin(&scene.client(0), "", None).await;
    let mut narrow = Listener::begin(&scene.client(1), "?namespace=jobs&prefix=jobs/a", None).await;
    let before = listener.last.clone().unwrap();
    let lease = acquire(&scene.client(1), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    let token = lease["fencing_token"].as_str().unwrap();
    scene
        .client(2)
        .put("jobs/a", token, "op-1", "a payload that is nobody's business", &[])
        .await
        .expect(201);
    scene.client(1).acquire("others/b", "bob").await;
    let reason = json!({"reason": "the customer left"});
    scene.client(0).post("/v1/cancel/jobs/a", &reason).await.expect(200);
    let reopen = scene.client(1).request(Method::POST, "/v1/reopen/jobs/a").header("idempotency-key", "1");
    Answer::of(reopen.json(&reason)).await.expect(200);
    advance_epoch(&scene.client(2), "jobs", "e-1").await;

    let heard = listener.events(7).await;
    let all = [
        "lease.granted jobs/a",
        "write.applied jobs/a",
        "lease.granted others/b",
        "lease.superseded jobs/a",
        "resource.cancelled jobs/a",
        "resource.reopened jobs/a",
        "epoch.advanced jobs",
    ];
    // Of two resources nobody can say which came first when it was in one millisecond.
    let of = |heard: &[Heard], name: &str| -> Vec<String> {
        told(heard).into_iter().filter(|line| line.ends_with(name)).collect()
    };
    assert_eq!(of(&heard, " jobs/a").len() + of(&heard, " others/b").len() + of(&heard, " jobs").len(), 7);
    let wanted_of_a: Vec<&str> = all.into_iter().filter(|line| line.ends_with(" jobs/a")).collect();
    assert_eq!(of(&heard, " jobs/a"), wanted_of_a);
    let ids: BTreeSet<String> = heard.iter().map(|one| one.data["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), heard.len());
    let write = heard.iter().find(|one| one.name == "fencegate.write.applied").unwrap();
    assert_eq!((&write.data["specversion"], &write.data["type"]), (&json!("1.0"), &json!(write.name)));
    assert_eq!(
        (&write.data["data"]["operation_id"], &write.data["data"]["commit"]),
        (&json!("op-1"), &json!("1"))
    );
    assert_eq!(write.data["partitionkey"], "jobs/a");
    assert!(write.data["source"].as_str().unwrap().starts_with("urn:uuid:"));
    let cancelled = heard.iter().find(|one| one.name == "fencegate.resource.cancelled").unwrap();
    let data = &cancelled.data["data"];
    assert_eq!((&data["actor"], &data["reason"]), (&json!("anonymous"), &json!("the customer left")));
    for secret in ["nobody's business", token, id_of(&lease)] {
        assert!(!listener.all.contains(secret), "{secret} was told: {}", listener.all);
    }

    let near = narrow.events(6).await;
    assert_eq!(told(&near), all.iter().filter(|line| !line.contains("others")).copied().collect::<Vec<_>>());

    for from in 0..heard.len() {
        let mut again = Listener::begin(&scene.client(from), "", Some(&heard[from].id)).await;
        assert_eq!(told(&again.comment("all is told").await), told(&heard[from + 1..]), "after {from}");
    }
    let mut again = Listener::begin(&scene.client(0), "", Some(&before)).await;
    assert_eq!(told(&again.comment("all is told").await), told(&heard));
    let mut oldest = Listener::begin(&scene.client(1), "", Some("0")).await;
    assert_eq!(told(&oldest.comment("all is told").await), told(&heard));
    let bare = scene.client(0).request(Method::HEAD, "/v1/events").send().await.unwrap();
    assert_eq!(bare.status(), 200);
    drop((listener, narrow, again, oldest));
    scene.end();
}

/// Broken: transactions become visible in another order than that of their numbers, and what one of them wrote is passed
/// over for ever; or a page is told twice. Must hold: of many writers at several gateways each write is told once, and those
/// of one resource in the order of their commits.
async fn nothing_that_many_write_at_once_is_missed_or_told_twice(shape: Shape) {
    const WRITERS: usize = 6;
    const WRITES: usize = 40;
    let scene = Scene::start(shape, RULES).await;
    let mut listener = Listener::begin(&scene.client(0), "?prefix=rows/", None).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let client = scene.client(number);
            tokio::spawn(async move {
                let name = format!("rows/w{number}");
                let lease = client.acquire(&name, "writer").await;
                for write in 0..WRITES {
                    let operation = format!("op-{number}-{write}");
                    let sequence = (write + 1).to_string();
                    let more = [("fencing-sequence", sequence.as_str())];
                    let answer = client.put(&name, &lease.token, &operation, "x", &more).await;
                    assert!([200, 201].contains(&answer.status), "{}", answer.text());
                }
            })
        })
        .collect();
    let heard = listener.events(WRITERS * (WRITES + 1)).await;
    for writer in writers {
        writer.await.unwrap();
    }
    let mut ids = BTreeSet::new();
    for number in 0..WRITERS {
        let name = format!("rows/w{number}");
        let own: Vec<&Heard> = heard.iter().filter(|one| one.data["subject"] == name.as_str()).collect();
        let commits: Vec<String> =
            own.iter().filter_map(|one| one.data["data"]["commit"].as_str().map(str::to_owned)).collect();
        let wanted: Vec<String> = (1..=WRITES).map(|commit| commit.to_string()).collect();
        assert_eq!(commits, wanted, "{name}");
        assert_eq!(own[0].name, "fencegate.lease.granted");
        ids.extend(own.iter().map(|one| one.data["id"].as_str().unwrap().to_owned()));
    }
    assert_eq!(ids.len(), heard.len());
    let mut again = Listener::begin(&scene.client(1), "?prefix=rows/", Some("0")).await;
    let once_more = again.comment("all is told").await;
    let stable: BTreeSet<String> =
        once_more.iter().map(|one| one.data["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        (once_more.len(), &stable),
        (heard.len(), &ids),
        "an id is the same whoever tells it, and when"
    );
    drop((listener, again));
    scene.end();
}

/// Broken: what happened between a crash and the return of a listener is told to nobody. Must hold: the id that was heard
/// last leads on, at the process that comes after.
async fn a_killed_gateway_costs_a_listener_nothing(shape: Shape) {
    let mut scene = Scene::start(shape, RULES).await;
    let mut listener = Listener::begin(&scene.client(0), "", None).await;
    let first = scene.client(1).acquire("jobs/a", "alice").await;
    assert_eq!(listener.event().await.told(), "lease.granted jobs/a");
    let last = listener.last.clone().unwrap();
    let client = scene.client(1);
    client.put("jobs/a", &first.token, "op-1", "x", &[]).await.expect(201);
    scene.replace(0);
    scene.client(2).acquire("jobs/b", "bob").await;
    let mut again = Listener::begin(&scene.client(0), "", Some(&last)).await;
    let heard = again.events(2).await;
    assert_eq!(told(&heard), ["write.applied jobs/a", "lease.granted jobs/b"]);
    drop((listener, again));
    scene.end();
}

/// Broken: a listener that comes back with a place that nothing leads on from is told nothing of what it missed. Must hold:
/// it hears `reset`, and everything from then on.
async fn what_cannot_be_gone_on_from_is_said(shape: Shape) {
    let scene = Scene::start(shape, RULES).await;
    let listener = Listener::begin(&scene.client(0), "", None).await;
    let now = listener.last.clone().unwrap();
    let mut parts: Vec<&str> = now.split('-').collect();
    let mut changed = |at: usize, to: &'static str| {
        let before = std::mem::replace(&mut parts[at], to);
        let text = parts.join("-");
        parts[at] = before;
        text
    };
    let ahead = "8223372036854775807.0";
    let bad = [
        ("nonsense".to_owned(), "no id of this stream"),
        (changed(0, "00000000"), "another database"),
        (changed(1, "7"), "went back"),
        (changed(3, ahead), "went back"),
        (changed(4, ahead), "went back"),
        (changed(2, "1"), "kept no longer"),
    ];
    for (number, (id, why)) in bad.into_iter().enumerate() {
        let mut lost = Listener::begin(&scene.client(number), "", Some(&id)).await;
        let reset = lost.event().await;
        assert_eq!(reset.name, "reset");
        assert!(reset.data["reason"].as_str().unwrap().contains(why), "{id}: {}", reset.data);
        lost.comment("all is told").await;
        let name = format!("jobs/{number}");
        scene.client(number + 1).acquire(&name, "alice").await;
        assert_eq!(lost.event().await.told(), format!("lease.granted {name}"));
    }
    drop(listener);
    scene.end();
}

/// Broken: a transaction that began early commits late, and what it wrote is passed over for ever. Must hold: nothing is told
/// that something still to be committed may come before; and then all of it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commits_late_is_not_passed_over() {
    if !Shape::Postgres.is_here("operating::events::what_commits_late_is_not_passed_over") {
        return;
    }
    let scene = Scene::start(Shape::Postgres, RULES).await;
    let client = scene.client(0);
    let mut listener = Listener::begin(&client, "", None).await;
    let url = &scene.database.as_ref().unwrap().url;
    let mut slow = PgConnection::connect(url).await.unwrap();
    slow.execute(
        "BEGIN; INSERT INTO audit (bucket, resource, at_ms, transaction_id, ordinal, verb, position_epoch, position_token) \
         VALUES (0, 'jobs/late', 1, pg_current_xact_id()::text::bigint, 0, 'acquired', 0, 1)",
    )
    .await
    .unwrap();
    client.acquire("jobs/soon", "alice").await;
    // A whole new stream has looked meanwhile, and found nothing to tell.
    let mut other = Listener::begin(&client, "", Some(listener.last.as_ref().unwrap())).await;
    assert_eq!(told(&other.comment("all is told").await), [""; 0]);
    slow.execute("COMMIT").await.unwrap();
    let mut first = None;
    for stream in [&mut listener, &mut other] {
        let heard = stream.events(2).await;
        assert_eq!(told(&heard), ["lease.granted jobs/late", "lease.granted jobs/soon"]);
        first = Some(heard[0].id.clone());
    }
    // It tells of a time long gone, and so do expiries that were noticed late: that makes its listener none who was away.
    let mut again = Listener::begin(&client, "", first.as_deref()).await;
    assert_eq!(again.event().await.name, "fencegate.lease.granted");
    drop((listener, other, slow, again));
    scene.end();
}

/// Broken: each thing that somebody else does shows in a stream that may not tell of it, with its time and its number. Must hold:
/// nothing comes until there is something for this listener.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_leaves_no_trace_of_its_time() {
    let scene = Scene::start(Shape::Sqlite, RULES).await;
    let client = scene.client(0);
    let mut narrow = Listener::begin(&client, "?prefix=jobs/mine", None).await;
    let mut wide = Listener::begin(&client, "", None).await;
    for number in 0..5 {
        client.acquire(&format!("jobs/other-{number}"), "alice").await;
        // It has been told where it may be told.
        wide.event().await;
    }
    client.acquire("jobs/mine", "bob").await;
    assert_eq!(told(&narrow.events(1).await), ["lease.granted jobs/mine"]);
    narrow.comment("all is told").await;
    assert_eq!(narrow.all.matches("all is told").count(), 2, "{}", narrow.all);
    drop((narrow, wide));
    scene.end();
}

/// Broken: whoever opens streams without end takes the gateway's memory and every connection to its database. Must hold:
/// beyond the bound one is refused and told to come again, and everything else goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_have_a_bound() {
    let scene = Scene::start(Shape::Sqlite, RULES).await;
    let client = scene.client(0);
    let mut open = Vec::new();
    for _ in 0..fencegate::limits::EVENT_STREAMS {
        open.push(client.request(Method::GET, "/v1/events").send().await.unwrap());
    }
    let refused = client.get("/v1/events").await;
    let problem = refused.refused(503, "overloaded", "none");
    assert!(problem["retryable"] == true && refused.header("retry-after").is_some(), "{problem}");
    client.acquire("jobs/a", "alice").await;
    open.pop();
    crate::support::postgres::patience::until("the place of a stream is free again", 10, async || {
        (client.request(Method::GET, "/v1/events").send().await.unwrap().status() == 200).then_some(())
    })
    .await;
    drop(open);
    scene.end();
}
