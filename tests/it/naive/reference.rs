//! The rules a second time, written apart from the code straight from `protocol.md`, over plain numbers.
//!
//! It must never borrow from `src/protocol`: what both got from one line of code, neither could prove.

use super::table::what;
use crate::support::code::Code;

/// (epoch, token).
pub(super) type At = (u64, u64);

pub(super) const GATEWAY: u8 = 0;
pub(super) const TRUSTED: u8 = 1;
pub(super) const REGISTERED: u8 = 2;

pub(super) const SINGLE: u8 = 0;
pub(super) const ORDERED: u8 = 1;
pub(super) const GAPLESS: u8 = 2;
pub(super) const SESSION: u8 = 3;

pub(super) const OBSERVED: u8 = 0;
pub(super) const LEASE_BOUND: u8 = 2;

const ACTIVE: u8 = 0;
pub(super) const DELETED: u8 = 1;
pub(super) const CANCELLED: u8 = 2;

const HELD: u8 = 0;
const RELEASED: u8 = 1;
const EXPIRED: u8 = 2;
const SUPERSEDED: u8 = 3;

/// What stands behind the second dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    Missing,
    Wrong,
    /// Ours, of the lease with this number; a number that no lease has is a forgery with our key.
    Of(u64),
}

/// One write as plain numbers. Zero stands for "not given" in sequence and incarnation.
#[derive(Debug, Clone)]
pub(super) struct PlainWrite {
    pub(super) resource: usize,
    /// Zero is the resource as a whole.
    pub(super) target: usize,
    pub(super) delete: bool,
    pub(super) at: At,
    pub(super) seal: Seal,
    pub(super) operation: u64,
    pub(super) body: u64,
    pub(super) sequence: u64,
    pub(super) incarnation: u64,
    pub(super) if_match: Condition,
    pub(super) if_none_match: Condition,
}

/// A precondition as plain numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Nothing,
    Star,
    Strong(u64, u64),
    Weak(u64, u64),
}

#[derive(Debug, Clone, Default)]
struct Lease {
    resource: usize,
    at: At,
    request: u64,
    holder: u64,
    ends: u64,
    state: u8,
}

#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) incarnation: u64,
    pub(super) name: u64,
    pub(super) what: String,
}

#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) incarnation: u64,
    pub(super) born: At,
    pub(super) life: u8,
    pub(super) issued: At,
    pub(super) floor: At,
    pub(super) revoked: At,
    pub(super) applied: At,
    pub(super) applied_sequence: u64,
    pub(super) commit: u64,
    pub(super) pruned: At,
    pub(super) pruned_sequence: u64,
    pub(super) lives: Vec<(At, u64)>,
    pub(super) targets: [Option<(u64, u64)>; 3],
    pub(super) operations: Vec<Operation>,
}

/// The whole world in plain numbers.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    pub(super) policy: u8,
    pub(super) contract: u8,
    pub(super) issuer: u8,
    pub(super) max_jump: u64,
    pub(super) epoch: u64,
    pub(super) now: u64,
    pub(super) ttl: u64,
    pub(super) resources: Vec<Resource>,
    leases: Vec<Lease>,
}

impl Plain {
    pub(super) fn new(policy: u8, contract: u8, issuer: u8, max_jump: u64, ttl: u64) -> Self {
        let resource = Resource {
            incarnation: 1,
            born: (0, 0),
            life: ACTIVE,
            issued: (0, 0),
            floor: (0, 0),
            revoked: (0, 0),
            applied: (0, 0),
            applied_sequence: 0,
            commit: 0,
            pruned: (0, 0),
            pruned_sequence: 0,
            lives: Vec::new(),
            targets: [None; 3],
            operations: Vec::new(),
        };
        let resources = vec![resource; 2];
        Self { policy, contract, issuer, max_jump, epoch: 0, now: 0, ttl, resources, leases: Vec::new() }
    }

    pub(super) fn cancel(&mut self, resource: usize) {
        self.resources[resource].life = CANCELLED;
    }

    /// Forgets what was recorded at or below the mark, as pruning may.
    pub(super) fn prune(&mut self, resource: usize) -> (At, u64) {
        let row = &mut self.resources[resource];
        row.pruned = row.applied;
        row.pruned_sequence = row.applied_sequence;
        row.operations.clear();
        (row.pruned, row.pruned_sequence)
    }

    fn state(&self, lease: &Lease) -> u8 {
        if lease.state == RELEASED || lease.state == SUPERSEDED {
            return lease.state;
        }
        if lease.at < self.resources[lease.resource].issued || lease.at < (self.epoch, 0) {
            return SUPERSEDED;
        }
        if lease.state == EXPIRED || self.now >= lease.ends {
            return EXPIRED;
        }
        HELD
    }

    pub(super) fn acquire(&mut self, resource: usize, request: u64, holder: u64) -> Code {
        if self.issuer != GATEWAY {
            return Code::IssuerExternal;
        }
        let repeat = self.leases.iter().find(|lease| lease.resource == resource && lease.request == request);
        if let Some(lease) = repeat {
            if lease.holder != holder {
                return Code::RequestMismatch;
            }
            return if self.state(lease) == HELD { Code::Repeated } else { Code::LeaseEnded };
        }
        if self.resources[resource].life == CANCELLED {
            return Code::Cancelled;
        }
        if self.leases.iter().any(|lease| lease.resource == resource && self.state(lease) == HELD) {
            return Code::LeaseHeld;
        }
        let epoch = self.epoch;
        let row = &mut self.resources[resource];
        row.issued = (epoch.max(row.issued.0), row.issued.1 + 1);
        if self.contract != OBSERVED {
            row.floor = row.floor.max(row.issued);
        }
        let (at, ends) = (row.issued, self.now + self.ttl);
        self.leases.push(Lease { resource, at, request, holder, ends, state: HELD });
        Code::Granted
    }

    pub(super) fn renew(&mut self, number: usize) -> Code {
        if self.state(&self.leases[number]) != HELD {
            return Code::LeaseEnded;
        }
        self.leases[number].ends = self.now + self.ttl;
        Code::Renewed
    }

    pub(super) fn release(&mut self, number: usize) -> Code {
        if self.state(&self.leases[number]) == HELD {
            self.leases[number].state = RELEASED;
        }
        Code::Released
    }

    pub(super) fn advance(&mut self, resource: usize, at: At, seal: Seal) -> Code {
        let row = &self.resources[resource];
        if row.life == CANCELLED {
            return Code::Cancelled;
        }
        if let Some(code) = self.rows_8_to_10(resource, at, seal) {
            return code;
        }
        if at < row.floor.max((self.epoch, 0)) || at <= row.revoked {
            return Code::StaleToken;
        }
        if self.contract == LEASE_BOUND && !self.is_live(resource, at, seal) {
            return Code::LeaseNotLive;
        }
        let row = &mut self.resources[resource];
        row.floor = row.floor.max(at);
        Code::Advanced
    }

    pub(super) fn rows_8_to_10(&self, resource: usize, at: At, seal: Seal) -> Option<Code> {
        if self.issuer == GATEWAY {
            if seal == Seal::Missing {
                return Some(Code::SealMissing);
            }
            if seal == Seal::Wrong {
                return Some(Code::SealWrong);
            }
            // A position is given out once; a seal of another acquisition than the newest lease's is not of this time.
            let newest = self.leases.iter().rposition(|lease| lease.resource == resource);
            if newest.is_some_and(|newest| {
                let own = seal == Seal::Of(u64::try_from(newest).unwrap());
                self.leases[newest].at == at && !own
            }) {
                return Some(Code::SealWrong);
            }
            if at > self.resources[resource].issued.max((self.epoch, 0)) {
                return Some(Code::IssuerBehind);
            }
        }
        if at.0 > self.epoch {
            return Some(Code::EpochAhead);
        }
        None
    }

    pub(super) fn is_live(&self, resource: usize, at: At, seal: Seal) -> bool {
        self.leases.iter().enumerate().any(|(number, lease)| {
            let own = seal == Seal::Of(u64::try_from(number).unwrap());
            own && lease.resource == resource && lease.at == at && self.state(lease) == HELD
        })
    }

    /// All or none; the words of all members.
    pub(super) fn write(&mut self, writes: &[PlainWrite]) -> Vec<Code> {
        let codes: Vec<Code> = writes.iter().map(|write| self.judge(write)).collect();
        if !codes.iter().all(|code| *code == Code::Admitted || *code == Code::Replayed) {
            return codes;
        }
        for resource in 0..self.resources.len() {
            let new = writes
                .iter()
                .zip(&codes)
                .filter(|(write, code)| write.resource == resource && **code == Code::Admitted);
            let new: Vec<&PlainWrite> = new.map(|(write, _)| write).collect();
            if !new.is_empty() {
                self.take_effect(resource, &new);
            }
        }
        codes
    }

    fn take_effect(&mut self, resource: usize, writes: &[&PlainWrite]) {
        let first = writes[0];
        let whole = first.delete && first.target == 0;
        let row = &mut self.resources[resource];
        if row.life == DELETED {
            row.lives.push((row.born, row.incarnation));
            row.incarnation += 1;
            row.born = first.at;
            row.life = ACTIVE;
        }
        row.floor = row.floor.max(first.at);
        row.applied = first.at;
        row.applied_sequence = first.sequence;
        row.commit += 1;
        for write in writes {
            row.targets[write.target] = (!write.delete).then_some((row.incarnation, row.commit));
            let record = Operation { incarnation: row.incarnation, name: write.operation, what: what(write) };
            row.operations.push(record);
        }
        if whole {
            row.life = DELETED;
            row.revoked = row.revoked.max(first.at);
            row.targets = [None; 3];
            for number in 0..self.leases.len() {
                let lease = &self.leases[number];
                if lease.resource == resource && lease.at == first.at && self.state(lease) == HELD {
                    self.leases[number].state = RELEASED;
                }
            }
        }
    }
}
