//! What is nobody else's business stands in no log line and in no refusal: bodies, seals, acquisition ids. And every
//! decision leaves one line.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;

use serde_json::{Value, json};

use super::house::{Answer, House, ask, write};

thread_local! {
    /// What this thread has logged since it began to listen; a test and all its tasks run on one thread.
    static HEARD: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Writes into the log of its thread, if anybody listens there.
#[derive(Clone, Copy)]
struct Heard;

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        HEARD.with_borrow_mut(|heard| heard.iter_mut().for_each(|log| log.extend_from_slice(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Listens from now on. There is one subscriber for the whole process: with one per thread, whether a line is wanted
/// at all would depend on which thread meets it first.
fn listen() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_env_filter("fencegate=trace")
            .with_writer(|| Heard);
        subscriber.init();
    });
    HEARD.set(Some(Vec::new()));
}

fn heard() -> String {
    HEARD.with_borrow(|heard| String::from_utf8(heard.clone().unwrap()).unwrap())
}

/// The lines that tell of decisions.
fn decisions() -> Vec<Value> {
    let all: Vec<Value> = heard().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    all.into_iter().filter(|line| line["message"] == "decided").collect()
}

#[tokio::test]
async fn no_secret_stands_in_a_log_line_or_a_refusal() {
    listen();
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
    let (written, told) = (heard(), refusals.iter().map(Answer::text).collect::<String>());
    assert!(decisions().len() >= 8, "{written}");
    for secret in secrets {
        assert!(!written.contains(secret), "{secret} is logged: {written}");
        assert!(!told.contains(secret), "{secret} is told: {told}");
    }
}

#[tokio::test]
async fn every_decision_leaves_one_line_with_its_identifiers() {
    listen();
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    house.put("pages/a", &lease.token, "one", "x").await.expect(201);
    house.put("pages/a", &lease.token, "one", "x").await.expect(201);
    house.put("pages/a", &lease.token, "two", "x").await.refused(412, "generation_spent");
    house.get("/fenced/pages/a").await;
    house.put("pages/a", "01", "three", "x").await.refused(400, "invalid_token");
    let lines = decisions();
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
