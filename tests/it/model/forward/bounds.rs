//! How large a small world is.

use std::cell::RefCell;
use std::collections::BTreeSet;

use fencegate::domain::lease::{Ttl, TtlBounds};
use fencegate::domain::operation::Method;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::position::Position;
use fencegate::domain::upstream::Class;
use fencegate::protocol::command::Member;

use super::super::verdicts::Word;
use super::bugs::Bug;
use crate::support::draft::{delete, put};
use crate::support::forwarding::store_rules;
use crate::support::world::{World, at};

/// The one resource.
pub(super) const PAGE: &str = "w/a";

/// A ttl that no history here outlasts.
const FOR_EVER: Ttl = Ttl::from_ms(1_000_000_000_000);

/// One delivery of one operation; it comes at most once, at any time.
#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) operation: char,
    pub(super) position: u64,
    pub(super) content: u8,
    /// Without its claim, which the rules get when it is told.
    pub(super) member: Member,
}

/// What may happen in a world.
#[expect(clippy::struct_excessive_bools, reason = "each turns one thing of a world on")]
pub(super) struct Bounds {
    pub(super) world: World,
    pub(super) class: Class,
    pub(super) deliveries: Vec<Delivery>,
    /// Positions that are issued in the course of the history, under a gateway issuer.
    pub(super) acquires: u64,
    pub(super) cancels: bool,
    /// Content of the cell from before the gateway's time.
    pub(super) before: Option<u8>,
    /// No operation is attempted more often.
    pub(super) attempts: u32,
    /// Steps that were told and not finished, at once.
    pub(super) tasks: usize,
    /// Requests that arrive twice.
    pub(super) twice: u8,
    /// Writes that the store refuses, with this status.
    pub(super) refused: Option<u16>,
    /// Attempts of which not one byte is sent.
    pub(super) not_sent: u8,
    /// Whether the breaker may trip, once.
    pub(super) trips: bool,
    /// Whether a new epoch may begin, once, with whatever is under way.
    pub(super) epochs: bool,
    /// Whether records are forgotten as soon as they may be.
    pub(super) prunes: bool,
    /// Whether time passes, twice half of that for which a store keeps keys.
    pub(super) ages: bool,
    pub(super) bug: Option<Bug>,
    /// What the rules have answered so far.
    pub(super) met: RefCell<BTreeSet<Word>>,
}

/// Positions of these worlds as one number: what is below belongs to epoch 0.
pub(super) const EPOCH: u64 = 100;

/// The position that a number stands for.
pub(super) fn position_of(number: u64) -> Position {
    at(number / EPOCH, number % EPOCH)
}

/// The number that stands for a position.
pub(super) const fn number_of(position: Position) -> u64 {
    position.epoch.get() * EPOCH + position.token.get()
}

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Whether further than usual is to be searched, and how many attempts further.
fn deeper() -> (bool, u32) {
    let depth = number("FENCEGATE_MODEL_DEPTH").unwrap_or(0);
    (depth > 0, number("FENCEGATE_MODEL_ATTEMPTS").unwrap_or(depth))
}

impl Bounds {
    pub(super) fn new(class: Class, policy: Policy, contract: Contract) -> Self {
        let issuer = match contract {
            Contract::Observed => Issuer::Trusted { max_jump: None },
            Contract::Immediate | Contract::LeaseBound => Issuer::Gateway,
        };
        let definition = Definition { policy, contract, issuer, store: Store::Http(class), scope: 0 };
        let mut world = World::new(definition);
        world.rule(|rules| {
            rules.upstream = Some(store_rules());
            rules.ttl = TtlBounds { default: FOR_EVER, greatest: FOR_EVER, ..TtlBounds::default() };
        });
        let (is_deeper, attempts) = deeper();
        Self {
            world,
            class,
            deliveries: Vec::new(),
            acquires: 0,
            cancels: false,
            before: None,
            attempts: 2 + attempts,
            tasks: if is_deeper { 3 } else { 2 },
            twice: 0,
            refused: None,
            not_sent: 0,
            trips: false,
            epochs: false,
            prunes: false,
            ages: false,
            bug: None,
            met: RefCell::default(),
        }
    }

    /// A PUT of this operation under this position; `content` is what it brings.
    pub(super) fn put(self, operation: char, position: u64, content: u8) -> Self {
        self.add(Method::Put, operation, position, content, 0)
    }

    /// The same with a place in the order of its generation.
    pub(super) fn ordered(self, operation: char, position: u64, content: u8, sequence: u64) -> Self {
        self.add(Method::Put, operation, position, content, sequence)
    }

    /// A removal of the resource.
    pub(super) fn delete(self, operation: char, position: u64) -> Self {
        self.add(Method::Delete, operation, position, 0, 0)
    }

    fn add(mut self, method: Method, operation: char, position: u64, content: u8, sequence: u64) -> Self {
        let (id, token) = (operation.to_string(), position_of(position).to_string());
        let mut draft = match method {
            Method::Delete => delete(PAGE, &id, token),
            Method::Put | Method::Post | Method::Patch => put(PAGE, &id, token),
        };
        draft.sequence = (sequence > 0).then_some(sequence);
        let member = draft.member(&self.world);
        self.deliveries.push(Delivery { operation, position, content, member });
        self
    }

    /// Whether the resource may be removed.
    pub(super) fn removes(&self) -> bool {
        self.deliveries.iter().any(|delivery| delivery.member.method == Method::Delete)
    }

    pub(super) fn with(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self
    }

    pub(super) fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
