//! The least that a load generator must read of an HTTP/1.1 answer: status, length, `ETag`.
//!
//! It reads what a server of this bench sends and refuses everything else by name, so that an answer is never counted
//! that was not read to its end.

use std::ops::Range;

/// An answer whose bytes are all there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status code.
    pub(super) status: u16,
    /// Where the entity tag stands, quotes included.
    pub(super) etag: Option<Range<usize>>,
    /// Where the body begins.
    pub(super) body: usize,
    /// How many bytes head and body have together.
    pub(super) length: usize,
}

/// What some bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The beginning of an answer.
    Part,
    /// At least one whole answer.
    Whole(Answer),
    /// No answer that this reader understands.
    Foreign(&'static str),
}

/// Reads the answer at the start of these bytes.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Parsed::Part };
    let head = bytes.get(..end).unwrap_or_default();
    let Some(status) = status(head) else { return Parsed::Foreign("no status line of HTTP/1.1") };
    let mut length = None;
    let mut etag = None;
    for line in lines(head) {
        let Some(colon) = line.text.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.text.split_at(colon);
        if name.eq_ignore_ascii_case(b"content-length") {
            length = number(value.get(1..).unwrap_or_default().trim_ascii());
        } else if name.eq_ignore_ascii_case(b"etag") {
            let value = value.get(1..).unwrap_or_default();
            let blank = value.iter().take_while(|byte| **byte == b' ').count();
            let from = line.at.saturating_add(colon).saturating_add(1).saturating_add(blank);
            etag = Some(from..from.saturating_add(value.trim_ascii().len()));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Parsed::Foreign("a body in chunks");
        }
    }
    let Some(length) = length else { return Parsed::Foreign("no content-length") };
    let body = end.saturating_add(4);
    let length = body.saturating_add(length);
    if bytes.len() < length { Parsed::Part } else { Parsed::Whole(Answer { status, etag, body, length }) }
}

/// A line of a head.
pub(super) struct Line<'a> {
    /// Where it begins.
    at: usize,
    /// All of it, without its end.
    pub(super) text: &'a [u8],
}

/// The header lines, with where each begins.
pub(super) fn lines(head: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut at = 0_usize;
    head.split(|byte| *byte == b'\n').map(move |text| {
        let line = Line { at, text: text.strip_suffix(b"\r").unwrap_or(text) };
        at = at.saturating_add(text.len()).saturating_add(1);
        line
    })
}

fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.1 ")?;
    let status = number(rest.get(..3)?)?;
    u16::try_from(status).ok()
}

/// A decimal number.
pub(super) fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\nETag: \"1.42\"\r\n\
        Content-Length: 7\r\n\r\n{\"a\":1}";

    #[test]
    fn a_whole_answer_has_its_status_its_tag_and_its_length() {
        let Parsed::Whole(answer) = parse(ANSWER) else { panic!("not whole") };
        assert_eq!(answer.status, 201);
        assert_eq!(answer.length, ANSWER.len());
        assert_eq!(&ANSWER[answer.body..], b"{\"a\":1}");
        assert_eq!(&ANSWER[answer.etag.unwrap()], b"\"1.42\"");
    }

    #[test]
    fn every_beginning_of_an_answer_is_a_part() {
        for length in 0..ANSWER.len() {
            assert_eq!(parse(&ANSWER[..length]), Parsed::Part, "{length}");
        }
    }

    #[test]
    fn what_follows_belongs_to_the_next_answer() {
        let two = [ANSWER, b"HTTP/1.1 2"].concat();
        let Parsed::Whole(answer) = parse(&two) else { panic!("not whole") };
        assert_eq!(answer.length, ANSWER.len());
    }

    #[test]
    fn what_is_not_understood_is_not_counted() {
        for (bytes, why) in [
            (&b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"[..], "no status line of HTTP/1.1"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "a body in chunks"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "no content-length"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "no content-length"),
        ] {
            assert_eq!(parse(bytes), Parsed::Foreign(why));
        }
    }
}
