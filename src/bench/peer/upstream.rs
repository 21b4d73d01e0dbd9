//! The upstream of the proxies: it takes a request to its end and answers with bytes that were made before.
//!
//! It is one thread and does the least that a server can do, so that what is measured is the proxy in front of it.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use super::super::answer::{lines, number};
use super::super::request::PADDING;
use crate::limits::BENCH_ANSWER_BYTES;

/// A request whose bytes are all there.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Whether it asks for a document; everything else is a write.
    is_read: bool,
    /// How many bytes head and body have together.
    length: usize,
}

/// What it answers, whatever is named.
struct Answers {
    document: Vec<u8>,
    stored: Vec<u8>,
}

/// Serves until TERM, on the thread that calls.
///
/// # Errors
/// When the address cannot be used.
pub async fn serve_upstream(address: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await.context("cannot listen")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let document = format!("{{\"n\":\"0000000000000000\",\"text\":\"{PADDING}\"}}");
    let answers = Answers { document: answer(&document), stored: answer("{\"stored\":true}") };
    let answers: &'static Answers = Box::leak(Box::new(answers));
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that was gone before it was served is no loss to anybody.
                if let Ok((stream, _)) = accepted {
                    drop(tokio::spawn(connection(stream, answers)));
                }
            }
            _ = terminate.recv() => return Ok(()),
        }
    }
}

fn answer(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\netag: \"1\"\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Ends with the first thing that it does not understand.
async fn connection(mut stream: TcpStream, answers: &Answers) {
    stream.set_nodelay(true).unwrap_or_default();
    let mut come = Vec::with_capacity(BENCH_ANSWER_BYTES);
    while come.len() < BENCH_ANSWER_BYTES {
        while let Some(Request { is_read, length }) = whole(&come) {
            let answer = if is_read { &answers.document } else { &answers.stored };
            if stream.write_all(answer).await.is_err() {
                return;
            }
            come.drain(..length);
        }
        if !matches!(stream.read_buf(&mut come).await, Ok(1..)) {
            return;
        }
    }
}

/// The request at the start of these bytes, when all of it is there.
fn whole(bytes: &[u8]) -> Option<Request> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = bytes.get(..end)?;
    let length = lines(head).find_map(|line| {
        let (name, value) = line.text.split_at_checked(b"content-length:".len())?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| number(value.trim_ascii()))?
    });
    let length = end.saturating_add(4).saturating_add(length.unwrap_or_default());
    (bytes.len() >= length).then(|| Request { is_read: head.starts_with(b"GET "), length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_to_its_end_and_not_further() {
        let write = b"PUT /a HTTP/1.1\r\nhost: h\r\nContent-Length: 3\r\n\r\nabcGET ";
        assert_eq!(whole(write), Some(Request { is_read: false, length: write.len() - 4 }));
        assert_eq!(whole(&write[..write.len() - 5]), None);
        let read = b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n";
        assert_eq!(whole(read), Some(Request { is_read: true, length: read.len() }));
    }
}
