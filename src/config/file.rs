//! The configuration file's text: TOML, read as far as it can be read.

use toml_edit::{Document, TomlError};

use super::draft::Draft;
use super::mistake::Mistakes;
use super::origin::{FileText, Origin};
use super::walk;
use crate::limits::SYNTAX_PASSES;

/// Takes everything that the file says. A broken line costs that line, not the rest.
pub(super) fn take(file: FileText<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    let lines = file.lines();
    let origin = Origin::File { file, lines: &lines };
    if let Some(document) = parse(file.text, origin, mistakes) {
        walk::root(document.as_table(), origin, draft, mistakes);
    }
}

/// Parses the text. The parser stops at its first mistake; so a broken line is noted, blanked, and the text is read
/// again, as long as the break is sure not to reach beyond its line.
fn parse(text: &str, origin: Origin<'_>, mistakes: &mut Mistakes) -> Option<Document<String>> {
    let mut text = text.to_owned();
    for _ in 0..SYNTAX_PASSES {
        let error = match Document::parse(text.clone()) {
            Ok(document) => return Some(document),
            Err(error) => earliest(&text, error),
        };
        let at = offset(&error, &text);
        mistakes.note(&origin.place(at), "", format!("this is not TOML: {}", error.message()));
        text = without_line(&text, at)?;
    }
    None
}

/// The parser looks at structure before it looks at values, so that its first mistake is not the topmost one.
fn earliest(text: &str, mut error: TomlError) -> TomlError {
    for _ in 0..SYNTAX_PASSES {
        let start = line_start(text, offset(&error, text));
        let Some(Err(above)) = text.get(..start).map(Document::parse) else { break };
        error = above;
    }
    error
}

fn offset(error: &TomlError, text: &str) -> usize {
    error.span().map_or(text.len(), |span| span.start)
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at.saturating_add(1))
}

/// The text with the line around `at` made blank, byte for byte, so that all other places stay where they are.
fn without_line(text: &str, at: usize) -> Option<String> {
    let start = line_start(text, at);
    let (head, rest) = text.split_at_checked(start)?;
    let (line, tail) = rest.split_at_checked(rest.find('\n').unwrap_or(rest.len()))?;
    is_one_statement(line).then(|| format!("{head}{}{tail}", " ".repeat(line.len())))
}

/// Whether a line is `key = value` with nothing open at its end. A broken `[table]` line is not: without it the keys
/// below would be told as mistakes of another table.
fn is_one_statement(line: &str) -> bool {
    let count = |wanted: char| line.chars().filter(|found| *found == wanted).count();
    !line.trim_start().starts_with('[')
        && line.contains('=')
        && count('[') == count(']')
        && count('{') == count('}')
        && !line.contains("\"\"\"")
        && !line.contains("'''")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn mistakes_of(text: &str) -> Vec<String> {
        let mut mistakes = Mistakes::default();
        take(FileText { path: Path::new("f.toml"), text }, &mut Draft::default(), &mut mistakes);
        mistakes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_broken_line_hides_no_other_mistake() {
        // The parser alone would tell of line 1 and nothing else.
        let told =
            mistakes_of("listen = 127.0.0.1:8080\ndatabse = \"memory\"\nmax_body_bytes = = 1\nscope = 1\n");
        assert_eq!(told.len(), 4, "{told:#?}");
        for (line, told) in (1..).zip(&told) {
            assert!(told.starts_with(&format!("f.toml:{line}:")), "{told}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_one_mistake_at_its_second_place() {
        let told = mistakes_of("listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\nfoo = 1\n");
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(
            told.first().is_some_and(|told| told.starts_with("f.toml:2:1: this is not TOML")),
            "{told:#?}"
        );
    }

    #[test]
    fn a_table_that_is_never_closed_is_told_once() {
        // What follows an open brace cannot be told apart from its content.
        let told = mistakes_of(
            "[namespaces.a]\nlease = { ttl_ms = 5\npolicy = \"single\"\ncontract = \"observed\"\n",
        );
        assert_eq!(told.len(), 1, "{told:#?}");
    }

    #[test]
    fn a_broken_header_makes_no_mistakes_of_the_keys_below_it() {
        let told = mistakes_of("[namespaces.a\npolicy = \"single\"\n");
        assert_eq!(told.len(), 1, "{told:#?}");
    }

    #[test]
    fn no_text_makes_it_panic_or_loop() {
        let long = "a = = 1\n".repeat(200);
        for text in ["", "\u{feff}", "=", "\n\n", "é = ö", "[", "]]", "a = \"\"\"", "a.b.c", "a = '", &long]
        {
            mistakes_of(text);
        }
    }
}
