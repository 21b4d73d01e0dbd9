//! Random histories, told to the code and to the reference alike.

use fencegate::domain::lease::AcquisitionId;
use fencegate::domain::operation::Method;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::protocol::command::Write;
use fencegate::protocol::rows::Life;
use fencegate::protocol::{Command, Outcome, Snapshot};

use super::reference::{
    At, CANCELLED, Condition, GAPLESS, GATEWAY, LEASE_BOUND, OBSERVED, ORDERED, Plain, PlainWrite,
    REGISTERED, SESSION, SINGLE, Seal, TRUSTED,
};
use crate::support::code::{Code, words};
use crate::support::draft::{Draft, put};
use crate::support::world::{World, acquire_by, at, name};

const RESOURCES: [&str; 2] = ["w/a", "w/b"];
const BODIES: [&str; 2] = ["one", "other"];
const HOLDERS: [&str; 2] = ["alice", "bob"];
const TTL_MS: u64 = 10_000;
const MAX_JUMP: u64 = 3;

/// One step of a history, before it is looked up what it means in this world.
pub(super) type Step = [u8; 12];

/// A write as it is told to both.
struct Told {
    plain: PlainWrite,
    draft: Draft,
}

/// Both worlds, side by side.
pub(super) struct Pair {
    world: World,
    plain: Plain,
    leases: Vec<(usize, At, String, AcquisitionId)>,
}

impl Pair {
    /// Any definition that is valid, picked by a number.
    pub(super) fn new(number: usize) -> Self {
        let (policies, contracts) = ([SINGLE, ORDERED, GAPLESS, SESSION], [OBSERVED, 1, LEASE_BOUND]);
        let origins = [(GATEWAY, 0), (GATEWAY, 0), (TRUSTED, 0), (TRUSTED, MAX_JUMP), (REGISTERED, 0)];
        let mut all = Vec::new();
        for policy in policies {
            for contract in contracts {
                for (issuer, max_jump) in origins {
                    let definition = definition(policy, contract, issuer, max_jump);
                    if definition.check().is_ok() {
                        all.push((definition, Plain::new(policy, contract, issuer, max_jump, TTL_MS)));
                    }
                }
            }
        }
        let (definition, plain) = all.swap_remove(number % all.len());
        let mut world = World::new(definition);
        world.set_epoch(0);
        Self { world, plain, leases: Vec::new() }
    }

    /// Tells one step to both and holds the words against each other.
    pub(super) fn step(&mut self, step: &Step) -> Vec<Code> {
        let resource = usize::from(step[1].is_multiple_of(8));
        let (ours, theirs) = match step[0] % 24 {
            0..=4 => self.acquire(resource, step),
            5 if !self.leases.is_empty() => {
                let number = usize::from(step[2]) % self.leases.len();
                (self.plain.renew(number), self.world.renew(&self.leases[number].3.clone()))
            }
            6 if !self.leases.is_empty() => {
                let number = usize::from(step[2]) % self.leases.len();
                (self.plain.release(number), self.world.release(&self.leases[number].3.clone()))
            }
            7..=8 => {
                let (at, seal, token) = self.token(resource, step);
                (self.plain.advance(resource, at, seal), self.world.advance(RESOURCES[resource], &token))
            }
            9..=10 => {
                let length = [1, 4_999, 5_000, 10_000][usize::from(step[2] % 4)];
                self.world.wait_ms(length);
                self.plain.now += length;
                return Vec::new();
            }
            11 => {
                self.by_hand(resource, step);
                return Vec::new();
            }
            _ => return self.write(resource, step),
        };
        assert_eq!(words(&theirs), [ours], "{step:?}");
        vec![ours]
    }

    fn acquire(&mut self, resource: usize, step: &Step) -> (Code, Outcome) {
        let (request, holder) = (u64::from(step[2] % 12), usize::from(step[3].is_multiple_of(8)));
        let ours = self.plain.acquire(resource, request, u64::try_from(holder).unwrap());
        let command = acquire_by(RESOURCES[resource], u128::from(request), HOLDERS[holder], Some(TTL_MS));
        let theirs = self.world.tell(&command);
        if let Outcome::Granted(grant) = &theirs
            && !grant.repeated
        {
            let position = grant.view.lease.position;
            let at = (position.epoch.get(), position.token.get());
            self.leases.push((resource, at, grant.fencing_tokens[0].0.clone(), grant.acquisition_id.clone()));
        }
        (ours, theirs)
    }

    /// What operators and later issues do: an epoch advance, a cancellation, a pruning.
    fn by_hand(&mut self, resource: usize, step: &Step) {
        match step[2] % 16 {
            0..=2 if self.plain.epoch < 2 => {
                self.plain.epoch += 1;
                self.world.set_epoch(self.plain.epoch);
            }
            3 if step[3].is_multiple_of(4) => {
                if let Some(mut row) = self.world.snapshot.resource(&name(RESOURCES[resource])).cloned() {
                    row.life = Life::Cancelled;
                    self.world.snapshot.insert_resource(row);
                    self.plain.cancel(resource);
                    assert_eq!(CANCELLED, 2);
                }
            }
            4..=7 => {
                if let Some(mut row) = self.world.snapshot.resource(&name(RESOURCES[resource])).cloned() {
                    row.pruned_through = row.applied;
                    self.world.snapshot = without_operations(&self.world.snapshot, RESOURCES[resource]);
                    self.world.snapshot.insert_resource(row);
                    self.plain.prune(resource);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, resource: usize, step: &Step) -> Vec<Code> {
        let mut told = vec![self.one(resource, 0, step)];
        for more in 1..=u8::from(step[0] % 24 > 20) + u8::from(step[0] % 24 > 22) {
            let beside = usize::from((step[2] >> more) % 2);
            told.push(self.one(if beside == 0 { resource } else { 1 - resource }, more, step));
        }
        let drafts: Vec<Draft> = told.iter().map(|one| one.draft.clone()).collect();
        let Ok(write) = Write::new(self.world.members(&drafts), step[11].is_multiple_of(8)) else {
            return Vec::new();
        };
        let plain: Vec<PlainWrite> = told.into_iter().map(|one| one.plain).collect();
        let ours = if write.dry_run {
            plain.iter().map(|one| self.plain.judge(one)).collect()
        } else {
            self.plain.write(&plain)
        };
        let theirs = self.world.tell(&Command::Write(write));
        assert_eq!(words(&theirs), ours, "{plain:?}");
        ours
    }

    /// One write; members of one batch and resource get the same token and sequence.
    fn one(&self, resource: usize, member: u8, step: &Step) -> Told {
        let (at, seal, token) = self.token(resource, step);
        let ordered = self.plain.policy == ORDERED || self.plain.policy == GAPLESS;
        let target = usize::from(step[5].wrapping_add(member) % 8).saturating_sub(5);
        let delete = step[6].wrapping_add(member).is_multiple_of(5);
        let operation = u64::from(step[7].wrapping_add(member) % 10);
        let body = if delete { 0 } else { u64::from(step[8].is_multiple_of(8)) };
        let sequence = if ordered { u64::from(step[9] % 4) + 1 } else { 0 };
        let incarnation = u64::from(step[10] % 32);
        let incarnation = if incarnation > 3 { 0 } else { incarnation };
        let (if_match, if_none_match) = self.conditions(resource, target, step[11]);
        let path = match target {
            0 => RESOURCES[resource].to_owned(),
            target => format!("{}/{target}", RESOURCES[resource]),
        };
        let mut draft = put(&path, &format!("op-{operation}"), token);
        draft.method = if delete { Method::Delete } else { Method::Put };
        draft.body = if delete { "" } else { BODIES[usize::try_from(body).unwrap()] };
        draft.sequence = (sequence > 0).then_some(sequence);
        draft.incarnation = (incarnation > 0).then_some(incarnation);
        draft.if_match = spelt(if_match);
        draft.if_none_match = spelt(if_none_match);
        let plain = PlainWrite {
            resource,
            target,
            delete,
            at,
            seal,
            operation,
            body,
            sequence,
            incarnation,
            if_match,
            if_none_match,
        };
        Told { plain, draft }
    }

    fn conditions(&self, resource: usize, target: usize, byte: u8) -> (Condition, Condition) {
        let current = self.plain.resources[resource].targets[target].unwrap_or((1, 1));
        let nothing = Condition::Nothing;
        match byte / 8 {
            0..=7 => (Condition::Strong(current.0, current.1), nothing),
            8 => (Condition::Strong(1, 2), nothing),
            9 => (Condition::Star, nothing),
            10 => (Condition::Weak(current.0, current.1), nothing),
            11 => (nothing, Condition::Star),
            12 => (nothing, Condition::Weak(current.0, current.1)),
            13 => (Condition::Star, Condition::Strong(current.0, current.1)),
            _ => (nothing, nothing),
        }
    }

    fn token(&self, resource: usize, step: &Step) -> (At, Seal, String) {
        let plain = (u64::from(step[3].is_multiple_of(32)) + self.plain.epoch, u64::from(step[4] % 8) + 1);
        let ahead = step[3] % 32 < 3 && step[3] < 128;
        let plain = if ahead { plain } else { (self.plain.epoch, plain.1) };
        let bare = format!("{}.{}", plain.0, plain.1);
        if self.plain.issuer != GATEWAY {
            let at = if step[3] % 32 == 1 { (0, plain.1) } else { plain };
            return (at, Seal::Missing, if at.0 == 0 { at.1.to_string() } else { bare });
        }
        match step[3] % 32 {
            0 => (plain, Seal::Of(u64::MAX), self.world.sealed(RESOURCES[resource], at(plain.0, plain.1))),
            1 => (plain, Seal::Missing, bare),
            2 => (plain, Seal::Wrong, format!("{bare}.wrong")),
            which => self.issued(resource, which, step[4]).unwrap_or((plain, Seal::Missing, bare)),
        }
    }

    /// A token that was issued: mostly the newest of this resource, else any of any.
    fn issued(&self, resource: usize, which: u8, number: u8) -> Option<(At, Seal, String)> {
        let newest = self.leases.iter().rposition(|lease| lease.0 == resource);
        let number = if which < 22 { newest? } else { usize::from(number) % self.leases.len().max(1) };
        let (owner, at, token, _) = self.leases.get(number)?;
        let own = *owner == resource;
        let seal = if own { Seal::Of(u64::try_from(number).unwrap()) } else { Seal::Wrong };
        Some((*at, seal, token.clone()))
    }
}

fn spelt(condition: Condition) -> Option<String> {
    match condition {
        Condition::Nothing => None,
        Condition::Star => Some("*".to_owned()),
        Condition::Strong(incarnation, commit) => Some(format!("\"{incarnation}.{commit}\"")),
        Condition::Weak(incarnation, commit) => Some(format!("W/\"{incarnation}.{commit}\"")),
    }
}

fn without_operations(snapshot: &Snapshot, resource: &str) -> Snapshot {
    let mut rest = Snapshot::default();
    snapshot.namespaces().for_each(|row| rest.insert_namespace(row.clone()));
    snapshot.targets().for_each(|(address, row)| rest.insert_target(address.resource.clone(), row.clone()));
    snapshot.leases().for_each(|row| rest.insert_lease(row.clone()));
    for row in snapshot.resources() {
        rest.insert_resource(row.clone());
        for (born, incarnation) in snapshot.eras(&row.resource) {
            let resource = row.resource.clone();
            rest.insert_era(fencegate::protocol::rows::EraRow { resource, incarnation, born });
        }
    }
    let kept = snapshot.operations().filter(|record| record.resource.as_str() != resource);
    kept.for_each(|record| rest.insert_operation(record.clone()));
    rest
}

fn definition(policy: u8, contract: u8, issuer: u8, max_jump: u64) -> Definition {
    Definition {
        policy: match policy {
            SINGLE => Policy::Single,
            SESSION => Policy::Session,
            other => Policy::Ordered { gapless: other == GAPLESS },
        },
        contract: match contract {
            OBSERVED => Contract::Observed,
            LEASE_BOUND => Contract::LeaseBound,
            _ => Contract::Immediate,
        },
        issuer: match issuer {
            GATEWAY => Issuer::Gateway,
            TRUSTED => Issuer::Trusted { max_jump: (max_jump > 0).then_some(max_jump) },
            _ => Issuer::Registered,
        },
        store: Store::Document,
        scope: 1,
    }
}
