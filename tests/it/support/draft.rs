//! Writes as a test tells them: a path, a name and a token in their wire forms, and what else a caller may add.

use bytes::Bytes;
use fencegate::domain::counter::{Incarnation, Sequence};
use fencegate::domain::document::{BodyDigest, ContentType, Document};
use fencegate::domain::operation::{Fingerprint, Method, OperationId};
use fencegate::domain::precondition::{Preconditions, TagList};
use fencegate::domain::resource::Path;
use fencegate::protocol::command::Member;

use super::world::World;

/// One write before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) path: String,
    pub(crate) method: Method,
    pub(crate) operation: String,
    pub(crate) token: String,
    pub(crate) body: &'static str,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) sequence: Option<u64>,
    pub(crate) incarnation: Option<u64>,
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
}

/// A PUT of some content.
pub(crate) fn put(path: &str, operation: &str, token: impl Into<String>) -> Draft {
    Draft {
        path: path.to_owned(),
        method: Method::Put,
        operation: operation.to_owned(),
        token: token.into(),
        body: "content",
        content_type: None,
        sequence: None,
        incarnation: None,
        if_match: None,
        if_none_match: None,
    }
}

/// A DELETE of a target, or of the resource.
pub(crate) fn delete(path: &str, operation: &str, token: impl Into<String>) -> Draft {
    Draft { method: Method::Delete, body: "", ..put(path, operation, token) }
}

impl Draft {
    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn body(mut self, body: &'static str) -> Self {
        self.body = body;
        self
    }

    pub(crate) fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    pub(crate) fn sequence(mut self, sequence: u64) -> Self {
        self.sequence = Some(sequence);
        self
    }

    pub(crate) fn incarnation(mut self, incarnation: u64) -> Self {
        self.incarnation = Some(incarnation);
        self
    }

    pub(crate) fn if_match(mut self, tags: &str) -> Self {
        self.if_match = Some(tags.to_owned());
        self
    }

    pub(crate) fn if_none_match(mut self, tags: &str) -> Self {
        self.if_none_match = Some(tags.to_owned());
        self
    }

    /// The same delivery under another token.
    pub(crate) fn under(mut self, token: impl Into<String>) -> Self {
        self.token = token.into();
        self
    }

    /// What the door makes of it in this world.
    pub(crate) fn member(&self, world: &World) -> Member {
        let path = Path::parse(&self.path).unwrap();
        let address = path.split(world.definition().scope).unwrap();
        let preconditions = Preconditions {
            if_match: self.if_match.as_deref().map(|tags| TagList::parse(tags).unwrap()),
            if_none_match: self.if_none_match.as_deref().map(|tags| TagList::parse(tags).unwrap()),
        };
        let content_type = self.content_type.map(|text| ContentType::parse(text).unwrap());
        let digest = BodyDigest::of(self.body.as_bytes());
        let brings_content = match self.method {
            Method::Put | Method::Post | Method::Patch => true,
            Method::Delete => false,
        };
        Member {
            claim: world.claim(&address.resource, &self.token),
            method: self.method,
            operation_id: OperationId::parse(&self.operation).unwrap(),
            sequence: self.sequence.map(|value| Sequence::new(value).unwrap()),
            incarnation: self.incarnation.map(|value| Incarnation::new(value).unwrap()),
            fingerprint: Fingerprint::of(
                self.method,
                &address,
                None,
                content_type.as_ref(),
                &digest,
                &preconditions,
            ),
            document: brings_content
                .then(|| Document { content_type, body: Bytes::from_static(self.body.as_bytes()) }),
            forward: None,
            digest,
            preconditions,
            address,
            may_raise: true,
        }
    }
}
