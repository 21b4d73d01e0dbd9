//! What can happen next, and the command that it is.

use fencegate::domain::breaker::{Breaker, Detector};
use fencegate::domain::counter::{Incarnation, Sequence};
use fencegate::domain::lease::{AcquisitionTag, Holder};
use fencegate::domain::operation::OperationId;
use fencegate::domain::position::Position;
use fencegate::domain::resource::ResourceName;
use fencegate::domain::seal::SealVerdict;
use fencegate::domain::subject::Subject;
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::Command;
use fencegate::protocol::command::{Advance, Claim, Member, Transfer, Write};
use fencegate::protocol::control::{Control, ControlVerb, RecordedVerb};
use fencegate::protocol::prune::{Prunable, Prune};
use fencegate::protocol::whole::{Deed, WholeAct};
use uuid::Uuid;

use super::bounds::{Bounds, Template};
use super::history::{Applied, At, History};
use super::odd::Odd;
use crate::support::world::{NAMESPACE, TTL_MS, acquire_by, at, name, release, renew};

/// A token as it stands on a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// Of a grant, sealed.
    Grant(usize),
    /// Of an issuer outside.
    Plain(u64, u64),
    /// A position without its seal.
    Unsealed(u64, u64),
    /// A seal of something else.
    Foreign(u64, u64),
    /// Our own seal on a position.
    Forged(u64, u64),
}

/// One step of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Acquire {
        page: usize,
        request: u64,
    },
    Renew(usize),
    Release(usize),
    Advance {
        page: usize,
        token: Token,
    },
    Write {
        template: usize,
        token: Token,
    },
    Batch {
        pair: usize,
        first: Token,
        second: Token,
    },
    /// A lease is handed over.
    Transfer(usize),
    Control(Call),
    /// Records of a page are forgotten that are not needed any more.
    Prune(usize),
    /// The record of a control call is forgotten, that of this number among those of a page.
    ForgetCall(usize, usize),
    /// Half a ttl passes.
    Tick,
    /// The database is found to have gone back in time.
    Trip,
    /// An operator advances the epoch.
    Epoch,
    /// The call that began the last epoch comes once more.
    EpochAgain,
    Odd(Odd),
}

/// A control call: as an operator without a token; without a key where that is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) verb: ControlVerb,
    pub(super) page: usize,
    pub(super) token: Option<Token>,
    pub(super) key: u64,
}

/// One member of a write, as it was told.
pub(super) struct Told<'a> {
    pub(super) template: &'a Template,
    pub(super) token: Token,
    pub(super) at: At,
}

impl History {
    pub(super) fn position(&self, token: Token) -> At {
        match token {
            Token::Grant(number) => self.grants[number].at,
            Token::Plain(epoch, token)
            | Token::Unsealed(epoch, token)
            | Token::Foreign(epoch, token)
            | Token::Forged(epoch, token) => (epoch, token),
        }
    }

    fn claim(&self, token: Token) -> Claim {
        let (epoch, number) = self.position(token);
        let seal = match token {
            Token::Grant(number) => SealVerdict::Valid(self.grants[number].id.hash().tag()),
            Token::Plain(_, _) | Token::Unsealed(_, _) => SealVerdict::Missing,
            Token::Foreign(_, _) => SealVerdict::Wrong,
            Token::Forged(_, _) => SealVerdict::Valid(AcquisitionTag([0xEE; 16])),
        };
        let position: Position = at(epoch, number);
        Claim { position, bare: false, seal }
    }

    /// The tokens that deliveries to a page may carry.
    fn tokens(&self, bounds: &Bounds, page: usize) -> Vec<Token> {
        let mut tokens = Vec::new();
        if bounds.world.definition().issuer.is_external() {
            for epoch in 0..=self.epoch {
                tokens.extend((1..=bounds.generations).map(|number| Token::Plain(epoch, number)));
            }
        } else {
            let own = self.grants.iter().enumerate().filter(|(_, grant)| grant.page == page);
            tokens.extend(own.map(|(number, _)| Token::Grant(number)));
        }
        tokens
    }

    /// Tokens that no honest client holds; one write and one advance try them.
    fn odd_tokens(&self, bounds: &Bounds, page: usize) -> Vec<Token> {
        let (epoch, granted) = (self.epoch, self.pages[page].granted);
        if bounds.world.definition().issuer.is_external() {
            return vec![Token::Plain(epoch + 1, 1)];
        }
        let next = granted.1 + 1;
        let mut odd =
            vec![Token::Unsealed(epoch, next), Token::Foreign(epoch, next), Token::Forged(epoch, next)];
        if granted.1 > 0 {
            // What a database that was restored gave out once before.
            odd.push(Token::Forged(granted.0, granted.1));
        }
        odd
    }

    /// Everything that can happen now.
    pub(super) fn steps(&self, bounds: &Bounds) -> Vec<Step> {
        let mut steps = vec![Step::Tick];
        if self.epoch < bounds.epochs {
            steps.push(Step::Epoch);
        }
        if self.epoch > 0 {
            steps.push(Step::EpochAgain);
        }
        if bounds.trips && !self.stopped {
            steps.push(Step::Trip);
        }
        for page in 0..bounds.pages.len() {
            if bounds.prunes && !self.pages[page].applied.is_empty() {
                steps.push(Step::Prune(page));
            }
            if bounds.forgets_calls {
                steps.extend((0..self.pages[page].called.len()).map(|number| Step::ForgetCall(page, number)));
            }
            if bounds.world.definition().issuer.is_external() {
                steps.push(Step::Acquire { page, request: 1 });
            } else {
                // Requests are interchangeable, so the next new one stands for all of them.
                let next = self.requests(page) + u64::from(self.has_room(bounds, page));
                steps.extend((1..=next).map(|request| Step::Acquire { page, request }));
            }
            let tokens = self.tokens(bounds, page).into_iter().chain(self.odd_tokens(bounds, page));
            steps.extend(tokens.map(|token| Step::Advance { page, token }));
        }
        for number in 0..self.grants.len() {
            steps.extend([Step::Renew(number), Step::Release(number)]);
            let known = self.grants.iter().any(|grant| grant.source == Some(number));
            if bounds.calls && (known || self.has_room(bounds, self.grants[number].page)) {
                steps.push(Step::Transfer(number));
            }
        }
        if bounds.calls {
            self.calls(bounds, &mut steps);
            if !bounds.world.definition().issuer.is_external() {
                steps.extend(Odd::all(self).map(Step::Odd));
            }
        }
        for (template, what) in bounds.templates.iter().enumerate() {
            let mut tokens = self.tokens(bounds, what.page);
            if template == 0 {
                tokens.extend(self.odd_tokens(bounds, what.page));
            }
            steps.extend(tokens.into_iter().map(|token| Step::Write { template, token }));
        }
        for (pair, (one, other)) in bounds.batches.iter().enumerate() {
            let (one, other) = (bounds.templates[*one].page, bounds.templates[*other].page);
            for first in self.tokens(bounds, one) {
                let all = if one == other { vec![first] } else { self.tokens(bounds, other) };
                steps.extend(all.into_iter().map(|second| Step::Batch { pair, first, second }));
            }
        }
        steps
    }

    fn requests(&self, page: usize) -> u64 {
        let acquired = self.grants.iter().filter(|grant| grant.page == page && grant.source.is_none());
        u64::try_from(acquired.count()).unwrap()
    }

    fn has_room(&self, bounds: &Bounds, page: usize) -> bool {
        let granted = self.grants.iter().filter(|grant| grant.page == page).count();
        u64::try_from(granted).unwrap() < bounds.generations
    }

    /// Control calls. Those under a key may come again at any time, as copies that were delayed.
    fn calls(&self, bounds: &Bounds, steps: &mut Vec<Step>) {
        let external = bounds.world.definition().issuer.is_external();
        for page in 0..bounds.pages.len() {
            let call = |verb, token, key| Step::Control(Call { verb, page, token, key });
            let mut tokens = self.tokens(bounds, page);
            let odd = self.odd_tokens(bounds, page);
            for verb in [ControlVerb::Revoke, ControlVerb::Cancel] {
                steps.push(call(verb, None, 0));
                steps.extend(tokens.iter().chain(&odd).map(|token| call(verb, Some(*token), 0)));
            }
            if !external {
                tokens.truncate(1);
            }
            steps.extend([call(ControlVerb::Cancel, None, 1), call(ControlVerb::Reopen, None, 1)]);
            steps.extend(tokens.iter().map(|token| call(ControlVerb::Reopen, Some(*token), 1)));
        }
    }

    /// The members that a step writes; none for a step that does not write.
    pub(super) fn told<'a>(&self, bounds: &'a Bounds, step: Step) -> Vec<Told<'a>> {
        let told = |template: usize, token: Token| Told {
            template: &bounds.templates[template],
            token,
            at: self.position(token),
        };
        match step {
            Step::Write { template, token } => vec![told(template, token)],
            Step::Batch { pair, first, second } => {
                let (one, other) = bounds.batches[pair];
                vec![told(one, first), told(other, second)]
            }
            Step::Acquire { .. }
            | Step::Renew(_)
            | Step::Release(_)
            | Step::Advance { .. }
            | Step::Transfer(_)
            | Step::Control(_)
            | Step::Prune(_)
            | Step::ForgetCall(_, _)
            | Step::Tick
            | Step::Trip
            | Step::Epoch
            | Step::EpochAgain
            | Step::Odd(_) => Vec::new(),
        }
    }

    fn transfer(&self, number: usize) -> Command {
        let id = &self.grants[number].id;
        let request = u128::try_from(number).unwrap();
        Command::Transfer(Transfer {
            bucket: id.bucket(),
            acquisition: id.hash(),
            holder: Holder::parse("next").unwrap(),
            ttl_ms: Some(TTL_MS),
            request_id: Uuid::from_u128(request),
            nonce: request.to_be_bytes(),
        })
    }

    /// Everything is proposed in the order in which it was recorded, and is as old as it has to be.
    fn prune(&self, resource: ResourceName, page: usize) -> Command {
        let key = |done: &Applied| {
            let id = OperationId::parse(&done.operation.to_string()).unwrap();
            (Incarnation::new(done.incarnation).unwrap(), id)
        };
        let operations = self.pages[page].applied.iter().map(key).collect();
        let what = Prunable::Operations { resource, operations };
        Command::Prune(Prune { kept: Millis::default(), what })
    }

    fn forget_call(&self, resource: ResourceName, page: usize, number: usize) -> Command {
        let called = &self.pages[page].called[number];
        let key = OperationId::parse(&called.key.to_string()).unwrap();
        let what = Prunable::Control((resource.into(), RecordedVerb::Control(called.verb), key));
        Command::Prune(Prune { kept: Millis::default(), what })
    }

    /// The command of a step; none where no command is sent.
    pub(super) fn command(&self, bounds: &Bounds, step: Step) -> Option<Command> {
        Some(match step {
            Step::Tick => return None,
            Step::Trip => {
                let (detector, at) = (Detector::Witness, Timestamp::default());
                whole(Deed::Trip(Breaker { detector, at, found: String::new() }))
            }
            Step::Odd(odd) => odd.command(bounds),
            Step::Epoch | Step::EpochAgain => {
                let number = self.epoch + u64::from(step == Step::Epoch);
                let key = OperationId::parse(&number.to_string()).unwrap();
                whole(Deed::AdvanceEpoch { key, reason: String::new(), leave_open: false })
            }
            Step::Acquire { page, request } => {
                acquire_by(bounds.pages[page], u128::from(request), "", Some(TTL_MS))
            }
            Step::Renew(number) => renew(&self.grants[number].id),
            Step::Transfer(number) => self.transfer(number),
            Step::Prune(page) => self.prune(name(bounds.pages[page]), page),
            Step::ForgetCall(page, number) => self.forget_call(name(bounds.pages[page]), page, number),
            Step::Control(told) => Command::Control(Control {
                verb: told.verb,
                resource: name(bounds.pages[told.page]),
                claim: told.token.map(|token| self.claim(token)),
                reason: String::new(),
                key: (told.key > 0).then(|| OperationId::parse(&told.key.to_string()).unwrap()),
            }),
            Step::Release(number) => release(&self.grants[number].id),
            Step::Advance { page, token } => Command::Advance(Advance {
                resource: name(bounds.pages[page]),
                claim: self.claim(token),
                reason: String::new(),
            }),
            Step::Write { .. } | Step::Batch { .. } => {
                let member = |told: &Told<'_>| Member {
                    claim: self.claim(told.token),
                    ..told.template.member.clone()
                };
                let members = self.told(bounds, step).iter().map(member).collect();
                Command::Write(Write::new(members, false).unwrap())
            }
        })
    }
}

fn whole(deed: Deed) -> Command {
    Command::Whole(WholeAct { subject: Subject::parse(NAMESPACE).unwrap(), deed })
}

/// A sequence as a plain number; zero for none.
pub(super) fn plain(sequence: Option<Sequence>) -> u64 {
    sequence.map_or(0, Sequence::get)
}
