//! `fencegate events`: what happened, and what happens.

use clap::Args;
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::time::sleep;

use super::client::Client;
use super::failure::Failure;
use super::output::Output;
use super::table;
use crate::limits::{EVENT_BYTES, EVENTS_RETRIES, EVENTS_RETRY_PAUSE, EVENTS_STREAM_TIME};

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
    /// The gateway ended it, or it broke off.
    Ended,
}

impl Events {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let mut last = self.from.clone().or_else(|| (!self.follow).then(|| "0".to_owned()));
        let mut failures = 0_u32;
        loop {
            match self.open(client, last.as_deref()).await {
                Ok(response) => {
                    failures = 0;
                    if matches!(self.tell(response, client, output, &mut last).await?, Left::Abreast) {
                        return Ok(());
                    }
                }
                // A gateway that stops is followed by another one; one that refuses has its reasons.
                Err(failure) => {
                    failures = failures.saturating_add(1);
                    let may_pass = matches!(failure, Failure::Unreachable(_) | Failure::Lost(_));
                    if !self.follow || !may_pass || failures >= EVENTS_RETRIES {
                        return Err(failure);
                    }
                }
            }
            sleep(EVENTS_RETRY_PAUSE).await;
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
        last: &mut Option<String>,
    ) -> Result<Left, Failure> {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) | Err(_) if self.follow => return Ok(Left::Ended),
                Ok(None) => {
                    return Err(Failure::Lost(format!("{} ended the stream; {AGAIN}", client.base())));
                }
                Err(error) => return Err(client.failed(&error, AGAIN)),
            };
            bytes.extend_from_slice(&chunk);
            while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
                let rest = bytes.split_off(end.saturating_add(2));
                let block = String::from_utf8_lossy(&bytes).into_owned();
                bytes = rest;
                say(&block, output)?;
                if let Some(id) = field(&block, "id: ") {
                    *last = Some(id.to_owned());
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

fn field<'b>(block: &'b str, name: &str) -> Option<&'b str> {
    block.lines().find_map(|line| line.strip_prefix(name))
}

/// A line for people, else the event as it came. A reset is a remark, and no event.
fn say(block: &str, output: &Output) -> Result<(), Failure> {
    let (Some(name), Some(data)) = (field(block, "event: "), field(block, "data: ")) else { return Ok(()) };
    let json: Value = serde_json::from_str(data).unwrap_or_default();
    if name == "reset" {
        let why = json.get("reason").and_then(Value::as_str).unwrap_or_default();
        output.note(&format!("something may have been missed: {}", table::clean(why)));
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
    use super::*;

    #[test]
    fn a_line_says_when_what_and_who() {
        let event = serde_json::json!({"type": "fencegate.lease.granted", "time": "t", "subject": "jobs/a",
            "data": {"position": "0.1", "holder": "alice", "actor": "ci"}});
        assert_eq!(told(&event), "t  lease.granted          jobs/a  position 0.1  holder alice  by ci");
    }
}
