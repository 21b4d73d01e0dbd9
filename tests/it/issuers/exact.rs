//! Positions from elsewhere are sparse and have up to 63 bits. What a double would round, a sign or a second spelling
//! must not get in, and what got in must come back as it was sent, on every surface.

use std::process::Output;

use fencegate::domain::policy::Issuer;
use serde_json::{Value, json};

use super::losses::external;
use crate::support::client::{Answer, Client};
use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::{Gateway, command};

on_engines!([sqlite Sqlite, postgres Postgres], [numbers_come_back_as_they_were_sent, what_is_no_number_of_the_range_gets_in_nowhere]);

/// Rising and sparse. A double knows 2^53 + 1 and 2^53 + 3 only as their neighbours, and 2^63 - 1 only as 2^63.
const NUMBERS: [u64; 8] = [
    1,
    7,
    4_294_967_297,
    9_007_199_254_740_991,
    9_007_199_254_740_993,
    9_007_199_254_740_995,
    9_223_372_036_854_775_806,
    9_223_372_036_854_775_807,
];

/// A number of an answer that a program may have rounded.
const ROUNDED: u64 = 1 << 53;

async fn start(kind: Kind) -> Gateway {
    let issuers = [("trusted", Issuer::Trusted { max_jump: None }), ("registered", Issuer::Registered)];
    Gateway::with(kind, external(&issuers)).await
}

/// One write of the operation that this number gives its name to, in the order that it gives.
async fn put(client: &Client, name: &str, token: &str, number: u64) -> Answer {
    let sequence = [("fencing-sequence", &*number.to_string())];
    client.put(name, token, &format!("put-{number}"), "x", &sequence).await
}

/// These places of an answer hold these texts; no number in it is one that is rounded elsewhere.
fn holds(answer: &Value, places: &[(&str, &str)]) {
    for (place, text) in places {
        assert_eq!(answer.pointer(place), Some(&Value::from(*text)), "{place} of {answer}");
    }
    let mut open = vec![answer];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            Value::Number(number) => {
                assert!(number.as_u64().is_some_and(|number| number < ROUNDED), "{number} of {answer}");
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
}

async fn numbers_come_back_as_they_were_sent(kind: Kind) {
    let gateway = start(kind).await;
    for number in NUMBERS {
        written(&gateway.client, number).await;
        registered(&gateway.client, number).await;
        read_back(&gateway.client, number).await;
        refused(&gateway.client, number).await;
        shown_by_the_command_line(&gateway.client, number);
    }
    let gateway = gateway.restart().await;
    read_back(&gateway.client, NUMBERS[NUMBERS.len() - 1]).await;
    gateway.stop().await;
}

/// By a write, by its repeat, and in a batch.
async fn written(client: &Client, number: u64) {
    let (token, position) = (number.to_string(), format!("0.{number}"));
    let first = put(client, "trusted/a", &token, number).await;
    for answer in [&first, &put(client, "trusted/a", &position, number).await] {
        assert_eq!(
            (answer.header("fencing-position"), answer.header("fencing-floor")),
            (Some(&*position), Some(&*position))
        );
        holds(&answer.json(), &[("/position", &position), ("/sequence", &token)]);
        assert_eq!((answer.status, &answer.bytes), (first.status, &first.bytes));
    }
    let member = json!({"method": "PUT", "resource": "trusted/b", "fencing_token": token, "sequence": token,
        "operation_id": format!("put-{number}"), "body": "x"});
    let batch = json!({"writes": [member]});
    for path in ["/v1/writes?dry_run=true", "/v1/writes"] {
        let answer = client.post(path, &batch).await.expect(200);
        let own = [("/members/0/position", &*position), ("/members/0/sequence", &*token)];
        holds(&answer, if path.contains("dry") { &[] } else { &own });
    }
}

async fn registered(client: &Client, number: u64) {
    let (token, position) = (number.to_string(), format!("0.{number}"));
    let too_early = put(client, "registered/a", &token, number).await;
    if too_early.status == 403 {
        let problem = too_early.refused(403, "advance_forbidden", "none");
        holds(&problem, &[("/presented/position", &position), ("/presented/sequence", &token)]);
    }
    let body = json!({"fencing_token": token, "reason": "got the lock"});
    let shown = client.post("/v1/advance/registered/a", &body).await.expect(200);
    holds(&shown, &[("/floor", &position)]);
    let answer = put(client, "registered/a", &token, number).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
    holds(&answer.json(), &[("/position", &position), ("/sequence", &token)]);
}

/// From the resource, the operation, and both lists.
async fn read_back(client: &Client, number: u64) {
    let (token, position) = (number.to_string(), format!("0.{number}"));
    for name in ["trusted/a", "trusted/b", "registered/a"] {
        let facts = [("/floor", &*position), ("/applied/position", &position), ("/applied/sequence", &token)];
        holds(&client.get(&format!("/v1/resources/{name}")).await.expect(200), &facts);
        let list = client.get(&format!("/v1/resources?prefix={name}")).await.expect(200);
        holds(&list, &[]);
        holds(&list["items"][0], &facts);
        let facts = [("/position", &*position), ("/sequence", &token)];
        let path = format!("/v1/operations/put-{number}?resource={name}");
        holds(&client.get(&path).await.expect(200), &facts);
        let list = client.get(&format!("/v1/operations?resource={name}&limit=100")).await.expect(200);
        holds(&list, &[]);
        let operation = format!("put-{number}");
        let items = list["items"].as_array().unwrap();
        holds(items.iter().find(|item| item["operation_id"] == *operation).unwrap(), &facts);
    }
}

/// In what is said about a refusal: of an older position, an older sequence, and an epoch that nobody began.
async fn refused(client: &Client, number: u64) {
    let (token, position) = (number.to_string(), format!("0.{number}"));
    let (ahead, sequence) = (format!("{number}.{number}"), [("fencing-sequence", &*token)]);
    let far = client.put("trusted/a", &ahead, "ahead", "x", &sequence).await;
    holds(&far.refused(409, "epoch_ahead", "none"), &[("/presented/position", &ahead)]);
    if number == 1 {
        return;
    }
    let lower = (number - 1).to_string();
    let stale = client.put("trusted/a", &lower, "stale", "x", &sequence).await;
    let problem = stale.refused(412, "stale_token", "none");
    let presented = format!("0.{lower}");
    let said = [("/presented/position", &*presented), ("/presented/sequence", &token)];
    holds(&problem, &said);
    holds(&problem, &[("/current/position", &position)]);
    assert!(problem["detail"].as_str().unwrap().contains(&*position), "{problem}");
    assert_eq!(stale.header("fencing-floor"), Some(&*position));
    let member = json!({"method": "PUT", "resource": "trusted/a", "fencing_token": lower, "sequence": token,
        "operation_id": "stale", "body": "x"});
    let batch = client.post("/v1/writes", &json!({"writes": [member]})).await;
    holds(&batch.refused(412, "stale_token", "none"), &said);
    let body = json!({"fencing_token": lower, "reason": "too late"});
    let advance = client.post("/v1/advance/registered/a", &body).await.refused(412, "stale_token", "none");
    holds(&advance, &[("/presented/position", &presented)]);
    let sequence = [("fencing-sequence", &*lower)];
    let regressed = client.put("trusted/a", &token, "regressed", "x", &sequence).await;
    let problem = regressed.refused(412, "sequence_regressed", "none");
    holds(&problem, &[("/presented/sequence", &lower), ("/current/sequence", &token)]);
    holds(&problem, &[("/current/position", &position)]);
}

/// `fencegate` with these arguments, as a client of this gateway.
fn cli(client: &Client, arguments: &[&str]) -> Output {
    let url = format!("http://{}", client.address());
    command(&std::env::temp_dir()).args(["--json", "--url", &url]).args(arguments).output().unwrap()
}

fn shown_by_the_command_line(client: &Client, number: u64) {
    let (token, position) = (number.to_string(), format!("0.{number}"));
    let told = |output: &Output| -> Value {
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let resource = told(&cli(client, &["inspect", "trusted/a"]));
    holds(
        &resource,
        &[("/floor", &position), ("/applied/position", &position), ("/applied/sequence", &token)],
    );
    let operation = format!("put-{number}");
    let one = told(&cli(client, &["operations", "trusted/a", &operation]));
    holds(&one, &[("/position", &position), ("/sequence", &token)]);
    let all = told(&cli(client, &["operations", "trusted/a", "--limit", "100"]));
    holds(&all, &[]);
    let known = all["items"].as_array().unwrap().iter().find(|item| item["operation_id"] == *operation);
    holds(known.unwrap(), &[("/position", &position), ("/sequence", &token)]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "x").unwrap();
    let path = file.path().to_str().unwrap();
    let write = |token: &str, sequence: &str| {
        let order = ["--token", token, "--sequence", sequence, "--operation", &operation];
        cli(client, &[&["write", "trusted/c", path][..], &order].concat())
    };
    holds(&told(&write(&token, &token)), &[("/position", &position), ("/sequence", &token)]);
    for beyond in ["9223372036854775808", "01", "-1"] {
        assert_eq!(write(beyond, "1").status.code(), Some(2), "{beyond}");
    }
}

/// In a header, in a batch, and registered; nothing of it leaves a trace.
async fn what_is_no_number_of_the_range_gets_in_nowhere(kind: Kind) {
    let gateway = start(kind).await;
    let client = &gateway.client;
    let numbers = [
        "9223372036854775808",
        "9223372036854775809",
        "18446744073709551615",
        "18446744073709551617",
        "99999999999999999999",
        "0",
        "00",
        "01",
        "0.01",
        "0.0",
        "00.1",
        "0.9223372036854775808",
        "9223372036854775808.1",
        "+1",
        "-1",
        "0.-1",
        "1e3",
        "0x10",
        "1_000",
        "1,000",
        "1 0",
        "",
        ".1",
        "1.",
    ];
    for text in numbers {
        put(client, "trusted/a", text, 1).await.refused(400, "invalid_token", "none");
    }
    for text in numbers.into_iter().chain([" 1", "1 ", "1\n", "\u{661}", "\u{ff11}"]) {
        let member = json!({"method": "PUT", "resource": "trusted/a", "fencing_token": text, "sequence": "1",
            "operation_id": "o", "body": "x"});
        let batch = client.post("/v1/writes", &json!({"writes": [member]})).await;
        batch.refused(400, "invalid_token", "none");
        let body = json!({"fencing_token": text, "reason": "got the lock"});
        for name in ["trusted/a", "registered/a"] {
            let answer = client.post(&format!("/v1/advance/{name}"), &body).await;
            answer.refused(400, "invalid_token", "none");
        }
    }
    // As a JSON number it may have been rounded before it came here.
    for token in [json!(1), json!(9_007_199_254_740_993_u64), json!(1.0)] {
        let body = json!({"fencing_token": token, "reason": "got the lock"});
        client.post("/v1/advance/trusted/a", &body).await.refused(422, "invalid_field", "none");
    }
    for name in ["trusted/a", "registered/a"] {
        client.get(&format!("/v1/resources/{name}")).await.refused(404, "not_found", "none");
    }
    gateway.stop().await;
}
