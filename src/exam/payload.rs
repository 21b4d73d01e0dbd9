//! Operations of workers: what each writes, once and for all, so that whoever repeats it repeats it byte for byte.

use super::events::{Policy, digest};
use crate::bench::Chance;

/// One logical write.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) digest: String,
    /// A declared precondition; it is part of what the operation is.
    pub(super) if_match: Option<String>,
}

impl Operation {
    /// A new one. Some remove what is there, where `may_remove`.
    pub(super) fn new(id: String, chance: &mut Chance, may_remove: bool, if_match: Option<String>) -> Self {
        if may_remove && chance.below(20) == 0 {
            return Self { id, method: "DELETE", body: Vec::new(), digest: digest(&[]), if_match };
        }
        let body = payload(&id, chance);
        Self { digest: digest(&body), id, method: "PUT", body, if_match }
    }

    /// The same id, and another payload: what must never be taken for the same.
    pub(super) fn changed(&self, chance: &mut Chance) -> Self {
        let body = payload(&self.id, chance);
        Self { digest: digest(&body), method: "PUT", body, ..self.clone() }
    }
}

/// No two are alike, and each names its operation, so that a store that gets nothing but the bytes can tell.
fn payload(id: &str, chance: &mut Chance) -> Vec<u8> {
    let filler = "x".repeat(usize::try_from(chance.below(400)).unwrap_or_default());
    format!("{{\"operation\":\"{id}\",\"nonce\":\"{:016x}\",\"filler\":\"{filler}\"}}", chance.next())
        .into_bytes()
}

/// How many writes one owner of a resource makes.
pub(super) fn writes(policy: Policy, chance: &mut Chance) -> u64 {
    match policy {
        // A second one of a generation is refused, and some try.
        Policy::Single => 1_u64.saturating_add(u64::from(chance.below(8) == 0)),
        Policy::Ordered | Policy::Session => 1_u64.saturating_add(chance.below(4)),
    }
}
