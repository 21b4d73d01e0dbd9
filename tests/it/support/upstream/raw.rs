//! HTTP/1.1 as bytes: requests read, answers written.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Shared;
use super::faults::{Fault, play};

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Its place in the log, from 1.
    pub(crate) number: usize,
    /// Which connection it came over, from 1.
    pub(crate) connection: usize,
    /// Its method.
    pub(crate) method: String,
    /// Its target, as it stood in the request line.
    pub(crate) target: String,
    /// Its headers: names in lower case, in order.
    pub(crate) headers: Vec<(String, String)>,
    /// The length of its body.
    pub(crate) length: usize,
    /// SHA-256 of its body, in hexadecimal.
    pub(crate) digest: String,
}

impl Arrival {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Whether nothing is asked for but to read.
    pub(crate) fn reads(&self) -> bool {
        ["GET", "HEAD"].contains(&self.method.as_str())
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn of(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: body.as_bytes().to_vec() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says whether the connection can be used for another request.
    pub(super) async fn send(&self, stream: &mut TcpStream, arrival: &Arrival) -> bool {
        let mut head = format!("HTTP/1.1 {} Whatever\r\n", self.status);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        if self.status != 204 {
            write!(head, "Content-Length: {}\r\n", self.body.len()).unwrap();
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        if arrival.method != "HEAD" && self.status != 204 {
            bytes.extend_from_slice(&self.body);
        }
        stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok()
    }
}

/// Serves one connection.
pub(super) async fn connection(mut stream: TcpStream, connection: usize, shared: Arc<Shared>) {
    let mut rest = Vec::new();
    loop {
        if next_is_close(&shared) {
            return;
        }
        let Some((arrival, body)) = read(&mut stream, connection, &mut rest).await else { return };
        let arrival = {
            let mut log = shared.log.lock().unwrap();
            let arrival = Arrival { number: log.len() + 1, ..arrival };
            log.push(arrival.clone());
            arrival
        };
        let queue = if arrival.reads() { &shared.reads } else { &shared.writes };
        let fault = queue.lock().unwrap().pop_front();
        let goes_on = play(fault, &mut stream, &arrival, &body, &shared).await;
        shared.done.fetch_add(1, Ordering::SeqCst);
        if !goes_on {
            return;
        }
    }
}

fn next_is_close(shared: &Shared) -> bool {
    [&shared.writes, &shared.reads].into_iter().any(|queue| {
        let mut queue = queue.lock().unwrap();
        let close = matches!(queue.front(), Some(Fault::CloseUnread));
        if close {
            queue.pop_front();
        }
        close
    })
}

/// None at the end of the connection.
async fn read(stream: &mut TcpStream, connection: usize, rest: &mut Vec<u8>) -> Option<(Arrival, Vec<u8>)> {
    let end = loop {
        if let Some(at) = rest.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, rest).await?;
    };
    let head = String::from_utf8_lossy(&rest.drain(..end).collect::<Vec<u8>>()).into_owned();
    let mut lines = head.trim_end().split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    assert!(
        !headers.iter().any(|(name, _)| name == "transfer-encoding"),
        "the gateway knows the length of what it sends"
    );
    while rest.len() < length {
        more(stream, rest).await?;
    }
    let body: Vec<u8> = rest.drain(..length).collect();
    let digest = Sha256::digest(&body).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let length = body.len();
    Some((Arrival { number: 0, connection, method, target, headers, length, digest }, body))
}

async fn more(stream: &mut TcpStream, rest: &mut Vec<u8>) -> Option<()> {
    let mut piece = vec![0; 65_536];
    match stream.read(&mut piece).await {
        Ok(0) | Err(_) => None,
        Ok(read) => {
            rest.extend_from_slice(&piece[..read]);
            Some(())
        }
    }
}
