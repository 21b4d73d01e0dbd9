//! The little stores behind the scripted upstream, one for each class, and some that are not what they say.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::raw::{Arrival, Reply};

/// What the store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It obeys conditions on validators of this make.
    Conditional(Tags),
    /// It checks positions and operation ids.
    FenceAware,
    /// It checks positions, and does everything as often as it is told.
    FenceAwareWithoutIds,
    /// It checks positions, and knows an operation by its id alone, whatever life of the resource it belongs to.
    FenceAwareWithoutLives,
    /// It remembers keys.
    Idempotent,
    /// It gives everybody one answer, and does as often as it is told, or never, what it is told.
    OneAnswer { acts: bool },
    /// It does what it is told.
    Serial,
}

/// How a conditional store makes its validators, and whether it obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tags {
    /// From a counter: unique per write.
    Counter,
    /// From a counter, and answered with reads only, as many servers do.
    Silent,
    /// From a counter, and called weak.
    Weak,
    /// From the bytes, so old bytes bring the old one back.
    ContentHash,
    /// From a counter, and conditions are not looked at.
    Ignoring,
    /// From a counter; conditions are looked at a while before the write.
    TwoSteps,
    /// From a counter; it does not keep the headers that came with the bytes.
    Headerless,
}

/// One effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The number of the request in the log.
    pub(crate) arrival: usize,
    /// Its method.
    pub(crate) method: String,
    /// Its target.
    pub(crate) target: String,
    /// SHA-256 of its body, in hexadecimal.
    pub(crate) digest: String,
}

struct Cell {
    body: Vec<u8>,
    headers: Vec<(String, String)>,
    tag: String,
}

#[derive(Default)]
struct Fence {
    held: (u64, u64),
    done: BTreeMap<String, Reply>,
}

/// A store and what happened to it.
pub(super) struct Store {
    kind: Kind,
    counter: u64,
    cells: BTreeMap<String, Cell>,
    fences: BTreeMap<String, Fence>,
    keys: BTreeMap<String, Reply>,
    pub(super) effects: Vec<Applied>,
}

fn pair(position: &str) -> (u64, u64) {
    let (epoch, token) = position.split_once('.').unwrap();
    (epoch.parse().unwrap(), token.parse().unwrap())
}

impl Store {
    pub(super) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            counter: 0,
            cells: BTreeMap::new(),
            fences: BTreeMap::new(),
            keys: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    pub(super) const fn become_another(&mut self, kind: Kind) {
        self.kind = kind;
    }

    pub(super) fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.cells.get(path).map(|cell| cell.body.clone())
    }

    /// The answer to a request, and its effect.
    pub(super) fn apply(&mut self, arrival: &Arrival, body: &[u8]) -> Reply {
        if arrival.reads() {
            return self.read(arrival);
        }
        match self.kind {
            Kind::Conditional(tags) => self.conditional(tags, arrival, body),
            Kind::FenceAware | Kind::FenceAwareWithoutIds | Kind::FenceAwareWithoutLives => {
                self.fenced(arrival, body)
            }
            Kind::Idempotent => {
                let key = arrival.header("idempotency-key").unwrap_or_default().to_owned();
                if let Some(reply) = self.keys.get(&key) {
                    return reply.clone();
                }
                let reply = self.write(arrival, body, Tags::Counter);
                self.keys.insert(key, reply.clone());
                reply
            }
            Kind::OneAnswer { acts } => {
                if acts {
                    drop(self.write(arrival, body, Tags::Counter));
                }
                Reply::of(200, "done")
            }
            Kind::Serial => self.write(arrival, body, Tags::Counter),
        }
    }

    /// The effect once more, though the request arrived once.
    pub(super) fn apply_again(&mut self, arrival: &Arrival, body: &[u8]) -> Reply {
        self.apply(arrival, body)
    }

    fn read(&self, arrival: &Arrival) -> Reply {
        if let Some(key) = arrival.target.strip_prefix("/base/status/") {
            return self.keys.get(key).cloned().unwrap_or_else(|| Reply::of(404, "no such key"));
        }
        if arrival.target.starts_with("/base/always/") {
            return Reply::of(200, "done");
        }
        let path = arrival.target.split('?').next().unwrap_or_default();
        let Some(cell) = self.cells.get(path) else { return Reply::of(404, "not there") };
        let mut reply = Reply { status: 200, headers: cell.headers.clone(), body: cell.body.clone() };
        reply.headers.push(("ETag".into(), cell.tag.clone()));
        reply
    }

    /// How long a store that compares and sets in two steps waits between them, in milliseconds.
    pub(super) fn gap(&self, arrival: &Arrival) -> Option<u64> {
        let two_steps = self.kind == Kind::Conditional(Tags::TwoSteps);
        (two_steps && !arrival.reads() && self.holds(arrival)).then_some(20)
    }

    fn holds(&self, arrival: &Arrival) -> bool {
        let now = self.cells.get(&arrival.target).map(|cell| cell.tag.clone());
        let matches = match arrival.header("if-match") {
            None => true,
            Some(wanted) => now.as_deref().is_some_and(|tag| wanted == "*" || wanted == tag),
        };
        matches && (arrival.header("if-none-match") != Some("*") || now.is_none())
    }

    /// The second step of two, taken without another look.
    pub(super) fn set(&mut self, arrival: &Arrival, body: &[u8]) -> Reply {
        self.write(arrival, body, Tags::TwoSteps)
    }

    fn conditional(&mut self, tags: Tags, arrival: &Arrival, body: &[u8]) -> Reply {
        if tags != Tags::Ignoring && !self.holds(arrival) {
            return Reply::of(412, "the condition does not hold");
        }
        self.write(arrival, body, tags)
    }

    fn fenced(&mut self, arrival: &Arrival, body: &[u8]) -> Reply {
        let name = arrival.header("fencing-resource").unwrap_or_default().to_owned();
        let Some(text) = arrival.header("fencing-position") else { return Reply::of(428, "no position") };
        let presented = pair(text);
        let mut operation = arrival.header("fencing-operation").unwrap_or_default().to_owned();
        if self.kind != Kind::FenceAwareWithoutLives {
            let incarnation = arrival.header("fencing-incarnation").unwrap_or_default();
            operation = format!("{incarnation} {operation}");
        }
        let fence = self.fences.entry(name.clone()).or_default();
        if self.kind != Kind::FenceAwareWithoutIds
            && let Some(reply) = fence.done.get(&operation)
        {
            return reply.clone();
        }
        if presented < fence.held {
            let held = format!("{}.{}", fence.held.0, fence.held.1);
            return Reply::of(412, "stale").with("Fencing-Position", &held);
        }
        fence.held = presented;
        if arrival.header("fencing-advance") == Some("true") {
            return Reply::of(204, "").with("Fencing-Position", text);
        }
        let reply = self.write(arrival, body, Tags::Counter).with("Fencing-Position", text);
        self.fences.entry(name).or_default().done.insert(operation, reply.clone());
        reply
    }

    fn write(&mut self, arrival: &Arrival, body: &[u8], tags: Tags) -> Reply {
        self.effects.push(Applied {
            arrival: arrival.number,
            method: arrival.method.clone(),
            target: arrival.target.clone(),
            digest: arrival.digest.clone(),
        });
        self.counter += 1;
        if arrival.method == "DELETE" {
            self.cells.remove(&arrival.target);
            return Reply::of(200, "gone");
        }
        let tag = match tags {
            Tags::Counter | Tags::Silent | Tags::Ignoring | Tags::TwoSteps | Tags::Headerless => {
                format!("\"v{}\"", self.counter)
            }
            Tags::Weak => format!("W/\"v{}\"", self.counter),
            Tags::ContentHash => {
                let digest = Sha256::digest(body).iter().fold(String::new(), |t, b| format!("{t}{b:02x}"));
                format!("\"{digest}\"")
            }
        };
        let kept =
            |name: &str| name.starts_with("x-") || name.starts_with("content-") && name != "content-length";
        let headers = arrival.headers.iter().filter(|(name, _)| tags != Tags::Headerless && kept(name));
        let cell = Cell { body: body.to_vec(), headers: headers.cloned().collect(), tag: tag.clone() };
        let old = self.cells.insert(arrival.target.clone(), cell);
        let reply = Reply::of(if old.is_some() { 200 } else { 201 }, &format!("written {}", self.counter));
        if tags == Tags::Silent { reply } else { reply.with("ETag", &tag) }
    }
}
