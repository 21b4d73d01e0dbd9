//! What an engine's own predicates would see of what is forgotten.

use fencegate::protocol::{Change, Snapshot};

/// What goes stands there as the decision saw it.
pub(crate) fn check(snapshot: &Snapshot, change: &Change) {
    match change {
        Change::OperationPruned(record) => {
            assert_eq!(snapshot.operation(&record.key()), Some(record.as_ref()), "another record stands");
        }
        Change::EraForgotten(era) => {
            assert!(snapshot.eras(&era.resource).any(|one| one == (era.born, era.incarnation)));
        }
        Change::ControlForgotten(record) => {
            assert_eq!(
                snapshot.control(&record.record_key()),
                Some(record.as_ref()),
                "another record stands"
            );
        }
        Change::ResourceFolded(row) => {
            assert_eq!(snapshot.resource(&row.resource), Some(row.as_ref()), "another row stands");
            let base = snapshot.namespace(&row.resource.namespace()).unwrap();
            let is_below = row.issued.or_higher(row.floor).is_above(base.base);
            assert!(!is_below && row.incarnation <= base.base_incarnation, "the base is below a folded row");
        }
        other => panic!("{other:?} forgets nothing"),
    }
}
