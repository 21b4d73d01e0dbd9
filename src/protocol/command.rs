//! What can be asked for.

mod forwarding;

use std::num::NonZeroU64;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::domain::counter::{Incarnation, Sequence};
use crate::domain::document::{BodyDigest, Document};
use crate::domain::lease::{AcquisitionHash, Holder};
use crate::domain::operation::{Fingerprint, Method, OperationId};
use crate::domain::position::Position;
use crate::domain::precondition::Preconditions;
use crate::domain::principal::PrincipalName;
use crate::domain::resource::{Address, Bucket, ResourceName};
use crate::domain::seal::SealVerdict;
use crate::domain::time::Millis;

use super::control::Control;
use super::prune::Prune;
use super::rows::{LeaseRef, RequestKey};
use super::whole::WholeAct;

pub use forwarding::{
    Barrier, BarrierFinding, Before, Finding, Forward, Resolve, ResolveVerdict, Resume, Settle, Told,
};

/// Most members of one write (`api.md` section 2).
pub const MAX_MEMBERS: usize = 100;

/// One command, parsed and complete: nothing in it is text that still has to be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Become the owner.
    Acquire(Acquire),
    /// Stay the owner.
    Renew(Renew),
    /// Give ownership back.
    Release(Release),
    /// Fenced writes, all or none.
    Write(Write),
    /// Raise the floor without writing.
    Advance(Advance),
    /// Hand ownership to a successor.
    Transfer(Transfer),
    /// Revoke, cancel or reopen a resource.
    Control(Control),
    /// Act on a whole namespace, or on all of them.
    Whole(WholeAct),
    /// Write an expiry down.
    Sweep(Sweep),
    /// Forget records that are kept no longer.
    Prune(Prune),
    /// Give up the place of a waiter that has gone.
    Leave(Leave),
    /// Say what was learnt of an attempt at an upstream.
    Settle(Settle),
    /// Take the next step of an undecided operation.
    Resume(Resume),
    /// Say how a doubt ended that the gateway cannot end by looking.
    Resolve(Resolve),
    /// Take the next step towards a store in which nothing older can become authoritative.
    Barrier(Barrier),
}

impl Command {
    /// The positions that it presents under a seal of ours, each with its resource: each was issued once.
    #[must_use]
    pub fn sealed(&self) -> Vec<(&ResourceName, Position)> {
        let is_ours = |claim: &Claim| matches!(claim.seal, SealVerdict::Valid(_));
        let of = |resource, claim: &Claim| is_ours(claim).then_some((resource, claim.position));
        match self {
            Self::Write(write) => {
                let members = write.members.iter();
                members.filter_map(|member| of(&member.address.resource, &member.claim)).collect()
            }
            Self::Advance(advance) => of(&advance.resource, &advance.claim).into_iter().collect(),
            Self::Control(control) => {
                let claim = control.claim.as_ref();
                claim.and_then(|claim| of(&control.resource, claim)).into_iter().collect()
            }
            Self::Acquire(_)
            | Self::Renew(_)
            | Self::Release(_)
            | Self::Transfer(_)
            | Self::Whole(_)
            | Self::Sweep(_)
            | Self::Prune(_)
            | Self::Leave(_)
            | Self::Settle(_)
            | Self::Resume(_)
            | Self::Resolve(_)
            | Self::Barrier(_) => Vec::new(),
        }
    }
}

/// Most resources of one acquisition (`protocol.md` section 5).
pub const MAX_RESOURCES: usize = 16;

/// Become the owner of one resource, or of several at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// What to own: 1 to [`MAX_RESOURCES`], each once, in canonical order.
    pub resources: Vec<ResourceName>,
    /// A label for people.
    pub holder: Option<Holder>,
    /// Milliseconds asked for; the namespace's default when absent.
    pub ttl_ms: Option<u64>,
    /// Made anew by the client per attempt.
    pub request_id: Uuid,
    /// Who asks: a request id of one principal means nothing to another.
    pub principal: PrincipalName,
    /// Drawn by the shell; nobody can guess it.
    pub nonce: [u8; 16],
    /// How it waits; none when it does not.
    pub wait: Option<Wait>,
}

/// The wait of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// What is left of its budget.
    pub left: Millis,
    /// Whether this is its first attempt, which takes a place over from an earlier delivery of the same request.
    pub begins: bool,
}

impl Acquire {
    /// The first resource: its bucket is where the lease lies.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        self.resources.first().map_or(Bucket(0), ResourceName::bucket)
    }

    /// Tells this delivery of the request from every other one.
    #[must_use]
    pub fn claim(&self) -> NonZeroU64 {
        let (_, last) = self.nonce.split_at(8);
        let mut drawn = [0; 8];
        for (to, from) in drawn.iter_mut().zip(last) {
            *to = *from;
        }
        NonZeroU64::new(u64::from_be_bytes(drawn)).unwrap_or(NonZeroU64::MIN)
    }

    /// Where a repeat of this request finds its lease.
    #[must_use]
    pub fn request_key(&self) -> RequestKey {
        let resources = self.resources.iter().map(|resource| resource.as_str().as_bytes());
        let parts = std::iter::once(self.principal.as_str().as_bytes()).chain(resources);
        request_key(b"fencegate request 1\0", parts.chain([self.request_id.as_bytes().as_slice()]))
    }
}

/// A hash over parts, each with its length before it, so that no two lists of parts read alike.
fn request_key<'p>(kind: &[u8], parts: impl Iterator<Item = &'p [u8]>) -> RequestKey {
    let mut hash = Sha256::new();
    hash.update(kind);
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    RequestKey(hash.finalize().into())
}

/// Hand ownership to a named successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The bucket that the acquisition id names.
    pub bucket: Bucket,
    /// Which lease.
    pub acquisition: AcquisitionHash,
    /// The successor, for people.
    pub holder: Holder,
    /// Milliseconds asked for; the namespace's default when absent.
    pub ttl_ms: Option<u64>,
    /// Made anew by the client per attempt.
    pub request_id: Uuid,
    /// Drawn by the shell; nobody can guess it.
    pub nonce: [u8; 16],
}

impl Transfer {
    /// Where a repeat of this request finds the successor's lease.
    #[must_use]
    pub fn request_key(&self) -> RequestKey {
        let parts = [self.acquisition.as_bytes().as_slice(), self.request_id.as_bytes().as_slice()];
        request_key(b"fencegate transfer 1\0", parts.into_iter())
    }
}

/// Write the expiry of a lease down, if it has expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Which lease.
    pub lease: LeaseRef,
}

/// Give up the place of a waiter that has gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leave {
    /// What it waited for, in canonical order.
    pub resources: Vec<ResourceName>,
    /// Whose place.
    pub request_key: RequestKey,
    /// The delivery that waits no more: where a later one waits in the place, nothing happens to it.
    pub claim: NonZeroU64,
    /// Whether the place is kept for a moment, for the next delivery.
    pub keeps: bool,
}

/// Stay the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// The bucket that the acquisition id names.
    pub bucket: Bucket,
    /// Which lease.
    pub acquisition: AcquisitionHash,
    /// Milliseconds asked for; the lease's own ttl when absent.
    pub ttl_ms: Option<u64>,
}

/// Give ownership back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The bucket that the acquisition id names.
    pub bucket: Bucket,
    /// Which lease.
    pub acquisition: AcquisitionHash,
}

/// A position as it was presented, with the verdict on its seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The position.
    pub position: Position,
    /// Whether the epoch was left out.
    pub bare: bool,
    /// What the keys say of its seal.
    pub seal: SealVerdict,
}

/// Fenced writes that take effect together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// 1 to [`MAX_MEMBERS`], in the order of the request.
    pub members: Vec<Member>,
    /// Explain the verdict and change nothing.
    pub dry_run: bool,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What it addresses.
    pub address: Address,
    /// What it does.
    pub method: Method,
    /// The position that it comes under.
    pub claim: Claim,
    /// The caller's name for it.
    pub operation_id: OperationId,
    /// Order inside the position, under the policy `ordered`.
    pub sequence: Option<Sequence>,
    /// The incarnation that the caller means, where it says so.
    pub incarnation: Option<Incarnation>,
    /// Declared preconditions.
    pub preconditions: Preconditions,
    /// What makes two deliveries the same.
    pub fingerprint: Fingerprint,
    /// The content; none for a removal, and none where it is forwarded.
    pub document: Option<Document>,
    /// What is forwarded, of a store behind HTTP.
    pub forward: Option<Box<Forward>>,
    /// Digest of the content (of nothing, for a removal).
    pub digest: BodyDigest,
    /// Whether its caller may raise the floor where the issuer is only trusted.
    pub may_raise: bool,
}

impl Member {
    /// Whether it removes the whole resource.
    #[must_use]
    pub const fn removes_resource(&self) -> bool {
        matches!(self.method, Method::Delete) && self.address.target.is_none()
    }
}

/// Why several members cannot be one write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// None, or more than 100.
    #[error("writes has {0} members; give 1 to {MAX_MEMBERS}")]
    Count(usize),
    /// One target twice.
    #[error("writes[{second}] addresses the same target as writes[{first}]; a batch writes each target once")]
    SameTarget {
        /// Index of the earlier one.
        first: usize,
        /// Index of the later one.
        second: usize,
    },
    /// One effect has one position, one sequence and one incarnation.
    #[error(
        "writes[{second}] and writes[{first}] write one resource but differ in {what}; members of one resource are one effect"
    )]
    Differ {
        /// Index of the earlier one.
        first: usize,
        /// Index of the later one.
        second: usize,
        /// The field.
        what: &'static str,
    },
    /// A removal of the resource takes its targets with it.
    #[error("writes[{member}] deletes the whole resource, so no other member may write below it")]
    WholeResource {
        /// Index of the removal.
        member: usize,
    },
    /// Two operations of one name on one resource.
    #[error(
        "writes[{second}] has the operation_id of writes[{first}]; operations of one resource need names of their own"
    )]
    SameOperation {
        /// Index of the earlier one.
        first: usize,
        /// Index of the later one.
        second: usize,
    },
}

impl Write {
    /// Members that can be one write, or the reason why not.
    ///
    /// # Errors
    /// [`MembersError`] names the two members that do not go together.
    pub fn new(members: Vec<Member>, dry_run: bool) -> Result<Self, MembersError> {
        if members.is_empty() || members.len() > MAX_MEMBERS {
            return Err(MembersError::Count(members.len()));
        }
        for (second, later) in members.iter().enumerate() {
            for (first, earlier) in members.iter().enumerate().take(second) {
                if earlier.address.resource == later.address.resource {
                    check_pair((first, earlier), (second, later))?;
                }
            }
        }
        Ok(Self { members, dry_run })
    }
}

fn check_pair(
    (first, earlier): (usize, &Member),
    (second, later): (usize, &Member),
) -> Result<(), MembersError> {
    let differ = |what| Err(MembersError::Differ { first, second, what });
    if earlier.removes_resource() {
        return Err(MembersError::WholeResource { member: first });
    }
    if later.removes_resource() {
        return Err(MembersError::WholeResource { member: second });
    }
    if earlier.address.target == later.address.target {
        return Err(MembersError::SameTarget { first, second });
    }
    if earlier.operation_id == later.operation_id {
        return Err(MembersError::SameOperation { first, second });
    }
    if earlier.claim != later.claim {
        return differ("fencing_token");
    }
    if earlier.sequence != later.sequence {
        return differ("sequence");
    }
    if earlier.incarnation == later.incarnation { Ok(()) } else { differ("incarnation") }
}

/// Raise the floor without writing, or register an external position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// What to fence.
    pub resource: ResourceName,
    /// The new floor.
    pub claim: Claim,
    /// Why, for those who read the record.
    pub reason: String,
}
