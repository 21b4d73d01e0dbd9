//! The probe of `fence_aware`: what its author may run against a receiver of his own.

use super::{ProbeReport, accepted, is_success, name, order, position, told};
use crate::backing::{Order, ReadOrder, Sent, Upstream};
use crate::domain::counter::{Incarnation, Sequence};
use crate::domain::resource::{Address, ResourceName};
use crate::domain::upstream::Base;

impl Upstream {
    pub(super) async fn probe_fence_aware(&self, scratch: &str, report: &mut ProbeReport) {
        match name(scratch, "fence") {
            Ok(resource) => self.try_fence(&resource, report).await,
            Err(why) => {
                report.note("scratch name", Err(why));
            }
        }
    }

    async fn try_fence(&self, resource: &ResourceName, report: &mut ProbeReport) {
        let first = self.send_at(resource, 1, 2, Some(1)).await;
        if !report.note("position 0.2 is accepted", accepted(&first)) {
            return;
        }
        let older = self.send_at(resource, 2, 1, Some(1)).await;
        report.note("position 0.1 is refused after it", refused(&older, 2));
        let before = self.tag_of(resource).await;
        let again = self.send_at(resource, 1, 2, Some(1)).await;
        let mut found = same(&first, &again);
        if found.is_ok() && before != self.tag_of(resource).await {
            found = Err("the answer is the same, and the content was written once more".to_owned());
        }
        report.note("the same operation again has the same answer and no second effect", found);
        let next = self.send_at(resource, 3, 2, Some(2)).await;
        report.note("another operation at the same position is accepted", accepted(&next));
        let found = self.try_next_life(resource).await;
        report.note("an operation of the next life is another one, though its id is known", found);
        let before = self.tag_of(resource).await;
        let advanced = self.advance(resource, Incarnation::ONE, position(4)).await;
        let mut found = accepted(&advanced);
        if found.is_ok() && before != self.tag_of(resource).await {
            found = Err("the advance changed the content".to_owned());
        }
        report.note("an advance is accepted and changes nothing", found);
        let passed = self.send_at(resource, 4, 3, Some(1)).await;
        report.note("a write below the advance is refused", refused(&passed, 4));
        let back = self.advance(resource, Incarnation::ONE, position(1)).await;
        report.note("an advance never goes back", refused(&back, 4));
    }

    /// A store that tells operations apart by their id alone answers a write of a resource that was created again with
    /// what the life before was told, and does nothing: an acknowledged write would be in no store.
    async fn try_next_life(&self, resource: &ResourceName) -> Result<String, String> {
        let before = self.tag_of(resource).await;
        let first = order(resource, 1, "write 1 of the next life", Base::Unread)?;
        let incarnation = Incarnation::ONE.next().unwrap_or(Incarnation::ONE);
        let sequence = Sequence::new(3);
        let reborn = Order { position: position(2), sequence, incarnation, stamp: None, ..first };
        let found = accepted(&self.send(&reborn).await);
        if found.is_ok() && before.is_some() && before == self.tag_of(resource).await {
            let advice =
                "it was answered and not written: keep operations by resource, Fencing-Incarnation and id";
            return Err(advice.to_owned());
        }
        found
    }

    async fn send_at(&self, resource: &ResourceName, number: u64, token: u64, sequence: Option<u64>) -> Sent {
        match order(resource, number, &format!("write {number}"), Base::Unread) {
            Err(why) => Sent::NotSent(why),
            Ok(plain) => {
                let sequence = sequence.and_then(Sequence::new);
                self.send(&Order { position: position(token), sequence, stamp: None, ..plain }).await
            }
        }
    }

    /// The validator of the resource, where the store has reads and validators.
    async fn tag_of(&self, resource: &ResourceName) -> Option<String> {
        let address = Address { resource: resource.clone(), target: None };
        let order = ReadOrder { address, head: false, query: None, headers: Vec::new() };
        self.read(order).await.ok().and_then(|answer| answer.etag)
    }
}

/// 412, with the position that the store holds.
fn refused(sent: &Sent, held: u64) -> Result<String, String> {
    let held = position(held);
    match sent {
        Sent::Answered(answer) if answer.relayed.status == 412 => match answer.holds {
            Some(holds) if holds == held => Ok(format!("412 with Fencing-Position: {holds}")),
            Some(holds) => Err(format!("412 with Fencing-Position: {holds}; it must be {held}")),
            None => Err(format!("412 without Fencing-Position; it must be there and be {held}")),
        },
        Sent::Answered(_) | Sent::NotSent(_) | Sent::Doubt(_) => {
            Err(format!("it must be 412 with Fencing-Position: {held}; {}", told(sent)))
        }
    }
}

/// Both are the same success.
pub(super) fn same(first: &Sent, second: &Sent) -> Result<String, String> {
    match (first, second) {
        (Sent::Answered(one), Sent::Answered(two)) if is_success(first) && is_success(second) => {
            let (one, two) = (&one.relayed, &two.relayed);
            if one.status == two.status && one.body == two.body && one.etag == two.etag {
                Ok(format!("twice {}", one.status))
            } else {
                Err(format!("the answers differ: first {}, then {}", told(first), told(second)))
            }
        }
        _ => Err(format!("first {}, then {}", told(first), told(second))),
    }
}
