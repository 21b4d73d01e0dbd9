//! kill -9 in the middle of acknowledged writes: none is lost, none is doubled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::support::client::Client;
use crate::support::gateway::{Process, command};

/// Writes that must be acknowledged in all, over every life of the gateway.
const WRITES: usize = 10_000;
const WORKERS: usize = 32;
/// A kill after each so many acknowledged writes.
const BETWEEN_KILLS: usize = 2_000;

/// What one worker knows to be acknowledged: the receipt of each operation.
type Acknowledged = BTreeMap<String, Vec<u8>>;

const CONFIG: &str = "[namespaces.ledger]\npolicy = \"ordered\"\ngapless = true\n";

/// Writes until the total is reached; an answer that never came is asked for again with the same operation id.
async fn worker(number: usize, base: Arc<Mutex<String>>, done: Arc<AtomicUsize>) -> (String, Acknowledged) {
    let name = format!("ledger/account-{number}");
    let (mut acknowledged, mut sequence, mut token) = (Acknowledged::new(), 1_u64, None);
    while done.load(Ordering::SeqCst) < WRITES {
        let client = Client::to(base.lock().await.clone());
        if let Err(error) =
            one_life(&client, &name, &mut token, &mut sequence, &mut acknowledged, &done).await
        {
            // The gateway was killed under us; its next life answers at another address.
            drop(error);
            tokio::task::yield_now().await;
        }
    }
    (name, acknowledged)
}

async fn one_life(
    client: &Client,
    name: &str,
    token: &mut Option<String>,
    sequence: &mut u64,
    acknowledged: &mut Acknowledged,
    done: &AtomicUsize,
) -> reqwest::Result<()> {
    while done.load(Ordering::SeqCst) < WRITES {
        let fencing_token = if let Some(token) = token {
            token.clone()
        } else {
            let id = uuid::Uuid::from_u128(name.bytes().fold(1, |sum, byte| sum * 31 + u128::from(byte)));
            let body =
                serde_json::json!({"resource": name, "request_id": id.to_string(), "ttl_ms": 3_600_000});
            let answer = client.request(reqwest::Method::POST, "/v1/leases").json(&body).send().await?;
            let lease: serde_json::Value = answer.json().await?;
            token.insert(lease["fencing_token"].as_str().expect("a lease").to_owned()).clone()
        };
        let operation = format!("op-{sequence}");
        let answer = client
            .request(reqwest::Method::PUT, &format!("/fenced/{name}"))
            .header("fencing-token", fencing_token)
            .header("idempotency-key", &operation)
            .header("fencing-sequence", sequence.to_string())
            .body(format!("{name} {operation}"))
            .send()
            .await?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await?.to_vec();
        assert!(status == 201 || status == 200, "{status} {}", String::from_utf8_lossy(&body));
        acknowledged.insert(operation, body);
        *sequence += 1;
        done.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_or_doubled() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("fencegate.toml"), CONFIG).unwrap();
    let mut process = Process::start(folder.path());
    let base = Arc::new(Mutex::new(process.base.clone()));
    let done = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        workers.spawn(worker(number, base.clone(), done.clone()));
    }
    let (mut kills, mut acknowledged) = (0, Vec::new());
    while done.load(Ordering::SeqCst) < WRITES {
        if done.load(Ordering::SeqCst) >= (kills + 1) * BETWEEN_KILLS {
            process.kill();
            kills += 1;
            process = Process::start(folder.path());
            *base.lock().await = process.base.clone();
        }
        // A worker ends early only when it saw something that must not be.
        if let Some(ended) = workers.try_join_next() {
            acknowledged.push(ended.unwrap());
        }
        tokio::task::yield_now().await;
    }
    acknowledged.extend(workers.join_all().await);
    process.kill();
    assert!(kills >= 4, "only {kills} kills happened");

    // A last life, after a last kill: every acknowledged operation is there with the acknowledged answer, once.
    let process = Process::start(folder.path());
    check(&process.client(), acknowledged).await;
    assert_eq!(process.terminate(), Some(0));
    let checked = command(folder.path()).arg("check").output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

async fn check(client: &Client, acknowledged: Vec<(String, Acknowledged)>) {
    for (name, answers) in acknowledged {
        let resource = client.get(&format!("/v1/resources/{name}")).await.expect(200);
        let commits: usize = resource["commit"].as_str().unwrap().parse().unwrap();
        // One may have been applied whose answer died with the last life; never fewer, never two of one.
        assert!(
            commits == answers.len() || commits == answers.len() + 1,
            "{name}: {commits} of {}",
            answers.len()
        );
        let found = client.operations(&name).await;
        for (operation, receipt) in answers {
            let receipt: serde_json::Value = serde_json::from_slice(&receipt).unwrap();
            let item = found
                .get(&operation)
                .unwrap_or_else(|| panic!("{name}: {operation} was acknowledged and is lost"));
            assert_eq!(
                (&item["state"], &item["commit"]),
                (&"applied".into(), &receipt["commit"]),
                "{name} {operation}"
            );
        }
    }
}
