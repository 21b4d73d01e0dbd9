//! Tables for people, out of the gateway's JSON. Unknown fields are left out, missing ones too.

use std::fmt::Write as _;

use serde_json::Value;

/// One line for each fact that is there: a label, and the value that a JSON pointer leads to.
pub(super) fn facts(value: &Value, wanted: &[(&str, &str)]) -> String {
    let found: Vec<(&str, String)> =
        wanted.iter().filter_map(|(label, path)| Some((*label, shown(value.pointer(path)?)))).collect();
    pairs(&found)
}

/// Labels and texts in two columns.
pub(super) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or_default();
    let lines: Vec<String> = rows.iter().map(|(label, text)| format!("{label:<width$}  {text}")).collect();
    lines.join("\n")
}

/// A row for each item, a column for each wanted field.
pub(super) fn rows(items: &[Value], wanted: &[(&str, &str)]) -> String {
    let cells: Vec<Vec<String>> = items
        .iter()
        .map(|item| wanted.iter().map(|(_, path)| item.pointer(path).map_or_else(dash, shown)).collect())
        .collect();
    let widths: Vec<usize> = wanted
        .iter()
        .enumerate()
        .map(|(column, (label, _))| {
            let below = cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            below.max().unwrap_or_default().max(label.chars().count())
        })
        .collect();
    let heading: Vec<String> = wanted.iter().map(|(label, _)| (*label).to_owned()).collect();
    std::iter::once(&heading).chain(&cells).map(|row| aligned(row, &widths)).collect::<Vec<_>>().join("\n")
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        // Writing to a string cannot fail.
        write!(line, "{cell:<width$}  ").unwrap_or_default();
    }
    line.trim_end().to_owned()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => dash(),
        Value::String(text) => clean(text),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            clean(&other.to_string())
        }
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// The text without what could move a terminal's cursor or turn its writing around. A line end stays.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => c.to_string(),
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                c.escape_unicode().to_string()
            }
            _ if c.is_control() => c.escape_unicode().to_string(),
            _ => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_stand_in_two_columns_and_missing_ones_are_left_out() {
        let value = json!({"a": "x", "deep": {"b": null}, "n": 5});
        let text = facts(&value, &[("first", "/a"), ("b", "/deep/b"), ("gone", "/zzz"), ("number", "/n")]);
        assert_eq!(text, "first   x\nb       -\nnumber  5");
    }

    #[test]
    fn rows_are_as_wide_as_their_widest_cell() {
        let items = [json!({"id": "a", "s": "applied"}), json!({"id": "long-one"})];
        assert_eq!(
            rows(&items, &[("id", "/id"), ("state", "/s")]),
            "id        state\na         applied\nlong-one  -"
        );
        assert_eq!(rows(&[], &[("id", "/id"), ("state", "/s")]), "id  state");
    }

    #[test]
    fn nothing_from_outside_commands_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{202e}c\nd"), "a\\u{1b}[2Jb\\u{202e}c\nd");
        assert_eq!(facts(&json!({"h": "\u{7}"}), &[("holder", "/h")]), "holder  \\u{7}");
    }
}
