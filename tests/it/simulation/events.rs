//! A schedule: a small world and what happens in it, drawn from a seed and then fixed. Numbers in an event name what there
//! is at that moment, counted round; so any part of a schedule is a schedule too, and can be tried alone.

use fencegate::domain::policy::{Contract, Issuer, Policy};
use fencegate::domain::upstream::Class;

use super::bugs::Bug;
use crate::support::dice::Dice;

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A worker asks to be the owner, or asks again because it heard nothing.
    Acquire,
    Again,
    Renew,
    Release,
    /// A worker writes, or removes the resource.
    Write,
    Remove,
    /// Somebody sends an operation once more, under its first token or under the newest one of the worker.
    Retry,
    /// Other content under an old name.
    Mismatch,
    /// Somebody without the right asks for an outcome.
    Stranger,
    Advance,
    Revoke,
    Cancel,
    Reopen,
    Resolve,
    Epoch,
    Sweep,
    Forget,
    Fold,
    /// A request reaches a gateway, reaches it and will come again, or is lost.
    Deliver,
    Duplicate,
    Drop,
    /// A gateway decides what it has, in one transaction.
    Serve,
    /// Its next commit has no outcome: it happened, or it did not.
    Unknown,
    Crash,
    /// A gateway takes up what is due.
    Look,
    /// The next step of an attempt at a store, and what can go wrong with one.
    Step,
    TimeOut,
    NotSent,
    Refused,
    ArriveTwice,
    /// A request arrives that nobody waits for.
    Late,
    Tick,
    /// Longer than a lease.
    Pause,
    /// Longer than anything is kept.
    Month,
    /// The last commits are gone: an asynchronous failover.
    LoseTail,
    /// A back-up is restored.
    Restore,
}

/// How often each comes, of all.
const WEIGHTS: [(Kind, u64); 36] = [
    (Kind::Acquire, 50),
    (Kind::Again, 20),
    (Kind::Renew, 8),
    (Kind::Release, 14),
    (Kind::Write, 75),
    (Kind::Remove, 10),
    (Kind::Retry, 30),
    (Kind::Mismatch, 4),
    (Kind::Stranger, 6),
    (Kind::Advance, 6),
    (Kind::Revoke, 5),
    (Kind::Cancel, 3),
    (Kind::Reopen, 8),
    (Kind::Resolve, 12),
    (Kind::Epoch, 4),
    (Kind::Sweep, 5),
    (Kind::Forget, 8),
    (Kind::Fold, 5),
    (Kind::Deliver, 150),
    (Kind::Duplicate, 25),
    (Kind::Drop, 10),
    (Kind::Serve, 190),
    (Kind::Unknown, 10),
    (Kind::Crash, 6),
    (Kind::Look, 60),
    (Kind::Step, 170),
    (Kind::TimeOut, 14),
    (Kind::NotSent, 5),
    (Kind::Refused, 6),
    (Kind::ArriveTwice, 8),
    (Kind::Late, 16),
    (Kind::Tick, 20),
    (Kind::Pause, 18),
    (Kind::Month, 4),
    (Kind::LoseTail, 3),
    (Kind::Restore, 2),
];

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: Kind,
    pub(super) a: usize,
    pub(super) b: usize,
}

/// The world of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setup {
    /// None keeps documents in the gateway's own database.
    pub(super) class: Option<Class>,
    pub(super) policy: Policy,
    pub(super) contract: Contract,
    pub(super) issuer: Issuer,
    pub(super) gateways: usize,
    pub(super) workers: usize,
    /// Whether a witness outside of the database sees every loss; else acknowledgements, seals and stores may.
    pub(super) witness: bool,
    pub(super) bug: Option<Bug>,
}

/// A world and what happens in it.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    pub(super) setup: Setup,
    pub(super) events: Vec<Event>,
}

/// Events of one schedule.
const EVENTS: usize = 170;

impl Schedule {
    /// What a seed means.
    pub(super) fn of(seed: u64, bug: Option<Bug>) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll(2);
        }
        let mut setup = Setup::of(&mut dice);
        if let Some(bug) = bug {
            bug.suits(&mut setup);
            setup.bug = Some(bug);
        }
        let sum = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let events = (0..EVENTS).map(|_| Event {
            kind: suited(bug, kind(dice.roll(sum))),
            a: small(&mut dice),
            b: small(&mut dice),
        });
        Self { seed, setup, events: events.collect() }
    }
}

/// What is rare and matters to a wrong gateway comes more often where it is looked for.
const fn suited(bug: Option<Bug>, kind: Kind) -> Kind {
    match (bug, kind) {
        (Some(Bug::SettleWithoutCompare), Kind::Tick | Kind::Renew | Kind::Sweep | Kind::Fold) => {
            Kind::NotSent
        }
        (Some(Bug::SettleWithoutCompare), Kind::Forget | Kind::Advance | Kind::Release) => Kind::Pause,
        // Documents have no steps at a store; what has to come together here is rare otherwise.
        (Some(Bug::FoldForgetsBase), Kind::Step) => Kind::Fold,
        (Some(Bug::FoldForgetsBase), Kind::Look) => Kind::Forget,
        (Some(Bug::FoldForgetsBase), Kind::Late) => Kind::Month,
        (Some(Bug::FoldForgetsBase), Kind::TimeOut) => Kind::Remove,
        (_, kind) => kind,
    }
}

fn small(dice: &mut Dice) -> usize {
    usize::try_from(dice.roll(5_040)).unwrap()
}

fn kind(mut drawn: u64) -> Kind {
    for (kind, weight) in WEIGHTS {
        if drawn < weight {
            return kind;
        }
        drawn -= weight;
    }
    Kind::Serve
}

impl Setup {
    fn of(dice: &mut Dice) -> Self {
        let [conditional, fence_aware, idempotent, serial] = Class::ALL.map(Some);
        let classes = [None, None, conditional, conditional, fence_aware, fence_aware, idempotent, serial];
        let class = *dice.pick(&classes);
        let contract =
            *dice.pick(&[Contract::Observed, Contract::Immediate, Contract::Immediate, Contract::LeaseBound]);
        let external = contract == Contract::Observed && dice.roll(2) == 0;
        let issuer = match (external, dice.roll(2)) {
            (false, _) => Issuer::Gateway,
            (true, 0) => Issuer::Trusted { max_jump: None },
            (true, _) => Issuer::Registered,
        };
        Self {
            class,
            policy: *dice.pick(&[Policy::Single, Policy::Ordered { gapless: false }]),
            contract,
            issuer,
            gateways: 2 + usize::try_from(dice.roll(2)).unwrap(),
            workers: 2 + usize::try_from(dice.roll(2)).unwrap(),
            witness: dice.roll(4) > 0,
            bug: None,
        }
    }
}
