//! What was done, by whom and why: kept, listed and handed out.

use reqwest::Method;
use serde_json::{Value, json};

use crate::leases::scene::{Scene, Shape, told_on};
use crate::support::client::{Answer, Client};

told_on!([sqlite Sqlite, postgres Postgres, replicas Replicas], [
    every_act_is_listed_with_who_asked_and_why,
]);

const RULES: &str = "[namespaces.jobs]\n[namespaces.others]\n";

/// Every line that a query finds, page by page, and how many pages it took.
async fn lines(client: &Client, query: &str) -> (Vec<Value>, usize) {
    let (mut found, mut pages) = (Vec::new(), 0);
    let mut path = format!("/v1/audit?{query}");
    loop {
        let page = client.get(&path).await.expect(200);
        found.extend(page["items"].as_array().unwrap().clone());
        pages += 1;
        let Some(cursor) = page["next_cursor"].as_str() else { return (found, pages) };
        path = format!("/v1/audit?{query}&cursor={cursor}");
    }
}

fn told(lines: &[Value]) -> Vec<String> {
    let line =
        |line: &Value| format!("{} {}", line["verb"].as_str().unwrap(), line["about"].as_str().unwrap());
    lines.iter().map(line).collect()
}

async fn advance_epoch(client: &Client, namespace: &str, key: &str) {
    let request = client.request(Method::POST, &format!("/v1/namespaces/{namespace}/epoch"));
    let body = json!({"reason": "a drill", "confirm": namespace});
    Answer::of(request.header("idempotency-key", key).json(&body)).await.expect(200);
}

/// Broken: an act of an operator leaves no line, one without who and why, or one that no list shows. Must hold: each act is
/// listed once, with its actor and its reason, whichever gateway it was asked of, also what was done to all namespaces.
async fn every_act_is_listed_with_who_asked_and_why(shape: Shape) {
    let scene = Scene::start(shape, RULES).await;
    let alice = scene.client(0).acquire("jobs/a", "alice").await;
    scene.client(1).post("/v1/revoke/jobs/a", &json!({"reason": "she is ill"})).await.expect(200);
    scene.client(2).acquire("others/b", "bob").await;
    advance_epoch(&scene.client(0), "jobs", "e-1").await;
    advance_epoch(&scene.client(1), "*", "e-2").await;
    assert_eq!(alice.position, "0.1");

    let (all, _) = lines(&scene.client(2), "").await;
    let wanted = [
        "acquired jobs/a",
        "superseded jobs/a",
        "revoked jobs/a",
        "acquired others/b",
        "epoch_advanced jobs",
        "epoch_advanced *",
    ];
    let mut sorted = told(&all);
    sorted.sort();
    let mut wanted_sorted: Vec<&str> = wanted.to_vec();
    wanted_sorted.sort_unstable();
    assert_eq!(sorted, wanted_sorted);
    let times: Vec<&str> = all.iter().map(|line| line["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(all.iter().all(|line| line["actor"] == "anonymous"), "{all:?}");
    let revoked = all.iter().find(|line| line["verb"] == "revoked").unwrap();
    assert_eq!((&revoked["reason"], &revoked["position"]), (&json!("she is ill"), &json!("0.1")));

    let client = scene.client(0);
    let in_pages = lines(&client, "limit=2").await;
    assert_eq!(in_pages, (all.clone(), 3));
    let (own, _) = lines(&client, "namespace=others").await;
    assert_eq!(told(&own), ["acquired others/b", "epoch_advanced *"]);
    let (whole, _) = lines(&client, "namespace=*").await;
    assert_eq!(told(&whole), ["epoch_advanced *"]);
    let (revoked, _) = lines(&client, "verb=revoked&actor=anonymous").await;
    assert_eq!(told(&revoked), ["revoked jobs/a"]);
    assert!(lines(&client, "actor=nobody").await.0.is_empty());
    let last = all.last().unwrap()["at"].as_str().unwrap();
    let (since, _) = lines(&client, &format!("since={last}")).await;
    let (until, _) = lines(&client, &format!("until={last}")).await;
    assert!(!since.is_empty() && since.len() + until.len() == all.len(), "{since:?} {until:?}");
    for bad in ["since=yesterday", "verb=guessed", "namespace=a/b", "actor=%20", "cursor=eA", "limit=0"] {
        let answer = client.get(&format!("/v1/audit?{bad}")).await;
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text());
    }
    let timeline = client.get("/v1/timeline/jobs/a").await.expect(200);
    let acts = timeline["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "act");
    assert!(
        acts.clone().count() == 5 && acts.into_iter().all(|item| item["actor"] == "anonymous"),
        "{timeline}"
    );
    scene.end();
}

/// Broken: an archive that is written from the command line lacks lines, or cannot be gone on with. Must hold: one line of
/// JSON each, the same lines, from a moment on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_is_one_line_of_json_each() {
    let scene = Scene::start(Shape::Sqlite, RULES).await;
    let client = scene.client(0);
    for number in 0..130 {
        client.acquire(&format!("jobs/{number}"), "alice").await;
    }
    let (all, _) = lines(&client, "").await;
    let run = |arguments: &[&str]| {
        let whole = [&["audit", "export", "--url", client.base()], arguments].concat();
        let (is_well, said) = scene.site.run(&whole);
        assert!(is_well, "{said}");
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    assert_eq!(run(&[]), all);
    let from = all[100]["at"].as_str().unwrap();
    let later = run(&["--since", from, "--namespace", "jobs"]);
    assert!(later.len() >= 30 && later.iter().all(|line| line["at"].as_str().unwrap() >= from));
    let events = {
        let (is_well, said) = scene.site.run(&["events", "--url", client.base(), "--from", "0", "--json"]);
        assert!(is_well, "{said}");
        said.lines().count()
    };
    assert_eq!(events, 130);
    scene.end();
}
