//! Histories in which what an operator, a successor or a lane promises is broken by whoever changed them.

use serde_json::{Value, json};

use super::tampered::{Deed, acknowledged, calls, closing, effects, is};

pub(super) const DEEDS: [Deed; 19] = [
    ("an effect of what was revoked before it was sent", "I9", revoke_before_a_write),
    ("a commit after the call that revoked its position", "I10", revoke_before_a_commit),
    ("a commit after somebody had looked, and seen it fenced", "I10", look_before_a_commit),
    ("an effect in the store after the call that revoked it", "I10", revoke_before_an_effect),
    ("a call that revokes less than was granted", "I10", revoke_too_little),
    ("a write while the work is called off", "cancel", cancel_before_a_write),
    ("a grant while the work is called off", "cancel", cancel_before_a_grant),
    ("a position issued between a cancellation and a reopen", "cancel", issue_while_cancelled),
    ("a copy of a call is answered anew", "I5", answer_a_call_anew),
    ("a write of an epoch that has ended", "I9", begin_an_epoch_early),
    ("a grant of an epoch that has ended", "I8", begin_an_epoch_before_a_grant),
    ("an effect in the store of an epoch that has ended", "I10", begin_an_epoch_before_an_effect),
    ("an epoch that is begun twice", "I7", begin_an_epoch_twice),
    ("more epochs than calls", "I2", begin_an_epoch_twice),
    ("an epoch that falls", "I7", let_the_epoch_fall),
    ("somebody comes between the two of a transfer", "I17", come_between),
    ("the predecessor of a transfer holds on", "I17", hold_on),
    ("a grant while another acquisition lives", "I17", live_for_ever),
    ("two operations in one lane", "I11", crowd_a_lane),
];

/// A line that nobody wrote.
fn line(is: &Value) -> Value {
    json!({"n": 0, "at": 0, "is": is})
}

/// Puts a call and its answer before a line.
fn insert(history: &mut Vec<Value>, at: usize, sent: &Value, answered: &Value) {
    let call = 90_000_000 + history.len();
    let mut both = [line(sent), line(answered)];
    let time = history[at]["at"].clone();
    for (part, event) in both.iter_mut().zip(["sent", "answered"]) {
        part["at"] = time.clone();
        part["is"]["event"] = json!(event);
        part["is"]["call"] = json!(call);
        part["is"]["client"] = json!(0);
    }
    let [sent, answered] = both;
    history.insert(at, answered);
    history.insert(at, sent);
}

/// What an operator's call shows of a resource.
fn registers(issued: &str, revoked: &str, commit: u64) -> Value {
    json!({"incarnation": 1, "issued": issued, "floor": issued, "commit": commit, "revoked": revoked, "epoch": 0})
}

fn control(history: &mut Vec<Value>, at: usize, act: &str, resource: &str, shown: &Value) {
    let sent = json!({"act": act, "resource": resource, "operation": format!("{act} by hand")});
    insert(history, at, &sent, &json!({"status": 200, "digest": "d", "registers": shown}));
}

fn epoch(history: &mut Vec<Value>, at: usize, key: &str, number: u64) {
    let sent = json!({"act": "epoch", "resource": "*", "operation": key});
    insert(history, at, &sent, &json!({"status": 200, "digest": "d", "epoch": number}));
}

/// The first write that was acknowledged in a namespace: the line in which it was first sent, its resource, position, commit.
fn a_write(history: &[Value], namespace: &str) -> (usize, String, String, u64) {
    let (answer, resource, operation) =
        acknowledged(history).into_iter().find(|(_, resource, _)| resource.starts_with(namespace)).unwrap();
    let position = history[answer]["is"]["position"].as_str().unwrap().to_owned();
    let commit = history[answer]["is"]["commit"].as_u64().unwrap();
    let sent = |line: &Value| {
        is(line, "sent")
            && line["is"]["resource"] == resource.as_str()
            && line["is"]["operation"] == operation.as_str()
    };
    (history.iter().position(sent).unwrap(), resource, position, commit)
}

fn revoke_before_a_write(history: &mut Vec<Value>) {
    let (at, resource, position, _) = a_write(history, "ledger/");
    control(history, at, "revoke", &resource, &registers(&position, &position, 0));
}

fn revoke_before_a_commit(history: &mut Vec<Value>) {
    let (_, resource, _, commit) = a_write(history, "ledger/");
    let end =
        history.iter().position(|line| is(line, "closed") && line["is"]["resource"] == resource.as_str());
    control(history, end.unwrap(), "revoke", &resource, &registers("9.999", "9.999", commit - 1));
}

fn look_before_a_commit(history: &mut Vec<Value>) {
    let (_, resource, _, commit) = a_write(history, "ledger/");
    let end =
        history.iter().position(|line| is(line, "closed") && line["is"]["resource"] == resource.as_str());
    let end = end.unwrap();
    let grant = json!({"acquisition": "nobody's", "position": "9.999", "state": "held"});
    let look = json!({"act": "look", "resource": resource});
    insert(history, end, &look, &json!({"status": 200, "registers": registers("9.999", "0.0", commit - 1)}));
    let acquire = json!({"act": "acquire", "resource": resource, "request": "by hand", "ttl_ms": 1});
    insert(history, end, &acquire, &json!({"status": 201, "granted": grant}));
}

/// The line of an effect in a store, with its resource.
fn an_effect(history: &[Value]) -> (usize, String) {
    let at = effects(history, "fence_aware")[0];
    (at, history[at]["is"]["resource"].as_str().unwrap().to_owned())
}

fn revoke_before_an_effect(history: &mut Vec<Value>) {
    let (at, resource) = an_effect(history);
    control(history, at, "revoke", &resource, &registers("9.999", "9.999", 1_000_000));
}

fn revoke_too_little(history: &mut Vec<Value>) {
    let (at, resource, _) = a_grant(history);
    control(history, at + 1, "revoke", &resource, &registers("9.999", "0.0", 0));
}

/// No operator has touched the resource.
fn forget_calls_on(history: &mut Vec<Value>, resource: &str) {
    let is_one = |line: &Value| ["cancel", "reopen"].iter().any(|act| line["is"]["act"] == *act);
    history.retain(|line| !is_one(line) || line["is"]["resource"] != resource);
}

fn cancel_before_a_write(history: &mut Vec<Value>) {
    let (_, resource, _, _) = a_write(history, "ledger/");
    forget_calls_on(history, &resource);
    let (at, resource, _, _) = a_write(history, "ledger/");
    control(history, at, "cancel", &resource, &registers("0.0", "0.0", 0));
}

/// The line in which a lease was first granted, the resource, and the line in which it was first asked for.
fn a_grant(history: &[Value]) -> (usize, String, usize) {
    let calls = calls(history);
    let granted = |line: &Value| {
        is(line, "answered")
            && line["is"]["status"] == 201
            && line["is"]["granted"]["state"] == "held"
            && calls[&line["is"]["call"].as_u64().unwrap()]["act"] == "acquire"
    };
    let at = history.iter().position(granted).unwrap();
    let call = &calls[&history[at]["is"]["call"].as_u64().unwrap()];
    let same = |line: &Value| is(line, "sent") && line["is"]["request"] == call["request"];
    (at, call["resource"].as_str().unwrap().to_owned(), history.iter().position(same).unwrap())
}

fn cancel_before_a_grant(history: &mut Vec<Value>) {
    let (_, resource, _) = a_grant(history);
    forget_calls_on(history, &resource);
    let (_, resource, at) = a_grant(history);
    control(history, at, "cancel", &resource, &registers("0.0", "0.0", 0));
}

fn issue_while_cancelled(history: &mut Vec<Value>) {
    let (_, resource, _) = a_grant(history);
    forget_calls_on(history, &resource);
    let (at, resource, _) = a_grant(history);
    control(history, at, "reopen", &resource, &registers("0.8", "0.7", 0));
    control(history, at, "cancel", &resource, &registers("0.7", "0.7", 0));
}

fn answer_a_call_anew(history: &mut Vec<Value>) {
    let (at, resource, _) = a_grant(history);
    control(history, at, "revoke", &resource, &registers("0.0", "0.0", 0));
    let sent = json!({"act": "revoke", "resource": resource, "operation": "revoke by hand"});
    insert(
        history,
        at + 2,
        &sent,
        &json!({"status": 200, "digest": "another", "registers": registers("0.0", "0.0", 0)}),
    );
}

fn begin_an_epoch_early(history: &mut Vec<Value>) {
    let (at, _, _, _) = a_write(history, "ledger/");
    epoch(history, at, "by hand", 1_000);
}

fn begin_an_epoch_before_a_grant(history: &mut Vec<Value>) {
    let (_, _, at) = a_grant(history);
    epoch(history, at, "by hand", 1_000);
}

fn begin_an_epoch_before_an_effect(history: &mut Vec<Value>) {
    let (at, _) = an_effect(history);
    epoch(history, at, "by hand", 1_000);
}

fn begin_an_epoch_twice(history: &mut Vec<Value>) {
    let at = history.len() - 1;
    epoch(history, at, "another", 1_000);
    epoch(history, at, "by hand", 1_000);
}

fn let_the_epoch_fall(history: &mut Vec<Value>) {
    let calls = calls(history);
    let looked = |line: &Value| {
        is(line, "answered")
            && line["is"]["registers"]["epoch"].is_u64()
            && calls[&line["is"]["call"].as_u64().unwrap()]["act"] == "look"
    };
    let call = history.iter().find(|line| looked(line)).unwrap()["is"]["call"].clone();
    let at = history.iter().position(|line| is(line, "sent") && line["is"]["call"] == call).unwrap();
    epoch(history, at, "by hand", 1_000);
}

/// The line in which a lease was handed over, and the call.
fn a_transfer(history: &[Value]) -> (usize, Value) {
    let calls = calls(history);
    let done = |line: &Value| {
        is(line, "answered")
            && line["is"]["granted"]["state"] == "held"
            && calls[&line["is"]["call"].as_u64().unwrap()]["act"] == "transfer"
    };
    let at = history.iter().position(done).unwrap();
    (at, calls[&history[at]["is"]["call"].as_u64().unwrap()].clone())
}

fn come_between(history: &mut Vec<Value>) {
    let (at, _) = a_transfer(history);
    let position = history[at]["is"]["granted"]["position"].as_str().unwrap().to_owned();
    let (epoch, token) = position.split_once('.').unwrap();
    let beyond = format!("{epoch}.{}", token.parse::<u64>().unwrap() + 1);
    history[at]["is"]["granted"]["position"] = json!(beyond);
}

fn hold_on(history: &mut Vec<Value>) {
    let (at, call) = a_transfer(history);
    let acquisition = &call["acquisition"];
    let before = history.iter().find(|line| line["is"]["granted"]["acquisition"] == *acquisition).unwrap();
    let granted = before["is"]["granted"].clone();
    let renew =
        json!({"act": "renew", "resource": call["resource"], "acquisition": acquisition, "ttl_ms": 1});
    insert(history, at + 1, &renew, &json!({"status": 200, "granted": granted}));
}

/// Every lease is asked for as if it were to last.
fn live_for_ever(history: &mut Vec<Value>) {
    for line in history.iter_mut().filter(|line| is(line, "sent") && line["is"]["act"] == "acquire") {
        line["is"]["ttl_ms"] = json!(600_000);
    }
}

/// Another operation reaches the store, and the one before it is undecided after that.
fn crowd_a_lane(history: &mut Vec<Value>) {
    let at = effects(history, "idempotent")[0];
    let mut other = history[at].clone();
    let (operation, resource) = (other["is"]["operation"].clone(), other["is"]["resource"].clone());
    let name = resource.as_str().unwrap().to_owned();
    assert!(closing(history, &name)["booked"].is_array());
    let read = json!({"act": "write", "resource": resource, "operation": operation});
    let told = json!({"status": 409, "code": "operation_in_progress", "effect": "unknown"});
    insert(history, at + 1, &read, &told);
    other["is"]["operation"] = json!("beside-it");
    history.insert(at + 1, other);
}
