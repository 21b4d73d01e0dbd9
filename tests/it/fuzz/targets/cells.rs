//! Stamps in JSON and pointer cells: the stamp goes in and is found, all else keeps its spelling, and whoever wrote a cell
//! leads the gateway nowhere.

use fencegate::domain::cell::{PointerCell, Unfit, has_place, stamp_text, stamped};
use fencegate::domain::upstream::Stamp;
use serde_json::{Map, Value};

use super::{Met, Target, cut, text};

pub(super) const TARGET: Target = Target {
    name: "cells",
    run,
    longest: 1_000,
    words: &[
        "/_f",
        "/a/b",
        "/a~1b",
        "/~0",
        "/",
        "~",
        "~01",
        "{",
        "}",
        "\"_f\"",
        "\"a\":",
        "null",
        "[1, 2e400]",
        "1.50",
        "\\u0061",
        "\\/",
        "fg1;c;1;0.1;1;publish",
        "\"fencegate\":1",
        "\"stamp\":",
        "\"content\":\"1-0.1-00\"",
        "..",
        "%2e",
        "\"content_type\":\"a/b\"",
    ],
    meets: &["stamped", "unfit", "found", "nothing there", "pointer cell read", "pointer cell refused"],
};

/// A pointer in the first line, a body in the rest.
fn run(data: &[u8], met: &mut Met) {
    let (pointer, body) = cut(data, b'\n');
    pointer_cell(body, met);
    let Some(pointer) = text(pointer) else { return };
    let stamp: Stamp = "fg1;c;1;0.1;1;publish".parse().expect("a stamp");
    let there = stamp_text(body, pointer);
    met.note(match &there {
        Ok(Some(_)) => "found",
        Ok(None) => "nothing there",
        Err(_) => "unfit",
    });
    match stamped(body, pointer, &stamp) {
        Err(why) => {
            assert!(why != Unfit::Occupied || has_place(body, pointer) == Err(Unfit::Occupied), "{why}");
            assert!(has_place(body, pointer).is_err() || depth_of(body) > 100, "there was a place");
        }
        Ok(new) => {
            met.note("stamped");
            assert_eq!(has_place(body, pointer), Ok(()), "it was given a stamp");
            assert_eq!(stamp_text(&new, pointer), Ok(Some(stamp.to_string())), "the stamp is found again");
            assert_eq!(stamped(&new, pointer, &stamp).as_deref(), Ok(&new[..]), "twice is once");
            assert!(
                new.len() <= body.len() * 2 + pointer.len() * 8 + 64,
                "{} bytes of {}",
                new.len(),
                body.len()
            );
            same_but(body, &new, pointer);
        }
    }
}

fn depth_of(body: &[u8]) -> usize {
    body.iter().filter(|byte| matches!(byte, b'[' | b'{')).count()
}

/// Apart from the stamp, and the objects that were made for it, both are the same document, where a plain reader takes it.
fn same_but(old: &[u8], new: &[u8], pointer: &str) {
    let (Ok(old), Ok(new)) = (serde_json::from_slice::<Value>(old), serde_json::from_slice::<Value>(new))
    else {
        return;
    };
    let steps: Vec<String> =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    assert!(same_beside(Some(&old), &new, &steps), "all that is not the stamp's stays: {old} {new}");
}

fn same_beside(old: Option<&Value>, new: &Value, steps: &[String]) -> bool {
    let Some((step, below)) = steps.split_first() else { return true };
    let (nothing, Some(new)) = (Map::new(), new.as_object()) else { return false };
    let old = old.and_then(Value::as_object).unwrap_or(&nothing);
    let others = |members: &Map<String, Value>| -> Vec<(String, Value)> {
        let others = members.iter().filter(|(name, _)| *name != step);
        others.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    others(old) == others(new) && new.get(step).is_some_and(|new| same_beside(old.get(step), new, below))
}

fn pointer_cell(body: &[u8], met: &mut Met) {
    let Some(cell) = PointerCell::read(body) else { return met.note("pointer cell refused") };
    met.note("pointer cell read");
    assert_eq!(PointerCell::read(&cell.written()).as_ref(), Some(&cell), "a cell reads as it is written");
    if let Some(content) = &cell.content {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        assert!(content.bytes().all(plain) && content.contains('-'), "{content:?} leads elsewhere");
        assert!(!["", ".", ".."].contains(&content.as_str()));
    }
}
