//! Histories that somebody changed: each breaks one promise, and the judge must name it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{condemned, operators};

/// Something that is done to a history, and the invariant that it breaks.
pub(super) type Deed = (&'static str, &'static str, fn(&mut Vec<Value>));

const DEEDS: [Deed; 21] = [
    ("an acknowledged write is not in the books", "I3", forget_a_write),
    ("the content at the end is another one", "I3", change_the_content),
    ("an effect is missing in the store's log", "I3", forget_an_effect),
    ("a reader is shown an old commit", "I3", show_an_old_commit),
    ("two grants with one token", "I8", grant_a_token_twice),
    ("a grant falls behind another", "I8", grant_a_lower_token),
    ("an older position after a newer one", "I1", exchange_two_commits),
    ("an older effect after a newer one in the store", "I1", exchange_two_effects),
    ("a replay of another payload", "I6", replay_another_payload),
    ("a replay with other bytes", "I5", replay_other_bytes),
    ("an effect twice in the store", "I2", repeat_an_effect),
    ("one commit number for two", "I2", share_a_commit),
    ("an effect of an operation that was answered none", "I4", answer_none),
    ("an effect that nobody knows", "I12", invent_an_effect),
    ("a send without a validator", "I13", drop_a_validator),
    ("registers that fall", "I7", let_registers_fall),
    ("a counter that has more than there was", "I19", count_too_much),
    ("two publications of one generation", "I14", publish_twice),
    ("an older life takes effect after a newer one", "I16", exchange_two_lives),
    ("one of two resources lacks what was written to both", "I18", forget_one_half),
    ("a resource that does not come to an end", "I20", leave_open),
];

/// Does each of them to a copy.
pub(super) fn each_is_condemned(exam: &Path) {
    let text = fs::read_to_string(exam.join("history.jsonl")).unwrap();
    let history: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut missed = Vec::new();
    for (what, rule, deed) in DEEDS.into_iter().chain(operators::DEEDS) {
        let mut changed = history.clone();
        deed(&mut changed);
        assert!(changed != history, "nothing was done: {what}");
        for (n, line) in changed.iter_mut().enumerate() {
            line["n"] = json!(n + 1);
        }
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = changed.iter().map(Value::to_string).collect();
        fs::write(folder.path().join("history.jsonl"), lines.join("\n")).unwrap();
        let found = condemned(folder.path());
        if !found.iter().any(|one| one == rule) {
            missed.push(format!("{what}: {rule} is not among {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

pub(super) fn is(line: &Value, event: &str) -> bool {
    line["is"]["event"] == event
}

/// Calls by their numbers.
pub(super) fn calls(history: &[Value]) -> HashMap<u64, Value> {
    let sent = history.iter().filter(|line| is(line, "sent"));
    sent.map(|line| (line["is"]["call"].as_u64().unwrap(), line["is"].clone())).collect()
}

/// The indices of answers with an effect, each with its resource and operation; of the first answer of each operation.
pub(super) fn acknowledged(history: &[Value]) -> Vec<(usize, String, String)> {
    let calls = calls(history);
    let mut found = Vec::new();
    for (index, line) in history.iter().enumerate() {
        if is(line, "answered") && line["is"]["effect"] == "applied" && line["is"]["commit"].is_u64() {
            let call = &calls[&line["is"]["call"].as_u64().unwrap()];
            let text = |name: &str| call[name].as_str().unwrap().to_owned();
            found.push((index, text("resource"), text("operation")));
        }
    }
    found
}

pub(super) fn closing<'a>(history: &'a mut [Value], resource: &str) -> &'a mut Value {
    history
        .iter_mut()
        .find(|line| is(line, "closed") && line["is"]["resource"] == resource)
        .map(|line| &mut line["is"])
        .unwrap()
}

/// What a closing says of operations. A history leaves it out where there are none, and so does this.
fn books_of(line: &mut Value) -> Option<&mut Vec<Value>> {
    line["is"].get_mut("booked")?.as_array_mut()
}

fn forget_a_write(history: &mut Vec<Value>) {
    let (_, resource, operation) = acknowledged(history).remove(0);
    let booked = closing(history, &resource)["booked"].as_array_mut().unwrap();
    booked.retain(|one| one["operation"] != operation.as_str());
}

fn change_the_content(history: &mut Vec<Value>) {
    let closed = history.iter_mut().find(|line| is(line, "closed") && line["is"]["content"].is_string());
    closed.unwrap()["is"]["content"] = json!("000000000000000000000000");
}

/// An effect in a store of an operation that was acknowledged.
pub(super) fn effects(history: &[Value], store: &str) -> Vec<usize> {
    let known: Vec<(String, String)> =
        acknowledged(history).into_iter().map(|(_, resource, operation)| (resource, operation)).collect();
    let wanted = |line: &Value| {
        let text = |name: &str| line["is"][name].as_str().unwrap_or_default().to_owned();
        is(line, "arrived")
            && line["is"]["applied"] == true
            && (store.is_empty() || line["is"]["store"] == store)
            && known.contains(&(text("resource"), text("operation")))
    };
    history.iter().enumerate().filter(|(_, line)| wanted(line)).map(|(index, _)| index).collect()
}

fn forget_an_effect(history: &mut Vec<Value>) {
    let index = effects(history, "idempotent")[0];
    history.remove(index);
}

fn show_an_old_commit(history: &mut Vec<Value>) {
    let (index, resource, _) =
        acknowledged(history).into_iter().find(|(_, resource, _)| resource.starts_with("ledger/")).unwrap();
    let at = history[index]["at"].clone();
    let sent = json!({"n": 0, "at": at, "is": {"event": "sent", "call": 99_000_000, "client": 0, "act": "read", "resource": resource}});
    let read = json!({"n": 0, "at": at, "is": {"event": "answered", "call": 99_000_000, "status": 200, "commit": 0,
                      "etag": "\"1.0\"", "digest": "000000000000000000000000"}});
    history.insert(index + 1, sent);
    history.insert(index + 2, read);
}

/// Two first grants of one resource.
fn two_grants(history: &[Value]) -> (usize, usize) {
    let calls = calls(history);
    let mut first: HashMap<String, usize> = HashMap::new();
    for (index, line) in history.iter().enumerate() {
        if is(line, "answered") && line["is"]["status"] == 201 && line["is"]["granted"].is_object() {
            let resource =
                calls[&line["is"]["call"].as_u64().unwrap()]["resource"].as_str().unwrap().to_owned();
            if let Some(before) = first.insert(resource, index) {
                return (before, index);
            }
        }
    }
    panic!("no resource was granted twice")
}

fn grant_a_token_twice(history: &mut Vec<Value>) {
    let (one, other) = two_grants(history);
    history[other]["is"]["granted"]["position"] = history[one]["is"]["granted"]["position"].clone();
}

fn grant_a_lower_token(history: &mut Vec<Value>) {
    let (_, other) = two_grants(history);
    history[other]["is"]["granted"]["position"] = json!("0.0");
}

/// Two operations of one document that took effect under two positions.
fn exchange_two_commits(history: &mut Vec<Value>) {
    for line in history.iter_mut().filter(|line| is(line, "closed")) {
        let Some(booked) = books_of(line) else { continue };
        let numbered: Vec<usize> =
            (0..booked.len()).filter(|index| booked[*index]["commit"].is_u64()).collect();
        let pair =
            numbered.windows(2).find(|pair| booked[pair[0]]["position"] != booked[pair[1]]["position"]);
        if let Some(pair) = pair {
            let commit = booked[pair[0]]["commit"].take();
            booked[pair[0]]["commit"] = booked[pair[1]]["commit"].take();
            booked[pair[1]]["commit"] = commit;
            return;
        }
    }
}

fn exchange_two_effects(history: &mut Vec<Value>) {
    // Not every store is told positions: the books have them, once for an operation that was in one life alone.
    let mut booked: HashMap<(&Value, &Value), Vec<&Value>> = HashMap::new();
    for line in history.iter().filter(|line| is(line, "closed")) {
        for one in line["is"]["booked"].as_array().into_iter().flatten() {
            booked.entry((&line["is"]["resource"], &one["operation"])).or_default().push(&one["position"]);
        }
    }
    let position = |index: usize| {
        let found = booked.get(&(&history[index]["is"]["resource"], &history[index]["is"]["operation"]))?;
        if let [position] = found.as_slice() { Some(*position) } else { None }
    };
    let applied = |index: &usize| is(&history[*index], "arrived") && history[*index]["is"]["applied"] == true;
    let all: Vec<usize> =
        (0..history.len()).filter(applied).filter(|index| position(*index).is_some()).collect();
    let differ = |one: usize, other: usize| {
        history[one]["is"]["resource"] == history[other]["is"]["resource"] && position(one) != position(other)
    };
    let pair = all.iter().enumerate().find_map(|(at, one)| {
        all[at + 1..].iter().find(|other| differ(*one, **other)).map(|other| (*one, *other))
    });
    let (one, other) = pair.unwrap();
    let kept = history[one]["is"].take();
    history[one]["is"] = history[other]["is"].take();
    history[other]["is"] = kept;
}

/// A replayed answer, by its index.
fn replayed(history: &[Value]) -> usize {
    let known = acknowledged(history);
    let index = known.iter().find(|(index, resource, operation)| {
        let first = known.iter().find(|(_, one, other)| one == resource && other == operation).unwrap();
        history[*index]["is"]["replayed"] == true && first.0 != *index
    });
    index.unwrap().0
}

fn replay_another_payload(history: &mut Vec<Value>) {
    let call = history[replayed(history)]["is"]["call"].clone();
    let sent = history.iter_mut().find(|line| is(line, "sent") && line["is"]["call"] == call).unwrap();
    sent["is"]["digest"] = json!("000000000000000000000000");
    sent["is"]["act"] = json!("write");
}

fn replay_other_bytes(history: &mut Vec<Value>) {
    let index = replayed(history);
    history[index]["is"]["digest"] = json!("000000000000000000000000");
}

fn repeat_an_effect(history: &mut Vec<Value>) {
    let index = effects(history, "")[0];
    let effect = history[index].clone();
    history.insert(index + 1, effect);
}

fn share_a_commit(history: &mut Vec<Value>) {
    let closed = history.iter_mut().filter(|line| is(line, "closed"));
    for line in closed {
        let Some(booked) = books_of(line).filter(|booked| booked.len() > 1) else { continue };
        if booked[0]["commit"].is_u64() && booked[1]["commit"].is_u64() {
            booked[0]["commit"] = booked[1]["commit"].clone();
            return;
        }
    }
}

/// All answers of an operation that was delivered once say that it had no effect.
fn answer_none(history: &mut Vec<Value>) {
    let deliveries = |operation: &str, resource: &str| {
        let same = |line: &&Value| {
            (is(line, "sent") || is(line, "again"))
                && line["is"]["operation"] == operation
                && line["is"]["resource"] == resource
        };
        history.iter().filter(same).count()
    };
    let known = acknowledged(history);
    let once = known.iter().find(|(_, resource, operation)| deliveries(operation, resource) == 1).unwrap();
    let answer = &mut history[once.0]["is"];
    let call = answer["call"].clone();
    *answer =
        json!({"event": "answered", "call": call, "status": 412, "code": "stale_token", "effect": "none"});
}

fn invent_an_effect(history: &mut Vec<Value>) {
    let index = effects(history, "idempotent")[0];
    let mut effect = history[index].clone();
    effect["is"]["operation"] = json!("nobody-sent-it");
    history.insert(index + 1, effect);
}

fn drop_a_validator(history: &mut Vec<Value>) {
    let index = effects(history, "conditional")[0];
    history[index]["is"].as_object_mut().unwrap().remove("base");
}

fn let_registers_fall(history: &mut Vec<Value>) {
    let shown = history.iter().find(|line| {
        is(line, "answered") && line["is"]["registers"]["commit"].as_u64().is_some_and(|commit| commit > 0)
    });
    let call = shown.unwrap()["is"]["call"].as_u64().unwrap();
    let resource = calls(history)[&call]["resource"].as_str().unwrap().to_owned();
    closing(history, &resource)["registers"]["commit"] = json!(0);
}

fn count_too_much(history: &mut Vec<Value>) {
    let (_, resource, _) = acknowledged(history).remove(0);
    let commit = &mut closing(history, &resource)["registers"]["commit"];
    *commit = json!(commit.as_u64().unwrap() + 1);
}

/// The first closing of a resource of a namespace with two commits, and where these two are in its books.
fn first_two_commits<'a>(history: &'a mut [Value], namespace: &str) -> (&'a mut Value, usize, usize) {
    let found = history.iter_mut().filter(|line| is(line, "closed")).find_map(|line| {
        let is_of_it = line["is"]["resource"].as_str().unwrap().starts_with(namespace);
        let booked = line["is"]["booked"].as_array().filter(|_| is_of_it)?;
        let with = |commit: u64| booked.iter().position(|one| one["commit"] == commit);
        let (one, other) = (with(1)?, with(2)?);
        Some((&mut line["is"]["booked"], one, other))
    });
    found.unwrap()
}

fn publish_twice(history: &mut Vec<Value>) {
    let (booked, one, other) = first_two_commits(history, "papers/");
    booked[other]["position"] = booked[one]["position"].clone();
}

fn exchange_two_lives(history: &mut Vec<Value>) {
    let (booked, one, other) = first_two_commits(history, "ledger/");
    booked[one]["incarnation"] = json!(booked[other]["incarnation"].as_u64().unwrap() + 1);
}

fn forget_one_half(history: &mut Vec<Value>) {
    let half = history.iter_mut().find(|line| {
        let resource = line["is"]["resource"].as_str().unwrap_or_default();
        is(line, "closed") && resource.starts_with("pairs/") && line["is"]["booked"][0]["state"] == "applied"
    });
    half.unwrap()["is"]["booked"].as_array_mut().unwrap().remove(0);
}

fn leave_open(history: &mut Vec<Value>) {
    let closed = history.iter_mut().find(|line| is(line, "closed")).unwrap();
    closed["is"]["unknown"] = json!("an operation is undecided for ever");
}
