//! What the judge knows of one resource until it is closed.

use std::collections::{BTreeMap, HashMap};

use super::Violation;
use super::controls::{Cancelled, Control, End};
use super::lanes::Lanes;
use crate::exam::events::{Place, Registers, Rules, Sent};
use crate::limits::EXAM_STORY_LINES;

/// What had been acknowledged before a moment: nothing that begins later may fall behind it.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// The highest position whose owner, or whose write, was acknowledged.
    pub(super) fence: Option<Place>,
    /// The highest position that was granted.
    pub(super) granted: Option<Place>,
    /// The highest commit number that was acknowledged.
    pub(super) commit: u64,
    /// The highest registers that were shown.
    pub(super) registers: Option<Registers>,
    /// Up to which position all is revoked, by an operator's call that was answered.
    pub(super) revoked: Option<Place>,
    /// The epoch of the namespace, by a call that was answered.
    pub(super) epoch: u64,
    /// The line since which it is certainly called off; none as soon as anybody may have opened it again.
    pub(super) cancelled: Option<u64>,
}

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) sent: Sent,
    pub(super) n: u64,
    pub(super) at: u64,
    pub(super) known: Known,
}

/// What the answers said of an operation that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: u16,
    pub(super) position: Place,
    pub(super) commit: Option<u64>,
    pub(super) etag: Option<String>,
    pub(super) body: Option<String>,
}

/// One operation id.
#[derive(Debug, Default)]
pub(super) struct Operation {
    /// What was known when it was first sent.
    pub(super) known: Known,
    /// Deliveries that have not ended, or ended without an answer that says what became of them.
    pub(super) unknown: u64,
    /// Whether the network delivered it once more.
    pub(super) repeated: bool,
    /// By the life of the resource in which it was applied: what was answered, under which payload, in which line.
    pub(super) outcomes: BTreeMap<u64, (Outcome, String, u64)>,
    /// Every payload that was sent under this id.
    pub(super) payloads: Vec<String>,
    pub(super) lines: Vec<u64>,
}

/// One acquisition.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) acquisition: String,
    pub(super) line: u64,
    /// Until when it certainly lives, in microseconds: its last extension began then and was granted.
    pub(super) until: u64,
    /// Since which line somebody has been about to end it.
    pub(super) ended: Option<u64>,
}

/// One request for a lease, by its id.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// What was known when it was first sent.
    pub(super) known: Known,
    /// When that was, in microseconds.
    pub(super) at: u64,
}

/// What was known when somebody looked, and the commit number that was shown: what comes after it came after all that.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) line: u64,
    pub(super) fence: Option<Place>,
    pub(super) revoked: Option<Place>,
    pub(super) commit: u64,
}

/// One effect in the store's own log.
#[derive(Debug)]
pub(super) struct Effect {
    pub(super) line: u64,
    pub(super) operation: Option<String>,
    pub(super) incarnation: Option<u64>,
    pub(super) position: Option<Place>,
    pub(super) payload: String,
    pub(super) stamp: Option<String>,
}

/// See above.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) resource: String,
    pub(super) rules: Rules,
    pub(super) known: Known,
    pub(super) grants: BTreeMap<Place, Grant>,
    pub(super) requests: HashMap<String, Asked>,
    pub(super) operations: HashMap<String, Operation>,
    /// Calls of operators, by their keys.
    pub(super) controls: HashMap<String, Control>,
    /// The cancellation that is certainly in force.
    pub(super) cancelled: Option<Cancelled>,
    /// From which line on what is refused for ever, by an operator's call or a new epoch.
    pub(super) ends: Vec<End>,
    pub(super) looks: Vec<Looked>,
    pub(super) lanes: Lanes,
    /// Calls that may begin an epoch at any moment, and so end any lease.
    pub(super) threats: u64,
    /// Whether a call on the other resource of the same leases may end any lease at any moment, and the last line of one
    /// that may have.
    pub(super) shadowed: bool,
    pub(super) shadow: u64,
    pub(super) effects: Vec<Effect>,
    /// Validators that the store has given.
    pub(super) tags: HashMap<String, u64>,
    /// What readers saw: by life and commit number, the digest and the line.
    pub(super) reads: BTreeMap<(u64, u64), (String, u64)>,
    /// Lines at which an owner had its complete answer, with the position.
    pub(super) owned: Vec<(u64, Place)>,
    pub(super) found: Vec<Violation>,
}

impl Case {
    pub(super) fn new(resource: &str, rules: Rules) -> Self {
        Self {
            resource: resource.to_owned(),
            rules,
            known: Known::default(),
            grants: BTreeMap::new(),
            requests: HashMap::new(),
            operations: HashMap::new(),
            controls: HashMap::new(),
            cancelled: None,
            ends: Vec::new(),
            looks: Vec::new(),
            lanes: Lanes::default(),
            threats: 0,
            shadowed: false,
            shadow: 0,
            effects: Vec::new(),
            tags: HashMap::new(),
            reads: BTreeMap::new(),
            owned: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Whether an owner's answer means that nothing older becomes authoritative any more.
    pub(super) fn is_immediate(&self) -> bool {
        self.rules.contract != "observed"
    }

    pub(super) fn blame(&mut self, rule: &'static str, told: String, lines: &[u64]) {
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        lines.dedup();
        lines.truncate(EXAM_STORY_LINES);
        let resource = self.resource.clone();
        self.found.push(Violation { rule, resource, told, lines });
    }

    /// The same about an operation, with every line of it.
    pub(super) fn blame_operation(&mut self, rule: &'static str, id: &str, told: &str, more: &[u64]) {
        let mut lines = self.operations.get(id).map(|one| one.lines.clone()).unwrap_or_default();
        lines.extend_from_slice(more);
        self.blame(rule, format!("operation {id}: {told}"), &lines);
    }
}

impl Known {
    /// Takes in a position that was acknowledged.
    pub(super) fn fenced(&mut self, position: Place) {
        self.fence = self.fence.max(Some(position));
    }
}
