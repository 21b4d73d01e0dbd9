//! The probe of `idempotent`: the same key twice is one operation.

use super::fence_aware::same;
use super::{ProbeReport, name, order};
use crate::backing::{Order, Sent, Upstream};
use crate::domain::upstream::Base;

impl Upstream {
    pub(super) async fn probe_idempotent(&self, scratch: &str, report: &mut ProbeReport) {
        let planned = name(scratch, "key").and_then(|resource| order(&resource, 1, "key", Base::Unread));
        let found = match planned {
            Err(why) => Err(why),
            Ok(order) => {
                let order = Order { stamp: None, ..order };
                let first: Sent = self.send(&order).await;
                same(&first, &self.send(&order).await)
            }
        };
        report.note("the same key twice has the same answer", found);
    }
}
