//! Short words for what concerns leases beyond one acquire: several resources, waiting, handing over, and control calls.

use fencegate::domain::lease::EndCause;
use fencegate::domain::lease::Holder;
use fencegate::domain::operation::OperationId;
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::time::Millis;
use fencegate::protocol::command::{Acquire, Leave, Sweep, Transfer, Wait};
use fencegate::protocol::control::{Control, ControlVerb};
use fencegate::protocol::outcome::{Blocker, Controlled, Grant};
use fencegate::protocol::{Command, Outcome, Refusal};
use uuid::Uuid;

use super::world::{World, name};

/// An acquire of several resources, in canonical order as the door brings them.
pub(crate) fn acquire_all(resources: &[&str], request: u128) -> Command {
    let mut resources: Vec<_> = resources.iter().map(|one| name(one)).collect();
    resources.sort_unstable();
    Command::Acquire(Acquire {
        resources,
        holder: None,
        ttl_ms: None,
        request_id: Uuid::from_u128(request),
        principal: PrincipalName::anonymous(),
        nonce: request.to_be_bytes(),
        wait: None,
    })
}

/// The same by a caller that has so much of its budget left.
pub(crate) fn waiting(resources: &[&str], request: u128, wait_ms: u64) -> Command {
    let Command::Acquire(acquire) = acquire_all(resources, request) else { panic!() };
    Command::Acquire(Acquire { wait: Some(Wait { left: Millis::new(wait_ms), begins: true }), ..acquire })
}

/// A waiter gives its place up.
pub(crate) fn leave(resources: &[&str], request: u128) -> Command {
    let Command::Acquire(acquire) = acquire_all(resources, request) else { panic!() };
    let request_key = acquire.request_key();
    let claim = acquire.claim();
    Command::Leave(Leave { resources: acquire.resources, request_key, claim, keeps: false })
}

/// A lease is handed to a successor.
pub(crate) fn transfer(grant: &Grant, holder: &str, request: u128) -> Command {
    transfer_for(grant, holder, request, None)
}

/// The same for some time.
pub(crate) fn transfer_for(grant: &Grant, holder: &str, request: u128, ttl_ms: Option<u64>) -> Command {
    Command::Transfer(Transfer {
        bucket: grant.acquisition_id.bucket(),
        acquisition: grant.acquisition_id.hash(),
        holder: Holder::parse(holder).unwrap(),
        ttl_ms,
        request_id: Uuid::from_u128(request),
        nonce: (u128::MAX - request).to_be_bytes(),
    })
}

/// The gateway looks whether a lease has expired.
pub(crate) fn sweep(grant: &Grant) -> Command {
    Command::Sweep(Sweep { lease: grant.view.lease.place() })
}

/// An operator's call.
pub(crate) fn call(verb: ControlVerb, resource: &str) -> Control {
    Control { verb, resource: name(resource), claim: None, reason: "a test".to_owned(), key: None }
}

/// What turns a call into another one.
pub(crate) trait Told {
    /// As the owner that holds this token.
    fn under(self, world: &World, token: &str) -> Self;
    /// Under a name, so that a copy of it does nothing.
    fn keyed(self, key: &str) -> Self;
    fn because(self, reason: &str) -> Self;
}

impl Told for Control {
    fn under(mut self, world: &World, token: &str) -> Self {
        self.claim = Some(world.claim(&self.resource, token));
        self
    }

    fn keyed(mut self, key: &str) -> Self {
        self.key = Some(OperationId::parse(key).unwrap());
        self
    }

    fn because(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.reason);
        self
    }
}

impl World {
    pub(crate) fn control(&mut self, control: Control) -> Outcome {
        self.tell(&Command::Control(control))
    }

    /// A control call that must be carried out, now or before.
    pub(crate) fn controlled(&mut self, control: Control) -> Controlled {
        match self.control(control) {
            Outcome::Controlled(done) => *done,
            other => panic!("{other:?}"),
        }
    }

    /// What stands against an acquire; it must be refused for that.
    pub(crate) fn blocked(&mut self, command: &Command) -> Vec<Blocker> {
        match self.tell(command) {
            Outcome::Refused(Refusal::LeaseBlocked(blockers)) => blockers,
            other => panic!("{other:?}"),
        }
    }
}

/// The sealed token of one of a lease's resources.
pub(crate) fn token_on(grant: &Grant, resource: &str) -> String {
    let members = grant.view.lease.members();
    let index = members.into_iter().position(|(one, _)| one.as_str() == resource).unwrap();
    grant.fencing_tokens[index].0.clone()
}

/// Whether a lease was told to have ended because its resource was cancelled.
pub(crate) fn cancel_requested(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(Refusal::LeaseEnded { cause, .. }) => *cause == Some(EndCause::Cancelled),
        other => panic!("{other:?}"),
    }
}
