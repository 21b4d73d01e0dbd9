//! One resource, three replicas, many callers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::Three;
use crate::support::client::Client;

const ROUNDS: u64 = 20;
const CALLERS: usize = 12;
const EDITORS: usize = 9;
const EDITS: u64 = 12;

/// Two owners of one generation would be two that both believe they may write: of many that acquire at once through three
/// replicas one gets it, and positions go up by one each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_owner_per_generation_whichever_replica_was_asked() {
    let name = "replicas::races::one_owner_per_generation_whichever_replica_was_asked";
    let Some(three) = Three::start(name, "").await else { return };
    let clients: Vec<Client> = three.replicas.iter().map(crate::support::gateway::Process::client).collect();
    for round in 1..=ROUNDS {
        let mut tasks = JoinSet::new();
        for caller in 0..CALLERS {
            let client = clients[caller % clients.len()].clone();
            tasks.spawn(async move { client.try_acquire("jobs/hot", &format!("worker-{caller}")).await });
        }
        let mut owners = Vec::new();
        for answer in tasks.join_all().await {
            if answer.status == 201 {
                owners.push(answer.json());
            } else {
                answer.refused(409, "lease_held", "none");
            }
        }
        let [owner] = owners.as_slice() else { panic!("round {round}: {} owners", owners.len()) };
        assert_eq!(owner["position"], format!("0.{round}"));
        let token = owner["fencing_token"].as_str().unwrap().to_owned();
        publish_once(&clients, &token, round).await;
        let id = owner["acquisition_id"].as_str().unwrap();
        let elsewhere = &clients[usize::try_from(round).unwrap() % clients.len()];
        elsewhere.delete(&format!("/v1/leases/{id}")).await.expect(200);
    }
    three.end();
}

/// The owner's own copies race through all replicas: one generation is one publication.
async fn publish_once(clients: &[Client], token: &str, round: u64) {
    let mut tasks = JoinSet::new();
    for (number, client) in clients.iter().cloned().enumerate() {
        let (token, operation) = (token.to_owned(), format!("op-{round}-{number}"));
        tasks.spawn(async move { client.put("jobs/hot", &token, &operation, &operation, &[]).await });
    }
    let mut commits = Vec::new();
    for answer in tasks.join_all().await {
        if answer.status == 201 || answer.status == 200 {
            commits.push(answer.json()["commit"].clone());
        } else {
            answer.refused(412, "generation_spent", "none");
        }
    }
    assert_eq!(commits, [serde_json::json!(round.to_string())]);
}

/// Many edit one number through three replicas, each with the `ETag` that it read: no addition is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_edit_is_lost_between_replicas() {
    let rules = "[namespaces.sums]\npolicy = \"session\"\ncontract = \"observed\"\nissuer = { external = \"trusted\" }\n";
    let Some(three) = Three::start("replicas::races::no_edit_is_lost_between_replicas", rules).await else {
        return;
    };
    let clients: Vec<Client> = three.replicas.iter().map(crate::support::gateway::Process::client).collect();
    clients[0].put("sums/a", "7", "first", "0", &[]).await.expect(201);
    let refused = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for editor in 0..EDITORS {
        let (client, refused) = (clients[editor % clients.len()].clone(), refused.clone());
        tasks.spawn(async move {
            let (mut done, mut tries) = (0, 0);
            while done < EDITS {
                let read = client.get("/fenced/sums/a").await;
                assert_eq!(read.status, 200, "{}", read.text());
                let (sum, etag) = (read.text().parse::<u64>().unwrap() + 1, read.header("etag").unwrap());
                let operation = format!("edit-{editor}-{tries}");
                let answer =
                    client.put("sums/a", "7", &operation, &sum.to_string(), &[("if-match", etag)]).await;
                tries += 1;
                if answer.status == 200 {
                    done += 1;
                } else {
                    answer.refused(412, "precondition_failed", "none");
                    refused.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
    tasks.join_all().await;
    let edits = u64::try_from(EDITORS).unwrap() * EDITS;
    for client in &clients {
        assert_eq!(client.get("/fenced/sums/a").await.text(), edits.to_string());
        let resource = client.get("/v1/resources/sums/a").await.expect(200);
        assert_eq!(resource["commit"], (edits + 1).to_string());
    }
    assert!(refused.load(Ordering::SeqCst) > 0, "they never met: the race was none");
    three.end();
}
