//! The bytes of a connection: whoever looks for requests with two lengths sees what a reader of heads sees that was written
//! apart (httparse, which hyper reads heads with), however the bytes are cut.

use fencegate::app::fuzzing::one_length;
use httparse::{EMPTY_HEADER, Request, Status};

use super::{Met, Target};

pub(super) const TARGET: Target = Target {
    name: "framing",
    run,
    longest: 1_000,
    words: &[
        "GET / HTTP/1.1\r\n",
        "PUT /a HTTP/1.1\r\n",
        "PUT /a HTTP/1.0\r\n",
        "Host: x\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 3\r\n",
        "content-length:3\n",
        "\r\n",
        "\n",
        "\r",
        "\r\n\r\n",
        " ",
        "\t",
        ":",
        "3\r\nabc\r\n0\r\n\r\n",
        "Content-Length: 0\r\n",
        "Transfer-Encoding:\r\n",
        "transfer-encoding : chunked\r\n",
        "X: ",
        "Content-Length: +3\r\n",
        ", 3",
        "\x0b",
        "Content-Length: 9999999999999999999999\r\n",
    ],
    meets: &["one length", "two lengths", "a body before", "broken", "no chunks"],
};

/// What the bytes of a connection are up to its first request in chunks.
#[derive(Debug, PartialEq)]
enum Seen {
    OneLength,
    TwoLengths,
    /// Nothing of the kind came, or hyper ends the connection before.
    Neither,
}

fn run(data: &[u8], met: &mut Met) {
    let seen = if is_padded(data) { Seen::Neither } else { reference(data, met) };
    met.note(match seen {
        Seen::OneLength => "one length",
        Seen::TwoLengths => "two lengths",
        Seen::Neither => "no chunks",
    });
    let whole = one_length([data]);
    for piece in [1, 2, 3, 7, 64] {
        assert_eq!(one_length(data.chunks(piece)), whole, "in pieces of {piece}");
    }
    match seen {
        Seen::OneLength => assert!(whole, "a request that is as it should be is refused"),
        Seen::TwoLengths => assert!(!whole, "a request with two lengths is let through"),
        Seen::Neither => {}
    }
}

/// Whether there is a length so far behind its name that it is not waited for: then a request in chunks is refused.
fn is_padded(data: &[u8]) -> bool {
    data.split(|byte| *byte == b'\n').any(|line| {
        let name = line.get(..15).unwrap_or_default();
        line.len() >= 64 && name.eq_ignore_ascii_case(b"content-length:")
    })
}

fn reference(mut data: &[u8], met: &mut Met) -> Seen {
    loop {
        let mut fields = [EMPTY_HEADER; 64];
        let mut head = Request::new(&mut fields);
        let Ok(Status::Complete(length)) = head.parse(data) else {
            met.note("broken");
            return Seen::Neither;
        };
        let values = |name: &str| -> Vec<Vec<u8>> {
            let named = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            named.map(|field| field.value.to_vec()).collect()
        };
        let (codings, lengths) = (values("transfer-encoding"), values("content-length"));
        let digits = |value: &Vec<u8>| {
            let plain = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            if plain { std::str::from_utf8(value).ok()?.parse::<u64>().ok() } else { None }
        };
        if !codings.is_empty() {
            return if lengths.is_empty() { Seen::OneLength } else { Seen::TwoLengths };
        }
        let read: Vec<Option<u64>> = lengths.iter().map(digits).collect();
        let body = match read.as_slice() {
            [] => 0,
            [Some(first), others @ ..] if others.iter().all(|other| *other == Some(*first)) => *first,
            // hyper refuses it and closes.
            _ => return Seen::Neither,
        };
        if body > 0 {
            met.note("a body before");
        }
        let Some(rest) = data[length..].get(usize::try_from(body).unwrap_or(usize::MAX)..) else {
            return Seen::Neither;
        };
        data = rest;
    }
}
