//! Sends to stores without cells: `fence_aware`, `idempotent` and `serial`. Each gets the caller's request and only the
//! headers that its class reads.

use hyper::Method as Verb;
use sha2::{Digest as _, Sha256};

use super::Upstream;
use super::address::{encoded, hex, path_of, path_of_resource, with_query};
use super::headers;
use super::order::{Asked, Order, Sent};
use super::outgoing::Outgoing;
use super::pool::Fault;
use super::wire::Draft;
use crate::deliberate::{self, Bug};
use crate::domain::counter::Incarnation;
use crate::domain::document::ContentType;
use crate::domain::operation::Method;
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::upstream::Class;

impl Upstream {
    /// The request as it came, with what the class adds.
    pub(super) async fn send_plain(&self, order: &Order) -> Sent {
        self.outcome(self.draft(order).map(|draft| draft.before(&order.deadline))).await
    }

    fn draft(&self, order: &Order) -> Result<Draft, String> {
        let path = with_query(path_of(&self.pool.line.prefix, &order.address), order.query.as_deref())?;
        let mut draft = Draft::new(verb(order.method), path, Outgoing::of(&order.payload));
        headers::forward(&order.headers, &self.store, &mut draft.headers)?;
        let draft = draft.of_type(order.content_type.as_ref().map(ContentType::as_str))?;
        match self.store.class {
            Class::FenceAware => fenced(draft, order),
            Class::Idempotent => draft.with(&self.store.key_header, &key_of(order)),
            Class::Serial => Ok(draft),
            Class::Conditional => Err("a conditional store is written through its cells".to_owned()),
        }
    }

    /// A call that raises the position and does nothing else.
    pub(super) async fn send_advance(
        &self,
        resource: &ResourceName,
        incarnation: Incarnation,
        position: Position,
    ) -> Sent {
        if !matches!(self.store.class, Class::FenceAware) {
            return Sent::NotSent("only a fence-aware store can be advanced".to_owned());
        }
        let path = path_of_resource(&self.pool.line.prefix, resource);
        let draft = Draft::new(Verb::POST, path, Outgoing::none())
            .with("fencing-advance", "true")
            .and_then(|draft| draft.with("fencing-position", &position.to_string()))
            .and_then(|draft| draft.with("fencing-resource", &encoded(resource.as_str())))
            .and_then(|draft| draft.with("fencing-incarnation", &incarnation.to_string()));
        self.outcome(draft).await
    }

    /// Where a status address is configured.
    pub(super) async fn ask_for(&self, order: &Order) -> Asked {
        let Some(status) = &self.store.status else {
            return Asked::Unclear("no status address is configured".to_owned());
        };
        let below = status.trim_start_matches('/').replace("{key}", &key_of(order));
        let draft = Draft::new(Verb::GET, format!("{}{below}", self.pool.line.prefix), Outgoing::none());
        match self.whole(draft, self.store.max_response_bytes).await {
            // Accepted is not done.
            Ok(whole) if whole.status == 202 => Asked::Unclear("the status address answered 202".to_owned()),
            Ok(whole) if whole.is_success() => Asked::Done(self.relayed(whole)),
            Ok(whole) if whole.status == 404 && deliberate::on(Bug::AbandonOnNotFound) => {
                Asked::Done(self.relayed(whole))
            }
            Ok(whole) if whole.status == 404 => Asked::NotFound,
            Ok(whole) => Asked::Unclear(format!("the status address answered {}", whole.status)),
            Err(Fault::Unsent(why) | Fault::TimedOut(why) | Fault::Broken(why)) => Asked::Unclear(why),
        }
    }
}

const fn verb(method: Method) -> Verb {
    match method {
        Method::Put => Verb::PUT,
        Method::Post => Verb::POST,
        Method::Patch => Verb::PATCH,
        Method::Delete => Verb::DELETE,
    }
}

fn fenced(draft: Draft, order: &Order) -> Result<Draft, String> {
    let draft = draft
        .with("fencing-position", &order.position.to_string())?
        .with("fencing-operation", order.operation_id.as_str())?
        .with("fencing-resource", &encoded(order.address.resource.as_str()))?
        .with("fencing-incarnation", &order.incarnation.to_string())?;
    match order.sequence {
        None => Ok(draft),
        Some(sequence) => draft.with("fencing-sequence", &sequence.to_string()),
    }
}

/// The key of an operation: the same in every delivery of it, and of no other.
fn key_of(order: &Order) -> String {
    let mut hash = Sha256::new();
    let resource = &order.address.resource;
    let incarnation = order.incarnation.to_string();
    let namespace = resource.namespace();
    for part in [namespace.as_str(), resource.as_str(), &incarnation, order.operation_id.as_str()] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}
