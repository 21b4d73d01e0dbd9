//! One fenced write in the making, however it came: as a request of its own or as a member of a batch. Both are
//! completed here, so both are fingerprinted and refused alike.

use bytes::Bytes;

use crate::domain::counter::{Incarnation, Sequence};
use crate::domain::document::{BodyDigest, ContentType, Document};
use crate::domain::operation::{Fingerprint, Method, OperationId};
use crate::domain::policy::Policy;
use crate::domain::position::PresentedToken;
use crate::domain::precondition::Preconditions;
use crate::ledger::Ledger;
use crate::protocol::command::{Forward, Member};
use crate::protocol::rows::Mark;

use super::json::unreadable;
use super::names::Place;
use super::problem::{Code, Problem};

/// What a caller calls the parts of a write: headers or fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    pub(super) token: &'static str,
    pub(super) operation_id: &'static str,
    pub(super) sequence: &'static str,
}

/// A parsed write that may still lack something.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) place: Place,
    pub(super) method: Method,
    pub(super) token: Option<PresentedToken>,
    pub(super) operation_id: Option<OperationId>,
    pub(super) sequence: Option<Sequence>,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) preconditions: Preconditions,
    pub(super) content_type: Option<ContentType>,
    pub(super) content: Content,
    /// Whether the caller may raise the floor by writing.
    pub(super) may_raise: bool,
}

/// What a write brings.
#[derive(Debug)]
pub(super) enum Content {
    /// The bytes of a document.
    Document(Bytes),
    /// What goes to an upstream.
    Forwarded(Box<Forward>),
}

impl Content {
    fn digest(&self) -> BodyDigest {
        match self {
            Self::Document(bytes) => BodyDigest::of(bytes),
            Self::Forwarded(forward) => forward.payload.digest,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Document(bytes) => bytes.is_empty(),
            Self::Forwarded(forward) => forward.payload.length == 0,
        }
    }

    fn query(&self) -> Option<&str> {
        match self {
            Self::Document(_) => None,
            Self::Forwarded(forward) => forward.query.as_deref(),
        }
    }
}

impl Draft {
    /// The complete member: position present, operation id present, and a sequence where and only where the policy
    /// takes one. The body is hashed here, once.
    pub(super) fn complete(self, ledger: &Ledger, words: Words) -> Result<Member, Problem> {
        let address = self.place.address;
        let required = |code, detail: String| Problem::new(code, detail).about(&address.resource);
        let Some(token) = self.token else {
            let detail = format!("send {} with the fencing_token of your acquire", words.token);
            return Err(required(Code::TokenRequired, detail));
        };
        let Some(operation_id) = self.operation_id else {
            let detail = format!(
                "send {} with an id of your choice, the same one with each attempt",
                words.operation_id
            );
            return Err(required(Code::OperationIdRequired, detail));
        };
        let claim = ledger.claim(&address.resource, &token);
        in_order(self.place.rules.definition.policy, self.sequence, words).map_err(|problem| {
            let presented = Mark { position: claim.position, sequence: self.sequence };
            problem.about(&address.resource).presented(presented)
        })?;
        if self.method == Method::Delete && !self.content.is_empty() {
            return Err(body_of_removal());
        }
        let digest = self.content.digest();
        let (query, content_type) = (self.content.query(), self.content_type.as_ref());
        let fingerprint =
            Fingerprint::of(self.method, &address, query, content_type, &digest, &self.preconditions);
        let (document, forward) = match (self.content, self.method) {
            (Content::Forwarded(forward), _) => (None, Some(forward)),
            (Content::Document(_), Method::Delete) => (None, None),
            (Content::Document(body), Method::Put | Method::Post | Method::Patch) => {
                (Some(Document { content_type: self.content_type, body }), None)
            }
        };
        Ok(Member {
            address,
            method: self.method,
            claim,
            operation_id,
            sequence: self.sequence,
            incarnation: self.incarnation,
            preconditions: self.preconditions,
            fingerprint,
            document,
            forward,
            digest,
            may_raise: self.may_raise,
        })
    }
}

/// A removal brings nothing.
pub(super) fn body_of_removal() -> Problem {
    unreadable("a DELETE brings no body; send it without one")
}

fn in_order(policy: Policy, sequence: Option<Sequence>, words: Words) -> Result<(), Problem> {
    let name = words.sequence;
    match (policy, sequence) {
        (Policy::Ordered { .. }, None) => {
            let detail = format!("the policy of the namespace is ordered; send {name}");
            Err(Problem::new(Code::SequenceRequired, detail))
        }
        (Policy::Single | Policy::Session, Some(_)) => {
            let detail = format!(
                "the policy of the namespace is {}, which takes no {name}; leave it out",
                policy.word()
            );
            Err(Problem::new(Code::InvalidSequence, detail))
        }
        (Policy::Ordered { .. }, Some(_)) | (Policy::Single | Policy::Session, None) => Ok(()),
    }
}
