//! The edge, both ways: what a client sends is data and never a word of the gateway, and what a store answers is its own.
//! Judged from what arrived at the store, byte for byte.

mod bodies;
mod elsewhere;
mod front;
mod headers;
mod names;
mod reads;
mod secrets;

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::scene::Scene;
use crate::support::client::Owned;

/// Long enough for an answer, and for a connection that is closed afterwards.
const PATIENCE: Duration = Duration::from_secs(3);

/// Sends bytes over a connection of their own, and gives everything that comes back until it is closed.
async fn said(scene: &Scene, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(scene.gateway.client.address()).await.unwrap();
    // The gateway may hang up before it has taken everything.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    let mut piece = vec![0; 65_536];
    while let Ok(Ok(length @ 1..)) = timeout(PATIENCE, stream.read(&mut piece)).await {
        answer.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of an answer; 0 where the connection was closed without one.
fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// The head of a PUT whose body has so many bytes; further lines follow, and an empty one.
fn put(name: &str, owner: &Owned, id: &str, length: usize, more: &str) -> String {
    format!(
        "PUT /fenced/{name} HTTP/1.1\r\nHost: localhost\r\nFencing-Token: {}\r\nIdempotency-Key: {id}\r\n\
         Content-Length: {length}\r\n{more}\r\n",
        owner.token
    )
}

/// The same, and the connection is closed afterwards.
fn put_and_close(name: &str, owner: &Owned, id: &str, length: usize, more: &str) -> String {
    put(name, owner, id, length, &format!("Connection: close\r\n{more}"))
}
