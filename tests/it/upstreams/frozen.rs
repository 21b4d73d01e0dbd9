//! A store is stopped and goes on later, as a process under SIGSTOP does: its connections stand and nothing moves. What
//! does not need it goes on meanwhile, and afterwards everything comes to its end by itself.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::fleet::{Fleet, PATIENCE, Stand, Write, is_success, put, write};
use crate::support::client::{Answer, Client, Owned};
use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Process;
use crate::support::postgres::patience;
use crate::support::stores::receiver::{Kind as Keeps, Receiver};
use crate::support::upstream::Gate;

on_engines!([sqlite Sqlite, postgres Postgres], [frozen_stores_hold_up_their_own_and_nobody_else]);

const FIRST: Write<'_> = write("p0", 1, "before");
const CAUGHT: Write<'_> = write("p1", 2, "caught");
const AFTER: Write<'_> = Write { wait: 20, ..write("p2", 1, "after") };

/// Longer than a call may take that needs no store.
const AT_ONCE: Duration = Duration::from_secs(4);

async fn frozen_stores_hold_up_their_own_and_nobody_else(engine: Kind) {
    let rules = "policy = \"ordered\"\ncontract = \"immediate\"\nlease = { ttl_ms = 60000 }";
    let mut fleet = Fleet::start(engine, "timeout_ms = 1000\nconnect_timeout_ms = 1000", rules).await;
    let (first, last) = (fleet.first(), fleet.last());
    let mut owners = Vec::new();
    for stand in &fleet.stands {
        let owner = first.acquire(&stand.name(), "alice").await;
        let answer = put(first.clone(), stand.name(), owner.clone(), FIRST).await.unwrap();
        assert!(is_success(&answer), "{}: {answer:?}", stand.class);
        owners.push(owner);
    }
    fleet.stands.iter().for_each(|stand| stand.gate.freeze());
    let caught: Vec<_> = (fleet.stands.iter().zip(&owners))
        .map(|(stand, owner)| tokio::spawn(put(first.clone(), stand.name(), owner.clone(), CAUGHT)))
        .collect();
    for (caught, stand) in caught.into_iter().zip(&fleet.stands) {
        let answer = caught.await.unwrap().unwrap();
        answer.refused(504, "outcome_uncertain", "unknown");
        assert!(answer.header("location").unwrap().contains("/v1/operations/p1"), "{}", stand.class);
    }
    others_go_on(&[first.clone(), last.clone()], &owners).await;
    // She lets go; whoever comes is told that the store has not heard of it yet.
    let mut waiting = Vec::new();
    for (stand, owner) in fleet.stands.iter().zip(&owners) {
        first.release(owner).await.expect(200);
        let request = acquisition(&stand.name(), 100);
        let pending = first.post("/v1/leases", &request).await;
        assert_eq!(
            (pending.status, &pending.json()["state"]),
            (202, &json!("pending_barrier")),
            "{}",
            stand.class
        );
        waiting.push(request);
    }
    fleet.stands.iter_mut().for_each(|stand| stand.gate.open());
    for (stand, request) in fleet.stands.iter().zip(&waiting) {
        goes_on(stand, &last, request).await;
    }
    fleet.end();
}

/// A document, and renewals: neither needs a store.
async fn others_go_on(clients: &[Client], owners: &[Owned]) {
    for (number, client) in clients.iter().enumerate() {
        let going_on = async {
            let name = format!("documents/{number}");
            let owner = client.acquire(&name, "carol").await;
            client.put(&name, &owner.token, "p1", "a document", &[]).await.expect(201);
            for owner in owners {
                assert_eq!(client.renew(owner).await.expect(200)["state"], "held");
            }
        };
        tokio::time::timeout(AT_ONCE, going_on).await.expect("what needs no store waits for none");
    }
}

fn acquisition(name: &str, wait_ms: u64) -> Value {
    let id = uuid::Uuid::from_u128(name.bytes().fold(7, |sum, byte| sum * 31 + u128::from(byte)));
    json!({"resource": name, "holder": "bob", "request_id": id.to_string(), "wait_ms": wait_ms, "ttl_ms": 60_000})
}

/// After the thaw, in bounded time: what was caught is decided, the lane is free, and the new owner owns.
async fn goes_on(stand: &Stand, client: &Client, request: &Value) {
    let class = stand.class;
    if class == "serial" {
        stand.operation(client, "p1", &["uncertain"]).await;
        patience::until("what was on its way arrives", PATIENCE, async || {
            (stand.effects_of("p1", CAUGHT.body) == 1).then_some(())
        })
        .await;
        stand.resolve(client, "p1", "applied").await;
    }
    let owner = owned(client, request).await;
    let after = put(client.clone(), stand.name(), owner, AFTER).await.unwrap();
    assert!(is_success(&after), "{class}: {after:?}");
    assert_eq!(stand.content().as_deref(), Some("after"), "{class}");
    // The classes without a lane let the newer one pass before what was caught is decided.
    let record = patience::until("what was caught is decided", PATIENCE, async || {
        let state = client.operations(&stand.name()).await.get("p1").map(|found| found["state"].clone());
        (state != Some(json!("intent"))).then_some(state)
    })
    .await;
    let effects = stand.effects_of("p1", CAUGHT.body);
    match record {
        Some(state) if class == "serial" => assert_eq!((state, effects), (json!("resolved_applied"), 1)),
        Some(state) => assert_eq!((state, effects), (json!("applied"), 1), "{class}"),
        // The barrier was quicker, and nothing of it will ever be there.
        None => assert_eq!(effects, 0, "{class}: {:?}", stand.effects()),
    }
    assert_eq!(stand.effects_of("p2", AFTER.body), 1, "{class}");
}

/// The lease, as soon as it is held, by repeating the request.
async fn owned(client: &Client, request: &Value) -> Owned {
    let lease = patience::until("the new owner owns", PATIENCE, async || {
        let answer = client.post("/v1/leases", request).await;
        assert!(matches!(answer.status, 200..=202), "{answer:?}");
        (answer.status != 202).then(|| answer.json())
    })
    .await;
    let text = |key: &str| lease[key].as_str().unwrap().to_owned();
    Owned { id: text("acquisition_id"), token: text("fencing_token"), position: text("position") }
}

/// A real receiver under SIGSTOP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_receiver_is_stopped_and_goes_on() {
    let test = "upstreams::frozen::the_example_receiver_is_stopped_and_goes_on";
    let Some(receiver) = Receiver::start(Keeps::Sqlite, test) else { return };
    let gate = Gate::before(receiver.port());
    let folder = tempfile::tempdir().unwrap();
    let rules = format!(
        "[namespaces.orders]\ncontract = \"immediate\"\n[namespaces.orders.store]\nhttp = \"{}\"\nclass = \"fence_aware\"\n\
         timeout_ms = 1000\nconnect_timeout_ms = 1000\n[namespaces.documents]\n",
        gate.url()
    );
    std::fs::write(folder.path().join("fencegate.toml"), rules).unwrap();
    let process = Process::start(folder.path());
    let client = process.client();
    patience::until("the receiver was probed", PATIENCE, async || {
        let store = client.get("/v1/status").await.json()["stores"][0].clone();
        (store["probe"] == "passed").then_some(())
    })
    .await;
    let alice = client.acquire("orders/a", "alice").await;
    receiver.signal(Signal::STOP);
    let caught: Answer = client.put("orders/a", &alice.token, "p1", "caught", &[("prefer", "wait=0")]).await;
    caught.refused(504, "outcome_uncertain", "unknown");
    others_go_on(std::slice::from_ref(&client), std::slice::from_ref(&alice)).await;
    client.release(&alice).await.expect(200);
    let request = acquisition("orders/a", 100);
    let pending = client.post("/v1/leases", &request).await;
    assert_eq!(pending.json()["state"], "pending_barrier", "{pending:?}");
    receiver.signal(Signal::CONT);
    let bob = owned(&client, &request).await;
    let after = client.put("orders/a", &bob.token, "p2", "after", &[]).await;
    assert!(is_success(&after), "{after:?}");
    // Hers was before his, or it never was.
    let effects = receiver.log("orders/a");
    let last = effects.last().unwrap();
    assert_eq!(last.operation, "p2", "{effects:?}");
    let replay = client.put("orders/a", &alice.token, "p1", "caught", &[("prefer", "wait=20")]).await;
    assert_eq!(is_success(&replay), effects.len() == 2, "{effects:?} {replay:?}");
    assert_eq!(receiver.log("orders/a"), effects);
    assert_eq!(process.terminate(), Some(0));
}
