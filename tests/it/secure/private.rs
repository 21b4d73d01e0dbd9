//! What callers show stays with the gateway: it reaches no store, no answer and no log.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use fencegate::access::key::ApiKey;
use reqwest::Method;

use super::gateway;
use super::issuer::{Issuer, Signer, claims};
use crate::support::client::{Answer, Client};
use crate::support::gateway::command;
use crate::support::upstream::{Kind, Upstream};

/// A namespace behind HTTP, and a principal that may do everything.
fn configured(upstream: &Upstream, key: &ApiKey, more: &str) -> String {
    format!(
        "[namespaces.jobs]\nstore = {{ http = {:?}, class = \"serial\"{more} }}\n\
         [principals.keyed]\npermissions = {{ \"*\" = [\"read\", \"lease\", \"write\", \"operate\", \"admin\"] }}\n\
         keys = [{{ id = \"{}\", sha256 = \"{}\" }}]\njwt_subjects = [\"user-1\"]\n",
        upstream.url(),
        key.id(),
        key.digest()
    )
}

async fn written(client: &Client, bearer: &str, name: &str) -> Vec<Answer> {
    let shown = |request: reqwest::RequestBuilder| {
        request.header("authorization", format!("Bearer {bearer}")).header("proxy-authorization", bearer)
    };
    let acquired = Answer::of(
        shown(client.request(Method::POST, "/v1/leases"))
            .body(format!("{{\"resource\": \"{name}\"}}"))
            .header("content-type", "application/json"),
    )
    .await;
    let token = acquired.json()["fencing_token"].as_str().unwrap_or("0.1.x").to_owned();
    let put = shown(client.request(Method::PUT, &format!("/fenced/{name}")))
        .header("fencing-token", &token)
        .header("idempotency-key", "one")
        .body("x");
    let read = Answer::of(shown(client.request(Method::GET, &format!("/fenced/{name}")))).await;
    vec![acquired, Answer::of(put).await, read]
}

#[tokio::test]
async fn what_a_caller_shows_reaches_no_store() {
    // Broken: the store behind the gateway learns its callers' keys, and with them writes as they do. Must hold: no header of
    // what arrives there, and none that the configuration could ask for, holds one.
    let (key, ec) = (ApiKey::of([1; 6], [0xab; 32]), Signer::ec("one"));
    let (upstream, issuer) = (Upstream::start(Kind::Serial), Issuer::start(&[&ec]).await);
    let jwt = format!(
        "jwt = {{ issuer = {:?}, audience = \"fencegate\", jwks_url = {:?} }}\n",
        super::issuer::NAME,
        issuer.url
    );
    let gateway = gateway(&format!("{jwt}{}", configured(&upstream, &key, ""))).await;
    let token = ec.token(&claims("user-1"));
    for (bearer, name) in [(key.reveal().as_str(), "jobs/a"), (token.as_str(), "jobs/b")] {
        let answers = written(&gateway.client, bearer, name).await;
        assert!(answers[0].status < 300 && answers[2].status < 500, "{answers:?}");
        for answer in &answers {
            let text = format!("{:?} {}", answer.headers, String::from_utf8_lossy(&answer.bytes));
            assert!(!text.contains(bearer), "{text}");
        }
    }
    let arrived = upstream.log();
    assert!(arrived.iter().any(|arrival| arrival.method == "PUT"), "{arrived:?}");
    let seen = format!("{arrived:?}").to_lowercase();
    assert!(!seen.contains("bearer") && !seen.contains("abab") && !seen.contains("authorization"), "{seen}");
    gateway.stop().await;
}

#[tokio::test]
async fn what_a_caller_shows_stands_in_no_log() {
    // Broken: a key, or a token, stands in a log that more people can read than may use it. Must hold: not even with every
    // line switched on, whether it was taken or refused.
    let (key, ec) = (ApiKey::of([1; 6], [0xab; 32]), Signer::ec("one"));
    let (upstream, issuer) = (Upstream::start(Kind::Serial), Issuer::start(&[&ec]).await);
    let folder = tempfile::tempdir().unwrap();
    let jwt = format!(
        "database = \"memory\"\njwt = {{ issuer = {:?}, audience = \"fencegate\", jwks_url = {:?} }}\n",
        super::issuer::NAME,
        issuer.url
    );
    std::fs::write(folder.path().join("fencegate.toml"), format!("{jwt}{}", configured(&upstream, &key, "")))
        .unwrap();
    let mut command = command(folder.path());
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("FENCEGATE_LOG", "trace");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut all = String::new();
    let base = loop {
        let mut line = String::new();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "{all}");
        all.push_str(&line);
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        if json["message"] == "listening" {
            break format!("http://{}", json["address"].as_str().unwrap());
        }
    };
    let rest = std::thread::spawn(move || {
        let mut rest = Vec::new();
        log.read_to_end(&mut rest).unwrap();
        String::from_utf8_lossy(&rest).into_owned()
    });
    let client = Client::to(base);
    let (token, forged) = (ec.token(&claims("nobody")), Signer::ec("one").token(&claims("user-1")));
    let wrong = ApiKey::of([1; 6], [0xcd; 32]).reveal();
    let shown = [key.reveal().to_string(), wrong.to_string(), token, forged];
    for bearer in &shown {
        written(&client, bearer, "jobs/a").await;
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    all.push_str(&rest.join().unwrap());
    assert!(all.contains("a token was refused"), "{all}");
    for bearer in &shown {
        let secret = &bearer[bearer.len() - 60..];
        assert!(!all.contains(secret) && !all.contains(&bearer[..30]), "{secret} stands in the log");
    }
}
