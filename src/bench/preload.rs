//! The documents that stand before anything is measured, written through the gateway's own door.

use std::net::SocketAddr;

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::load::Wire;
use super::request::{DISTINCT, HOT, HOT_PAGE, PADDING, TOKEN, document, target};
use crate::limits::{BENCH_FORWARD_CONNECTIONS, BENCH_PRELOAD_CONNECTIONS};

/// Writes of one request.
const MEMBERS: u64 = 100;

/// Writes every document and every target.
pub(super) async fn fill(address: SocketAddr, resources: u64, targets: u64) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for writer in 0..BENCH_PRELOAD_CONNECTIONS {
        tasks.spawn(async move {
            let mut wire = Wire::to(address).await?;
            let mut from = writer.saturating_mul(MEMBERS);
            while from < resources {
                let to = from.saturating_add(MEMBERS).min(resources);
                let writes = (from..to).map(|number| {
                    let name = format!("{DISTINCT}/{}", document(number));
                    member(&name, "1", Some("1"), &document(number))
                });
                send(&mut wire, writes.collect()).await?;
                from = from.saturating_add(BENCH_PRELOAD_CONNECTIONS.saturating_mul(MEMBERS));
            }
            Ok::<(), String>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a writer of the documents ended early")?.map_err(wrong)?;
    }
    // A session admits one write without `If-Match` for each token: each batch comes under the next one.
    let mut wire = Wire::to(address).await.map_err(wrong)?;
    let starts = (0..targets).step_by(usize::try_from(MEMBERS).unwrap_or(1));
    for (token, from) in (1_u64..).zip(starts) {
        anyhow::ensure!(token < TOKEN, "more targets than there are tokens below {TOKEN}");
        let to = from.saturating_add(MEMBERS).min(targets);
        let writes = (from..to).map(|number| {
            let name = format!("{HOT}/{HOT_PAGE}/{}", target(number));
            member(&name, &token.to_string(), None, &target(number))
        });
        send(&mut wire, writes.collect()).await.map_err(wrong)?;
    }
    Ok(())
}

/// Writes every document by itself, through a gateway in front of an upstream.
pub(super) async fn forward(address: SocketAddr, resources: u64) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    let apart = usize::try_from(BENCH_FORWARD_CONNECTIONS).unwrap_or(1);
    for writer in 0..BENCH_FORWARD_CONNECTIONS {
        tasks.spawn(async move {
            let mut wire = Wire::to(address).await?;
            for number in (writer..resources).step_by(apart) {
                let answer = wire.ask(single(number).as_bytes()).await?;
                wire.forget(&answer);
            }
            Ok::<(), String>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a writer of the documents ended early")?.map_err(wrong)?;
    }
    Ok(())
}

fn single(number: u64) -> String {
    let name = document(number);
    let body = content(&name);
    format!(
        "PUT /fenced/{DISTINCT}/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nfencing-token: 1\r\n\
         fencing-sequence: 1\r\nidempotency-key: preload-{name}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn content(id: &str) -> String {
    format!("{{\"n\":\"{id}\",\"text\":\"{PADDING}\"}}")
}

fn wrong(fault: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the documents could not be written: {fault}")
}

fn member(name: &str, token: &str, sequence: Option<&str>, id: &str) -> Value {
    json!({
        "method": "PUT",
        "resource": name,
        "fencing_token": token,
        "operation_id": format!("preload-{id}"),
        "sequence": sequence,
        "content_type": "application/json",
        "body": content(id),
    })
}

async fn send(wire: &mut Wire, writes: Vec<Value>) -> Result<(), String> {
    let body = json!({ "writes": writes }).to_string();
    let head =
        "POST /v1/writes HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ";
    let answer = wire.ask(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    wire.forget(&answer);
    Ok(())
}
