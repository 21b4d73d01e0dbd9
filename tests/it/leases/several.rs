//! Several resources in one acquisition: all or nothing, and one end for all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencegate::ledger::wakeup::instant;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scene::{Dice, FIFO, RACE, Scene, Shape, acquire, id_of, release, request_id, told_on};
use crate::support::client::{Answer, Client};
use crate::support::postgres::binaries::say;

told_on!([sqlite Sqlite, postgres Postgres, replicas Replicas], [
    overlapping_sets_neither_block_each_other_nor_mix,
    the_end_of_one_member_is_the_end_of_all,
]);

/// Of each caller.
const ROUNDS: usize = 7;

fn set(names: &[&str], wait_ms: u64) -> Value {
    json!({"resources": names, "ttl_ms": 20_000, "wait_ms": wait_ms, "request_id": request_id()})
}

/// Who holds what, by what they were told.
type Held = Arc<Mutex<BTreeMap<String, usize>>>;

/// Broken: two callers with overlapping sets each hold a part and wait for the other, or both own the common resource. Must
/// hold: each gets all or nothing, nobody else holds any of it meanwhile, and every round of everybody comes to its end.
async fn overlapping_sets_neither_block_each_other_nor_mix(shape: Shape) {
    const SETS: [&[&str]; 6] = [
        &["jobs/a", "jobs/b"],
        &["jobs/c", "jobs/b"],
        &["jobs/c", "jobs/a", "jobs/d"],
        &["jobs/d", "jobs/b"],
        &["jobs/b"],
        &["jobs/d", "jobs/c", "jobs/b", "jobs/a"],
    ];
    for rules in [RACE, FIFO] {
        let scene = Scene::start(shape, rules).await;
        let all = acquire(&scene.client(0), &set(SETS[5], 0)).await.expect(201);
        release(&scene.client(0), &all).await;
        let (held, began): (Held, _) = (Arc::default(), instant());
        let mut callers = JoinSet::new();
        for (number, names) in SETS.into_iter().enumerate() {
            let (clients, held) = ((scene.client(number), scene.client(number + 1)), held.clone());
            callers.spawn(call(number, clients, names, held));
        }
        callers.join_all().await;
        say(&format!(
            "{shape:?}: six callers with overlapping sets made {ROUNDS} rounds each in {:?}",
            began.elapsed()
        ));
        scene.end();
    }
}

async fn call(number: usize, (here, there): (Client, Client), names: &'static [&'static str], held: Held) {
    let mut dice = Dice(u64::try_from(number).unwrap() + 1);
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let lease = acquire(&here, &set(names, 30_000)).await.expect(201);
        let tokens: Vec<(String, String)> = if names.len() == 1 {
            vec![(names[0].to_owned(), lease["token"].as_str().unwrap().to_owned())]
        } else {
            let tokens = lease["tokens"].as_object().unwrap();
            assert_eq!(tokens.len(), names.len(), "not all of them: {lease}");
            tokens
                .iter()
                .map(|(name, token)| (name.clone(), token["token"].as_str().unwrap().to_owned()))
                .collect()
        };
        for (name, token) in tokens {
            let other = held.lock().unwrap().insert(name.clone(), number);
            assert_eq!(other, None, "{name} has two owners");
            let token = token.parse().unwrap();
            let older = last.insert(name, token);
            assert!(older.is_none_or(|older| older < token), "a token went back");
        }
        dice.pause(3_000).await;
        for name in names {
            assert_eq!(held.lock().unwrap().remove(*name), Some(number));
        }
        release(&there, &lease).await;
    }
}

/// What ends the lease of a whole set through one member.
async fn end_one(client: &Client, round: usize, lease: &Value) -> Answer {
    let why = json!({"reason": "a test"});
    match round % 4 {
        0 => client.post("/v1/revoke/jobs/b", &why).await,
        1 => client.post("/v1/cancel/jobs/b", &why).await,
        2 => {
            let token = lease["tokens"]["jobs/c"]["fencing_token"].as_str().unwrap();
            let put =
                client.put("jobs/c", token, &format!("put-{round}"), "x", &[("fencing-sequence", "1")]).await;
            assert!([200, 201].contains(&put.status), "{}", put.text());
            let delete = client.request(Method::DELETE, "/fenced/jobs/c").header("fencing-token", token);
            let delete = delete.header("idempotency-key", format!("delete-{round}"));
            Answer::of(delete.header("fencing-sequence", "2")).await
        }
        _ => {
            let handed = json!({"holder": "bob", "request_id": request_id(), "ttl_ms": 50});
            client.post(&format!("/v1/leases/{}/transfer", id_of(lease)), &handed).await
        }
    }
}

/// Broken: one member is revoked, cancelled, deleted or handed over while the lease is renewed, and the lease lives on for
/// the others, or the gateway meets rows that contradict each other. Must hold: each renewal is 200 or 410, the lease has
/// ended as a whole afterwards, and the others are free at once.
async fn the_end_of_one_member_is_the_end_of_all(shape: Shape) {
    let rules = "[namespaces.jobs]\npolicy = \"ordered\"\nlease = { ttl_ms = 30000, min_ttl_ms = 50 }\n";
    let scene = Scene::start(shape, rules).await;
    let names = ["jobs/a", "jobs/b", "jobs/c"];
    let mut dice = Dice(9);
    for round in 0..16 {
        let lease = acquire(&scene.client(round), &set(&names, 5_000)).await.expect(201);
        let renew = format!("/v1/leases/{}/renew", id_of(&lease));
        let mut renewals = JoinSet::new();
        for client in scene.clients(6) {
            let (renew, mut dice) = (renew.clone(), Dice(dice.below(1_000_000)));
            renewals.spawn(async move {
                let mut answers = Vec::new();
                for _ in 0..4 {
                    dice.pause(2_000).await;
                    answers.push(client.post(&renew, &json!({})).await);
                }
                answers
            });
        }
        dice.pause(6_000).await;
        let ended = end_one(&scene.client(round + 1), round, &lease).await;
        assert!([200, 201].contains(&ended.status), "{}", ended.text());
        for answer in renewals.join_all().await.into_iter().flatten() {
            assert!([200, 410].contains(&answer.status), "{}", answer.text());
        }
        for number in 0..3 {
            let late = scene.client(number).post(&renew, &json!({})).await;
            assert_eq!(late.status, 410, "round {round}: {}", late.text());
            let shown = scene.client(number).get(&format!("/v1/leases/{}", id_of(&lease))).await.expect(200);
            let state = if round % 4 == 2 { "released" } else { "superseded" };
            assert_eq!(shown["state"], state, "round {round}: {shown}");
        }
        if round % 4 == 1 {
            let reopen = scene.client(round).request(Method::POST, "/v1/reopen/jobs/b");
            let reopen = reopen.header("idempotency-key", format!("reopen-{round}"));
            Answer::of(reopen.json(&json!({"reason": "a test"}))).await.expect(200);
        }
        if round % 4 == 3 {
            // The successor's lease is short.
            continue;
        }
        let next = acquire(&scene.client(round + 2), &set(&names, 0)).await.expect(201);
        release(&scene.client(round), &next).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    scene.end();
}
