//! The sentences: what is wrong in this case, and what the caller is to do next.

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Counter, Incarnation, Sequence};
use crate::domain::lease::{EndCause, LeaseState};
use crate::domain::operation::OperationId;
use crate::domain::policy::Definition;
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::Namespace;
use crate::protocol::Refusal;
use crate::protocol::outcome::{Blocked, Blocker};
use crate::protocol::snapshot::OperationKey;

use super::super::wire;
use super::refusal::About;

const LEASE_OVER: &str = "the lease of this position has ended, and the contract lease_bound admits nothing after it; \
                          acquire again";

const DELIVER_SEALED: &str = "send the fencing_token of your acquire as it came";

/// The reason of a refusal, and what to do next.
pub(super) fn detail(refusal: &Refusal, about: &About<'_>) -> String {
    let resource = resource(about);
    let operation = about.operation.map_or("of this id", OperationId::as_str);
    match refusal {
        Refusal::OperationMismatch => mismatch(operation),
        Refusal::OperationInProgress => {
            format!("operation {operation} is being carried out; send the same request again in 1 s")
        }
        Refusal::OutcomeUncertain => {
            format!(
                "the outcome of operation {operation} is not known; ask for it at the address in Location"
            )
        }
        Refusal::Stopped { namespace, breaker } => stopped(namespace, breaker),
        Refusal::Quarantined { .. }
        | Refusal::LaneBusy { .. }
        | Refusal::NotApplied
        | Refusal::AlreadyResolved { .. }
        | Refusal::NotUncertain
        | Refusal::NoSuchOperation => of_upstreams(refusal, &resource, operation),
        Refusal::IncarnationGone { current } => gone(*current),
        Refusal::Deleted { revoked_through } => deleted(&resource, *revoked_through),
        Refusal::Cancelled => format!("work on {resource} was cancelled; stop"),
        Refusal::SealMissing => {
            format!("the token has no seal; {} issues its own tokens: {DELIVER_SEALED}", of(about))
        }
        Refusal::SealWrong => format!("the seal does not fit {resource} and this position; {DELIVER_SEALED}"),
        Refusal::IssuerBehind { issued } => behind(*issued),
        Refusal::EpochAhead { epoch } => {
            format!("the epoch of {} is {epoch}; present a token of that epoch", of(about))
        }
        Refusal::TokenJump { max_jump } => jump(*max_jump, about),
        Refusal::AdvanceForbidden => unregistered(&resource, about),
        Refusal::StaleToken { bare_in_later_epoch: true, .. } => bare(about),
        Refusal::StaleToken { external, .. } => stale(*external, about),
        Refusal::OperationExpired => expired(operation),
        Refusal::LeaseNotLive => LEASE_OVER.to_owned(),
        Refusal::GenerationSpent => spent(about),
        Refusal::SequenceRegressed { applied } => regressed(*applied, about),
        Refusal::SequenceGap { expected } => gap(*expected, about),
        Refusal::PreconditionRequired => format!(
            "the policy of {} is session; send If-Match with the ETag that your edit is based on (* does not do)",
            of(about)
        ),
        Refusal::PreconditionFailed { current } => precondition(*current),
        Refusal::NothingToDelete => {
            format!("there is nothing to delete under {resource}; nothing was changed")
        }
        Refusal::UnknownNamespace(namespace) => format!("namespace {namespace:?} is not configured"),
        Refusal::DefinitionDiffers { recorded, configured } => differs(recorded, configured, about),
        Refusal::LeaseBlocked(_)
        | Refusal::WaitTimeout(_)
        | Refusal::RequestMismatch
        | Refusal::LeaseEnded { .. }
        | Refusal::NothingToControl
        | Refusal::FreshTokenRequired
        | Refusal::NoSuchLease
        | Refusal::TtlOutOfBounds(_) => of_leases(refusal, about, &resource),
        Refusal::TokenExhausted
        | Refusal::CounterExhausted(_)
        | Refusal::OperationsOpen { .. }
        | Refusal::VersionDiffers { .. }
        | Refusal::ChangeUnsafe { .. } => of_whole(refusal, &resource),
        Refusal::IssuerExternal => format!(
            "{} has an external issuer; take tokens from it, and raise the floor with POST /v1/advance/{resource}",
            of(about)
        ),
    }
}

/// The same, of ends of counters and of acts on a whole namespace.
fn of_whole(refusal: &Refusal, resource: &str) -> String {
    if let Refusal::OperationsOpen { open } = refusal {
        return undecided(open);
    }
    if let Refusal::VersionDiffers { recorded } = refusal {
        return format!(
            "version {recorded} of the definition is recorded: somebody else has changed it; look at it again"
        );
    }
    if let Refusal::ChangeUnsafe { why } = refusal {
        return format!("what is there does not fit the new definition ({why}); use a new namespace");
    }
    if let Refusal::CounterExhausted(counter) = refusal {
        return used_up(*counter, resource);
    }
    format!("the last token of {resource} is issued; use another resource")
}

/// What an act on a whole namespace waits for.
fn undecided(open: &[OperationKey]) -> String {
    let names: Vec<String> = open.iter().map(|(resource, _, id)| format!("{id} on {resource}")).collect();
    format!(
        "effects are under way or uncertain: {}; wait for them, or resolve what is uncertain; a new epoch can also let \
         them go on under the one that ends, with \"leave_open\": true",
        names.join(", ")
    )
}

/// The database proved to have gone back in time: by which detector, and who can end it. What was found may name what is others'.
fn stopped(namespace: &Namespace, breaker: &Breaker) -> String {
    format!(
        "namespace {namespace:?} is stopped, because its records have gone back in time (detector {}; GET \
         /v1/namespaces/{namespace} tells what was found to those who may look after all of it); an operator restores a newer \
         backup, or begins a new epoch with POST /v1/namespaces/{namespace}/epoch",
        breaker.detector.word()
    )
}

/// A counter at its end, and what can be done without it.
fn used_up(counter: Counter, resource: &str) -> String {
    match counter {
        Counter::Version => "the last version of the definition is recorded; use a new namespace".to_owned(),
        Counter::Epoch => "the last epoch has been begun; no other can follow it".to_owned(),
        Counter::Commit => format!("the last commit number of {resource} is used; use another resource"),
        Counter::Incarnation => format!("the last incarnation of {resource} is over; use another resource"),
    }
}

/// The same, of what only stores behind HTTP bring about.
fn of_upstreams(refusal: &Refusal, resource: &str, operation: &str) -> String {
    if let Refusal::Quarantined { found } = refusal {
        return format!(
            "{resource} is quarantined: {found}; an operator has to look into it, and ends it with POST /v1/reopen/{resource}"
        );
    }
    if let Refusal::LaneBusy { operation } = refusal {
        return format!(
            "operation {operation} on {resource} is not decided yet, and the store can take one at a time; send the same \
             request again in 1 s"
        );
    }
    if let Refusal::AlreadyResolved { state } = refusal {
        return format!("operation {operation} is {} already, and a verdict is never undone", state.word());
    }
    if matches!(refusal, Refusal::NotApplied) {
        return format!(
            "operation {operation} was resolved as not applied; if the work is still to be done, send it under a new \
             operation id"
        );
    }
    if matches!(refusal, Refusal::NotUncertain) {
        return format!("operation {operation} is being carried out; only an uncertain one can be resolved");
    }
    format!("no operation {operation} is recorded for {resource}")
}

/// The same, of what only leases and control calls are told.
fn of_leases(refusal: &Refusal, about: &About<'_>, resource: &str) -> String {
    if let Refusal::LeaseBlocked(blockers) = refusal {
        return blocked(blockers);
    }
    if let Refusal::WaitTimeout(blockers) = refusal {
        return format!(
            "{}; the time to wait is over: ask again, under the same request id if you sent one",
            blocked(blockers)
        );
    }
    if let Refusal::LeaseEnded { state, cause } = refusal {
        let told = match cause {
            Some(EndCause::Cancelled) => {
                "the work was cancelled; stop, and do not acquire again until it is reopened"
            }
            Some(EndCause::Revoked) => "the lease was revoked; stop, and do not write under the old token",
            Some(EndCause::Transferred) => {
                "the lease was handed to a successor; stop, and do not write under the old token"
            }
            None => ended(*state),
        };
        return told.to_owned();
    }
    if let Refusal::TtlOutOfBounds(error) = refusal {
        return error.to_string();
    }
    if matches!(refusal, Refusal::RequestMismatch) {
        return "this request id stands for other parameters; repeat that request exactly, or choose a new request id"
            .to_owned();
    }
    if matches!(refusal, Refusal::NothingToControl) {
        return format!("nothing is known about {resource}: nobody acquired, advanced or wrote it");
    }
    if matches!(refusal, Refusal::FreshTokenRequired) {
        let namespace = of(about);
        return format!(
            "{namespace} has an external issuer: send fencing_token with a position freshly read from it"
        );
    }
    "no lease has this acquisition id; send it as acquire returned it".to_owned()
}

/// What stands in the way, in one sentence however many resources there are.
fn blocked(blockers: &[Blocker]) -> String {
    let [first, others @ ..] = blockers else { return "the lease is not free".to_owned() };
    let resource = &first.resource;
    let first = match (first.why, first.place) {
        (Blocked::Held { position }, _) => format!("somebody holds {resource} at position {position}"),
        (Blocked::LockDelay, _) => {
            format!("the lease of {resource} has just expired, and nobody may acquire it for a moment")
        }
        (Blocked::Queued, Some(place)) => {
            format!("{} are before you for {resource}", place.position.saturating_sub(1))
        }
        (Blocked::Queued, None) => format!("others have waited longer for {resource}; send wait_ms to queue"),
    };
    let more =
        if others.is_empty() { String::new() } else { format!(", and blockers lists {} more", others.len()) };
    format!("{first}{more}; try again after retry_after_ms")
}

fn resource(about: &About<'_>) -> String {
    about.resource.map_or_else(|| "the resource".to_owned(), ToString::to_string)
}

fn of(about: &About<'_>) -> String {
    about.resource.map_or_else(
        || "the namespace".to_owned(),
        |resource| format!("namespace {:?}", resource.namespace()),
    )
}

fn mismatch(operation: &str) -> String {
    format!(
        "operation {operation} is recorded with another method, content type, body or precondition; repeat the first \
         request exactly, or choose a new operation id"
    )
}

fn deleted(resource: &str, revoked_through: Option<Position>) -> String {
    let above = revoked_through.map(|mark| format!(" above {mark}")).unwrap_or_default();
    format!(
        "{resource} was deleted; a PUT or POST under a position{above}, without Fencing-Incarnation, begins a new \
         incarnation"
    )
}

fn behind(issued: Position) -> String {
    format!(
        "the seal is right and the highest position that the database remembers having issued is {issued}: it has gone \
         back in time; retry later, and have an operator look at it"
    )
}

fn gone(current: Incarnation) -> String {
    format!(
        "another incarnation was named and {current} is current: what you are working on was deleted and created anew, or is \
         not there yet; read the resource"
    )
}

fn jump(max_jump: u64, about: &About<'_>) -> String {
    format!("the token lies more than {max_jump} above the floor{}; check the issuer", floor(about))
}

fn unregistered(resource: &str, about: &About<'_>) -> String {
    format!(
        "the position is above the registered one{}, and you may not raise it by writing; have it registered first with POST /v1/advance/{resource}",
        floor(about)
    )
}

fn floor(about: &About<'_>) -> String {
    about.standing.map(|standing| format!(" {}", standing.floor)).unwrap_or_default()
}

fn bare(about: &About<'_>) -> String {
    format!(
        "a token without an epoch means epoch 0 for ever, and {} has moved on; send epoch.token as the issuer has it now",
        of(about)
    )
}

fn stale(external: bool, about: &About<'_>) -> String {
    let presented = about.presented.map(|mark| format!("position {} was presented", mark.position));
    let floor = about.standing.map(|standing| format!(" and the floor is {}", standing.floor));
    let behind = if external {
        "; if the issuer has just given it out, the issuer is behind (it was reset or restored): an operator begins a new epoch"
    } else {
        ""
    };
    format!(
        "{}{}; a newer generation exists, or this one was revoked: stop{behind}",
        presented.unwrap_or_else(|| "the position is stale".to_owned()),
        floor.unwrap_or_default()
    )
}

fn expired(operation: &str) -> String {
    format!(
        "the position lies so far back that the record of operation {operation} may be gone; read the resource to see \
         what is there"
    )
}

fn spent(about: &About<'_>) -> String {
    let position = about.presented.map(|mark| format!(" {}", mark.position)).unwrap_or_default();
    format!("position{position} has published already; acquire a new generation for a second publication")
}

fn regressed(applied: Option<Sequence>, about: &About<'_>) -> String {
    let last = applied.map_or_else(|| "a higher one".to_owned(), |sequence| sequence.to_string());
    format!("sequence {} was presented and {last} is accepted already; go on above it", sequence(about))
}

fn gap(expected: Sequence, about: &About<'_>) -> String {
    format!(
        "sequence {} was presented and {expected} is the next one; send what is missing first",
        sequence(about)
    )
}

fn sequence(about: &About<'_>) -> String {
    about.presented.and_then(|mark| mark.sequence).map(|sequence| sequence.to_string()).unwrap_or_default()
}

fn precondition(current: Option<EntityTag>) -> String {
    match current {
        Some(tag) => {
            format!("If-Match or If-None-Match does not hold: the ETag is {tag}; read the document again")
        }
        None => {
            "If-Match or If-None-Match does not hold: there is no content; read the document again".to_owned()
        }
    }
}

fn differs(recorded: &Definition, configured: &Definition, about: &About<'_>) -> String {
    format!(
        "{} {}; correct the configuration file, or use another namespace",
        of(about),
        wire::difference(recorded, configured)
    )
}

const fn ended(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Released => "the lease was released; acquire again, with a new request id",
        LeaseState::Expired => "the lease has expired; acquire again, with a new request id",
        LeaseState::Superseded => {
            "a newer position has taken over; stop, and do not write under the old token"
        }
        LeaseState::Held | LeaseState::PendingBarrier => {
            "the lease is held and was called ended; the log has more under this request_id"
        }
    }
}
