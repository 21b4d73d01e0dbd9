//! Words of forwarding: what is sent to a store that is not the gateway's own, and what can be learnt from it.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;

use super::counter::{CommitNo, Incarnation};
use super::document::BodyDigest;
use super::operation::OperationId;
use super::position::Position;

/// What an upstream can do, and so what can be promised of it (`protocol.md` section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It has strong validators, unique per write, and obeys `If-Match`.
    Conditional,
    /// It checks position and operation id itself.
    FenceAware,
    /// It has idempotency keys.
    Idempotent,
    /// It has nothing.
    Serial,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::Conditional, Self::FenceAware, Self::Idempotent, Self::Serial];

    /// The word in the configuration, on the wire and in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Conditional => "conditional",
            Self::FenceAware => "fence_aware",
            Self::Idempotent => "idempotent",
            Self::Serial => "serial",
        }
    }

    /// The class that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.word() == word)
    }

    /// Whether a store of this class has to pass its probe where nothing else is configured. The probe of an
    /// `idempotent` one sends a request twice, which only its owner can know to be harmless; `serial` has nothing to prove.
    #[must_use]
    pub const fn is_probed_by_default(self) -> bool {
        match self {
            Self::Conditional | Self::FenceAware => true,
            Self::Idempotent | Self::Serial => false,
        }
    }

    /// The guarantee of `protocol.md` section 7.
    #[must_use]
    pub const fn guarantee(self) -> &'static str {
        match self {
            Self::Conditional | Self::FenceAware => "G3",
            Self::Idempotent => "G2",
            Self::Serial => "G1",
        }
    }
}

/// Longest validator, in bytes.
pub const MAX_VALIDATOR_BYTES: usize = 512;

/// A strong entity tag of an upstream, quotes included, byte for byte. It is compared for equality only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Validator(Arc<str>);

impl Validator {
    /// Reads an `ETag` header. None for a weak one (`W/`), for one that is not quoted, and for one beyond
    /// [`MAX_VALIDATOR_BYTES`]: nothing can be conditioned on those.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix('"')?.strip_suffix('"')?;
        let opaque = inner.bytes().all(|byte| byte == 0x21 || (0x23..=0x7e).contains(&byte));
        (opaque && text.len() <= MAX_VALIDATOR_BYTES).then(|| Self(Arc::from(text)))
    }

    /// The tag as it stands in a header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a conditional send rests on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// The cell has not been read, so nothing may be sent.
    Unread,
    /// There is no cell: the send creates it (`If-None-Match: *`).
    Absent,
    /// The cell has this recorded validator (`If-Match`).
    Recorded(Validator),
}

/// Why a cell was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StampKind {
    /// By a write that brings content.
    Content,
    /// By a removal: the cell stays, and reads show nothing.
    Tombstone,
    /// By a barrier: the content is the same as before, only the validator is new.
    Barrier,
    /// By a barrier over a cell that did not exist, or was a tombstone: reads show nothing.
    EmptyBarrier,
}

impl StampKind {
    const ALL: [Self; 4] = [Self::Content, Self::Tombstone, Self::Barrier, Self::EmptyBarrier];

    const fn letter(self) -> &'static str {
        match self {
            Self::Content => "c",
            Self::Tombstone => "t",
            Self::Barrier => "b",
            Self::EmptyBarrier => "e",
        }
    }

    /// Whether reads show nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        match self {
            Self::Content | Self::Barrier => false,
            Self::Tombstone | Self::EmptyBarrier => true,
        }
    }
}

/// What the gateway writes into a cell together with the bytes: who wrote it last. Read back after a doubt, it tells
/// what became of a send.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Why the cell was written.
    pub kind: StampKind,
    /// Of the operation, or of the resource when a barrier was set.
    pub incarnation: Incarnation,
    /// Under which position; of a barrier, the position that it was set for.
    pub position: Position,
    /// The commit number of the effect; of a barrier, of the effect whose content it kept.
    pub commit: CommitNo,
    /// The operation; none for a barrier.
    pub operation_id: Option<OperationId>,
}

/// First word of every stamp: its version.
const STAMP_VERSION: &str = "fg1";

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.operation_id.as_ref().map_or("", OperationId::as_str);
        let (kind, position) = (self.kind.letter(), self.position);
        write!(f, "{STAMP_VERSION};{kind};{};{position};{};{id}", self.incarnation, self.commit)
    }
}

/// A text where a stamp should stand that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a stamp of fencegate")]
pub struct NotAStamp;

impl FromStr for Stamp {
    type Err = NotAStamp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read_stamp(text).ok_or(NotAStamp)
    }
}

fn read_stamp(text: &str) -> Option<Stamp> {
    let mut parts = text.splitn(6, ';');
    if parts.next()? != STAMP_VERSION {
        return None;
    }
    let letter = parts.next()?;
    let kind = StampKind::ALL.into_iter().find(|kind| kind.letter() == letter)?;
    let incarnation = Incarnation::parse(parts.next()?).ok()?;
    let position = Position::parse(parts.next()?).ok()?;
    let commit = CommitNo::parse(parts.next()?).ok()?;
    let id = parts.next()?;
    let operation_id = if id.is_empty() { None } else { Some(OperationId::parse(id).ok()?) };
    let barrier = matches!(kind, StampKind::Barrier | StampKind::EmptyBarrier);
    (operation_id.is_none() == barrier).then_some(Stamp { kind, incarnation, position, commit, operation_id })
}

/// What a cell shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CellSeen {
    /// There is none.
    Absent,
    /// It has content that no gateway stamped.
    Unstamped(Validator),
    /// It has a stamp of ours.
    Stamped(Validator, Stamp),
    /// It has no strong validator, or a stamp that cannot be read; the text says what, for people.
    Strange(String),
}

/// A header that is forwarded or given back: name in lower case, value of visible characters, spaces and tabs.
pub type Field = (String, String);

/// A complete answer of an upstream, cut down to what may be given back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relayed {
    /// Its status, 200 to 599.
    pub status: u16,
    /// Its allow-listed headers, in order; never its `ETag`, which is `validator`.
    pub headers: Vec<Field>,
    /// Its `ETag` as it came, weak ones included; shown as `Fencing-Upstream-ETag`.
    pub etag: Option<String>,
    /// Its body.
    pub body: Bytes,
}

impl Relayed {
    /// The validator, where it is a strong one.
    #[must_use]
    pub fn validator(&self) -> Option<Validator> {
        self.etag.as_deref().and_then(Validator::parse)
    }

    /// 200 to 299.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }
}

/// A set of answer statuses from 0 to 639.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StatusSet([u64; 10]);

impl StatusSet {
    /// The set of these; what is beyond 639 is left out.
    #[must_use]
    pub fn of(statuses: &[u16]) -> Self {
        let mut set = Self::default();
        for status in statuses {
            if let Some(word) = set.0.get_mut(usize::from(*status / 64)) {
                *word |= 1_u64 << (status % 64);
            }
        }
        set
    }

    /// Whether a status is in it.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0.get(usize::from(status / 64)).is_some_and(|word| word & (1_u64 << (status % 64)) != 0)
    }

    /// What is in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0..640).filter(|status| self.contains(*status))
    }
}

/// Answers that are definitely without effect where nothing else is configured (`protocol.md` section 7).
pub const REFUSED_STATUSES: [u16; 17] =
    [400, 401, 403, 404, 405, 409, 410, 411, 412, 413, 414, 415, 422, 425, 428, 429, 431];

/// A body that is too large to be kept in memory: read piece by piece from where it lies.
pub trait Spooled: fmt::Debug + Send + Sync {
    /// The bytes from `offset`, at most `length` of them, fewer only at the end. It blocks on a disk.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read_at(&self, offset: u64, length: usize) -> io::Result<Bytes>;
}

/// Where the bytes of a body lie.
#[derive(Debug, Clone)]
pub enum Bulk {
    /// In memory.
    Memory(Bytes),
    /// On disk.
    Disk(Arc<dyn Spooled>),
}

/// A whole body that is to be forwarded: received, measured and hashed. The bytes are shared, never copied, and never
/// printed.
#[derive(Clone)]
pub struct Payload {
    /// Where the bytes lie.
    pub bulk: Bulk,
    /// Length in bytes.
    pub length: u64,
    /// SHA-256 of them.
    pub digest: BodyDigest,
}

impl Payload {
    /// A body in memory.
    #[must_use]
    pub fn of(bytes: Bytes) -> Self {
        let (length, digest) = (u64::try_from(bytes.len()).unwrap_or(u64::MAX), BodyDigest::of(&bytes));
        Self { bulk: Bulk::Memory(bytes), length, digest }
    }
}

/// Two payloads are the same when their digests are.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.digest == other.digest
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(kind: StampKind, id: Option<&str>) -> Stamp {
        Stamp {
            kind,
            incarnation: Incarnation::ONE,
            position: Position::parse("2.107").unwrap(),
            commit: CommitNo::parse("5").unwrap(),
            operation_id: id.map(|id| OperationId::parse(id).unwrap()),
        }
    }

    #[test]
    fn a_stamp_reads_back_as_itself_whatever_the_operation_is_called() {
        for id in ["publish-1", "a;b;c", ";", "fg1;c;1;0.1;1;x"] {
            for kind in [StampKind::Content, StampKind::Tombstone] {
                let stamp = stamp(kind, Some(id));
                assert_eq!(stamp.to_string().parse(), Ok(stamp));
            }
        }
        for kind in [StampKind::Barrier, StampKind::EmptyBarrier] {
            let stamp = stamp(kind, None);
            assert_eq!(stamp.to_string().parse(), Ok(stamp));
        }
        assert_eq!(stamp(StampKind::Content, Some("p")).to_string(), "fg1;c;1;2.107;5;p");
    }

    #[test]
    fn what_is_almost_a_stamp_is_none() {
        for text in
            ["", "fg2;c;1;0.1;1;x", "fg1;x;1;0.1;1;x", "fg1;c;1;0.1;1;", "fg1;b;1;0.1;1;x", "fg1;c;1;1;x"]
        {
            assert_eq!(text.parse::<Stamp>(), Err(NotAStamp), "{text}");
        }
    }

    #[test]
    fn only_a_strong_tag_is_a_validator() {
        assert!(Validator::parse("\"a/b+c\"").is_some());
        assert!(Validator::parse("\"\"").is_some());
        let longest = format!("\"{}\"", "x".repeat(MAX_VALIDATOR_BYTES - 2));
        assert_eq!(Validator::parse(&longest).unwrap().as_str(), longest);
        assert_eq!(Validator::parse(&longest.replacen('x', "xx", 1)), None);
        for text in ["W/\"a\"", "a", "\"a", "\"a\"b\"", "\"a b\"", "\""] {
            assert_eq!(Validator::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_set_of_statuses_holds_what_was_put_in() {
        let set = StatusSet::of(&REFUSED_STATUSES);
        for status in 0..700 {
            assert_eq!(set.contains(status), REFUSED_STATUSES.contains(&status), "{status}");
        }
        assert!(set.iter().eq(REFUSED_STATUSES));
        let ends = StatusSet::of(&[0, 63, 64, 639, 640, 639]);
        assert!(ends.iter().eq([0, 63, 64, 639]));
    }
}
