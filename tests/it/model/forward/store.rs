//! What a store of each class does with what arrives, and its own log of that: the judge believes nobody else.

use std::collections::{BTreeMap, BTreeSet};

use fencegate::domain::upstream::{Base, CellSeen, Class, Stamp, Validator};

use super::bugs::Bug;

/// A refusal of the request itself.
pub(super) const OF_THE_REQUEST: u16 = 413;

/// A request on its way. Whatever arrives twice is the same request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Request {
    /// An effect.
    Write { sent: Sent, base: Base, stamp: Option<Stamp> },
    /// A barrier of a conditional store.
    Rewrite { base: Base, stamp: Stamp },
    /// A barrier of a fence-aware store.
    Advance { position: u64 },
}

/// Whose effect it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Sent {
    /// The delivery that announced it.
    pub(super) delivery: usize,
    pub(super) operation: char,
    pub(super) incarnation: u64,
    pub(super) position: u64,
    pub(super) content: u8,
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) validator: Option<Validator>,
    pub(super) holds: Option<u64>,
}

/// What a request did, in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Wrote(Sent),
    Fenced(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cell {
    validator: Validator,
    stamp: Option<Stamp>,
    content: u8,
}

/// One resource in a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Store {
    class: Class,
    cell: Option<Cell>,
    /// Validators that were used up.
    made: u32,
    /// The position that a fence-aware store holds.
    holds: u64,
    /// Operations that the store remembers, with its answers.
    known: BTreeMap<(char, u64), u16>,
    /// Those that it remembers for less than half of its time by now.
    fresh: BTreeSet<(char, u64)>,
}

impl Store {
    /// An empty one; a conditional one may have content from before the gateway's time.
    pub(super) fn new(class: Class, content: Option<u8>, bug: Option<Bug>) -> Self {
        let mut store =
            Self { class, cell: None, made: 0, holds: 0, known: BTreeMap::new(), fresh: BTreeSet::new() };
        if let Some(content) = content {
            store.put(content, None, bug);
        }
        store
    }

    fn put(&mut self, content: u8, stamp: Option<Stamp>, bug: Option<Bug>) -> Validator {
        self.made += 1;
        let hashed = bug == Some(Bug::ContentHash);
        let text = if hashed { format!("\"c{content}\"") } else { format!("\"v{}\"", self.made) };
        let validator = Validator::parse(&text).unwrap();
        self.cell = Some(Cell { validator: validator.clone(), stamp, content });
        validator
    }

    /// What a read shows.
    pub(super) fn read(&self) -> CellSeen {
        match &self.cell {
            None => CellSeen::Absent,
            Some(Cell { validator, stamp: None, .. }) => CellSeen::Unstamped(validator.clone()),
            Some(Cell { validator, stamp: Some(stamp), .. }) => {
                CellSeen::Stamped(validator.clone(), stamp.clone())
            }
        }
    }

    /// Whether it remembers an operation.
    pub(super) fn knows(&self, operation: char, incarnation: u64) -> Option<u16> {
        self.known.get(&(operation, incarnation)).copied()
    }

    fn stands(&self, base: &Base) -> bool {
        match (base, &self.cell) {
            (Base::Absent, None) => true,
            (Base::Recorded(wanted), Some(cell)) => *wanted == cell.validator,
            (Base::Unread | Base::Absent | Base::Recorded(_), _) => false,
        }
    }

    /// A request arrives.
    pub(super) fn take(
        &mut self,
        request: &Request,
        bug: Option<Bug>,
        ages: bool,
    ) -> (Reply, Option<Effect>) {
        match request {
            Request::Advance { position } if *position < self.holds => (self.lower(), None),
            Request::Advance { position } => {
                self.holds = *position;
                (ok(), Some(Effect::Fenced(*position)))
            }
            Request::Rewrite { base, .. } | Request::Write { base, .. }
                if self.class == Class::Conditional && !self.stands(base) =>
            {
                (Reply { status: 412, validator: None, holds: None }, None)
            }
            Request::Rewrite { stamp, .. } => {
                let content = self.cell.as_ref().map_or(0, |cell| cell.content);
                let validator = Some(self.put(content, Some(stamp.clone()), bug));
                (Reply { validator, ..ok() }, Some(Effect::Fenced(super::bounds::number_of(stamp.position))))
            }
            Request::Write { sent, stamp, .. } => self.write(sent, stamp.as_ref(), bug, ages),
        }
    }

    fn write(
        &mut self,
        sent: &Sent,
        stamp: Option<&Stamp>,
        bug: Option<Bug>,
        ages: bool,
    ) -> (Reply, Option<Effect>) {
        let effect = Some(Effect::Wrote(*sent));
        let key = (sent.operation, sent.incarnation);
        match self.class {
            Class::Conditional => {
                let validator = Some(self.put(sent.content, stamp.cloned(), bug));
                return (Reply { validator, ..ok() }, effect);
            }
            Class::Serial => return (ok(), effect),
            Class::FenceAware | Class::Idempotent => {}
        }
        if let Some(status) = self.known.get(&key)
            && bug != Some(Bug::NoDeduplication)
        {
            return (Reply { status: *status, ..ok() }, None);
        }
        if self.class == Class::FenceAware && sent.position < self.holds {
            return (self.lower(), None);
        }
        self.holds = self.holds.max(sent.position);
        self.known.insert(key, 200);
        if ages {
            self.fresh.insert(key);
        }
        (ok(), effect)
    }

    /// Half of the time for which keys are kept passes.
    pub(super) fn age(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if self.class == Class::Idempotent {
            self.known.retain(|key, _| fresh.contains(key));
        }
    }

    /// Whether it may refuse a write. A fence-aware receiver says of a request itself the same for every attempt.
    pub(super) fn may_refuse(&self, request: &Request, status: u16) -> bool {
        let Request::Write { sent, .. } = request else { return false };
        let keeps = self.class == Class::FenceAware && status == OF_THE_REQUEST;
        !keeps || self.knows(sent.operation, sent.incarnation).is_none_or(|known| known == status)
    }

    /// A write is refused.
    pub(super) fn refuse(&mut self, request: &Request, status: u16) {
        if let (Request::Write { sent, .. }, Class::FenceAware, OF_THE_REQUEST) =
            (request, self.class, status)
        {
            self.known.insert((sent.operation, sent.incarnation), status);
        }
    }

    fn lower(&self) -> Reply {
        Reply { status: 412, validator: None, holds: Some(self.holds) }
    }

    /// Whether a request can have no effect any more, whenever it arrives.
    pub(super) fn is_dead(&self, request: &Request, bug: Option<Bug>) -> bool {
        match (request, self.class) {
            (Request::Advance { position }, _) => *position <= self.holds,
            (Request::Rewrite { base, .. } | Request::Write { base, .. }, Class::Conditional) => {
                bug != Some(Bug::ContentHash) && !self.stands(base)
            }
            (Request::Rewrite { .. }, _) | (Request::Write { .. }, Class::Serial) => false,
            (Request::Write { sent, .. }, Class::FenceAware | Class::Idempotent) => {
                let known = self.known.contains_key(&(sent.operation, sent.incarnation));
                let fenced = self.class == Class::FenceAware && sent.position < self.holds;
                (known && bug != Some(Bug::NoDeduplication)) || fenced
            }
        }
    }
}

const fn ok() -> Reply {
    Reply { status: 200, validator: None, holds: None }
}
