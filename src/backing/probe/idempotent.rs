//! The probe of `idempotent`: one key is one operation, and another key is another one.

use bytes::Bytes;
use hyper::Method as Verb;

use super::fence_aware::same;
use super::{ProbeReport, accepted, name, order, told};
use crate::backing::address::path_of_resource;
use crate::backing::outgoing::Outgoing;
use crate::backing::wire::Draft;
use crate::backing::{Asked, Order, Sent, Upstream};
use crate::domain::resource::ResourceName;
use crate::domain::upstream::Base;

/// What the target shows: status, validator, content. None where that cannot be read.
type Shown = Option<(u16, Option<String>, Bytes)>;

impl Upstream {
    pub(super) async fn probe_idempotent(&self, scratch: &str, report: &mut ProbeReport) {
        match name(scratch, "key") {
            Ok(resource) => self.try_keys(&resource, report).await,
            Err(why) => {
                report.note("scratch name", Err(why));
            }
        }
    }

    /// The first key, a second one, and the first again: a store without keys would then show what came with the first.
    async fn try_keys(&self, resource: &ResourceName, report: &mut ProbeReport) {
        let first = self.send_keyed(resource, 1).await;
        if !report.note("a key is accepted", accepted(&first)) {
            return;
        }
        let before = self.shown(resource).await;
        let other = self.send_keyed(resource, 2).await;
        let between = self.shown(resource).await;
        if !report.note("another key is accepted", accepted(&other)) {
            return;
        }
        let again = self.send_keyed(resource, 1).await;
        let after = self.shown(resource).await;
        report.note("the same key again has the same answer", same(&first, &again));
        let shows_effects = before.is_some() && between.is_some() && before != between;
        if shows_effects {
            let held = if between == after {
                Ok("the content is that of the other key, as it was".to_owned())
            } else {
                Err("the answer is the same, and the content was written once more".to_owned())
            };
            report.note("the same key again has no second effect", held);
        }
        let told_apart = same(&first, &other).is_err();
        let found = match (shows_effects, told_apart) {
            (true, _) => Ok("the content is another one after it".to_owned()),
            (false, true) => Ok(format!("it is answered otherwise: {}", told(&other))),
            (false, false) => Err(format!(
                "neither its answer nor the content is another one ({}): a store that gives everybody this answer and \
                 does nothing, or does everything twice, looks the same",
                told(&other)
            )),
        };
        report.note("another key is another operation", found);
        if self.store.status.is_some() {
            let found = self.tells_keys_apart(resource).await;
            report.note("the status address knows what was sent, and nothing else", found);
        }
    }

    async fn send_keyed(&self, resource: &ResourceName, number: u64) -> Sent {
        match keyed(resource, number) {
            Ok(order) => self.send(&order).await,
            Err(why) => Sent::NotSent(why),
        }
    }

    /// A key that it takes for sent would be taken for done, although nobody has sent it.
    async fn tells_keys_apart(&self, resource: &ResourceName) -> Result<String, String> {
        match self.ask(&keyed(resource, 1)?).await {
            Asked::Done(_) => {}
            Asked::NotFound => return Err("it does not know a key that was sent and answered".to_owned()),
            Asked::Unclear(why) => return Err(format!("of a key that was sent and answered: {why}")),
        }
        match self.ask(&keyed(resource, 3)?).await {
            Asked::NotFound => Ok("404 to a key that was never sent".to_owned()),
            Asked::Done(relayed) => Err(format!(
                "a key that was never sent has to be 404, and it answers {}: it would be taken for done",
                relayed.status
            )),
            Asked::Unclear(why) => Err(format!("a key that was never sent has to be 404: {why}")),
        }
    }

    async fn shown(&self, resource: &ResourceName) -> Shown {
        let path = path_of_resource(&self.pool.line.prefix, resource);
        let read = Draft::new(Verb::GET, path, Outgoing::none());
        let whole = self.whole(read, self.store.max_response_bytes).await.ok()?;
        Some((whole.status, whole.etag().map(str::to_owned), whole.body))
    }
}

fn keyed(resource: &ResourceName, number: u64) -> Result<Order, String> {
    let order = order(resource, number, &format!("key {number}"), Base::Unread)?;
    Ok(Order { stamp: None, ..order })
}
