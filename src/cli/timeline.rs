//! `fencegate timeline`: who held what, what was accepted, what was refused and why.

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Client, encoded};
use super::failure::Failure;
use super::inspect::ASK_AGAIN;
use super::output::Output;
use super::{table, words};
use crate::domain::resource::Path;
use crate::limits::PAGE_ITEMS;

/// What `timeline` takes.
#[derive(Args)]
pub(super) struct Timeline {
    /// The resource's name, such as statements/account-42/2026-09-13
    #[arg(value_parser = words::name)]
    resource: Path,
    /// At most so many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_ITEMS)))]
    limit: Option<u32>,
    /// Where an earlier page ended
    #[arg(long)]
    cursor: Option<String>,
}

impl Timeline {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let path = format!("/v1/timeline/{}", encoded(&self.resource));
        let mut request = client.request(Method::GET, &path);
        if let Some(limit) = self.limit {
            request = request.query(&[("limit", limit)]);
        }
        if let Some(cursor) = &self.cursor {
            request = request.query(&[("cursor", cursor)]);
        }
        let answer = client.ask(request, ASK_AGAIN).await?;
        output.answer(&answer.raw, || told(&answer.json))
    }
}

/// A page for people: what tells most of each line, in a few columns.
fn told(page: &Value) -> String {
    let items = page.pointer("/items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let lines: Vec<Value> = items.iter().map(line).collect();
    let columns = [
        ("at", "/at"),
        ("event", "/event"),
        ("position", "/position"),
        ("who or what", "/who"),
        ("more", "/more"),
    ];
    let mut text = table::rows(&lines, &columns);
    if let Some(cursor) = page.pointer("/next_cursor").and_then(Value::as_str) {
        text.push_str("\nmore with --cursor ");
        text.push_str(&table::clean(cursor));
    }
    text
}

fn line(item: &Value) -> Value {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    let number = |key: &str| item.get(key).and_then(Value::as_u64);
    let who = text("operation_id").or_else(|| text("holder"));
    let mut more: Vec<String> = Vec::new();
    more.extend(text("code").map(str::to_owned));
    more.extend(number("times").filter(|times| *times > 1).map(|times| format!("{times} times")));
    for key in ["method", "target", "sequence", "commit"] {
        more.extend(text(key).map(|value| format!("{key} {value}")));
    }
    more.extend(text("reason").map(str::to_owned));
    if item.get("kind").and_then(Value::as_str) == Some("act") {
        more.extend(text("about").filter(|about| !about.contains('/')).map(|about| format!("on {about}")));
    }
    json!({
        "at": item.get("at"),
        "event": item.get("event"),
        "position": item.get("position"),
        "who": who,
        "more": if more.is_empty() { None } else { Some(more.join(", ")) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_who_and_why() {
        let page = json!({"items": [
            {"at": "t3", "kind": "refusal", "event": "refused", "about": "a/b", "position": "0.1",
             "operation_id": "late", "code": "stale_token", "times": 7},
            {"at": "t2", "kind": "act", "event": "epoch_advanced", "about": "a", "position": "1.0", "reason": "restore"},
            {"at": "t1", "kind": "act", "event": "acquired", "about": "a/b", "position": "0.1", "holder": "alice"},
        ], "next_cursor": "c"});
        let text = told(&page);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("late") && lines[1].contains("stale_token, 7 times"), "{text}");
        assert!(lines[2].contains("restore, on a"), "{text}");
        assert!(lines[3].contains("acquired") && lines[3].contains("alice"), "{text}");
        assert_eq!(lines[4], "more with --cursor c");
    }
}
