//! Leases that wait for a barrier: nobody is told that it owns before nothing older can come any more.

use fencegate::domain::lease::LeaseState;
use fencegate::domain::upstream::{CellSeen, Class};
use fencegate::protocol::Outcome;
use fencegate::protocol::command::BarrierFinding;
use fencegate::protocol::outcome::{BarrierStep, Grant};
use fencegate::protocol::rows::LeaseRef;

use super::{Far, PAGE, leased, tag, write};
use crate::support::code::{self, Code};
use crate::support::world::{TTL_MS, acquire, ended, granted, name, token, view};

impl Far {
    fn place(grant: &Grant) -> LeaseRef {
        grant.view.lease.place()
    }

    /// An owner whose barrier stands.
    pub(super) fn held(&mut self) -> Grant {
        let grant = self.world.acquire(PAGE);
        let position = grant.view.lease.position;
        let lease = Some(Self::place(&grant));
        match self.barrier(lease, BarrierFinding::Nothing) {
            BarrierStep::Stands(_) => {}
            BarrierStep::ReadCell(recorded) => {
                let seen = CellSeen::Absent;
                let step = self.barrier(lease, BarrierFinding::Cell { recorded, seen });
                let BarrierStep::Rewrite(base, stamp) = step else { panic!("{step:?}") };
                let (position, validator) = (stamp.position, tag("b1"));
                self.barrier(lease, BarrierFinding::Rewritten { position, base, validator });
            }
            BarrierStep::Advance(_, _) => {
                self.barrier(lease, BarrierFinding::Acknowledged(position));
            }
            other => panic!("{other:?}"),
        }
        let repeat = self.again();
        assert_eq!((repeat.view.state, repeat.fencing_tokens.len()), (LeaseState::Held, 1));
        repeat
    }

    /// The same acquire once more.
    fn again(&mut self) -> Grant {
        granted(self.world.tell(&acquire(PAGE, 1)))
    }
}

/// A lease that waits for its barrier.
fn pending() -> (Far, Grant) {
    let mut far = leased(Class::FenceAware);
    let grant = far.world.acquire(PAGE);
    (far, grant)
}

#[test]
fn whoever_waits_for_a_barrier_has_no_token() {
    // Broken: the token is known before it is true. Must hold: 202 without one; the repeat shows the same, and has the
    // token once the barrier stands.
    for class in [Class::Conditional, Class::FenceAware] {
        let mut far = leased(class);
        let grant = far.world.acquire(PAGE);
        assert_eq!((grant.view.state, grant.fencing_tokens.len()), (LeaseState::PendingBarrier, 0));
        assert_eq!(far.row().floor, token(1), "the floor is raised at once");
        let repeat = far.again();
        assert_eq!((repeat.repeated, repeat.fencing_tokens.len()), (true, 0));
        assert_eq!(repeat.acquisition_id, grant.acquisition_id);
        let mut fresh = leased(class);
        assert_eq!(fresh.held().view.state, LeaseState::Held, "{class:?}");
    }
}

#[test]
fn the_ttl_starts_when_the_barrier_stands() {
    let (mut far, grant) = pending();
    far.world.wait_ms(TTL_MS - 1);
    far.barrier(Some(Far::place(&grant)), BarrierFinding::Acknowledged(token(1)));
    let repeat = far.again();
    assert_eq!((repeat.view.state, repeat.view.remaining.get()), (LeaseState::Held, TTL_MS));
}

#[test]
fn a_barrier_that_stood_before_anybody_told_the_lease_is_found_by_the_repeat() {
    let (mut far, grant) = pending();
    far.barrier(None, BarrierFinding::Acknowledged(token(1)));
    assert_eq!(far.world.lease(&grant.acquisition_id).state, LeaseState::PendingBarrier);
    far.world.wait_ms(10);
    let repeat = far.again();
    assert_eq!((repeat.view.state, repeat.view.remaining.get()), (LeaseState::Held, TTL_MS));
    assert_eq!(far.world.lease(&grant.acquisition_id).state, LeaseState::Held);
}

#[test]
fn a_lower_position_does_not_make_the_barrier() {
    let (mut far, first) = pending();
    far.world.release(&first.acquisition_id);
    let second = granted(far.world.tell(&acquire(PAGE, 2)));
    far.barrier(Some(Far::place(&second)), BarrierFinding::Acknowledged(token(1)));
    assert_eq!(far.world.lease(&second.acquisition_id).state, LeaseState::PendingBarrier);
    far.barrier(Some(Far::place(&second)), BarrierFinding::Acknowledged(token(2)));
    assert_eq!(far.world.lease(&second.acquisition_id).state, LeaseState::Held);
}

#[test]
fn a_renewal_keeps_the_place_and_owns_nothing() {
    let (mut far, grant) = pending();
    far.world.wait_ms(TTL_MS / 2);
    let renewed = view(far.world.renew(&grant.acquisition_id));
    assert_eq!((renewed.state, renewed.remaining.get()), (LeaseState::PendingBarrier, TTL_MS));
    far.world.wait_ms(TTL_MS - 1);
    assert_eq!(far.again().view.state, LeaseState::PendingBarrier);
    far.world.wait_ms(1);
    assert_eq!(ended(&far.world.renew(&grant.acquisition_id)), LeaseState::Expired);
}

#[test]
fn a_release_gives_it_up_and_the_floor_stays() {
    let (mut far, grant) = pending();
    assert_eq!(ended(&far.world.release(&grant.acquisition_id)), LeaseState::Released);
    far.barrier(Some(Far::place(&grant)), BarrierFinding::Acknowledged(token(1)));
    assert_eq!(far.world.lease(&grant.acquisition_id).state, LeaseState::Released);
    assert_eq!(far.row().floor, token(1));
    assert_eq!(ended(&far.world.tell(&acquire(PAGE, 1))), LeaseState::Released);
}

#[test]
fn one_that_has_expired_is_not_held_by_a_late_barrier() {
    let (mut far, grant) = pending();
    far.world.wait_ms(TTL_MS);
    far.barrier(Some(Far::place(&grant)), BarrierFinding::Acknowledged(token(1)));
    assert_ne!(far.world.lease(&grant.acquisition_id).state, LeaseState::Held);
    assert_eq!(ended(&far.world.tell(&acquire(PAGE, 1))), LeaseState::Expired);
    let next = granted(far.world.tell(&acquire(PAGE, 2)));
    assert_eq!(next.view.lease.position, token(2), "and the next one is not held up");
}

#[test]
fn a_pending_lease_keeps_others_out() {
    let (mut far, _) = pending();
    assert_eq!(code::word(&far.world.tell(&acquire(PAGE, 2))), Code::LeaseHeld);
}

#[test]
fn a_lease_of_two_resources_is_held_when_both_have_their_barriers() {
    let mut far = leased(Class::FenceAware);
    let mut both = acquire(PAGE, 1);
    if let fencegate::protocol::Command::Acquire(acquire) = &mut both {
        acquire.resources = vec![name("w/other"), name(PAGE)];
    }
    let grant = far.world.grant(&both);
    let lease = Some(Far::place(&grant));
    far.barrier(lease, BarrierFinding::Acknowledged(token(1)));
    assert_eq!(far.world.lease(&grant.acquisition_id).state, LeaseState::PendingBarrier);
    let other = fencegate::protocol::command::Barrier {
        resource: name("w/other"),
        lease,
        learnt: BarrierFinding::Acknowledged(token(1)),
    };
    let step = far.world.tell(&fencegate::protocol::Command::Barrier(other));
    assert!(matches!(step, Outcome::Barrier(_)));
    assert_eq!(far.world.lease(&grant.acquisition_id).state, LeaseState::Held);
    assert_eq!(granted(far.world.tell(&both)).fencing_tokens.len(), 2);
}

#[test]
fn under_observed_nobody_waits() {
    for class in Class::ALL {
        let definition = fencegate::domain::policy::Definition {
            contract: fencegate::domain::policy::Contract::Observed,
            ..*leased(class).world.definition()
        };
        let mut far = Far::of(definition);
        let grant = far.world.acquire(PAGE);
        assert_eq!((grant.view.state, grant.fencing_tokens.len()), (LeaseState::Held, 1), "{class:?}");
    }
}

#[test]
fn a_transfer_waits_for_its_barrier_too() {
    for class in [Class::Conditional, Class::FenceAware] {
        let mut far = leased(class);
        let first = far.held();
        let command = far.owned(&first, &write("op", 1));
        far.announced(&command);
        let transfer = crate::support::calls::transfer(&first, "next", 7);
        let next = far.world.grant(&transfer);
        assert_eq!((next.view.state, next.view.lease.position), (LeaseState::PendingBarrier, token(2)));
    }
}
