//! A schedule, carried out: one event after the other, judged after each and when everything has come to rest.

use fencegate::domain::breaker::Detector;
use fencegate::protocol::Command;
use fencegate::protocol::whole::{Deed, WholeAct};
use sha2::{Digest, Sha256};

use super::bugs::Bug;
use super::events::{Event, Kind, Schedule};
use super::judge::{Violation, broken};
use super::sim::{Reached, Sim};
use super::upstream::Phase;

/// What came of a schedule.
pub(super) struct Ran {
    pub(super) failure: Option<Violation>,
    pub(super) trace: String,
    pub(super) reached: Reached,
}

impl Ran {
    /// Sixteen digits that two runs of one seed share.
    pub(super) fn hash(&self) -> String {
        let digest = Sha256::digest(self.trace.as_bytes());
        digest.iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

/// Carries a schedule out.
pub(super) fn run(schedule: &Schedule) -> Ran {
    let mut sim = Sim::new(schedule.setup);
    let failure = all(&mut sim, &schedule.events).err();
    if let Some(Violation { rule, what }) = &failure {
        sim.note(format_args!("BROKEN {rule}: {what}"));
    }
    Ran { failure, trace: sim.trace, reached: sim.reached }
}

fn all(sim: &mut Sim, events: &[Event]) -> Result<(), Violation> {
    for event in events {
        let happened = sim.happen(*event)?;
        if happened {
            *sim.reached.kinds.entry(event.kind).or_default() += 1;
        }
        let now = sim.now();
        sim.judge.rows(&sim.db.rows, now)?;
    }
    sim.heal()
}

const SECOND: u64 = 1_000;
const MONTH_MS: u64 = 31 * 86_400_000;

impl Sim {
    /// One event. False where there is nothing that it could happen to.
    pub(super) fn happen(&mut self, event: Event) -> Result<bool, Violation> {
        let Event { kind, a, b } = event;
        let gateway = b % self.gateways.len();
        let happened = match kind {
            Kind::Deliver | Kind::Duplicate | Kind::Drop => self.message(kind, a, gateway),
            Kind::Serve => {
                let Some(gateway) = self.busy(a, |one| !one.queue.is_empty() || one.alarm.is_some()) else {
                    return Ok(false);
                };
                self.serve(gateway)?;
                return Ok(true);
            }
            Kind::Unknown => {
                self.gateways[gateway].unknown = Some(a % 2 == 0);
                true
            }
            Kind::Crash => {
                self.crash(gateway);
                true
            }
            Kind::Look => self.look(gateway),
            Kind::Step | Kind::TimeOut | Kind::NotSent | Kind::Refused | Kind::ArriveTwice => {
                let Some(gateway) = self.busy(a, |one| !one.tasks.is_empty()) else { return Ok(false) };
                self.step(kind, gateway, b)?
            }
            Kind::Late => {
                if self.wires.is_empty() {
                    return Ok(false);
                }
                let request = self.wires.remove(a % self.wires.len());
                self.arrive(&request)?;
                true
            }
            Kind::Tick => self.passes(1 + u64::try_from(b).unwrap() % (2 * SECOND)),
            Kind::Pause => self.passes(10 * SECOND + u64::try_from(b).unwrap() * 2),
            Kind::Month => self.passes(MONTH_MS),
            Kind::LoseTail => self.lose(1 + b % 4),
            Kind::Restore => self.lose(4 + b % 30),
            _ => self.ask(event),
        };
        if happened {
            self.note(format_args!("{kind:?} {a} {b}"));
        }
        Ok(happened)
    }

    fn passes(&mut self, ms: u64) -> bool {
        self.clock.advance(ms);
        true
    }

    /// A gateway that has something to do, counted round from this one.
    fn busy(&self, from: usize, has: impl Fn(&super::sim::Gateway) -> bool) -> Option<usize> {
        let count = self.gateways.len();
        (0..count).map(|more| (from + more) % count).find(|one| has(&self.gateways[*one]))
    }

    fn message(&mut self, kind: Kind, a: usize, gateway: usize) -> bool {
        if self.network.is_empty() {
            return false;
        }
        let number = a % self.network.len();
        match kind {
            Kind::Drop => drop(self.network.remove(number)),
            Kind::Duplicate => {
                let call = self.network[number].clone();
                self.reach(gateway, call);
            }
            _ => {
                let call = self.network.remove(number);
                self.reach(gateway, call);
            }
        }
        true
    }

    /// A process ends; what it has written to sockets is on its way all the same.
    fn crash(&mut self, gateway: usize) {
        let witness = self.setup.witness;
        let gone = std::mem::take(&mut self.gateways[gateway]);
        let trips = |job: &super::sim::Job| {
            matches!(&job.command, Command::Whole(WholeAct { deed: Deed::Trip(_), .. }))
        };
        if gone.queue.iter().any(trips) {
            // It is noticed by the next answer of that store, or the next token of that kind.
            self.judge.proved = None;
        }
        for task in gone.tasks {
            if let Phase::Waiting(request) = task.phase {
                self.wires.push(request);
            }
        }
        // What a witness holds is seen again at the next start.
        self.gateways[gateway].alarm = gone.alarm.filter(|_| witness);
    }

    /// The database is an earlier one from now on, and whoever connects to it looks whether that shows.
    fn lose(&mut self, commits: usize) -> bool {
        let left = self.db.commits().saturating_sub(commits);
        if left == self.db.commits() {
            return false;
        }
        let sets = self.db.go_back(left);
        self.judge.lose(left, &sets, self.setup.witness);
        if self.is(Bug::LossUnnoticed) {
            return true;
        }
        for number in 0..self.gateways.len() {
            let acks = &self.gateways[number].acks;
            let missing = acks.iter().any(|key| self.db.rows.operation(key).is_none());
            let detector = match (self.setup.witness, missing) {
                (true, _) => Some(Detector::Witness),
                (false, true) => Some(Detector::Acks),
                (false, false) => None,
            };
            if let Some(detector) = detector {
                self.met(detector.word());
                self.gateways[number].alarm = Some(detector);
                self.gateways[number].acks.clear();
            }
        }
        true
    }
}

/// How often is looked after everything, with a pause between.
const ROUNDS: usize = 24;

/// Steps of one round.
const STEPS: usize = 200;

impl Sim {
    /// All faults stop; after a bounded number of looks nothing is undecided any more. I20.
    fn heal(&mut self) -> Result<(), Violation> {
        self.network.clear();
        for request in std::mem::take(&mut self.wires) {
            self.arrive(&request)?;
        }
        self.gateways.iter_mut().for_each(|one| one.unknown = None);
        for round in 0..ROUNDS {
            self.round(round)?;
            let now = self.now();
            self.judge.rows(&self.db.rows, now)?;
        }
        self.is_healed()?;
        self.ask_for_everything()
    }

    fn round(&mut self, number: usize) -> Result<(), Violation> {
        let event = |kind| Event { kind, a: 0, b: 1_000 + number };
        if self.is_tripped() {
            self.begin_epoch(event(Kind::Epoch));
        }
        for page in 0..2 {
            let row = self.db.rows.resource(&crate::support::world::name(super::durable::PAGES[page]));
            if row.is_some_and(|row| row.quarantined.is_some()) {
                // A key of its own each time, and the second page for one number in seven.
                let b = 1_000 + number * 14 + usize::from(page == 1);
                let b = if page == 1 { b - b % 7 + 6 } else { b - b % 7 };
                self.ask(Event { kind: Kind::Reopen, a: 0, b });
            }
        }
        self.resolve(event(Kind::Resolve));
        self.look(0);
        for _ in 0..STEPS {
            let queue = |one: &super::sim::Gateway| !one.queue.is_empty() || one.alarm.is_some();
            if let Some(gateway) = self.busy(0, queue) {
                self.serve(gateway)?;
            } else if let Some(gateway) = self.busy(0, |one| !one.tasks.is_empty()) {
                self.step(Kind::Step, gateway, 0)?;
            } else {
                self.passes(31 * SECOND);
                return Ok(());
            }
        }
        broken("I20", "something goes on for ever")
    }

    fn is_healed(&self) -> Result<(), Violation> {
        if self.is_tripped() {
            return broken("I20", "the breaker is tripped for ever");
        }
        if let Some(detector) = self.judge.proved {
            return broken("breaker", format!("{detector} has shown a loss, and nothing was stopped"));
        }
        if let Some(intent) = self.db.rows.intents().next() {
            return broken("I20", format!("undecided for ever: {:?}", intent.record));
        }
        if self.judge.losses > 0 || self.setup.class.is_none() {
            return Ok(());
        }
        for (page, effects) in self.judge.effects.iter().enumerate() {
            let row = self.db.rows.resource(&crate::support::world::name(super::durable::PAGES[page]));
            let recorded = row.and_then(|row| row.applied).map(|mark| mark.position);
            let last = effects.last().map(|done| done.position);
            if recorded != last {
                return broken("I20", format!("{recorded:?} is recorded, and {last:?} is in the store"));
            }
        }
        Ok(())
    }

    /// Every operation that was ever begun is asked for once more: what was acknowledged is still known, or its record was
    /// allowed to go and nobody claims that it was never done.
    fn ask_for_everything(&mut self) -> Result<(), Violation> {
        for number in 0..self.ops.len() {
            self.deliver_op(0, number, true);
            let call = self.network.pop().unwrap();
            self.reach(0, call);
            self.serve(0)?;
        }
        Ok(())
    }
}
