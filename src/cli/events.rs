//! `fencegate events`: what happened, and what happens.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use clap::Args;
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::client::Client;
use super::failure::Failure;
use super::output::Output;
use super::table;
use crate::limits::{
    EVENT_BYTES, EVENTS_REMEMBERED, EVENTS_RETRIES, EVENTS_RETRY_PAUSE, EVENTS_SILENCE, EVENTS_STREAM_TIME,
};

/// Said when a stream breaks off.
const AGAIN: &str =
    "run the same command again; with --from and the id that was printed last it goes on there";

/// The comment after which all that is kept was told.
const ALL_IS_TOLD: &str = ": all is told";

/// What `events` takes.
#[derive(Args)]
pub(super) struct Events {
    /// Go on with what happens, until the command is ended
    #[arg(long, short)]
    follow: bool,
    /// The id after which to begin; 0 is before everything that is kept [default: 0, and with --follow now]
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// Only of this namespace, with what was done to all
    #[arg(long)]
    namespace: Option<String>,
    /// Only of names that begin so
    #[arg(long)]
    prefix: Option<String>,
}

/// Why a stream was left.
enum Left {
    /// All that is kept was told.
    Abreast,
    /// The gateway ended it, it broke off, or nothing came any more.
    Ended,
}

/// How far it has come.
#[derive(Default)]
struct Progress {
    /// The id from where the next stream goes on.
    last: Option<String>,
    told: Lately,
}

/// Events that were told lately: whoever goes on after a break may be told some of them once more.
#[derive(Default)]
struct Lately {
    order: VecDeque<String>,
    known: HashSet<String>,
}

impl Lately {
    /// Whether an event is news; from then on it is none.
    fn is_news(&mut self, event: &Value) -> bool {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let (Some(source), Some(id)) = (text("source"), text("id")) else { return true };
        let name = format!("{source} {id}");
        if !self.known.insert(name.clone()) {
            return false;
        }
        self.order.push_back(name);
        if self.order.len() > EVENTS_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

impl Events {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        self.listen(client, output, EVENTS_RETRY_PAUSE, EVENTS_SILENCE).await
    }

    /// One stream after another. A gateway that stops is followed by another one; one that refuses for good has its reasons.
    async fn listen(
        &self,
        client: &Client,
        output: &Output,
        pause: Duration,
        silence: Duration,
    ) -> Result<(), Failure> {
        let last = self.from.clone().or_else(|| (!self.follow).then(|| "0".to_owned()));
        let (mut progress, mut failures) = (Progress { last, ..Progress::default() }, 0_u32);
        loop {
            let mut pause = pause;
            match self.open(client, progress.last.as_deref()).await {
                Ok(response) => {
                    failures = 0;
                    let left = self.tell(response, client, output, &mut progress, silence).await?;
                    if matches!(left, Left::Abreast) {
                        return Ok(());
                    }
                }
                Err(failure) => {
                    failures = failures.saturating_add(1);
                    let Some(told) = may_pass(&failure) else { return Err(failure) };
                    if !self.follow || failures >= EVENTS_RETRIES {
                        return Err(failure);
                    }
                    pause = pause.max(told);
                }
            }
            sleep(pause).await;
        }
    }

    async fn open(&self, client: &Client, last: Option<&str>) -> Result<Response, Failure> {
        let wanted = [("namespace", &self.namespace), ("prefix", &self.prefix)];
        let given: Vec<(&str, &str)> =
            wanted.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
        let request = client.request(Method::GET, "/v1/events").query(&given).timeout(EVENTS_STREAM_TIME);
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        client.open(request, AGAIN).await
    }

    /// Prints one stream to its end, and keeps the id from where the next one goes on.
    async fn tell(
        &self,
        mut response: Response,
        client: &Client,
        output: &Output,
        progress: &mut Progress,
        silence: Duration,
    ) -> Result<Left, Failure> {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let chunk = match timeout(silence, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None) | Err(_)) | Err(_) if self.follow => return Ok(Left::Ended),
                Ok(Ok(None)) => {
                    return Err(Failure::Lost(format!("{} ended the stream; {AGAIN}", client.base())));
                }
                Ok(Err(error)) => return Err(client.failed(&error, AGAIN)),
                Err(_) => {
                    let silent = format!("nothing came from {} for {} s", client.base(), silence.as_secs());
                    return Err(Failure::Lost(format!("{silent}; {AGAIN}")));
                }
            };
            bytes.extend_from_slice(&chunk);
            while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
                let rest = bytes.split_off(end.saturating_add(2));
                let block = String::from_utf8_lossy(&bytes).into_owned();
                bytes = rest;
                say(&block, output, &mut progress.told)?;
                if let Some(id) = field(&block, "id: ") {
                    progress.last = Some(id.to_owned());
                }
                if !self.follow && block.lines().any(|line| line == ALL_IS_TOLD) {
                    return Ok(Left::Abreast);
                }
            }
            if bytes.len() > EVENT_BYTES {
                return Err(Failure::Lost(format!("what {} sends are no events", client.base())));
            }
        }
    }
}

/// How long to wait at least before another try; none where another try would fail alike.
fn may_pass(failure: &Failure) -> Option<Duration> {
    match failure {
        Failure::Unreachable(_) | Failure::Lost(_) => Some(Duration::ZERO),
        Failure::Refused(problem) if problem.is_open() => Some(problem.retry_after().unwrap_or_default()),
        Failure::Refused(_)
        | Failure::Usage(_)
        | Failure::Mistakes(_)
        | Failure::Start(_)
        | Failure::Relayed(_)
        | Failure::Output(_)
        | Failure::Pending(_)
        | Failure::Story(_)
        | Failure::NeverOwned(_)
        | Failure::OwnershipLost(_) => None,
    }
}

fn field<'b>(block: &'b str, name: &str) -> Option<&'b str> {
    block.lines().find_map(|line| line.strip_prefix(name))
}

/// A line for people, else the event as it came. A reset is a remark, and no event.
fn say(block: &str, output: &Output, lately: &mut Lately) -> Result<(), Failure> {
    let (Some(name), Some(data)) = (field(block, "event: "), field(block, "data: ")) else { return Ok(()) };
    let json: Value = serde_json::from_str(data).unwrap_or_default();
    if name == "reset" {
        let why = json.get("reason").and_then(Value::as_str).unwrap_or_default();
        output.note(&format!("something may have been missed: {}", table::clean(why)));
        return Ok(());
    }
    if !lately.is_news(&json) {
        return Ok(());
    }
    if output.is_for_people() { output.line(&told(&json)) } else { output.line(data) }
}

fn told(event: &Value) -> String {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    let kind = text("/type").unwrap_or_default().trim_start_matches("fencegate.");
    let mut line =
        format!("{}  {kind:<22} {}", text("/time").unwrap_or_default(), text("/subject").unwrap_or_default());
    for (name, pointer) in [
        ("position", "/data/position"),
        ("commit", "/data/commit"),
        ("operation", "/data/operation_id"),
        ("holder", "/data/holder"),
        ("by", "/data/actor"),
        ("reason", "/data/reason"),
    ] {
        if let Some(value) = text(pointer) {
            for piece in ["  ", name, " ", value] {
                line.push_str(piece);
            }
        }
    }
    table::clean(&line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_line_says_when_what_and_who() {
        let event = json!({"type": "fencegate.lease.granted", "time": "t", "subject": "jobs/a",
            "data": {"position": "0.1", "holder": "alice", "actor": "ci"}});
        assert_eq!(told(&event), "t  lease.granted          jobs/a  position 0.1  holder alice  by ci");
    }

    /// Broken: what is told once more after a break is printed once more, or a follower keeps every id for ever. Must hold: of
    /// what was told lately nothing is news, of another database everything is, and the memory has a bound.
    #[test]
    fn what_was_told_lately_is_no_news() {
        let event = |source: &str, id: usize| json!({"source": source, "id": id.to_string()});
        let mut lately = Lately::default();
        assert!(lately.is_news(&event("a", 0)) && !lately.is_news(&event("a", 0)));
        assert!(lately.is_news(&event("b", 0)));
        for id in 1..=2 * EVENTS_REMEMBERED {
            assert!(lately.is_news(&event("a", id)), "{id}");
        }
        assert_eq!((lately.order.len(), lately.known.len()), (EVENTS_REMEMBERED, EVENTS_REMEMBERED));
        assert!(!lately.is_news(&event("a", 2 * EVENTS_REMEMBERED)));
    }

    /// One request on a socket, and an answer to it.
    async fn answered(listener: &TcpListener, answer: &str) -> (String, TcpStream) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = String::new();
        while !asked.ends_with("\r\n\r\n") {
            asked.push(char::from(stream.read_u8().await.unwrap()));
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        (asked, stream)
    }

    fn problem(status: u16, code: &str, retryable: bool) -> String {
        let body = json!({"type": "/p", "title": "T", "status": status, "detail": "D.", "instance": "/x",
            "code": code, "effect": "none", "retryable": retryable, "request_id": "r"})
        .to_string();
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Broken: a peer that has gone without a word is listened to for a day; one that is full for a moment ends a follower, and
    /// one that refuses it for good does not. Must hold: after a silence, and after a refusal that passes, it comes again with
    /// the id that it heard last; what is refused for good ends it.
    #[tokio::test]
    async fn a_follower_comes_again_after_a_silence_and_ends_with_a_refusal() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let following = tokio::spawn(async move {
            let events = Events { follow: true, from: None, namespace: None, prefix: None };
            let brief = Duration::from_millis(50);
            events.listen(&client, &Output::new(true), brief, brief).await
        });
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let (asked, silent) = answered(&listener, &format!("{head}: all is told\nid: seven\n\n")).await;
        assert!(!asked.contains("last-event-id"), "{asked}");
        let (asked, full) = answered(&listener, &problem(503, "overloaded", true)).await;
        assert!(asked.contains("last-event-id: seven\r\n"), "{asked}");
        let (asked, refused) = answered(&listener, &problem(403, "forbidden", false)).await;
        assert!(asked.contains("last-event-id: seven\r\n"), "{asked}");
        assert!(matches!(following.await.unwrap(), Err(Failure::Refused(_))));
        drop((silent, full, refused));
    }
}
