//! Histories of a few lines, written by hand: what the judge makes of them takes no exam.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::exam;

/// What came of a history: the exit code, the table, the report, and what was complained of.
struct Judged {
    code: i32,
    told: String,
    report: Value,
    complaint: String,
}

impl Judged {
    fn last_line(&self) -> &str {
        self.told.lines().last().unwrap_or_default()
    }

    fn count(&self, rule: &str) -> u64 {
        self.report["violations"]["by_invariant"][rule].as_u64().unwrap_or_default()
    }
}

fn judged_text(text: &str) -> Judged {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("history.jsonl"), text).unwrap();
    let judge = |options: &[&str]| exam(folder.path()).args(options).arg(folder.path()).output().unwrap();
    let (table, json) = (judge(&["judge"]), judge(&["judge", "--json"]));
    assert_eq!(table.status.code(), json.status.code());
    Judged {
        code: table.status.code().unwrap(),
        told: String::from_utf8(table.stdout).unwrap(),
        report: serde_json::from_slice(&json.stdout).unwrap_or_default(),
        complaint: String::from_utf8(table.stderr).unwrap(),
    }
}

fn text(lines: &[Value]) -> String {
    let numbered = lines.iter().enumerate().map(|(at, is)| json!({"n": at + 1, "at": at * 1_000, "is": is}));
    let lines: Vec<String> = numbered.map(|line| line.to_string()).collect();
    lines.join("\n") + "\n"
}

fn judged(lines: &[Value]) -> Judged {
    judged_text(&text(lines))
}

/// A write of one owner to a store that compares positions, and its arrival there.
fn write(call: u64, operation: &str, digest: &str) -> [Value; 3] {
    [
        json!({"event": "sent", "call": call, "client": 1, "act": "write", "resource": "orders/a",
               "position": "0.1", "sequence": call, "operation": operation, "digest": digest}),
        json!({"event": "arrived", "store": "fence_aware", "resource": "orders/a", "method": "PUT", "applied": true,
               "status": 200, "position": "0.1", "operation": operation, "digest": digest, "incarnation": 1}),
        json!({"event": "answered", "call": call, "status": 200, "effect": "applied", "position": "0.1",
               "commit": call, "digest": "said"}),
    ]
}

fn read(digest: &str) -> [Value; 2] {
    [
        json!({"event": "sent", "call": 9, "client": 1, "act": "read", "resource": "orders/a"}),
        json!({"event": "answered", "call": 9, "status": 200, "digest": digest}),
    ]
}

/// An owner writes twice, and somebody reads. Nothing is wrong with it.
fn in_order() -> Vec<Value> {
    let mut lines = vec![
        json!({"event": "planned", "version": "0", "seed": 1, "engine": "sqlite", "replicas": 1, "fenced": true,
               "faults": ["TERM", "cut"], "namespaces": [
                 {"name": "orders", "class": "fence_aware", "policy": "ordered", "contract": "immediate"}]}),
        json!({"event": "sent", "call": 0, "client": 1, "act": "acquire", "resource": "orders/a", "request": "r",
               "ttl_ms": 1_000}),
        json!({"event": "answered", "call": 0, "status": 201,
               "granted": {"acquisition": "A", "position": "0.1", "state": "held"}}),
    ];
    lines.extend(write(1, "one", "first"));
    lines.extend(write(2, "two", "second"));
    lines.extend(read("second"));
    let booked = |operation: &str, commit: u64| {
        json!({"operation": operation, "incarnation": 1, "state": "applied", "position": "0.1",
               "sequence": commit, "commit": commit})
    };
    lines.push(json!({"event": "fault", "kind": "cut", "target": "a proxy", "ms": 5, "hit": 1}));
    lines.push(json!({"event": "closed", "resource": "orders/a", "booked": [booked("one", 1), booked("two", 2)],
                      "registers": {"incarnation": 1, "issued": "0.1", "floor": "0.1", "commit": 2, "epoch": 0},
                      "acquired": ["0.1"], "status": 200, "content": "second", "healed": true}));
    lines.push(json!({"event": "ended", "ms": 20}));
    lines
}

fn without(event: &str) -> Vec<Value> {
    let mut lines = in_order();
    lines.retain(|line| line["event"] != event);
    lines
}

#[test]
fn a_history_in_order_is_passed_and_tells_of_faults_that_never_came() {
    let judged = judged(&in_order());
    assert_eq!((judged.code, judged.last_line()), (0, "passed"), "{}", judged.told);
    let never = json!({"delivered": 0, "mattered": 0, "calls_met": 0});
    assert_eq!(judged.report["faults"]["TERM"], never, "{:#}", judged.report);
    assert_eq!(judged.report["faults"]["cut"]["delivered"], 1);
    assert_eq!(judged.report["acknowledged"], 2);
}

#[test]
fn a_history_that_shows_too_little_passes_nobody() {
    let mut nothing = in_order();
    nothing.drain(1..nothing.len() - 1);
    let mut early = in_order();
    early.last_mut().unwrap()["remarks"] = json!(["it was ended early by INT"]);
    let mut broken_off = text(&in_order());
    broken_off.truncate(broken_off.len() - 9);
    for (text, why) in [
        (text(&without("closed")), "no resource was judged; resources left open: 1"),
        (text(&without("ended")), "the history has no end: the exam was cut off"),
        (broken_off, "the history has no end: the exam was cut off"),
        (text(&without("planned")), "the history has no beginning"),
        (text(&nothing), "nothing was acknowledged"),
        (text(&early), "it was ended early by INT"),
        (String::new(), "the history has no end: the exam was cut off"),
    ] {
        let judged = judged_text(&text);
        assert_eq!(
            (judged.code, judged.report["passed"].as_bool()),
            (2, Some(false)),
            "{why}: {}",
            judged.told
        );
        let last = judged.last_line();
        assert!(last.starts_with("undecided: ") && last.contains(why), "{why}: {last}");
        assert_eq!(judged.report["verdict"], last);
    }
}

#[test]
fn a_history_whose_lines_are_not_numbered_one_after_the_other_is_refused() {
    let whole = text(&in_order());
    let lines: Vec<&str> = whole.lines().collect();
    let gap = [&lines[..4], &lines[5..]].concat().join("\n");
    let twice = [&lines[..4], &lines[3..]].concat().join("\n");
    for text in [gap, twice] {
        let judged = judged_text(&text);
        assert_eq!((judged.code, judged.told.as_str()), (2, ""));
        assert!(judged.complaint.contains("line 5, has the number"), "{}", judged.complaint);
    }
}

#[test]
fn what_is_found_is_found_though_the_history_has_no_end() {
    let mut lines = without("ended");
    lines.iter_mut().find(|line| line["event"] == "closed").unwrap()["content"] = json!("another");
    let judged = judged(&lines);
    assert_eq!((judged.code, judged.last_line()), (1, "FAILED: 1 violation"), "{}", judged.told);
    assert_eq!(judged.count("I3"), 1);
}

#[test]
fn a_read_of_a_store_shows_what_is_in_it() {
    let reads = |digest: &str, rule: &str| {
        let mut lines = in_order();
        let answer = lines.iter_mut().find(|line| line["event"] == "answered" && line["call"] == 9).unwrap();
        answer["digest"] = json!(digest);
        let judged = judged(&lines);
        assert_eq!((judged.code, judged.count(rule)), (1, 1), "{digest}: {}", judged.told);
    };
    reads("first", "I3");
    reads("nobody's", "I4");
    // What arrives while the read is under way may be shown, and may not.
    for digest in ["first", "second"] {
        let mut lines = in_order();
        let second = lines.iter().position(|line| line["digest"] == "second").unwrap();
        lines.retain(|line| line["call"] != 9);
        let [sent, answered] = read(digest);
        lines.insert(second + 2, answered);
        lines.insert(second, sent);
        let judged = judged(&lines);
        assert_eq!(judged.last_line(), "passed", "{digest}: {}", judged.told);
    }
}

#[test]
fn what_comes_for_a_closed_resource_is_counted_and_no_effect_comes_twice() {
    let late = |operation: &str| {
        let mut lines = in_order();
        let [sent, arrived, answered] = write(3, operation, "late");
        let end = lines.len() - 1;
        lines.splice(end..end, [sent, arrived, answered]);
        judged(&lines)
    };
    let another = late("three");
    assert_eq!((another.code, another.last_line()), (0, "passed"), "{}", another.told);
    assert_eq!(another.report["after_the_end_of_a_resource"], json!({"lines": 2, "effects": 1}));
    let again = late("one");
    assert_eq!((again.code, again.count("I2")), (1, 1), "{}", again.told);
}

/// Two who write past the gateway, in this order.
fn past_the_gateway(positions: [&str; 2]) -> Vec<Value> {
    let mut lines = without("closed");
    lines.retain(|line| ["planned", "ended"].iter().any(|event| line["event"] == *event));
    lines[0]["fenced"] = json!(false);
    lines[0]["namespaces"][0]["class"] = json!("unfenced");
    let end = lines.pop().unwrap();
    for (call, position) in (1_u64..).zip(positions) {
        let [mut sent, mut arrived, mut answered] = write(call, &format!("{call}"), position);
        (sent["position"], arrived["position"]) = (json!(position), json!(position));
        arrived["store"] = json!("unfenced");
        for name in ["effect", "position", "commit"] {
            answered.as_object_mut().unwrap().remove(name);
        }
        lines.extend([sent, arrived, answered]);
    }
    lines.push(json!({"event": "closed", "resource": "orders/a", "status": 404, "healed": true}));
    lines.push(end);
    lines
}

#[test]
fn past_the_gateway_a_stale_overwrite_is_what_passes() {
    let stale = judged(&past_the_gateway(["0.2", "0.1"]));
    let wanted = "passed: 1 stale overwrites, as there must be without the fence";
    assert_eq!((stale.code, stale.last_line()), (0, wanted), "{}", stale.told);
    assert_eq!(stale.report["acknowledged"], 2, "{:#}", stale.report);
    let blind = judged(&past_the_gateway(["0.1", "0.2"]));
    assert_eq!(blind.code, 1, "{}", blind.told);
    assert!(blind.last_line().starts_with("FAILED: no stale overwrite"), "{}", blind.told);
}

#[test]
fn the_help_of_judge_tells_the_exit_codes() {
    let told = exam(Path::new("/")).args(["judge", "--help"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("Exit codes:\n  0  no violation"), "{told}");
}
