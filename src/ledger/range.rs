//! Which names a list of resources has, as a range that an index can follow.

use super::read::ResourceFilter;

/// Which names a filter lets through, compared byte by byte: at or after `from`, and before `before`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: String,
    /// None: no upper end.
    pub(super) before: Option<String>,
}

impl Range {
    pub(super) fn of(filter: &ResourceFilter) -> Self {
        let namespace = filter.namespace.as_ref().map(|namespace| format!("{namespace}/"));
        // No name holds a control character, so this is above `after` and not above any name that is.
        let after = filter.after.as_ref().map(|after| format!("{after}\u{1}"));
        let prefixes = [namespace.as_deref(), filter.prefix.as_deref()];
        let starts = prefixes.into_iter().chain([after.as_deref()]).flatten();
        Self {
            from: starts.max().unwrap_or_default().to_owned(),
            before: prefixes.into_iter().flatten().filter_map(successor).min(),
        }
    }
}

/// The first text after all those that begin with this one: its last character that can grow is one greater, and what
/// stood behind that is gone. None when there is no such text. The order of UTF-8 bytes is that of the characters.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_no_name_begins_with_it_any_more() {
        assert_eq!(successor("jobs/"), Some("jobs0".to_owned()));
        assert_eq!(successor("a%"), Some("a&".to_owned()));
        assert_eq!(successor("a\u{D7FF}"), Some("a\u{E000}".to_owned()));
        assert_eq!(successor("a\u{10FFFF}"), Some("b".to_owned()));
        assert_eq!(successor("\u{10FFFF}\u{10FFFF}"), None);
        assert_eq!(successor(""), None);
        for prefix in ["z", "é", "a\u{7F}", "日本"] {
            let end = successor(prefix).unwrap();
            let inside = format!("{prefix}\u{10FFFF}\u{10FFFF}");
            assert!(prefix < end.as_str() && inside.as_str() < end.as_str(), "{prefix:?}");
        }
    }
}
