//! Scripted stores of every class, each with the log of what arrived: the judge believes nobody else.

use std::collections::BTreeMap;

use fencegate::domain::counter::Incarnation;
use fencegate::domain::position::Position;
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::{Base, CellSeen, Class, Stamp, Validator};

/// Whose effect a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) claim: u64,
    pub(super) operation: String,
    pub(super) incarnation: Incarnation,
    pub(super) position: Position,
}

/// What goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Write { sent: Sent, base: Base, stamp: Option<Stamp> },
    Rewrite { base: Base, stamp: Stamp },
    Advance { position: Position },
}

/// A request on its way to one page of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) page: usize,
    pub(super) what: What,
    pub(super) at: Timestamp,
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) validator: Option<Validator>,
    pub(super) holds: Option<Position>,
}

/// What a request did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Wrote(Sent),
    Fenced(Position),
}

/// One resource in a store.
#[derive(Debug, Clone, Default)]
struct Page {
    cell: Option<(Validator, Stamp)>,
    holds: Position,
    known: BTreeMap<(String, u64), (u16, Timestamp)>,
}

/// A store.
pub(super) struct Store {
    class: Class,
    pages: [Page; 2],
    made: u32,
    retention_ms: u64,
}

const OK: Reply = Reply { status: 200, validator: None, holds: None };

impl Store {
    pub(super) fn new(class: Class, retention_ms: u64) -> Self {
        Self { class, pages: [Page::default(), Page::default()], made: 0, retention_ms }
    }

    /// What a read of a cell shows.
    pub(super) fn read(&self, page: usize) -> CellSeen {
        self.pages[page].cell.as_ref().map_or(CellSeen::Absent, |(validator, stamp)| {
            CellSeen::Stamped(validator.clone(), stamp.clone())
        })
    }

    /// What it answers about a key, where it remembers one.
    pub(super) fn knows(&self, page: usize, sent: &Sent) -> Option<u16> {
        self.pages[page].known.get(&(sent.operation.clone(), sent.incarnation.get())).map(|known| known.0)
    }

    fn put(&mut self, page: usize, stamp: &Stamp) -> Validator {
        self.made += 1;
        let validator = Validator::parse(&format!("\"v{}\"", self.made)).unwrap();
        self.pages[page].cell = Some((validator.clone(), stamp.clone()));
        validator
    }

    fn stands(&self, page: usize, base: &Base) -> bool {
        match (base, &self.pages[page].cell) {
            (Base::Absent, None) => true,
            (Base::Recorded(wanted), Some((validator, _))) => wanted == validator,
            (Base::Unread | Base::Absent | Base::Recorded(_), _) => false,
        }
    }

    /// A request arrives.
    pub(super) fn take(&mut self, request: &Request, now: Timestamp) -> (Reply, Option<Effect>) {
        let page = request.page;
        self.forget(page, now);
        match &request.what {
            What::Advance { position } if position.is_below(self.pages[page].holds) => {
                (self.lower(page), None)
            }
            What::Advance { position } => {
                self.pages[page].holds = *position;
                (OK, Some(Effect::Fenced(*position)))
            }
            What::Rewrite { base, .. } | What::Write { base, .. }
                if self.class == Class::Conditional && !self.stands(page, base) =>
            {
                (Reply { status: 412, ..OK }, None)
            }
            What::Rewrite { stamp, .. } => {
                let validator = Some(self.put(page, stamp));
                (Reply { validator, ..OK }, Some(Effect::Fenced(stamp.position)))
            }
            What::Write { sent, stamp, .. } => self.write(page, sent, stamp.as_ref(), now),
        }
    }

    fn write(
        &mut self,
        page: usize,
        sent: &Sent,
        stamp: Option<&Stamp>,
        now: Timestamp,
    ) -> (Reply, Option<Effect>) {
        let effect = Some(Effect::Wrote(sent.clone()));
        match self.class {
            Class::Conditional => {
                let validator = stamp.map(|stamp| self.put(page, stamp));
                return (Reply { validator, ..OK }, effect);
            }
            Class::Serial => return (OK, effect),
            Class::FenceAware | Class::Idempotent => {}
        }
        if let Some(status) = self.knows(page, sent) {
            return (Reply { status, ..OK }, None);
        }
        if self.class == Class::FenceAware && sent.position.is_below(self.pages[page].holds) {
            return (self.lower(page), None);
        }
        let state = &mut self.pages[page];
        state.holds = state.holds.or_higher(sent.position);
        state.known.insert((sent.operation.clone(), sent.incarnation.get()), (200, now));
        (OK, effect)
    }

    /// A refusal of the request itself; a fence-aware receiver keeps to it.
    pub(super) fn refuse(&mut self, request: &Request, now: Timestamp) -> bool {
        let What::Write { sent, .. } = &request.what else { return false };
        if self.knows(request.page, sent).is_some() {
            return false;
        }
        if self.class == Class::FenceAware {
            let key = (sent.operation.clone(), sent.incarnation.get());
            self.pages[request.page].known.insert(key, (413, now));
        }
        true
    }

    /// Keys are remembered for a time, and positions for ever.
    fn forget(&mut self, page: usize, now: Timestamp) {
        let kept = fencegate::domain::time::Millis::new(self.retention_ms);
        if self.class == Class::Idempotent {
            self.pages[page].known.retain(|_, (_, at)| at.plus(kept) > now);
        }
    }

    fn lower(&self, page: usize) -> Reply {
        Reply { status: 412, validator: None, holds: Some(self.pages[page].holds) }
    }
}
