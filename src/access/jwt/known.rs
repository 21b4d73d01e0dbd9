//! Tokens whose signature was found right before: checking one costs as much as the rest of a request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::Claims;
use crate::domain::time::Timestamp;
use crate::limits::JWT_CACHED;

type Hash = [u8; 32];

/// By the hash of the token, which is kept nowhere. Only the issuer's own tokens come in.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<Hash, (u64, Arc<Claims>)>>);

impl Known {
    /// What was found, with the keys of this generation: a key that was withdrawn takes its tokens with it.
    pub(super) fn find(&self, text: &str, generation: u64) -> Option<Arc<Claims>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&hash(text)).filter(|(of, _)| *of == generation).map(|(_, claims)| claims.clone())
    }

    /// Keeps what was found. Where it is full, what has ended goes, and else everything: it is only computed again.
    pub(super) fn keep(&self, text: &str, generation: u64, claims: &Arc<Claims>, ended: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= JWT_CACHED {
            known.retain(|_, (of, claims)| *of == generation && claims.until > ended);
        }
        if known.len() >= JWT_CACHED {
            known.clear();
        }
        known.insert(hash(text), (generation, claims.clone()));
    }
}

fn hash(text: &str) -> Hash {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_forgets_what_other_keys_verified() {
        let known = Known::default();
        let claims = Arc::new(Claims { subject: None, roles: Vec::new(), until: Timestamp::from_ms(5) });
        for number in 0..JWT_CACHED + 10 {
            known.keep(&number.to_string(), 1, &claims, Timestamp::from_ms(0));
        }
        assert!(known.0.lock().unwrap().len() <= JWT_CACHED);
        let last = (JWT_CACHED + 9).to_string();
        assert!(known.find(&last, 1).is_some());
        assert!(known.find(&last, 2).is_none());
        assert!(known.find("other", 1).is_none());
    }
}
