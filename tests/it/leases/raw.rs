//! A call on a socket of its own, which can be closed before it is answered.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::client::Client;

/// A call under way. Dropping it closes the connection.
pub(super) struct Call {
    stream: TcpStream,
}

impl Call {
    /// An acquire, sent whole.
    pub(super) async fn acquire(client: &Client, body: &Value) -> Self {
        let mut stream = TcpStream::connect(client.address()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(request(body).as_bytes()).await.unwrap();
        Self { stream }
    }

    /// A GET, sent whole.
    pub(super) async fn get(client: &Client, path: &str) -> Self {
        let mut stream = TcpStream::connect(client.address()).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream }
    }

    /// The answer; None when the gateway was gone before.
    pub(super) async fn answer(mut self) -> Option<(u16, Value)> {
        let mut bytes = Vec::new();
        loop {
            if let Some(whole) = whole(&bytes) {
                return Some(whole);
            }
            let mut some = [0; 4_096];
            match self.stream.read(&mut some).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => bytes.extend_from_slice(&some[..count]),
            }
        }
    }

    /// The next bytes of an answer; empty at its end.
    pub(super) async fn some(&mut self) -> Vec<u8> {
        let mut some = vec![0; 16_384];
        let count = self.stream.read(&mut some).await.unwrap_or_default();
        some.truncate(count);
        some
    }
}

/// An acquire as it goes over the wire.
pub(super) fn request(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn whole(bytes: &[u8]) -> Option<(u16, Value)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}
