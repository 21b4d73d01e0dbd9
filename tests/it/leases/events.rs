//! Observing: the events of a lease, the long poll on a resource, and their end when the gateway stops.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencegate::ledger::wakeup::instant;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::raw::Call;
use super::scene::{Dice, Scene, Shape, acquire, id_of, release, slack, told_on, wanted};
use crate::support::client::{Answer, Client};
use crate::support::postgres::binaries::say;

told_on!([sqlite Sqlite, postgres Postgres, replicas Replicas], [
    events_reach_an_observer_in_time_and_end_with_the_lease,
    a_long_poll_wakes_with_a_change_and_ends_with_its_time,
    no_change_is_lost_between_two_polls,
    a_stopping_gateway_waits_for_nobody_who_waits,
]);

const RULES: &str = "[namespaces.jobs]\npolicy = \"ordered\"\nlease = { ttl_ms = 30000, min_ttl_ms = 50 }\n";

/// How soon a change is heard of, whichever gateway made it.
const IN_TIME: Duration = Duration::from_millis(600);

/// What a stream has sent, as it comes.
struct Stream {
    call: Call,
    text: String,
}

impl Stream {
    async fn of(client: &Client, lease: &Value) -> Self {
        let call = Call::get(client, &format!("/v1/leases/{}/events", id_of(lease))).await;
        let mut stream = Self { call, text: String::new() };
        stream.until("\r\n\r\n", Duration::from_secs(5)).await;
        assert!(stream.text.starts_with("HTTP/1.1 200 ") && stream.text.contains("text/event-stream"));
        stream
    }

    /// Reads until something has come.
    async fn until(&mut self, what: &str, within: Duration) {
        let reading = async {
            while !self.text.contains(what) {
                let some = self.call.some().await;
                assert!(!some.is_empty(), "the stream ended without {what:?}: {}", self.text);
                self.text.push_str(&String::from_utf8(some).unwrap());
            }
        };
        let came = tokio::time::timeout(within, reading).await.is_ok();
        assert!(came, "{what:?} did not come in {within:?}: {}", self.text);
    }

    /// The names of the events so far.
    fn names(&self) -> Vec<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
    }

    /// An event is to come in time, and the end of the stream right after it.
    async fn ends(mut self, name: &str, slack: Duration) -> String {
        self.until(&format!("event: {name}\n"), IN_TIME + slack).await;
        self.until("\r\n0\r\n\r\n", IN_TIME + slack).await;
        self.text
    }
}

/// Broken: an observer at another gateway hears of a change late or never, or its stream goes on for ever. Must hold: each
/// event arrives within 600 ms, and after the final one the stream ends.
async fn events_reach_an_observer_in_time_and_end_with_the_lease(shape: Shape) {
    let scene = Scene::start(shape, RULES).await;
    let (here, there) = (scene.client(0), scene.client(1));
    let slack = slack(&here).await;
    for round in 0..3 {
        let lease = acquire(&there, &wanted("jobs/a", 20_000, 0)).await.expect(201);
        let mut stream = Stream::of(&here, &lease).await;
        let renew = format!("/v1/leases/{}/renew", id_of(&lease));
        // At once, before the observer's gateway has looked for the first time.
        there.post(&renew, &json!({"ttl_ms": 21_000})).await.expect(200);
        stream.until("event: renewed\n", IN_TIME + slack).await;
        assert!(stream.text.contains("\"ttl_ms\":21000") && !stream.text.contains("fencing_token"));
        let reason = json!({"reason": "the customer left"});
        match round {
            0 => {
                scene.client(2).post("/v1/cancel/jobs/a", &reason).await.expect(200);
                let text = stream.ends("superseded", slack).await;
                assert!(
                    text.contains("event: cancel_requested\n") && text.contains("\"cancel_requested\":true")
                );
                let reopen = there.request(Method::POST, "/v1/reopen/jobs/a").header("idempotency-key", "1");
                Answer::of(reopen.json(&reason)).await.expect(200);
            }
            1 => {
                scene.client(2).post("/v1/revoke/jobs/a", &reason).await.expect(200);
                let text = stream.ends("superseded", slack).await;
                assert!(!text.contains("cancel_requested\n"), "{text}");
            }
            _ => {
                release(&there, &lease).await;
                stream.ends("released", slack).await;
            }
        }
        // Whoever comes late is told the end at once.
        let late = Stream::of(&here, &lease).await;
        let text = late.ends(if round == 2 { "released" } else { "superseded" }, slack).await;
        assert_eq!(text.matches("event: ").count(), if round == 0 { 2 } else { 1 }, "{text}");
    }
    let short = acquire(&there, &wanted("jobs/a", 400, 0)).await.expect(201);
    let stream = Stream::of(&here, &short).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    stream.ends("expired", slack).await;
    scene.end();
}

/// Broken: a proxy closes a stream on which nothing happens. Must hold: a comment every ten seconds.
#[tokio::test]
async fn a_stream_shows_that_it_lives() {
    let scene = Scene::start(Shape::Sqlite, RULES).await;
    let lease = acquire(&scene.client(0), &wanted("jobs/a", 30_000, 0)).await.expect(201);
    let mut stream = Stream::of(&scene.client(1), &lease).await;
    stream.until("\n: ", Duration::from_secs(12)).await;
    assert!(stream.names().is_empty(), "{}", stream.text);
    scene.end();
}

/// A long poll, and when it was answered.
async fn poll(client: &Client, tag: Option<&str>, wait_ms: u64) -> (Answer, Instant) {
    let mut request = client.request(Method::GET, &format!("/v1/resources/jobs/a?wait_ms={wait_ms}"));
    if let Some(tag) = tag {
        request = request.header("if-none-match", tag);
    }
    let answer = Answer::of(request).await;
    (answer, instant())
}

/// Broken: a caller has to ask again and again, or hangs although something changed. Must hold: the answer comes with the
/// change, made at whichever gateway, and without one 304 when the time is over.
async fn a_long_poll_wakes_with_a_change_and_ends_with_its_time(shape: Shape) {
    let scene = Scene::start(shape, RULES).await;
    let (here, there) = (scene.client(0), scene.client(1));
    let slack = slack(&here).await;
    let lease = acquire(&there, &wanted("jobs/a", 20_000, 0)).await.expect(201);
    let (first, _) = poll(&here, None, 5_000).await;
    assert_eq!(first.expect(200)["lease"]["state"], "held", "{}", first.text());
    let tag = first.header("etag").unwrap().to_owned();
    let began = instant();
    let (same, ended) = poll(&here, Some(&tag), 700).await;
    assert_eq!((same.status, same.bytes.len(), same.header("etag")), (304, 0, Some(tag.as_str())));
    let took = ended - began;
    assert!(took >= Duration::from_millis(700) && took < Duration::from_millis(900) + slack, "{took:?}");

    for pause in [0, 30, 250] {
        let tag = poll(&here, None, 0).await.0.header("etag").unwrap().to_owned();
        let waiting = {
            let (here, tag) = (here.clone(), tag.clone());
            tokio::spawn(async move { poll(&here, Some(&tag), 20_000).await })
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        there.post(&format!("/v1/leases/{}/renew", id_of(&lease)), &json!({})).await.expect(200);
        let changed = instant();
        let (answer, answered) = waiting.await.unwrap();
        answer.expect(200);
        assert_ne!(answer.header("etag"), Some(tag.as_str()));
        let took = answered.saturating_duration_since(changed);
        assert!(took <= IN_TIME + slack, "after a pause of {pause} ms it took {took:?}");
    }
    scene.end();
}

/// Broken: what changes between an answer and the next poll, or between a poll's first look and its wait, is never told.
/// Must hold: of each of many writes, at moments that differ, the observer knows within 600 ms.
async fn no_change_is_lost_between_two_polls(shape: Shape) {
    let writes: u64 = if shape == Shape::Replicas { 40 } else { 20 };
    let scene = Scene::start(shape, RULES).await;
    let (here, there) = (scene.client(0), scene.client(1));
    let slack = slack(&here).await;
    let lease = there.acquire("jobs/a", "writer").await;
    let seen: Arc<Mutex<Vec<(u64, Instant)>>> = Arc::default();
    let observer = {
        let seen = seen.clone();
        tokio::spawn(async move {
            let mut tag: Option<String> = None;
            loop {
                let (answer, at) = poll(&here, tag.as_deref(), 20_000).await;
                let resource = answer.expect(200);
                tag = answer.header("etag").map(str::to_owned);
                let commit: u64 = resource["commit"].as_str().unwrap().parse().unwrap();
                seen.lock().unwrap().push((commit, at));
                if commit == writes {
                    return;
                }
            }
        })
    };
    let (mut dice, mut made) = (Dice(5), Vec::new());
    for number in 1..=writes {
        let sequence = number.to_string();
        let more = [("fencing-sequence", sequence.as_str())];
        let answer = there.put("jobs/a", &lease.token, &format!("op-{number}"), "x", &more).await;
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        made.push((number, instant()));
        dice.pause(120_000).await;
    }
    tokio::time::timeout(Duration::from_secs(5), observer).await.expect("the last one was lost").unwrap();
    let seen = seen.lock().unwrap().clone();
    let late = made.iter().map(|(number, at)| {
        let (_, told) = seen.iter().find(|(commit, _)| commit >= number).unwrap();
        told.saturating_duration_since(*at)
    });
    let most = late.max().unwrap();
    say(&format!("{shape:?}: a change was told after {most:?} at most; slack {slack:?}"));
    assert!(most <= IN_TIME + slack, "{most:?}");
    scene.end();
}

/// Broken: open streams and waiters keep a gateway from stopping, or are cut without a word. Must hold: the streams end,
/// waiters and long polls are told 503 `draining`, and the process ends at once.
async fn a_stopping_gateway_waits_for_nobody_who_waits(shape: Shape) {
    let scene = Scene::start(shape, RULES).await;
    let client = scene.client(0);
    let slack = slack(&client).await;
    let lease = acquire(&client, &wanted("jobs/a", 30_000, 0)).await.expect(201);
    let stream = Stream::of(&client, &lease).await;
    let waits = {
        let client = client.clone();
        tokio::spawn(async move { acquire(&client, &wanted("jobs/a", 30_000, 30_000)).await })
    };
    let polls = {
        let (client, tag) = (client.clone(), poll(&client, None, 0).await.0);
        let tag = tag.header("etag").unwrap().to_owned();
        tokio::spawn(async move { poll(&client, Some(&tag), 30_000).await.0 })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = instant();
    tokio::task::spawn_blocking(move || scene.end()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2) + slack, "{:?}", began.elapsed());
    for answer in [waits.await.unwrap(), polls.await.unwrap()] {
        let problem = answer.refused(503, "draining", "none");
        assert!(problem["retryable"] == true && answer.header("retry-after").is_some(), "{problem}");
    }
    let mut stream = stream;
    stream.until("\r\n0\r\n\r\n", Duration::from_secs(1)).await;
    assert!(stream.names().is_empty(), "{}", stream.text);
}
