//! What can happen next, and the command that it is.

use fencegate::domain::counter::Sequence;
use fencegate::domain::lease::AcquisitionTag;
use fencegate::domain::position::Position;
use fencegate::domain::seal::SealVerdict;
use fencegate::protocol::Command;
use fencegate::protocol::command::{Advance, Claim, Member, Write};

use super::bounds::{Bounds, Template};
use super::history::{At, History};
use crate::support::world::{TTL_MS, acquire_by, at, name, release, renew};

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
    /// Half a ttl passes.
    Tick,
    /// An operator advances the epoch.
    Epoch,
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
        for page in 0..bounds.pages.len() {
            if bounds.world.definition().issuer.is_external() {
                steps.push(Step::Acquire { page, request: 1 });
            } else {
                // Requests are interchangeable, so the next new one stands for all of them.
                let granted = self.grants.iter().filter(|grant| grant.page == page).count();
                let next = bounds.generations.min(u64::try_from(granted).unwrap() + 1);
                steps.extend((1..=next).map(|request| Step::Acquire { page, request }));
            }
            let tokens = self.tokens(bounds, page).into_iter().chain(self.odd_tokens(bounds, page));
            steps.extend(tokens.map(|token| Step::Advance { page, token }));
        }
        for number in 0..self.grants.len() {
            steps.extend([Step::Renew(number), Step::Release(number)]);
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
            | Step::Tick
            | Step::Epoch => Vec::new(),
        }
    }

    /// The command of a step; none where no command is sent.
    pub(super) fn command(&self, bounds: &Bounds, step: Step) -> Option<Command> {
        Some(match step {
            Step::Tick | Step::Epoch => return None,
            Step::Acquire { page, request } => {
                acquire_by(bounds.pages[page], u128::from(request), "", Some(TTL_MS))
            }
            Step::Renew(number) => renew(&self.grants[number].id),
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

/// A sequence as a plain number; zero for none.
pub(super) fn plain(sequence: Option<Sequence>) -> u64 {
    sequence.map_or(0, Sequence::get)
}
