//! Somebody who follows what happens with `Last-Event-ID`, from one replica to the next, while all of them write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::listener::{Heard, Listener};
use crate::leases::scene::{Dice, Scene, Shape};
use crate::support::client::Answer;

const RULES: &str =
    "[namespaces.rows]\npolicy = \"ordered\"\n[namespaces.pages]\nscope = 1\npolicy = \"ordered\"\n";

/// Transactions that begin early and end late, one after another: each takes its number, and is committed when others with
/// higher numbers have been told long ago; some are taken back.
async fn late(url: String, number: u64, times: u64) -> BTreeSet<String> {
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let (mut dice, mut committed) = (Dice(number), BTreeSet::new());
    for time in 0..times {
        let name = format!("rows/late-{number}-{time}");
        let insert = format!(
            "BEGIN; INSERT INTO audit (bucket, resource, at_ms, transaction_id, ordinal, verb, position_epoch, position_token) \
             VALUES (0, '{name}', (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
             pg_current_xact_id()::text::bigint, 0, 'acquired', 0, 1)"
        );
        connection.execute(AssertSqlSafe(insert)).await.unwrap();
        dice.pause(150_000).await;
        let is_kept = dice.below(4) > 0;
        connection.execute(if is_kept { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
        if is_kept {
            committed.insert(name);
        }
    }
    committed
}

fn id(heard: &Heard) -> String {
    heard.data["id"].as_str().unwrap().to_owned()
}

/// Broken: numbers of transactions are given when they begin, and they end in another order; a follower that has been told of a
/// higher one never hears of the lower one that was committed after it, at this replica or at the next. Must hold: whoever goes
/// on with the last id, wherever and whenever, is told of every commit of every replica, and of none that was taken back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missed_from_replica_to_replica() {
    const WRITERS: usize = 4;
    const WRITES: usize = 40;
    const LATE: u64 = 8;
    if !Shape::Replicas.is_here("operating::following::nothing_is_missed_from_replica_to_replica") {
        return;
    }
    let scene = Scene::start(Shape::Replicas, RULES).await;
    let mut listener = Listener::begin(&scene.client(0), "", None).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let client = scene.client(number);
            tokio::spawn(async move {
                let name = format!("rows/w{number}");
                let lease = client.acquire(&name, "writer").await;
                for write in 1..=WRITES {
                    let sequence = write.to_string();
                    let more = [("fencing-sequence", sequence.as_str())];
                    let operation = format!("op-{number}-{write}");
                    let answer = client.put(&name, &lease.token, &operation, "x", &more).await;
                    assert!([200, 201].contains(&answer.status), "{}", answer.text());
                }
            })
        })
        .collect();
    let url = scene.database.as_ref().unwrap().url.clone();
    let slow: Vec<_> = (0..2).map(|number| tokio::spawn(late(url.clone(), number, LATE))).collect();

    let writing = tokio::spawn(async move {
        for writer in writers {
            writer.await.unwrap();
        }
        let mut committed = BTreeSet::new();
        for task in slow {
            committed.extend(task.await.unwrap());
        }
        committed
    });
    // A few events here, then on at the next replica from wherever that was, until everything is over.
    let (mut heard, mut dice, mut hops) = (BTreeMap::new(), Dice(7), 0);
    let mut last = listener.last.take().unwrap();
    loop {
        let is_over = writing.is_finished();
        listener = Listener::begin(&scene.client(hops), "", Some(&last)).await;
        hops += 1;
        if is_over {
            heard.extend(listener.comment("all is told").await.into_iter().map(|one| (id(&one), one)));
            break;
        }
        for _ in 0..dice.below(12) {
            let Ok(one) = tokio::time::timeout(Duration::from_millis(100), listener.event()).await else {
                break;
            };
            heard.insert(id(&one), one);
        }
        last = listener.last.take().unwrap_or(last);
    }
    let committed = writing.await.unwrap();
    let mut all = Listener::begin(&scene.client(1), "", Some("0")).await;
    let kept: BTreeMap<String, Heard> =
        all.comment("all is told").await.into_iter().map(|one| (id(&one), one)).collect();
    let missed: Vec<String> =
        kept.iter().filter(|(id, _)| !heard.contains_key(*id)).map(|(_, one)| one.told()).collect();
    assert_eq!(missed, [""; 0], "after {hops} hops");
    assert_eq!(heard.len(), kept.len());
    assert_eq!(kept.len(), WRITERS * (WRITES + 1) + committed.len());
    for name in &committed {
        assert!(heard.values().any(|one| one.data["subject"] == name.as_str()), "{name}");
    }
    assert!(hops > 10, "{hops}");
    drop((listener, all));
    scene.end();
}

/// Broken: a follower of something quiet hears nothing while records are read that its filter leaves out, takes the stream for
/// dead, and begins at the same place for ever. Must hold: a sign of life comes meanwhile, with a place further on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_leaves_much_out_shows_that_it_goes_on() {
    let scene = Scene::start(Shape::Sqlite, RULES).await;
    let client = scene.client(0);
    let lease = client.acquire("pages/a", "alice").await;
    for batch in 1..=6 {
        let write = |number: usize| {
            json!({"method": "PUT", "resource": format!("pages/a/{batch}-{number}"), "body": "x",
                "fencing_token": lease.token, "operation_id": format!("op-{batch}-{number}"),
                "sequence": batch.to_string()})
        };
        let writes: Vec<_> = (0..100).map(write).collect();
        let request = client.request(Method::POST, "/v1/writes").json(&json!({"writes": writes}));
        Answer::of(request).await.expect(200);
    }
    let mut quiet = Listener::begin(&client, "?prefix=rows/", Some("0")).await;
    let sign = tokio::time::timeout(Duration::from_secs(20), quiet.comment("still reading")).await;
    assert!(sign.expect("no sign of life").is_empty());
    let on_the_way = quiet.last.clone().unwrap();
    quiet.comment("all is told").await;
    assert_ne!(on_the_way, quiet.last.clone().unwrap());
    let mut again = Listener::begin(&client, "", Some(&on_the_way)).await;
    let rest = again.comment("all is told").await.len();
    assert!(rest > 0 && rest < 601, "{rest}");
    drop((quiet, again));
    scene.end();
}
