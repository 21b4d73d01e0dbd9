//! The two receivers of `examples/receiver` as stores of class `fence_aware`: SQLite and etcd.

use std::collections::BTreeMap;

use crate::support::client::{Answer, Client, Owned};
use crate::support::postgres::patience;
use crate::support::stores::receiver::{Effect, Kind, Receiver};
use crate::support::upstream::Gate;

use super::super::fleet::{PATIENCE, is_success};
use super::{Alone, passes, succeeds};

/// Makes a test of each of these stories over each receiver.
macro_rules! on_receivers {
    ([$($store:ident $kind:ident),+], $stories:tt) => {
        $(on_receivers!(@one $store $kind $stories);)+
    };
    (@one $store:ident $kind:ident [$($story:ident),+ $(,)?]) => {
        mod $store {
            use super::{Kind, Receiver};

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    let test = concat!(module_path!(), "::", stringify!($story)).trim_start_matches("it::");
                    if let Some(receiver) = Receiver::start(Kind::$kind, test) {
                        super::$story(receiver).await;
                    }
                }
            )+
        }
    };
}

on_receivers!(
    [sqlite Sqlite, etcd Etcd],
    [
        a_receiver_behind_the_gateway_takes_each_operation_once_and_nothing_old,
        kills_of_the_receiver_in_the_middle_of_writes_lose_and_double_nothing,
    ]
);

fn keys(base: &str) -> String {
    format!("http = \"{base}\"\nclass = \"fence_aware\"\ntimeout_ms = 2000\nconnect_timeout_ms = 1000\n")
}

async fn put(client: &Client, owner: &Owned, id: &str, sequence: u64, body: &str) -> Answer {
    let sequence = sequence.to_string();
    let more = [("fencing-sequence", sequence.as_str()), ("prefer", "wait=20")];
    client.put("shop/a", &owner.token, id, body, &more).await
}

fn operations(effects: &[Effect]) -> Vec<&str> {
    effects.iter().map(|effect| effect.operation.as_str()).collect()
}

async fn a_receiver_behind_the_gateway_takes_each_operation_once_and_nothing_old(receiver: Receiver) {
    let mut gate = Gate::before(receiver.port());
    let base = format!("http://127.0.0.1:{}/", receiver.port());
    let alone = Alone::before(
        &keys(&gate.url()),
        "policy = \"ordered\"\ncontract = \"immediate\"\nlease = { ttl_ms = 600000 }",
    );
    assert_eq!(alone.earned().await["probe"], "passed");
    passes(&alone.probe(&["shop"]), "fence_aware");
    passes(&alone.probe(&["--class", "fence_aware", &base]), "fence_aware");
    let client = &alone.client;
    let alice = client.acquire("shop/a", "alice").await;
    let first = put(client, &alice, "p1", 1, "one").await;
    succeeds(&first);
    let again = put(client, &alice, "p1", 1, "one").await;
    assert_eq!((again.status, &again.bytes), (first.status, &first.bytes));
    // Her next write has its effect, and the answer is lost.
    gate.mute();
    let hers = client.clone();
    let (owner, sent) =
        (alice.clone(), tokio::spawn(async move { put(&hers, &alice, "p2", 2, "two").await }));
    patience::until("it had its effect", PATIENCE, async || {
        (operations(&receiver.log("shop/a")) == ["p1", "p2"]).then_some(())
    })
    .await;
    gate.shut().await;
    gate.open();
    let answer = sent.await.unwrap();
    // She is told that it is not known yet, or what became of it; asked again, what became of it.
    assert!(is_success(&answer) || answer.status == 504, "{answer:?}");
    succeeds(&put(client, &owner, "p2", 2, "two").await);
    // The next owner, and she comes late.
    let path = format!("/v1/leases/{}/transfer", owner.id);
    let bob = client.post(&path, &serde_json::json!({"holder": "bob"})).await.expect(201);
    put(client, &owner, "p3", 3, "late").await.refused(412, "stale_token", "none");
    // Past the gateway, too: the receiver itself refuses what is old.
    let beside = Client::to(base.trim_end_matches('/').to_owned());
    let old = beside
        .request(reqwest::Method::PUT, "/base/a")
        .header("fencing-resource", "shop/a")
        .header("fencing-position", &owner.position)
        .header("fencing-operation", "old")
        .header("fencing-incarnation", "1")
        .body("old");
    let old = Answer::of(old).await;
    assert_eq!((old.status, old.header("fencing-position")), (412, bob["position"].as_str()), "{old:?}");
    let bob = Owned { token: bob["fencing_token"].as_str().unwrap().to_owned(), ..owner.clone() };
    succeeds(&put(client, &bob, "p4", 1, "four").await);
    let read = client.get("/fenced/shop/a").await;
    assert_eq!((read.status, read.text().as_str()), (200, "four"));
    assert_eq!(operations(&receiver.log("shop/a")), ["p1", "p2", "p4"]);
    alone.end();
}

/// kill -9 of the receiver while eight owners write; it starts again over what it has kept.
async fn kills_of_the_receiver_in_the_middle_of_writes_lose_and_double_nothing(mut receiver: Receiver) {
    const OWNERS: usize = 8;
    const WRITES: u64 = 12;
    let gate = Gate::before(receiver.port());
    let alone = Alone::before(
        &keys(&gate.url()),
        "policy = \"ordered\"\ngapless = true\nlease = { ttl_ms = 600000 }",
    );
    assert_eq!(alone.earned().await["probe"], "passed");
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..OWNERS {
        let client = alone.client.clone();
        writers.spawn(async move {
            let name = format!("shop/{number}");
            let owner = client.acquire(&name, "alice").await;
            for sequence in 1..=WRITES {
                one_write(&client, &name, &owner, sequence).await;
            }
            name
        });
    }
    for kill in 1..=3_usize {
        let done = kill * OWNERS * 3;
        patience::until("some were written", 120, async || {
            let written: usize =
                (0..OWNERS).map(|number| receiver.log(&format!("shop/{number}")).len()).sum();
            (written >= done || writers.is_empty()).then_some(())
        })
        .await;
        receiver.kill();
        receiver.start_again();
        gate.lead_to(receiver.port());
    }
    let names = writers.join_all().await;
    let expected: Vec<String> = (1..=WRITES).map(|sequence| format!("p{sequence}")).collect();
    let logs: BTreeMap<&str, Vec<Effect>> =
        names.iter().map(|name| (name.as_str(), receiver.log(name))).collect();
    for (name, log) in &logs {
        assert_eq!(operations(log), expected, "{name}: each once, and in order");
    }
    alone.end();
}

/// Asks again until it is in the store: a receiver that is away costs time and nothing else.
async fn one_write(client: &Client, name: &str, owner: &Owned, sequence: u64) {
    let (id, order) = (format!("p{sequence}"), sequence.to_string());
    let more = [("fencing-sequence", order.as_str()), ("prefer", "wait=20")];
    patience::until("the write is acknowledged", 120, async || {
        let answer = client.put(name, &owner.token, &id, &id, &more).await;
        let fine = is_success(&answer) || matches!(answer.status, 503 | 504 | 409);
        assert!(fine, "{name} {id}: {answer:?}");
        is_success(&answer).then_some(())
    })
    .await;
}
