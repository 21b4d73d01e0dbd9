//! Requests with two lengths, seen where they arrive.
//!
//! Where a request has both `Transfer-Encoding` and `Content-Length`, hyper acts on the first and takes the second out of
//! the headers, in whichever order they came, so nobody behind it can tell. A proxy in front may have gone by the other one, so
//! such a request has to be refused (RFC 9112 section 6.3). The bytes are looked at on their way in and never changed. After
//! a request with `Transfer-Encoding` its connection is closed: no chunk has to be taken apart here to find the next head.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is kept of a line: the names that are looked for, and any length that a body may have.
const LINE_BYTES: usize = 64;

/// Whether the chunked request of a connection, which is its last, was seen to have one length only.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<AtomicBool>);

impl Seen {
    /// Also `false` where the heads could not be followed: then nobody knows.
    pub(super) fn one_length(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The heads of a connection, followed up to the first with `Transfer-Encoding`.
#[derive(Default)]
pub(super) struct Heads {
    at: At,
    line: Vec<u8>,
    is_begun: bool,
    length: Option<u64>,
    is_chunked: bool,
}

/// What the next byte belongs to.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum At {
    #[default]
    Head,
    /// A body, of which so many bytes are to come.
    Body(u64),
    /// Nothing that is looked at any more.
    End,
}

impl Heads {
    /// Looks at what has arrived. `true`: the last head, and it has one length.
    pub(super) fn look(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match self.at {
                At::End => return false,
                At::Body(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = bytes.get(taken..).unwrap_or_default();
                    let left = left.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
                    self.at = if left == 0 { At::Head } else { At::Body(left) };
                }
                At::Head => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    self.keep(piece);
                    bytes = rest.get(1..).unwrap_or_default();
                    if end.is_some() && self.line_ends() {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    fn line_ends(&mut self) -> bool {
        let kept = std::mem::take(&mut self.line);
        let line = kept.strip_suffix(b"\r").unwrap_or(&kept);
        let found = if line.is_empty() { self.head_ends() } else { self.field(line) };
        self.line = kept;
        self.line.clear();
        found
    }

    /// The request line has no colon before its first blank, so it is none of the two names.
    fn field(&mut self, line: &[u8]) -> bool {
        self.is_begun = true;
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value.get(1..).unwrap_or_default()).unwrap_or_default().trim();
            match digits.parse() {
                Ok(length) if line.len() < LINE_BYTES => self.length = Some(length),
                // hyper refuses it too, and else nobody knows where the next head begins.
                Ok(_) | Err(_) => self.at = At::End,
            }
        }
        false
    }

    fn head_ends(&mut self) -> bool {
        // Empty lines before a request line are none of a head.
        if !std::mem::take(&mut self.is_begun) {
            return false;
        }
        let (length, is_chunked) = (self.length.take(), std::mem::take(&mut self.is_chunked));
        self.at = match (length, is_chunked) {
            (_, true) => At::End,
            (None | Some(0), false) => At::Head,
            (Some(length), false) => At::Body(length),
        };
        is_chunked && length.is_none()
    }
}

/// A connection whose heads are followed.
pub(super) struct Watched<S> {
    inner: S,
    heads: Heads,
    seen: Seen,
}

impl<S> Watched<S> {
    /// With what is told of it to whoever serves its requests.
    pub(super) fn new(inner: S) -> (Self, Seen) {
        let seen = Seen::default();
        (Self { inner, heads: Heads::default(), seen: seen.clone() }, seen)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, buf);
        if this.heads.at != At::End && this.heads.look(buf.filled().get(before..).unwrap_or_default()) {
            this.seen.0.store(true, Ordering::Release);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, however the bytes are cut.
    fn is_one_length(text: &str) -> bool {
        let looked = |piece: usize| {
            let mut heads = Heads::default();
            text.as_bytes().chunks(piece).any(|bytes| heads.look(bytes))
        };
        let whole = looked(text.len());
        for piece in [1, 2, 3, 7] {
            assert_eq!(looked(piece), whole, "{piece} {text:?}");
        }
        whole
    }

    #[test]
    fn two_lengths_are_seen_in_either_order_and_in_any_case() {
        let head = |fields: &str| format!("PUT /a HTTP/1.1\r\nHost: x\r\n{fields}\r\n0\r\n\r\n");
        assert!(is_one_length(&head("Transfer-Encoding: chunked\r\n")));
        assert!(is_one_length(&head("transfer-ENCODING:chunked\n")));
        for both in [
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "content-length:3\nX: y\nTRANSFER-ENCODING:chunked\n",
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: x\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 3, 3\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert!(!is_one_length(&head(both)), "{both:?}");
        }
        let long = format!("Content-Length: {}3\r\nTransfer-Encoding: chunked\r\n", " ".repeat(100));
        assert!(!is_one_length(&head(&long)));
    }

    #[test]
    fn bodies_are_stepped_over_whatever_they_hold() {
        let chunked = "PUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nContent-Length: 1\r\n\r\n";
        let body = "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n";
        let before = format!(
            "GET /a HTTP/1.1\r\n\r\n\r\nPUT /a HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert!(is_one_length(&format!("{before}{chunked}")));
        let both = chunked.replacen("chunked\r\n", "chunked\r\nContent-Length: 3\r\n", 1);
        assert!(!is_one_length(&format!("{before}{both}")));
        // Of the next one nothing is said: its connection is closed before.
        assert!(!is_one_length(&format!("{both}{chunked}")));
    }
}
