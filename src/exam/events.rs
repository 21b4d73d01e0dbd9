//! What a history is made of: one line for each thing that happened, in the order in which the exam saw it happen.
//!
//! A line of a call's beginning is written before its first byte leaves, and the line of its end after its last byte has
//! come; a store writes its line in the moment of the effect. So of two lines the earlier one happened first, and a judge
//! needs nothing else. The types are the exam's own: a word that was wrong in the gateway would be wrong in both.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A generation of ownership as the wire shows it: `epoch.token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) epoch: u64,
    pub(super) token: u64,
}

/// A text that is no `epoch.token`.
#[derive(Debug, thiserror::Error)]
#[error("this is not epoch.token")]
pub(super) struct NotAPlace;

impl FromStr for Place {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        let (epoch, token) = text.split_once('.').ok_or(NotAPlace)?;
        let number = |text: &str| text.parse().map_err(|_| NotAPlace);
        Ok(Self { epoch: number(epoch)?, token: number(token)? })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.token)
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Where the effects of a namespace go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Class {
    /// Into the gateway's own database.
    Document,
    /// To a store that obeys validators.
    Conditional,
    /// To a store that compares positions.
    FenceAware,
    /// To a store that remembers keys.
    Idempotent,
    /// To a store that does what it is told.
    Serial,
    /// Past the gateway: the last one wins.
    Unfenced,
}

/// What one generation means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Policy {
    /// One publication.
    Single,
    /// Ordered mutations.
    Ordered,
    /// Edits, each on what was read.
    Session,
}

/// One namespace of the exam, as it was configured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Rules {
    pub(super) name: String,
    pub(super) class: Class,
    pub(super) policy: Policy,
    pub(super) contract: String,
    /// Whether its resources come in twos, of which every write changes both or none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) paired: bool,
}

/// What was planned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Planned {
    pub(super) version: String,
    pub(super) seed: u64,
    pub(super) engine: String,
    pub(super) replicas: u64,
    pub(super) fenced: bool,
    pub(super) namespaces: Vec<Rules>,
    /// The kinds of faults that are drawn from.
    #[serde(default)]
    pub(super) faults: Vec<String>,
}

/// What a worker asks for, or an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Act {
    Acquire,
    Renew,
    Release,
    Transfer,
    Write,
    Remove,
    Read,
    Look,
    Revoke,
    Cancel,
    Reopen,
    Epoch,
    Resolve,
}

impl Act {
    /// Whether an operator does it to one resource, under a key.
    pub(super) fn is_control(self) -> bool {
        matches!(self, Self::Revoke | Self::Cancel | Self::Reopen)
    }
}

/// A call begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) call: u64,
    pub(super) client: u64,
    pub(super) act: Act,
    /// Of an epoch the namespace, or `*`.
    pub(super) resource: String,
    /// What the worker presents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sequence: Option<u64>,
    /// Of a write its id, of an operator's call its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) operation: Option<String>,
    /// Of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// Of an acquire and a transfer their id, of a resolution the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<String>,
    /// Of a renewal, a release and a transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) acquisition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ttl_ms: Option<u64>,
}

/// A lease as an answer showed it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Granted {
    pub(super) acquisition: String,
    pub(super) position: Place,
    pub(super) state: String,
}

/// The registers of a resource as an answer showed them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Registers {
    pub(super) incarnation: u64,
    pub(super) issued: Place,
    pub(super) floor: Place,
    pub(super) commit: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revoked: Option<Place>,
    #[serde(default)]
    pub(super) epoch: u64,
}

/// A call ends with an answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) call: u64,
    pub(super) status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) effect: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) replayed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) etag: Option<String>,
    /// The life of the resource in which the operation was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) incarnation: Option<u64>,
    /// Of the body, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) granted: Option<Granted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) registers: Option<Registers>,
    /// The epoch that was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) epoch: Option<u64>,
    /// What an operator's call found under way and left there: a resource and an operation of it, with a space between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left: Vec<String>,
}

/// A request reached a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Arrived {
    pub(super) store: Class,
    pub(super) resource: String,
    pub(super) method: String,
    /// Whether it had an effect now.
    pub(super) applied: bool,
    pub(super) status: u16,
    /// What the request itself says: in a header, or in a stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<Place>,
    /// In a header, in a stamp, or in the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) operation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// In a header, or in a stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) incarnation: Option<u64>,
    /// The letter of a stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stamp: Option<String>,
    /// The validator that it is based on; `*` where there must be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
    /// The validator that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<String>,
}

/// A fault is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Fault {
    pub(super) kind: String,
    pub(super) target: String,
    pub(super) ms: u64,
    /// Calls under way that it met.
    pub(super) hit: u64,
}

/// One operation in the gateway's own books.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Booked {
    pub(super) operation: String,
    pub(super) incarnation: u64,
    pub(super) state: String,
    pub(super) position: Place,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<u64>,
}

/// What there is at the end: of a resource that nobody uses any more, asked of a gateway over HTTP and of the store.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Closed {
    pub(super) resource: String,
    /// Why nothing could be learnt of it, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unknown: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) registers: Option<Registers>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) booked: Vec<Booked>,
    /// Positions of the acquisitions in the timeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) acquired: Vec<Place>,
    /// What a reader gets: the status, and the digest of the content.
    pub(super) status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<String>,
    /// Whether all faults had ended long before.
    pub(super) healed: bool,
}

/// The exam is over.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) ms: u64,
    /// What went wrong beside the judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<String>,
    /// What could not be done where it was held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) absent: Vec<String>,
}

/// One thing that happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    Planned(Planned),
    Sent(Sent),
    Answered(Answered),
    /// A call ends without an answer.
    Lost {
        call: u64,
        why: String,
    },
    /// The network delivers a whole request of a worker once more.
    Again {
        call: u64,
        resource: String,
        operation: String,
    },
    Arrived(Arrived),
    Fault(Fault),
    Closed(Closed),
    Ended(Ended),
}

/// One line: its number, when it was written in microseconds from the start, and what happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) n: u64,
    pub(super) at: u64,
    pub(super) is: Event,
}

/// The beginning of a SHA-256 in hexadecimal: enough to tell payloads apart, and short enough to read.
pub(super) fn digest(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    use std::fmt::Write as _;
    sha2::Sha256::digest(bytes).iter().take(12).fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}
