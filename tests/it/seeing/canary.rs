//! Canaries: a secret of its own kind is planted in every input of a running gateway, right and wrong, and then looked for
//! wherever others look: in the log, in a scrape, in spans, in problem bodies and in the database's file.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::collector::Collector;
use crate::support::client::{Answer, Client};
use crate::support::gateway::command;
use crate::support::postgres::patience;
use crate::support::upstream::{Fault, Kind, Upstream};

/// What is planted, and where: the names tell.
const PAYLOAD: &str = "CANARY-PAYLOAD-7f3a";
const WRONG_SEAL: &str = "CANARY-SEAL-19bc";
const HEADER: &str = "CANARY-HEADER-5d02";
const QUERY: &str = "CANARY-QUERY-c46e";
const COOKIE: &str = "CANARY-COOKIE-aa91";
const BEARER: &str = "CANARY-BEARER-0e57";
const UPSTREAM: &str = "CANARY-UPSTREAM-b3d8";
const FIELD: &str = "CANARY-FIELD-2c80";
const STATE: &str = "CANARY-STATE-d7e4";

/// A gateway in a process of its own, with all of its log in a file.
struct Logged {
    child: Child,
    client: Client,
}

impl Logged {
    async fn start(folder: &Path) -> Self {
        let log = File::create(folder.join("log")).unwrap();
        let child = command(folder)
            .env("FENCEGATE_LOG", "info,fencegate=trace")
            .args(["--config", "fencegate.toml", "serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let base = patience::until("the gateway listens", 20, async || {
            let text = fs::read_to_string(folder.join("log")).unwrap();
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut listening = lines.filter(|line| line["message"] == "listening");
            listening.next().map(|line| format!("http://{}", line["address"].as_str().unwrap()))
        });
        Self { child, client: Client::to(base.await) }
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

fn configure(folder: &Path, upstream: &Upstream, collector: &Collector) {
    fs::write(folder.join("upstream.secret"), UPSTREAM).unwrap();
    let url = upstream.url();
    let text = format!(
        "{}[namespaces.pages]\n[namespaces.shop]\npolicy = \"session\"\n[namespaces.shop.store]\nhttp = \"{url}\"\n\
         class = \"idempotent\"\nforward_headers = [\"x-canary\", \"traceparent\", \"tracestate\"]\n\
         credentials = {{ header = \"authorization\", file = \"upstream.secret\" }}\n",
        collector.configuration()
    );
    fs::write(folder.join("fencegate.toml"), text).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder.join("upstream.secret"), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// A request with canaries in all that a caller may add to it, in a sampled trace.
async fn planted(
    client: &Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Answer {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = client
        .request(method, path)
        .header("x-canary", HEADER)
        .header("cookie", COOKIE)
        .header("authorization", format!("Bearer {BEARER}"))
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .header("tracestate", format!("v={STATE}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(if body.is_empty() { request } else { request.body(body) }).await
}

/// A request: its method, path, headers and body.
type Sent = (&'static str, String, Vec<(&'static str, String)>, String);

const JSON: (&str, &str) = ("content-type", "application/json");

fn one(method: &'static str, path: &str, headers: &[(&'static str, &str)], body: impl Into<String>) -> Sent {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    (method, path.to_owned(), headers, body.into())
}

/// Reads and writes of documents and of a store.
fn to_the_data_plane(token: &str) -> Vec<Sent> {
    let (wrong, twice) = (format!("0.1.{WRONG_SEAL}"), format!("{token}, {token}"));
    let seal = token.rsplit('.').next().unwrap();
    let mut all = Vec::new();
    for name in ["pages/a", "shop/a", "nobody/a"] {
        let (bare, path) = (format!("/fenced/{name}"), format!("/fenced/{name}?secret={QUERY}"));
        for (token, id) in
            [(token, "op-1"), (token, "op-1"), (&wrong, "op-2"), (seal, "op-3"), (&twice, "op-4")]
        {
            let headers = [("fencing-token", token), ("idempotency-key", id)];
            all.push(one("PUT", &path, &headers, PAYLOAD));
            all.push(one("PUT", &path, &headers, format!("{PAYLOAD}, another")));
            all.push(one("PUT", &bare, &headers, PAYLOAD));
        }
        for header in ["fencing-sequence", "fencing-incarnation", "if-match", "prefer"] {
            all.push(one("DELETE", &bare, &[("fencing-token", token), (header, FIELD)], ""));
        }
        all.push(one("GET", &path, &[], ""));
    }
    all
}

/// Everything else.
fn to_the_rest(token: &str, id: &str) -> Vec<Sent> {
    let (wrong, body) = (format!("0.1.{WRONG_SEAL}"), STANDARD.encode(PAYLOAD));
    let member = |token: &str| json!({"method": "PUT", "resource": "pages/b", "fencing_token": token, "operation_id": "b-1", "body_base64": body});
    let mut all = Vec::new();
    for writes in [json!([member(token)]), json!([member(&wrong)]), json!([member(token), member(token)])] {
        for path in [format!("/v1/writes?secret={QUERY}"), "/v1/writes".to_owned()] {
            all.push(one("POST", &path, &[JSON], json!({"writes": writes}).to_string()));
        }
    }
    for path in [
        "/v1/leases",
        "/v1/writes",
        "/v1/advance/pages/a",
        "/v1/revoke/pages/a",
        "/v1/namespaces/pages/epoch",
    ] {
        let unknown = json!({"resource": "pages/a", "unknown": PAYLOAD}).to_string();
        for body in [format!("{{\"{PAYLOAD}"), unknown, PAYLOAD.to_owned()] {
            all.push(one("POST", path, &[JSON], body));
        }
        all.push(one("POST", path, &[JSON], json!({"fencing_token": wrong, "reason": "r"}).to_string()));
    }
    for path in ["/v1/resources", "/v1/operations", "/v1/status", "/livez", "/readyz", "/metrics", "/nowhere"]
    {
        all.push(one("GET", &format!("{path}?secret={QUERY}"), &[], ""));
        all.push(one("GET", &format!("{path}?limit=1&cursor={QUERY}"), &[], ""));
    }
    for path in
        [format!("/v1/leases/{id}"), format!("/v1/leases/{id}/renew"), format!("/v1/leases/{id}/nothing")]
    {
        for method in ["GET", "POST", "PATCH"] {
            all.push(one(method, &format!("{path}?secret={QUERY}"), &[JSON], ""));
            all.push(one(method, &path, &[JSON], format!("{{\"ttl_ms\": \"{FIELD}\"}}")));
        }
    }
    all
}

/// Sends right and wrong requests to every part, and gives the bodies of all problems.
async fn plant(client: &Client, token: &str, id: &str) -> String {
    let mut told = String::new();
    for (method, path, headers, body) in to_the_data_plane(token).into_iter().chain(to_the_rest(token, id)) {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = planted(client, method, &path, &headers, body).await;
        if answer.header("content-type") == Some("application/problem+json") {
            told.push_str(&answer.text());
        }
    }
    told
}

/// Broken: a secret that somebody sent, or that the gateway was given, stands where others read. Must hold: none of them
/// stands in the log, in a scrape, in a span or in a problem; and in the database stand payloads, never a seal, an acquisition
/// id, a key or credentials.
#[tokio::test]
async fn no_canary_sings() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, collector) = (Upstream::start(Kind::Idempotent), Collector::start(StatusCode::OK).await);
    configure(folder.path(), &upstream, &collector);
    let gateway = Logged::start(folder.path()).await;
    let client = gateway.client.clone();
    let (lease, shop) = (client.acquire("pages/a", "alice").await, client.acquire("shop/a", "alice").await);
    // A store that gives one answer no way back.
    upstream.fault(Fault::DropAnswer);
    let mut told = plant(&client, &lease.token, &lease.id).await;
    told.push_str(&plant(&client, &shop.token, &shop.id).await);
    client.release(&lease).await.expect(200);
    told.push_str(&client.renew(&lease).await.refused(410, "lease_released", "none").to_string());
    let scrape = client.get("/metrics").await.text();
    collector.spans(50).await;
    // What was written is in the file itself, not only in its log.
    tokio::time::sleep(Duration::from_millis(1)).await;
    gateway.stop();
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let spans = String::from_utf8_lossy(&collector.bytes()).into_owned();
    let keys = fs::read_to_string(folder.path().join("fencegate.key")).unwrap();
    let key = keys.lines().last().unwrap().split(':').nth(1).unwrap().trim().to_owned();
    let seals: Vec<String> =
        [&lease, &shop].map(|one| one.token.rsplit('.').next().unwrap().to_owned()).to_vec();
    let plain = [PAYLOAD, WRONG_SEAL, HEADER, QUERY, COOKIE, BEARER, UPSTREAM, FIELD, STATE];
    let body = STANDARD.encode(PAYLOAD);
    let mut secrets: Vec<&str> = plain.to_vec();
    secrets.extend([body.as_str(), key.as_str(), lease.id.as_str(), shop.id.as_str()]);
    secrets.extend(seals.iter().map(String::as_str));
    assert!(log.lines().count() > 50 && told.len() > 5_000 && spans.len() > 5_000, "too little was said");
    let mut sung = Vec::new();
    for secret in &secrets {
        for (place, text) in
            [("the log", &log), ("a scrape", &scrape), ("a span", &spans), ("a problem", &told)]
        {
            let at = text.find(secret);
            let around = at.map(|at| text[at.saturating_sub(300)..].chars().take(500).collect::<String>());
            sung.extend(around.map(|around| format!("{secret} stands in {place}: {around}")));
        }
    }
    assert!(sung.is_empty(), "{sung:#?}");
    let mut kept = Vec::new();
    for name in ["fencegate.db", "fencegate.db-wal", "fencegate.witness"] {
        kept.extend(fs::read(folder.path().join(name)).unwrap_or_default());
    }
    let holds = |secret: &[u8]| kept.windows(secret.len()).any(|window| window == secret);
    assert!(holds(PAYLOAD.as_bytes()), "the content is there by design: else this looks in the wrong place");
    let never = [WRONG_SEAL, COOKIE, BEARER, UPSTREAM, key.as_str(), lease.id.as_str(), shop.id.as_str()];
    for secret in never.into_iter().chain(seals.iter().map(String::as_str)) {
        assert!(!holds(secret.as_bytes()), "{secret} stands in the database");
        if let Ok(raw) = URL_SAFE_NO_PAD.decode(secret) {
            assert!(raw.len() < 12 || !holds(&raw), "{secret} stands in the database, decoded");
        }
    }
}
