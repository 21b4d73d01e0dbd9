//! What arrived at a store, and what it did.

use super::case::{Case, Effect};
use crate::exam::events::{Arrived, Class};

impl Case {
    pub(super) fn arrived(&mut self, n: u64, arrived: &Arrived) {
        if let Some(operation) = arrived.operation.as_ref().and_then(|id| self.operations.get_mut(id)) {
            operation.lines.push(n);
        }
        self.lanes.arrived(n, arrived);
        if arrived.store == Class::Conditional {
            self.rests_on_a_validator(n, arrived);
        }
        if let Some(tag) = arrived.tag.as_ref().filter(|_| arrived.applied) {
            self.tags.insert(tag.clone(), n);
        }
        if !arrived.applied {
            return;
        }
        let payload = arrived.digest.clone().unwrap_or_default();
        let is_removal = arrived.method == "DELETE" || arrived.stamp.as_deref() == Some("t");
        self.effects.push(Effect {
            line: n,
            operation: arrived.operation.clone(),
            incarnation: arrived.incarnation,
            position: arrived.position,
            payload: if is_removal { "removal".to_owned() } else { payload },
            stamp: arrived.stamp.clone(),
        });
    }

    /// I13: a conditional send rests on a validator that this store has given, or on there being nothing.
    fn rests_on_a_validator(&mut self, n: u64, arrived: &Arrived) {
        match arrived.base.as_deref() {
            None => self.blame("I13", "a write rests on no validator".to_owned(), &[n]),
            Some("*") => {}
            Some(tag) if self.tags.contains_key(tag) => {}
            Some(tag) => {
                let told = format!("a write rests on {tag}, which the store never gave");
                self.blame("I13", told, &[n]);
            }
        }
        if arrived.stamp.is_none() {
            self.blame("I12", "a write has no stamp".to_owned(), &[n]);
        }
    }
}
