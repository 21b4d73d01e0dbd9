//! What comes for a resource after its books were closed. Whoever closes waits until nothing can be on its way any more; what
//! comes all the same finds little to be compared with. It is counted and shown; and an effect that the books had
//! already must not come again.

use std::collections::{HashSet, VecDeque};

use super::{Judge, Violation, add};
use crate::exam::events::{Arrived, Closed};
use crate::limits::EXAM_REMEMBERED;

/// Of one resource the operations that were applied, each with the life of the resource.
type Applied = HashSet<(String, u64)>;

/// Resources that were closed.
#[derive(Default)]
pub(super) struct Late {
    names: HashSet<String>,
    /// What the books of the last ones say, so that this needs no more memory in a longer exam.
    books: VecDeque<(String, Applied)>,
}

impl Late {
    pub(super) fn keep(&mut self, closed: &Closed) {
        self.names.insert(closed.resource.clone());
        let applied = closed.booked.iter().filter(|booked| booked.state.ends_with("applied"));
        let applied = applied.filter(|booked| booked.state != "resolved_not_applied");
        let applied = applied.map(|booked| (booked.operation.clone(), booked.incarnation)).collect();
        self.books.push_back((closed.resource.clone(), applied));
        if self.books.len() > EXAM_REMEMBERED {
            self.books.pop_front();
        }
    }

    pub(super) fn knows(&self, resource: &str) -> bool {
        self.names.contains(resource)
    }

    fn had(&self, resource: &str, operation: &str, life: u64) -> bool {
        let books = self.books.iter().find(|(name, _)| name == resource);
        books.is_some_and(|(_, applied)| applied.contains(&(operation.to_owned(), life)))
    }
}

impl Judge {
    /// I2: an effect that was booked does not come again. Of a store that is told nothing of lives nobody can say that.
    pub(super) fn arrived_late(&mut self, n: u64, arrived: &Arrived) {
        if !arrived.applied || !self.late.knows(&arrived.resource) {
            return;
        }
        add(&mut self.verdict.late_effects);
        let Some((id, life)) = arrived.operation.as_ref().zip(arrived.incarnation) else { return };
        if self.late.had(&arrived.resource, id, life) {
            let told = format!("{id} took effect again after its books were closed");
            let resource = arrived.resource.clone();
            self.verdict.blame(Violation { rule: "I2", resource, told, lines: vec![n] });
        }
    }
}
