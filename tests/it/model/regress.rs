//! The database goes back to an earlier moment, once, at any point of a small world's history: every order of what may
//! follow is searched, with late copies of everything that was ever issued.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use fencegate::domain::breaker::{Breaker, Detector};
use fencegate::domain::lease::AcquisitionId;
use fencegate::domain::operation::OperationId;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy};
use fencegate::domain::position::Position;
use fencegate::domain::seal::SealVerdict;
use fencegate::domain::subject::Subject;
use fencegate::protocol::command::{Acquire, Advance, Claim, Member, Write};
use fencegate::protocol::whole::{Deed, WholeAct};
use fencegate::protocol::{Change, Command, Decision, Outcome, Refusal, Snapshot, decide};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{ORDERED, SESSION, SINGLE, definition, verdicts};
use crate::support::code::{Code, words};
use crate::support::draft::{Draft, delete, put};
use crate::support::world::{World, acquire_by, at, check, name, release};

/// Generations of one history: one that was lost, one that takes its number, and one after.
const GRANTS: usize = 3;

/// The last position of an external issuer.
const LAST: u64 = 2;

const PAGE: &str = "w/a";

#[derive(Debug, Clone, Copy)]
enum Step {
    Acquire(u128),
    Release(usize),
    /// A number is registered, or raises the floor.
    Advance(usize),
    /// A template, under a token.
    Write(usize, usize),
    /// The records of now are what it will go back to.
    Save,
    GoBack,
    /// What is no seal notices it.
    Noticed,
    Epoch,
}

/// A token that somebody holds.
#[derive(Debug, Clone)]
struct Token {
    position: Position,
    id: Option<AcquisitionId>,
    request: u128,
    /// Issued before the database went back.
    before: bool,
}

#[derive(Debug, Clone)]
struct State {
    snapshot: Snapshot,
    saved: Option<Snapshot>,
    /// It went back; and an epoch was begun since.
    regressed: bool,
    recovered: bool,
    tokens: Vec<Token>,
    /// Every answer that an operation ever got.
    answers: BTreeSet<(usize, Bytes)>,
}

struct Search {
    world: World,
    templates: Vec<Member>,
    met: BTreeSet<(bool, bool, Code)>,
    transitions: u64,
}

impl Search {
    fn new(definition: Definition) -> Self {
        let world = World::new(definition);
        let sequence = |draft: Draft, number| match definition.policy {
            Policy::Ordered { .. } => draft.sequence(number),
            Policy::Single | Policy::Session => draft,
        };
        let mut drafts = vec![sequence(put(PAGE, "1", "1"), 1), sequence(delete(PAGE, "2", "1"), 2)];
        // Without leases a world is small, and has room for another publication.
        drafts.extend(definition.issuer.is_external().then(|| put(PAGE, "3", "1").body("other")));
        let templates = drafts.iter().map(|draft| draft.member(&world)).collect();
        Self { world, templates, met: BTreeSet::new(), transitions: 0 }
    }

    fn is_external(&self) -> bool {
        self.world.definition().issuer.is_external()
    }

    /// Searches until nothing new is found; gives the number of states.
    fn run(&mut self) -> usize {
        let external =
            (1..=LAST).map(|number| Token { position: at(0, number), id: None, request: 0, before: true });
        let start = State {
            snapshot: Snapshot::default(),
            saved: None,
            regressed: false,
            recovered: false,
            tokens: if self.is_external() { external.collect() } else { Vec::new() },
            answers: BTreeSet::new(),
        };
        let mut seen = HashSet::from([key(&start)]);
        let mut frontier = vec![start];
        while let Some(state) = frontier.pop() {
            for step in self.steps(&state) {
                self.transitions += 1;
                if let Some(next) = self.take(&state, step)
                    && seen.insert(key(&next))
                {
                    frontier.push(next);
                }
            }
        }
        seen.len()
    }

    fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.is_external() {
            // A repeat of the newest request may find its lease, or that it was forgotten.
            let newest = state.tokens.last().map(|token| token.request);
            let next = (state.tokens.len() < GRANTS).then(|| newest.unwrap_or(0) + 1);
            steps.extend(newest.into_iter().chain(next).map(Step::Acquire));
            steps.extend((0..state.tokens.len()).map(Step::Release));
        }
        if self.is_external() {
            steps.extend((0..state.tokens.len()).map(Step::Advance));
        }
        for template in 0..self.templates.len() {
            steps.extend((0..state.tokens.len()).map(|token| Step::Write(template, token)));
        }
        match (&state.saved, state.regressed, state.recovered) {
            (None, ..) => steps.push(Step::Save),
            (Some(_), false, _) => steps.push(Step::GoBack),
            (Some(_), true, false) => steps.extend([Step::Noticed, Step::Epoch]),
            (Some(_), true, true) => {}
        }
        steps
    }

    fn take(&mut self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Save => next.saved = Some(state.snapshot.clone()),
            Step::GoBack => {
                next.snapshot = state.saved.clone().unwrap();
                next.regressed = true;
                next.tokens.iter_mut().for_each(|token| token.before = true);
            }
            Step::Noticed => self.whole(&mut next, trip(Detector::Witness)),
            Step::Epoch => {
                self.whole(&mut next, advance());
                next.recovered = true;
                if self.is_external() {
                    let fresh = (1..=LAST).map(|number| Token {
                        position: at(1, number),
                        id: None,
                        request: 0,
                        before: false,
                    });
                    next.tokens.extend(fresh);
                }
            }
            Step::Acquire(request) => self.acquire(&mut next, request)?,
            Step::Release(number) => {
                let command = release(state.tokens[number].id.as_ref().unwrap());
                let decision = self.decide(state, &command);
                Self::apply(&mut next, &decision.changes)?;
            }
            Step::Advance(number) => {
                let token = &state.tokens[number];
                let claim = Claim { position: token.position, bare: false, seal: SealVerdict::Missing };
                let command = Advance { resource: name(PAGE), claim, reason: String::new() };
                let decision = self.decide(state, &Command::Advance(command));
                if matches!(decision.outcome, Outcome::Advanced(_)) {
                    self.admitted(state, token);
                }
                Self::apply(&mut next, &decision.changes)?;
            }
            Step::Write(template, number) => self.write(&mut next, template, number)?,
        }
        Some(next)
    }

    fn decide(&mut self, state: &State, command: &Command) -> Decision {
        let now = self.world.now;
        let decision = decide(&self.world.context(), &state.snapshot, command, now).unwrap();
        for code in words(&decision.outcome) {
            self.met.insert((state.regressed, state.recovered, code));
        }
        let stopped = state.snapshot.namespaces().any(|row| row.breaker.is_some());
        if stopped && !matches!(command, Command::Whole(_)) {
            // A lease may end meanwhile; nothing is issued, and nothing is published.
            let harmless = |change: &Change| match change {
                Change::LeaseChanged { .. } => true,
                Change::Audited(line) => matches!(
                    line.verb,
                    fencegate::protocol::rows::AuditVerb::Released
                        | fencegate::protocol::rows::AuditVerb::Expired
                ),
                Change::Resource { before: Some(before), after } => {
                    (before.issued, before.applied, before.commit_no, before.floor)
                        == (after.issued, after.applied, after.commit_no, after.floor)
                }
                _ => false,
            };
            assert!(decision.changes.iter().all(harmless), "stopped, and yet {command:?}: {decision:?}");
        }
        decision
    }

    /// None when nothing changes.
    fn apply(state: &mut State, changes: &[Change]) -> Option<()> {
        for change in changes {
            check(&state.snapshot, change);
            state.snapshot.apply(change);
        }
        (!changes.is_empty()).then_some(())
    }

    fn whole(&mut self, state: &mut State, deed: Deed) {
        let command = Command::Whole(WholeAct { subject: Subject::Everywhere, deed });
        let decision = self.decide(&state.clone(), &command);
        assert!(decision.outcome.refusal().is_none(), "{:?}", decision.outcome);
        // A breaker that has tripped already stays as it is.
        Self::apply(state, &decision.changes);
    }

    fn acquire(&mut self, state: &mut State, request: u128) -> Option<()> {
        let Command::Acquire(plain) = acquire_by(PAGE, request, "", None) else { unreachable!() };
        // Chance is new with each call, whoever makes it.
        let nonce = (u128::try_from(state.tokens.len()).unwrap() + 1_000).to_be_bytes();
        let command = Command::Acquire(Acquire { request_id: Uuid::from_u128(request), nonce, ..plain });
        let decision = self.decide(&state.clone(), &command);
        let known: Vec<Position> = state.tokens.iter().map(|token| token.position).collect();
        match &decision.outcome {
            Outcome::Granted(grant) if !grant.repeated => {
                // Between the loss and its discovery a number may be given out twice; two seals tell them apart.
                if state.regressed == state.recovered {
                    assert!(
                        known.iter().all(|other| other.is_below(grant.view.lease.position)),
                        "I8: {grant:?} {known:?}"
                    );
                }
                state.tokens.push(Token {
                    position: grant.view.lease.position,
                    id: Some(grant.acquisition_id.clone()),
                    request,
                    before: false,
                });
            }
            _ => {}
        }
        Self::apply(state, &decision.changes)
    }

    fn write(&mut self, state: &mut State, template: usize, number: usize) -> Option<()> {
        let token = state.tokens[number].clone();
        let seal = match &token.id {
            Some(id) => SealVerdict::Valid(id.hash().tag()),
            None => SealVerdict::Missing,
        };
        let claim = Claim { position: token.position, bare: false, seal };
        let member = Member { claim, ..self.templates[template].clone() };
        let decision = self.decide(&state.clone(), &Command::Write(Write::new(vec![member], false).unwrap()));
        if let Outcome::Written(written) = &decision.outcome {
            let answer = (template, written[0].response.body.clone());
            if written[0].replayed {
                assert!(state.answers.contains(&answer), "I5: an answer that nobody ever got");
            } else {
                self.admitted(state, &token);
                state.answers.insert(answer);
            }
        }
        if matches!(decision.outcome.refusal(), Some(Refusal::IssuerBehind { .. })) {
            assert!(state.regressed, "nothing was forgotten: {token:?}");
            // Whoever is refused so hears of it after the breaker has tripped.
            self.whole(state, trip(Detector::Seal));
            return Some(());
        }
        Self::apply(state, &decision.changes)
    }

    /// What an admission may not be, whatever the database has forgotten.
    fn admitted(&self, state: &State, token: &Token) {
        if state.recovered {
            assert!(!token.before, "older than the recovery, and admitted: {token:?}");
            assert_eq!(token.position.epoch.get(), 1, "{token:?}");
        }
        if !self.is_external() {
            let issued = state.snapshot.resource(&name(PAGE)).map(|row| row.issued).unwrap_or_default();
            assert!(!token.position.is_above(issued), "I8: {token:?} above {issued}");
        }
    }
}

fn trip(detector: Detector) -> Deed {
    let (at, found) = (fencegate::domain::time::Timestamp::from_ms(1), "a test".to_owned());
    Deed::Trip(Breaker { detector, at, found })
}

fn advance() -> Deed {
    let key = OperationId::parse("recovery").unwrap();
    Deed::AdvanceEpoch { key, reason: "it went back".to_owned(), leave_open: false }
}

/// Time stands still in these worlds, so two states are the same where they look the same.
fn key(state: &State) -> [u8; 32] {
    Sha256::digest(format!("{state:?}")).into()
}

/// Broken: after a loss a token, a lease or a write of before is good once more: because the breaker lets something by,
/// because the new epoch counts from where the old one had been, or because a number is issued twice. Must hold: once it is
/// noticed nothing is issued or published; after the epoch advance nothing of before is admitted; and what is answered from
/// the record is what was answered first.
#[test]
fn a_database_that_went_back_admits_nothing_of_before() {
    for (policy, contract) in [
        (SINGLE, Contract::Observed),
        (SINGLE, Contract::Immediate),
        (SINGLE, Contract::LeaseBound),
        (ORDERED, Contract::Immediate),
        (SESSION, Contract::Observed),
    ] {
        let met = searched(definition(policy, contract, Issuer::Gateway));
        for code in [Code::IssuerBehind, Code::Stopped, Code::Replayed] {
            assert!(met.contains(&(true, false, code)), "{code:?} in {met:?}");
        }
        for code in [Code::Granted, Code::Admitted, Code::Replayed, Code::StaleToken] {
            assert!(met.contains(&(true, true, code)), "{code:?} in {met:?}");
        }
    }
    verdicts::ended("a_database_that_went_back_admits_nothing_of_before");
}

/// The same where the numbers come from outside: no seal proves anything, so something else must notice.
#[test]
fn a_database_that_went_back_admits_no_number_of_before() {
    for issuer in [Issuer::Trusted { max_jump: None }, Issuer::Registered] {
        let met = searched(definition(SINGLE, Contract::Observed, issuer));
        for code in [Code::Stopped, Code::Replayed] {
            assert!(met.contains(&(true, false, code)), "{code:?} in {met:?}");
        }
        for code in [Code::Admitted, Code::Advanced, Code::Replayed, Code::StaleToken] {
            assert!(met.contains(&(true, true, code)), "{code:?} in {met:?}");
        }
    }
    verdicts::ended("a_database_that_went_back_admits_no_number_of_before");
}

fn searched(definition: Definition) -> BTreeSet<(bool, bool, Code)> {
    let mut search = Search::new(definition);
    let states = search.run();
    println!("regression: {definition}: {states} states, {} transitions, complete", search.transitions);
    let met = search.met.iter().map(|(_, _, code)| verdicts::Word::Told(*code));
    verdicts::met("documents: regression", states, search.transitions, met);
    search.met
}
