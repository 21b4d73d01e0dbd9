//! What is nobody else's business stands in no log line and in no refusal: bodies, seals, acquisition ids. And every
//! decision leaves one line.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use super::house::{Answer, House, ask, write};

/// A log that is kept.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines that tell of decisions.
    fn decisions(&self) -> Vec<Value> {
        let lines = self.text();
        let all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|line| line["message"] == "decided").collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn kept() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    // For this thread only, on which the whole test runs.
    let guard = tracing::subscriber::set_default(subscriber);
    (log, guard)
}

#[tokio::test]
async fn no_secret_stands_in_a_log_line_or_a_refusal() {
    let (log, _guard) = kept();
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    let seal = lease.token.rsplit('.').next().unwrap().to_owned();
    let secrets = [seal.as_str(), lease.id.as_str(), "PAYLOAD-SECRET", "SEAL-SECRET", "cGF5bG9hZC1zZWNyZXQ="];
    let path = format!("/v1/leases/{}", lease.id);
    let member = |token: &str, body: &str| json!({"method": "PUT", "resource": "pages/b", "fencing_token": token, "operation_id": "o", "body_base64": body});
    let asks = [
        write("PUT", "pages/a", &lease.token, "one").body("PAYLOAD-SECRET"),
        write("PUT", "pages/a", &lease.token, "one").body("PAYLOAD-SECRET, another"),
        write("PUT", "pages/a", "0.1.SEAL-SECRET", "two").body("PAYLOAD-SECRET"),
        write("PUT", "jobs/a", "0.1.SEAL-SECRET", "two").body("PAYLOAD-SECRET"),
        write("PUT", "pages/b", &lease.token, "two").body("PAYLOAD-SECRET"),
        ask("POST", "/v1/writes").json(&json!({"writes": [member(&lease.token, "cGF5bG9hZC1zZWNyZXQ=")]})),
        ask("POST", "/v1/writes")
            .json(&json!({"writes": [member("0.1.SEAL-SECRET", "cGF5bG9hZC1zZWNyZXQ=?")]})),
        ask("POST", "/v1/leases").json(&json!({"resource": "pages/a"})),
        ask("POST", "/v1/leases").with("content-type", "application/json").body("{\"PAYLOAD-SECRET"),
        ask("POST", "/v1/advance/pages/a").json(&json!({"fencing_token": "0.1.SEAL-SECRET", "reason": "r"})),
    ];
    let mut refusals: Vec<Answer> = Vec::new();
    for ask in asks {
        refusals.push(house.call(ask).await);
    }
    for method in ["GET", "DELETE"] {
        house.call(ask(method, &path)).await.expect(200);
    }
    let ended = house.call(ask("POST", &format!("{path}/renew"))).await;
    ended.refused(410, "lease_released");
    let (written, told) = (log.text(), refusals.iter().map(Answer::text).collect::<String>());
    assert!(log.decisions().len() >= 8, "{written}");
    for secret in secrets {
        assert!(!written.contains(secret), "{secret} is logged: {written}");
        assert!(!told.contains(secret), "{secret} is told: {told}");
    }
}

#[tokio::test]
async fn every_decision_leaves_one_line_with_its_identifiers() {
    let (log, _guard) = kept();
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    house.put("pages/a", &lease.token, "one", "x").await.expect(201);
    house.put("pages/a", &lease.token, "one", "x").await.expect(201);
    house.put("pages/a", &lease.token, "two", "x").await.refused(412, "generation_spent");
    house.get("/fenced/pages/a").await;
    house.put("pages/a", "01", "three", "x").await.refused(400, "invalid_token");
    let lines = log.decisions();
    let seen: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| {
            assert_eq!((line["level"].as_str(), line["resource"].as_str()), (Some("INFO"), Some("pages/a")));
            assert!(line["latency_us"].is_u64() && line["span"]["request_id"].is_string(), "{line}");
            assert_eq!(line["token"], "0.1");
            (line["outcome"].as_str().unwrap(), line["effect"].as_str().unwrap())
        })
        .collect();
    let expected =
        [("granted", "none"), ("applied", "applied"), ("replayed", "applied"), ("generation_spent", "none")];
    assert_eq!(seen, expected);
    assert_eq!(
        (lines[3]["operation"].as_str(), lines[3]["span"]["path"].as_str()),
        (Some("two"), Some("/fenced/{namespace}/{name}"))
    );
}
