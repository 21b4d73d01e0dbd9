//! Acts on the whole namespace of a small world.

use fencegate::domain::breaker::{Breaker, Detector};
use fencegate::domain::operation::OperationId;
use fencegate::domain::subject::Subject;
use fencegate::protocol::whole::{Deed, WholeAct};
use fencegate::protocol::{Command, Outcome};

use super::world::{NAMESPACE, World};

impl World {
    /// The database was found to have gone back in time.
    pub(crate) fn trip(&mut self) {
        let breaker = Breaker { detector: Detector::Witness, at: self.now, found: "lost".to_owned() };
        assert_eq!(self.whole(Deed::Trip(breaker)), Outcome::Tidied);
    }

    /// An operator begins a new epoch, whatever is under way.
    pub(crate) fn begin_epoch(&mut self, key: &str) {
        let key = OperationId::parse(key).unwrap();
        let deed = Deed::AdvanceEpoch { key, reason: "a test".to_owned(), leave_open: true };
        let outcome = self.whole(deed);
        assert!(matches!(outcome, Outcome::Acted(_)), "{outcome:?}");
    }

    /// What becomes of such an act.
    pub(crate) fn whole(&mut self, deed: Deed) -> Outcome {
        let subject = Subject::parse(NAMESPACE).unwrap();
        self.tell(&Command::Whole(WholeAct { subject, deed }))
    }
}
