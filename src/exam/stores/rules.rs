//! What each store does with a request: read, compare, keep.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::STAMP;
use crate::exam::events::{Arrived, Class, Place, digest};
use crate::exam::wire::{Message, OPERATIONS};
use crate::limits::EXAM_REMEMBERED;

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl Reply {
    fn of(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: body.as_bytes().to_vec() }
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// What was written last.
struct Kept {
    body: Vec<u8>,
    tag: String,
    stamp: Option<String>,
    kind: Option<String>,
}

#[derive(Default)]
struct Cell {
    /// None where there is nothing.
    kept: Option<Kept>,
    /// The highest position that was seen.
    held: Option<Place>,
    /// What was answered to operations, or to keys.
    done: HashMap<String, Reply>,
    /// Operations that had an effect here, and how often.
    operations: HashMap<String, usize>,
}

/// What a store holds.
pub(super) struct Shelf {
    class: Class,
    name: String,
    counter: u64,
    cells: BTreeMap<String, Cell>,
    /// Cells that nobody will ask for any more.
    unused: VecDeque<String>,
}

/// The operation that a worker named in the exam's own header: where the class has none for it.
fn named_in(request: &Message) -> Option<String> {
    request.header(OPERATIONS)?.rsplit(' ').next().map(str::to_owned)
}

impl Shelf {
    pub(super) fn of(class: Class, name: &str) -> Self {
        let (cells, unused) = (BTreeMap::new(), VecDeque::new());
        Self { class, name: name.to_owned(), counter: 0, cells, unused }
    }

    pub(super) fn content(&self, resource: &str) -> Option<String> {
        let kept = self.cells.get(resource)?.kept.as_ref()?;
        let is_empty =
            kept.stamp.as_deref().is_some_and(|stamp| [Some("t"), Some("e")].contains(&letter(stamp)));
        (!is_empty).then(|| digest(&kept.body))
    }

    pub(super) fn times_done(&self, resource: &str, operation: &str) -> usize {
        let cell = self.cells.get(resource);
        cell.and_then(|cell| cell.operations.get(operation)).copied().unwrap_or_default()
    }

    /// What was done there is known for a while: an honest store does not do it again when it comes late.
    pub(super) fn forget(&mut self, resource: &str) {
        self.unused.push_back(resource.to_owned());
        if self.unused.len() > EXAM_REMEMBERED
            && let Some(oldest) = self.unused.pop_front()
        {
            self.cells.remove(&oldest);
        }
    }

    /// Does it. What is no probe and no read is to be written down.
    pub(super) fn take(&mut self, request: &Message) -> (Reply, Option<Arrived>) {
        let mut words = request.first.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default().trim_start_matches('/');
        let resource = if self.name.is_empty() { path.to_owned() } else { format!("{}/{path}", self.name) };
        if ["GET", "HEAD"].contains(&method) {
            return (self.read(&resource), None);
        }
        let advance = request.header("fencing-advance").is_some();
        let stamp = request.header(STAMP);
        let stamped = |index: usize| stamp.and_then(|stamp| stamp.splitn(6, ';').nth(index));
        let position = request.header("fencing-position").or_else(|| stamped(3));
        let position = position.and_then(|text| text.parse().ok());
        let operation = request.header("fencing-operation").or_else(|| stamped(5)).map(str::to_owned);
        let operation = operation.or_else(|| named_in(request)).filter(|id| !id.is_empty());
        let life = request.header("fencing-incarnation").or_else(|| stamped(2));
        let incarnation = life.and_then(|text| text.parse().ok());
        let before = self.counter;
        let reply = match self.class {
            Class::Document => Reply::of(405, "no store of the exam"),
            Class::Conditional => self.on_a_condition(&resource, method, request),
            Class::FenceAware => self.by_position(&resource, method, request, position, advance),
            Class::Idempotent => self.by_key(&resource, method, request),
            Class::Serial | Class::Unfenced => self.keep(&resource, method, request),
        };
        let applied = self.counter != before;
        if applied && let (Some(cell), Some(id)) = (self.cells.get_mut(&resource), &operation) {
            let times = cell.operations.entry(id.clone()).or_default();
            *times = times.saturating_add(1);
        }
        let arrived = Arrived {
            store: self.class,
            resource,
            method: if advance { "ADVANCE".to_owned() } else { method.to_owned() },
            applied,
            status: reply.status,
            position,
            operation,
            digest: Some(digest(&request.body)),
            incarnation,
            stamp: stamped(1).map(str::to_owned),
            base: request.header("if-match").or_else(|| request.header("if-none-match")).map(str::to_owned),
            tag: reply.headers.iter().find(|(name, _)| *name == "etag").map(|(_, tag)| tag.clone()),
        };
        let is_probe = path.starts_with(".fencegate-probe");
        (reply, (!is_probe).then_some(arrived))
    }

    fn read(&self, resource: &str) -> Reply {
        let Some(kept) = self.cells.get(resource).and_then(|cell| cell.kept.as_ref()) else {
            return Reply::of(404, "not there");
        };
        let mut reply = Reply { status: 200, headers: Vec::new(), body: kept.body.clone() };
        reply = reply.with("etag", kept.tag.clone());
        if let Some(stamp) = &kept.stamp {
            reply = reply.with(STAMP, stamp.clone());
        }
        match &kept.kind {
            Some(kind) => reply.with("content-type", kind.clone()),
            None => reply,
        }
    }

    fn on_a_condition(&mut self, resource: &str, method: &str, request: &Message) -> Reply {
        let kept = self.cells.get(resource).and_then(|cell| cell.kept.as_ref());
        let tag = kept.map(|kept| kept.tag.as_str());
        let fits = match (request.header("if-match"), request.header("if-none-match")) {
            (Some("*"), _) => tag.is_some(),
            (Some(wanted), _) => tag == Some(wanted),
            (None, Some("*")) => tag.is_none(),
            (None, Some(unwanted)) => tag != Some(unwanted),
            (None, None) => true,
        };
        if fits {
            self.keep(resource, method, request)
        } else {
            Reply::of(412, "the condition does not hold")
        }
    }

    fn by_position(
        &mut self,
        resource: &str,
        method: &str,
        request: &Message,
        position: Option<Place>,
        advance: bool,
    ) -> Reply {
        let name = request.header("fencing-resource").unwrap_or(resource).to_owned();
        let Some(position) = position else { return Reply::of(428, "no position") };
        let life = request.header("fencing-incarnation").unwrap_or_default();
        let operation = request.header("fencing-operation").unwrap_or_default();
        let operation = format!("{life} {operation}");
        let cell = self.cells.entry(name.clone()).or_default();
        if let Some(reply) = cell.done.get(&operation).filter(|_| !advance) {
            return reply.clone();
        }
        if let Some(held) = cell.held.filter(|held| *held > position) {
            return Reply::of(412, "stale").with("fencing-position", held.to_string());
        }
        cell.held = Some(position);
        if advance {
            return Reply::of(204, "").with("fencing-position", position.to_string());
        }
        let reply = self.keep(&name, method, request).with("fencing-position", position.to_string());
        self.cells.entry(name).or_default().done.insert(operation, reply.clone());
        reply
    }

    fn by_key(&mut self, resource: &str, method: &str, request: &Message) -> Reply {
        let key = request.header("idempotency-key").unwrap_or_default().to_owned();
        if let Some(reply) = self.cells.get(resource).and_then(|cell| cell.done.get(&key)) {
            return reply.clone();
        }
        let reply = self.keep(resource, method, request);
        self.cells.entry(resource.to_owned()).or_default().done.insert(key, reply.clone());
        reply
    }

    fn keep(&mut self, resource: &str, method: &str, request: &Message) -> Reply {
        self.counter = self.counter.saturating_add(1);
        let cell = self.cells.entry(resource.to_owned()).or_default();
        if method == "DELETE" {
            cell.kept = None;
            return Reply::of(200, "gone");
        }
        let tag = format!("\"v{}\"", self.counter);
        let header = |name: &str| request.header(name).map(str::to_owned);
        let kept = Kept {
            body: request.body.clone(),
            tag: tag.clone(),
            stamp: header(STAMP),
            kind: header("content-type"),
        };
        let status = if cell.kept.replace(kept).is_some() { 200 } else { 201 };
        Reply::of(status, &format!("written {}", self.counter)).with("etag", tag)
    }
}

/// Why a cell was written.
fn letter(stamp: &str) -> Option<&str> {
    stamp.split(';').nth(1)
}
