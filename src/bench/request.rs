//! The requests of the load: whole HTTP/1.1 messages, composed from fixed parts and a few changing fields.
//!
//! Every payload differs: an embedded database skips the page of a row that is overwritten with the same bytes, and a
//! bench that repeats one payload measures that.

use super::chance::Chance;

/// The namespace of the distinct resources.
pub(super) const DISTINCT: &str = "bench";

/// The namespace of the one resource whose targets are edited.
pub(super) const HOT: &str = "hot";

/// The one resource.
pub(super) const HOT_PAGE: &str = "page";

/// The token of every measured write.
pub(super) const TOKEN: u64 = 7;

/// Fills a document up to about 330 bytes.
pub(super) const PADDING: &str = "the quick brown fox jumps over the lazy dog and writes what it saw on the other \
    side of the garden wall into a small black book that nobody else may open before the end of the month of May, \
    when all of the dogs of the village are asleep and the moon stands high above the old mill by the river again";

/// What the connections of a cell do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    /// Each connection writes resources of its own, chosen by chance, with a rising sequence.
    Distinct {
        /// How many there are over all connections.
        resources: u64,
    },
    /// All connections write one and the same resource.
    One,
    /// Each connection edits its own target of the one resource, with `If-Match` on the tag of its last edit.
    Targets,
    /// As `Distinct`, several writes in one request.
    Batch {
        /// How many resources there are over all connections.
        resources: u64,
        /// Writes of one request.
        members: u64,
    },
    /// Each connection reads what it would write in `Distinct`.
    Read {
        /// How many there are over all connections.
        resources: u64,
    },
}

impl Workload {
    /// Writes of one request.
    pub(super) const fn members(self) -> u64 {
        match self {
            Self::Batch { members, .. } => members,
            Self::Distinct { .. } | Self::One | Self::Targets | Self::Read { .. } => 1,
        }
    }
}

/// The name of a resource, without its namespace.
pub(super) fn document(number: u64) -> String {
    format!("doc-{number:06}")
}

/// The name of a connection's target, below the one resource.
pub(super) fn target(number: u64) -> String {
    format!("part-{number:04}")
}

/// Composes the requests of one connection.
pub(super) struct Writer {
    workload: Workload,
    host: String,
    connection: u64,
    connections: u64,
    chance: Chance,
    sequence: u64,
    tag: Vec<u8>,
    body: Vec<u8>,
}

impl Writer {
    /// For one of several connections. `sequence` must be above that of every earlier cell on the same database.
    pub(super) fn new(workload: Workload, host: &str, place: (u64, u64), sequence: u64, seed: u64) -> Self {
        let (connection, connections) = place;
        Self {
            workload,
            host: host.to_owned(),
            connection,
            connections: connections.max(1),
            chance: Chance::of(seed),
            sequence,
            tag: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The tag that the last edit was answered with.
    pub(super) fn edited(&mut self, tag: &[u8]) {
        self.tag.clear();
        self.tag.extend_from_slice(tag);
    }

    /// Asks for the tag of this connection's target.
    pub(super) fn ask_for_tag(&self) -> String {
        let target = target(self.connection);
        format!("GET /fenced/{HOT}/{HOT_PAGE}/{target} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host)
    }

    /// The next request, in place of what `out` held.
    pub(super) fn compose(&mut self, out: &mut Vec<u8>) {
        out.clear();
        self.body.clear();
        match self.workload {
            Workload::Distinct { resources } => {
                let number = self.own(resources, 0, 1);
                self.single(out, number);
            }
            Workload::One => self.single(out, 0),
            Workload::Targets => self.edit(out),
            Workload::Batch { resources, members } => self.batch(out, resources, members),
            Workload::Read { resources } => {
                let number = self.own(resources, 0, 1);
                self.read(out, number);
            }
        }
    }

    /// A resource that only this connection writes: one whose number leaves its own remainder. The `part`s of a batch
    /// choose from separate shares of them, so that no two members name the same.
    fn own(&mut self, resources: u64, part: u64, parts: u64) -> u64 {
        let count = resources.saturating_sub(self.connection).div_ceil(self.connections);
        let from = count.saturating_mul(part) / parts.max(1);
        let to = count.saturating_mul(part.saturating_add(1)) / parts.max(1);
        let chosen = from.saturating_add(self.chance.below(to.saturating_sub(from)));
        chosen.saturating_mul(self.connections).saturating_add(self.connection)
    }

    fn single(&mut self, out: &mut Vec<u8>, number: u64) {
        out.extend_from_slice(b"PUT /fenced/bench/doc-");
        digits(out, number, 6);
        self.head(out);
        out.extend_from_slice(b"\r\nfencing-sequence: ");
        self.sequence = self.sequence.saturating_add(1);
        digits(out, self.sequence, 16);
        self.finish(out);
    }

    fn read(&self, out: &mut Vec<u8>, number: u64) {
        out.extend_from_slice(b"GET /fenced/bench/doc-");
        digits(out, number, 6);
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(self.host.as_bytes());
        out.extend_from_slice(b"\r\naccept: application/json\r\n\r\n");
    }

    fn edit(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"PUT /fenced/hot/page/part-");
        digits(out, self.connection, 4);
        self.head(out);
        out.extend_from_slice(b"\r\nif-match: ");
        out.extend_from_slice(&self.tag);
        self.finish(out);
    }

    fn head(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(self.host.as_bytes());
        out.extend_from_slice(b"\r\ncontent-type: application/json\r\nfencing-token: 7\r\nidempotency-key: ");
        operation(out, &mut self.chance);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        content(&mut self.body, "\"", &mut self.chance);
        length(out, self.body.len());
        out.extend_from_slice(&self.body);
    }

    fn batch(&mut self, out: &mut Vec<u8>, resources: u64, members: u64) {
        self.body.extend_from_slice(b"{\"writes\":[");
        for part in 0..members {
            let number = self.own(resources, part, members);
            self.sequence = self.sequence.saturating_add(1);
            let body = &mut self.body;
            if part > 0 {
                body.push(b',');
            }
            body.extend_from_slice(b"{\"method\":\"PUT\",\"resource\":\"bench/doc-");
            digits(body, number, 6);
            body.extend_from_slice(b"\",\"fencing_token\":\"7\",\"operation_id\":\"");
            operation(body, &mut self.chance);
            body.extend_from_slice(b"\",\"sequence\":\"");
            digits(body, self.sequence, 16);
            body.extend_from_slice(b"\",\"content_type\":\"application/json\",\"body\":\"");
            content(body, "\\\"", &mut self.chance);
            body.extend_from_slice(b"\"}");
        }
        self.body.extend_from_slice(b"]}");
        out.extend_from_slice(b"POST /v1/writes HTTP/1.1\r\nhost: ");
        out.extend_from_slice(self.host.as_bytes());
        out.extend_from_slice(b"\r\ncontent-type: application/json");
        length(out, self.body.len());
        out.extend_from_slice(&self.body);
    }
}

/// The end of a head: the length of what follows.
fn length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(b"\r\ncontent-length: ");
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
}

/// A document of about 330 bytes whose first bytes are its own.
fn content(out: &mut Vec<u8>, quote: &str, chance: &mut Chance) {
    let quote = quote.as_bytes();
    for part in [&b"{"[..], quote, b"n", quote, b":", quote] {
        out.extend_from_slice(part);
    }
    hex(out, chance.next(), 16);
    for part in [quote, b",", quote, b"text", quote, b":", quote, PADDING.as_bytes(), quote, b"}"] {
        out.extend_from_slice(part);
    }
}

/// An operation id of the form of a UUID, version 4: the worst case for an index, and the usual one.
fn operation(out: &mut Vec<u8>, chance: &mut Chance) {
    let (high, low) = (chance.next(), chance.next());
    hex(out, high >> 32, 8);
    out.push(b'-');
    hex(out, high >> 16, 4);
    out.extend_from_slice(b"-4");
    hex(out, high, 3);
    out.extend_from_slice(b"-a");
    hex(out, low >> 48, 3);
    out.push(b'-');
    hex(out, low, 12);
}

/// The last `width` hexadecimal digits of a number.
fn hex(out: &mut Vec<u8>, value: u64, width: u32) {
    for place in (0..width).rev() {
        let four = u8::try_from((value >> (4 * place)) & 15).unwrap_or_default();
        out.push(if four < 10 {
            b'0'.saturating_add(four)
        } else {
            b'a'.saturating_add(four).saturating_sub(10)
        });
    }
}

/// A number with zeros in front, at most twenty digits.
fn digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut text = [b'0'; 20];
    for place in text.iter_mut().rev() {
        *place = b'0'.saturating_add(u8::try_from(value % 10).unwrap_or_default());
        value /= 10;
    }
    out.extend_from_slice(text.get(20_usize.saturating_sub(width)..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn composed(workload: Workload, place: (u64, u64)) -> String {
        let mut writer = Writer::new(workload, "127.0.0.1:1", place, 1_000_000_000_000_000, 5);
        writer.edited(b"\"1.3\"");
        let mut out = Vec::new();
        writer.compose(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_distinct_write_is_a_whole_request() {
        let request = composed(Workload::Distinct { resources: 100_000 }, (3, 64));
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("PUT /fenced/bench/doc-"), "{head}");
        assert!(head.contains("\r\nfencing-sequence: 1000000000000001\r\n"), "{head}");
        assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
        assert!((320..340).contains(&body.len()), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
        let key = head.split("idempotency-key: ").nth(1).unwrap().split("\r\n").next().unwrap();
        assert_eq!(uuid::Uuid::parse_str(key).unwrap().get_version_num(), 4);
    }

    #[test]
    fn a_connection_writes_only_resources_of_its_own() {
        let mut writer = Writer::new(Workload::One, "h", (3, 64), 1, 9);
        let numbers: BTreeSet<u64> = (0..20_000).map(|_| writer.own(1_000, 0, 1)).collect();
        assert!(numbers.iter().all(|number| number % 64 == 3 && *number < 1_000), "{numbers:?}");
        assert_eq!(numbers.len(), 16);
    }

    #[test]
    fn a_batch_names_no_resource_twice() {
        let request = composed(Workload::Batch { resources: 4_096, members: 64 }, (15, 16));
        let body: serde_json::Value =
            serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let writes = body["writes"].as_array().unwrap();
        let names: BTreeSet<&str> = writes.iter().map(|write| write["resource"].as_str().unwrap()).collect();
        assert_eq!((writes.len(), names.len()), (64, 64));
        serde_json::from_str::<serde_json::Value>(writes[5]["body"].as_str().unwrap()).unwrap();
    }

    #[test]
    fn an_edit_carries_the_tag_of_the_last_one() {
        let request = composed(Workload::Targets, (12, 64));
        assert!(request.starts_with("PUT /fenced/hot/page/part-0012 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("\r\nif-match: \"1.3\"\r\n"), "{request}");
        assert!(!request.contains("fencing-sequence"), "{request}");
    }

    #[test]
    fn no_two_payloads_are_the_same() {
        let mut writer = Writer::new(Workload::One, "h", (0, 1), 1, 9);
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        for _ in 0..1_000 {
            writer.compose(&mut out);
            let at = out.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            assert!(seen.insert(out[at..].to_vec()));
        }
    }
}
