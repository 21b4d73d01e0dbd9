//! A gateway that says what a test wants: refusals at will, lost answers, silence.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fencegate::app::SystemClock;
use fencegate::domain::time::Clock as _;
use serde_json::{Value, json};

/// The acquisition id of every lease here.
pub(super) const ID: &str = "edkP3vX0cS1uV7yRk2mTbQw5";

/// One request as it came.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// `acquire`, `renew`, `release`.
    pub(super) what: &'static str,
    pub(super) body: Value,
    /// Since the upstream was started.
    pub(super) at: Duration,
}

/// What is done with a request.
pub(super) enum Reply {
    Json(u16, Value),
    /// The same, but after so long.
    Late(Duration, u16, Value),
    /// The connection is closed without an answer.
    HangUp,
    /// The connection stays open without an answer.
    Silence,
}

pub(super) struct Upstream {
    pub(super) base: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Upstream {
    /// Answers by `script`, which gets the request and how many of its kind came before.
    pub(super) fn start(script: impl Fn(&Asked, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (heard, clock) = (asked.clone(), SystemClock::started());
        // It ends with the test's process; it holds nothing but a socket.
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(request) = read(&stream, clock.monotonic()) else { continue };
                let before = heard.lock().unwrap().iter().filter(|old| old.what == request.what).count();
                heard.lock().unwrap().push(request.clone());
                match script(&request, before) {
                    Reply::Json(status, body) => answer(&stream, status, &body),
                    Reply::Late(pause, status, body) => {
                        thread::sleep(pause);
                        answer(&stream, status, &body);
                    }
                    Reply::HangUp => drop(stream),
                    Reply::Silence => silent.push(stream),
                }
            }
        });
        Self { base, asked }
    }

    /// All requests of a kind so far.
    pub(super) fn asked(&self, what: &str) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.what == what).cloned().collect()
    }

    /// The kinds of all requests so far, in their order.
    pub(super) fn order(&self) -> Vec<&'static str> {
        self.asked.lock().unwrap().iter().map(|asked| asked.what).collect()
    }
}

/// A lease of so many milliseconds, just granted or renewed.
pub(super) fn held(ttl_ms: u64) -> Value {
    json!({
        "acquisition_id": ID, "resource": super::RESOURCE, "fencing_token": "0.7.seal", "state": "held",
        "ttl_ms": ttl_ms, "remaining_ms": ttl_ms, "renew_after_ms": ttl_ms / 3, "cancel_requested": false,
    })
}

/// A lease that is over.
pub(super) fn released() -> Reply {
    Reply::Json(200, json!({"acquisition_id": ID, "state": "released"}))
}

pub(super) fn granted(ttl_ms: u64) -> Reply {
    Reply::Json(201, held(ttl_ms))
}

/// A problem; further members as an object.
pub(super) fn problem(status: u16, code: &str, retryable: bool, more: &Value) -> Reply {
    let mut body = json!({
        "type": format!("/docs/errors/{code}"), "title": "Title", "status": status, "detail": "Some detail.",
        "instance": "/x", "code": code, "effect": "none", "retryable": retryable, "request_id": "r",
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Reply::Json(status, body)
}

fn read(stream: &TcpStream, at: Duration) -> Option<Asked> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0_usize);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let what = match first.split(' ').next()? {
        "DELETE" => "release",
        "POST" if first.contains("/renew ") => "renew",
        "POST" => "acquire",
        _ => return None,
    };
    Some(Asked { what, body: serde_json::from_slice(&body).unwrap_or(Value::Null), at })
}

fn answer(mut stream: &TcpStream, status: u16, body: &Value) {
    let kind = if status < 300 { "application/json" } else { "application/problem+json" };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n", body.len());
    // Whoever asked may have gone.
    drop(stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()));
}
