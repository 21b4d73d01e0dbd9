//! HTTP/1.1 as bytes, both sides of it: the exam's own, so that a request can be cut, held and sent twice as a whole.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits::EXAM_MESSAGE_BYTES;

/// The header that tells the proxies which call they carry.
pub(super) const CALL: &str = "x-exam-call";

/// The header that tells them which operations of which resources: pairs of words, with a semicolon between.
pub(super) const OPERATIONS: &str = "x-exam-operations";

/// A request or an answer: its first line, its headers with names in lower case, its body.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) first: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The second word of an answer's first line.
    pub(super) fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default()
    }
}

/// A request as bytes.
pub(super) fn request(method: &str, path: &str, headers: &[(&str, String)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        for part in [name, ": ", value, "\r\n"] {
            head.push_str(part);
        }
    }
    if method != "GET" {
        head.push_str("content-length: ");
        head.push_str(&body.len().to_string());
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Splits a whole message off the beginning of some bytes, and says how long it was.
pub(super) fn parse(bytes: &[u8]) -> Option<(Message, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?.checked_add(4)?;
    let head = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    let mut lines = head.trim_end().split("\r\n");
    let first = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(Some(0), |(_, value)| value.parse().ok())?;
    let whole = end.checked_add(length)?;
    let body = bytes.get(end..whole)?.to_vec();
    Some((Message { first, headers, body }, whole))
}

/// Reads until a whole message is there. None at the end of the connection, and where the message has no end.
pub(super) async fn read(stream: &mut TcpStream, rest: &mut Vec<u8>) -> Option<Message> {
    let mut piece = vec![0; 16_384];
    loop {
        if let Some((message, whole)) = parse(rest) {
            rest.drain(..whole);
            return Some(message);
        }
        if rest.len() > EXAM_MESSAGE_BYTES {
            return None;
        }
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(length) => rest.extend_from_slice(piece.get(..length)?),
        }
    }
}

/// A connection to a port of loopback. While nobody listens there, one from this machine may meet itself; it would take the
/// port from its owner, and answer with what it is asked.
pub(super) async fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    if stream.local_addr()? == stream.peer_addr()? {
        stream.set_zero_linger()?;
        return Err(std::io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// Sends a request on a connection of its own and waits for the answer. `Err` says why there is none.
pub(super) async fn ask(port: u16, request: &[u8], patience: Duration) -> Result<Message, String> {
    let asked = async {
        let mut stream = connect(port).await.map_err(|error| error.to_string())?;
        stream.write_all(request).await.map_err(|error| error.to_string())?;
        let answer = read(&mut stream, &mut Vec::new()).await;
        answer.ok_or_else(|| "closed before the answer".to_owned())
    };
    timeout(patience, asked).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

/// An answer as bytes.
pub(super) fn answer(status: u16, headers: &[(&str, String)], body: &[u8], bodyless: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Exam\r\n");
    for (name, value) in headers {
        for part in [name, ": ", value, "\r\n"] {
            head.push_str(part);
        }
    }
    if status != 204 {
        head.push_str("content-length: ");
        head.push_str(&body.len().to_string());
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    if !bodyless {
        bytes.extend_from_slice(body);
    }
    bytes
}
