//! An S3 as a store of class `conditional`. Its validators are hashes of the content, so the gateway has to keep its stamp
//! inside the bytes; beside them it is no fence.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::client::{Answer, Client, Owned};
use crate::support::postgres::patience;
use crate::support::stores::missing;
use crate::support::stores::moto::Moto;
use crate::support::upstream::Gate;

use super::super::fleet::{PATIENCE, is_success};
use super::{Alone, beside, fails, passes, succeeds};

/// How the gateway may keep its stamp in this store.
const PLACES: [&str; 2] = ["{ json = \"/_fencegate\" }", "\"pointer\""];

fn keys(base: &str, stamp: &str) -> String {
    format!("http = \"{base}\"\nclass = \"conditional\"\nstamp = {stamp}\ntimeout_ms = 4000\n")
}

/// The operation that the cell in the bucket names as its last one.
async fn last_of(bucket: &str, name: &str) -> String {
    let cell = beside(&format!("{bucket}{name}")).await;
    let cell: Value = cell.expect(200);
    let stamp = cell.get("_fencegate").or_else(|| cell.get("stamp")).and_then(Value::as_str);
    let stamp = stamp.unwrap_or_else(|| panic!("no stamp: {cell}"));
    stamp.rsplit(';').next().unwrap().to_owned()
}

/// The names of all objects.
async fn keys_in(bucket: &str) -> BTreeSet<String> {
    let listed = beside(bucket.trim_end_matches('/')).await.text();
    listed.split("<Key>").skip(1).filter_map(|rest| rest.split('<').next()).map(str::to_owned).collect()
}

async fn put(client: &Client, name: &str, owner: &Owned, id: &str, text: &str) -> Answer {
    let body = json!({"text": text}).to_string();
    let more = [("content-type", "application/json"), ("prefer", "wait=20")];
    client.put(name, &owner.token, id, &body, &more).await
}

/// Written, read, removed, created again, and an answer that was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_s3_is_a_fence_with_the_stamp_inside_the_bytes() {
    let Some(package) =
        missing::moto("upstreams::real::objects::an_s3_is_a_fence_with_the_stamp_inside_the_bytes")
    else {
        return;
    };
    for place in PLACES {
        let moto = Moto::start(package, "base");
        let gate = Gate::before(moto.port());
        let bucket = format!("{}base/", moto.base());
        let alone = Alone::before(&keys(&gate.url(), place), "lease = { ttl_ms = 600000 }");
        let earned = alone.earned().await;
        assert_eq!(earned["probe"], "passed", "{place}: {earned}");
        passes(&alone.probe(&["shop"]), "conditional");
        let set = format!("stamp={place}");
        passes(&alone.probe(&["--class", "conditional", "--set", &set, &bucket]), "conditional");
        life(&alone.client, gate, &bucket).await;
        alone.end();
    }
}

async fn life(client: &Client, mut gate: Gate, bucket: &str) {
    let alice = client.acquire("shop/a", "alice").await;
    let first = put(client, "shop/a", &alice, "p1", "one").await;
    succeeds(&first);
    assert_eq!(last_of(bucket, "a").await, "p1");
    let read = client.get("/fenced/shop/a").await;
    assert_eq!((read.status, &read.json()["text"]), (200, &json!("one")), "{read:?}");
    assert_eq!(
        read.header("etag"),
        first.header("etag"),
        "the gateway's own, as it is what was written last"
    );
    assert_eq!(read.header("content-type"), Some("application/json"));
    // The same bytes again bring no old validator back: a newer owner writes what was there, and the older one is out.
    let bob = transferred(client, &alice, "bob").await;
    succeeds(&put(client, "shop/a", &bob, "p2", "one").await);
    put(client, "shop/a", &alice, "p3", "late").await.refused(412, "stale_token", "none");
    // The store has acted, and its answer is lost: the stamp tells.
    let carol = transferred(client, &bob, "carol").await;
    let before = keys_in(bucket).await;
    gate.mute();
    let (hers, owner) = (client.clone(), carol.clone());
    let lost = tokio::spawn(async move { put(&hers, "shop/a", &owner, "p4", "four").await });
    // With a pointer the content comes before the cell.
    patience::until("the store has acted", PATIENCE, async || {
        (last_of(bucket, "a").await == "p4" || keys_in(bucket).await != before).then_some(())
    })
    .await;
    gate.shut().await;
    gate.open();
    let lost = lost.await.unwrap();
    assert!(is_success(&lost) || lost.status == 504, "{lost:?}");
    succeeds(&put(client, "shop/a", &carol, "p4", "four").await);
    // Removed: a tombstone in the bucket, and nothing for readers.
    let dave = transferred(client, &carol, "dave").await;
    succeeds(&client.remove("shop/a", &dave.token, "p5").await);
    let gone = client.get("/fenced/shop/a").await;
    assert_eq!((gone.status, gone.json()["code"].as_str()), (410, Some("deleted")), "{gone:?}");
    assert_eq!(beside(&format!("{bucket}a")).await.status, 200, "the tombstone");
    // And it lives again.
    let erin = client.acquire("shop/a", "erin").await;
    let born = put(client, "shop/a", &erin, "born", "again").await;
    succeeds(&born);
    assert!(born.header("etag").unwrap().starts_with("\"2."), "{born:?}");
    assert_eq!(client.get("/fenced/shop/a").await.json()["text"], "again");
}

async fn transferred(client: &Client, from: &Owned, to: &str) -> Owned {
    let path = format!("/v1/leases/{}/transfer", from.id);
    let lease = client.post(&path, &json!({"holder": to})).await.expect(201);
    let text = |key: &str| lease[key].as_str().unwrap().to_owned();
    Owned { id: text("acquisition_id"), token: text("fencing_token"), position: text("position") }
}

/// Sixteen at once on what all of them have read: one wins, and it is the one whose bytes are in the bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_at_once_the_one_that_won_is_in_the_bucket() {
    let Some(package) =
        missing::moto("upstreams::real::objects::of_sixteen_at_once_the_one_that_won_is_in_the_bucket")
    else {
        return;
    };
    for place in PLACES {
        let moto = Moto::start(package, "base");
        let bucket = format!("{}base/", moto.base());
        let store = keys(&bucket, place);
        let alone = Alone::before(&store, "policy = \"session\"\nlease = { ttl_ms = 600000 }");
        assert_eq!(alone.earned().await["probe"], "passed", "{place}");
        let owner = alone.client.acquire("shop/a", "alice").await;
        let mut tag =
            put(&alone.client, "shop/a", &owner, "p1", "one").await.header("etag").unwrap().to_owned();
        for round in 0..3 {
            let mut racers = tokio::task::JoinSet::new();
            for racer in 0..16 {
                let (client, token, tag) = (alone.client.clone(), owner.token.clone(), tag.clone());
                racers.spawn(async move {
                    let id = format!("r{round}-{racer}");
                    let body = json!({"text": id}).to_string();
                    let more = [
                        ("if-match", tag.as_str()),
                        ("prefer", "wait=20"),
                        ("content-type", "application/json"),
                    ];
                    (client.put("shop/a", &token, &id, &body, &more).await, id)
                });
            }
            let answers = racers.join_all().await;
            let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|(answer, _)| is_success(answer));
            assert_eq!(won.len(), 1, "{place}: {answers:?}");
            for (answer, id) in lost {
                answer.refused(412, "precondition_failed", "none");
                let shown = alone.client.get(&format!("/v1/operations/{id}?resource=shop%2Fa")).await;
                assert_eq!(shown.status, 404, "{place} {id}: its id is free");
            }
            let (answer, id) = won[0];
            assert_eq!(last_of(&bucket, "a").await, *id, "{place}");
            assert_eq!(alone.client.get("/fenced/shop/a").await.json()["text"], json!(id));
            tag = answer.header("etag").unwrap().to_owned();
        }
        alone.end();
    }
}

/// Beside the bytes the stamp does not change the validator, so the store is refused, and told what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_stamp_beside_the_bytes_an_s3_is_refused() {
    let Some(package) =
        missing::moto("upstreams::real::objects::with_the_stamp_beside_the_bytes_an_s3_is_refused")
    else {
        return;
    };
    let moto = Moto::start(package, "base");
    let bucket = format!("{}base/", moto.base());
    let stamp = "{ header = \"x-amz-meta-fencing-stamp\" }";
    let alone = Alone::before(&keys(&bucket, stamp), "lease = { ttl_ms = 600000 }");
    let earned = alone.earned().await;
    assert_eq!(earned["probe"], "failed");
    assert!(earned["detail"].as_str().unwrap().contains("hash of the content"), "{earned}");
    let (check, detail) = fails(&alone.probe(&["shop"]));
    assert_eq!(check, "old bytes bring a new validator");
    assert!(detail.contains("stamp = \"pointer\""), "{detail}");
    let owner = alone.client.acquire("shop/a", "alice").await;
    let refused = put(&alone.client, "shop/a", &owner, "p1", "one").await;
    let refused = refused.refused(503, "quarantined", "none");
    assert!(refused["detail"].as_str().unwrap().contains("hash of the content"), "{refused}");
    assert_eq!(beside(&format!("{bucket}a")).await.status, 404, "nothing was written");
    patience::until("what probes wrote is gone again", PATIENCE, async || {
        keys_in(&bucket).await.is_empty().then_some(())
    })
    .await;
    alone.end();
}
