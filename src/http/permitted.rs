//! Which leases a caller was found to be permitted to keep, so that each further renewal need not look its resources up.
//!
//! It remembers no more than what cannot change: the resources of a lease are those that it was granted for, and the rules of a
//! principal are replaced as a whole, with the principal. So what is remembered of one ends with the next reload.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::access::{Caller, Principal};
use crate::domain::lease::AcquisitionHash;
use crate::domain::permission::Permission;
use crate::limits::LEASES_PERMITTED;

/// By the hash of the lease's id: who was permitted last.
#[derive(Default)]
pub(super) struct Permitted(Mutex<HashMap<AcquisitionHash, Arc<Principal>>>);

impl Permitted {
    /// Whether this principal was permitted, by the rules that it has now.
    pub(super) fn knows(&self, lease: &AcquisitionHash, caller: &Caller) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(lease).is_some_and(|principal| Arc::ptr_eq(principal, caller.principal()))
    }

    /// Remembers it. Where it is full everything goes: it is only looked up again. Whoever may lease everything is never
    /// looked up, and needs no place.
    pub(super) fn note(&self, lease: AcquisitionHash, caller: &Caller) {
        if caller.rules().cover("", Permission::Lease) {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= LEASES_PERMITTED {
            known.clear();
        }
        known.insert(lease, caller.principal().clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::lease::AcquisitionId;

    /// Broken: whoever asks for many leases takes the gateway's memory; or what one principal may do, another may. Must hold: it
    /// has a bound, and each is remembered for itself.
    #[test]
    fn it_is_bounded_and_each_is_known_for_itself() {
        let permitted = Permitted::default();
        let (alice, bob) = (Caller::nobody(), Caller::nobody());
        let lease = |number: usize| AcquisitionId::parse(&format!("00{number:022}")).unwrap().hash();
        for number in 0..=LEASES_PERMITTED {
            permitted.note(lease(number), &alice);
            assert!(permitted.knows(&lease(number), &alice) && !permitted.knows(&lease(number), &bob));
        }
        assert!(permitted.0.lock().unwrap().len() <= LEASES_PERMITTED);
    }
}
