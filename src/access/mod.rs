//! Who a caller is and what it may do. This room reads credentials and knows nothing of HTTP, of leases or of writes.
//!
//! No secret is kept here: a key is held against the hash of the one that was given out.

pub mod key;
pub mod pace;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use subtle::ConstantTimeEq as _;

use crate::domain::permission::Rules;
use crate::domain::principal::PrincipalName;
use crate::domain::time::Timestamp;

use pace::{Paces, Passed, Rate, Share, Spent};

use key::{ApiKey, KeyDigest, KeyId, is_key};

/// Somebody who may do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// What it is called in the log and in the audit.
    pub name: PrincipalName,
    /// What it may do.
    pub rules: Rules,
    /// Its keys: several while one takes the place of another.
    pub keys: Vec<HeldKey>,
    /// How often it may ask, where that is its own.
    pub rate: Option<Rate>,
}

/// What is kept of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldKey {
    /// The part of it that is no secret.
    pub id: KeyId,
    /// The hash of the part that is.
    pub digest: KeyDigest,
    /// From then on it opens nothing.
    pub expires_at: Option<Timestamp>,
}

/// A caller as it has shown itself.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
    /// The key that it came with, where it was one.
    key: Option<KeyId>,
    until: Option<Timestamp>,
}

impl Caller {
    /// A caller that was not asked who it is, and may do nothing.
    #[must_use]
    pub fn nobody() -> Self {
        let name = PrincipalName::anonymous();
        let principal = Principal { name, rules: Rules::default(), keys: Vec::new(), rate: None };
        Self { principal: Arc::new(principal), key: None, until: None }
    }

    /// By what it was known.
    #[must_use]
    pub const fn credential(&self) -> &'static str {
        if self.key.is_some() { "key" } else { "none" }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &PrincipalName {
        &self.principal.name
    }

    /// What it may do.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.principal.rules
    }

    /// The key that it came with.
    #[must_use]
    pub const fn key(&self) -> Option<&KeyId> {
        self.key.as_ref()
    }

    /// When what it came with ends.
    #[must_use]
    pub const fn until(&self) -> Option<Timestamp> {
        self.until
    }
}

/// Why a caller is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It showed nothing.
    #[error("this gateway asks for credentials; send the header Authorization: Bearer with your key")]
    Missing,
    /// What it showed cannot be read; nothing was looked up.
    #[error("the credentials in the header Authorization are {0}")]
    Malformed(&'static str),
    /// It is unknown, wrong, or over: which of them, only the log tells.
    #[error("the credentials are not known here, or no longer valid")]
    Refused,
}

/// The roster in force, and how often its people may ask. Clones share both.
#[derive(Debug, Clone)]
pub struct Access {
    roster: Arc<ArcSwap<Roster>>,
    /// None: nobody's rate is bounded.
    paces: Option<Arc<Paces>>,
    tells_rates: bool,
}

impl Access {
    /// Begins with a roster, and bounds nobody's rate.
    #[must_use]
    pub fn new(roster: Roster) -> Self {
        Self { roster: Arc::new(ArcSwap::from_pointee(roster)), paces: None, tells_rates: false }
    }

    /// Bounds how often those of the roster may ask, and how often strangers may fail.
    #[must_use]
    pub fn paced(self, paces: Paces) -> Self {
        Self { paces: Some(Arc::new(paces)), ..self }
    }

    /// Answers tell what is left of a rate.
    #[must_use]
    pub fn telling_rates(self, tells_rates: bool) -> Self {
        Self { tells_rates, ..self }
    }

    /// Whether answers tell what is left of a rate.
    #[must_use]
    pub const fn tells_rates(&self) -> bool {
        self.tells_rates
    }

    /// Takes a call from the allowance of a caller. None: it has no bound.
    ///
    /// # Errors
    /// [`Spent`] says how long to wait.
    pub fn take(&self, caller: &Caller, share: Share) -> Result<Option<Passed>, Spent> {
        let Some(paces) = &self.paces else { return Ok(None) };
        paces.take(&caller.principal.name, caller.principal.rate, share)
    }

    /// Notes that somebody has shown nothing that is known here.
    ///
    /// # Errors
    /// [`Spent`]: this address has failed too often.
    pub fn failed(&self, peer: IpAddr) -> Result<(), Spent> {
        self.paces.as_ref().map_or(Ok(()), |paces| paces.failed(peer))
    }

    /// What is in force now.
    #[must_use]
    pub fn roster(&self) -> Arc<Roster> {
        self.roster.load_full()
    }

    /// Puts another one in force; requests under way go on with what they were let in by.
    pub fn replace(&self, roster: Roster) {
        self.roster.store(Arc::new(roster));
    }
}

/// Everybody who may do something.
#[derive(Debug, Clone)]
pub struct Roster {
    /// Whoever asks, where no credentials are configured.
    anybody: Option<Arc<Principal>>,
    keys: BTreeMap<KeyId, (HeldKey, Arc<Principal>)>,
}

impl Roster {
    /// These, and nobody else. Without any, everybody may do everything, and is to be let in from this machine only.
    #[must_use]
    pub fn of(principals: impl IntoIterator<Item = Principal>) -> Self {
        let principals: Vec<Arc<Principal>> = principals.into_iter().map(Arc::new).collect();
        let keys = principals
            .iter()
            .flat_map(|principal| principal.keys.iter().map(move |key| (key.clone(), principal.clone())))
            .map(|(key, principal)| (key.id.clone(), (key, principal)))
            .collect();
        let anonymous = || {
            let name = PrincipalName::anonymous();
            Arc::new(Principal { name, rules: Rules::unlimited(), keys: Vec::new(), rate: None })
        };
        Self { anybody: principals.is_empty().then(anonymous), keys }
    }

    /// Whether no credentials are asked for.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.anybody.is_some()
    }

    /// Who it is that shows this. `bearer` is what stands after the scheme in `Authorization`.
    ///
    /// # Errors
    /// [`Denied`] says why it is nobody.
    pub fn identify(&self, bearer: Option<&str>, now: Timestamp) -> Result<Caller, Denied> {
        if let Some(principal) = &self.anybody {
            return Ok(Caller { principal: principal.clone(), key: None, until: None });
        }
        match bearer {
            None => Err(Denied::Missing),
            Some(text) if is_key(text) => {
                let key = ApiKey::parse(text).map_err(|error| Denied::Malformed(error.word()))?;
                self.holder_of(&key, now)
            }
            Some(_) => Err(Denied::Refused),
        }
    }

    fn holder_of(&self, key: &ApiKey, now: Timestamp) -> Result<Caller, Denied> {
        let digest = key.digest();
        let found = self.keys.get(key.id());
        let right = found.filter(|(held, _)| bool::from(held.digest.as_bytes().ct_eq(digest.as_bytes())));
        match right {
            Some((held, _)) if held.expires_at.is_some_and(|end| end <= now) => Err(Denied::Refused),
            Some((held, principal)) => Ok(Caller {
                principal: principal.clone(),
                key: Some(held.id.clone()),
                until: held.expires_at,
            }),
            None => Err(Denied::Refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::permission::{Permission, Prefix, Rule};

    fn worker(keys: Vec<HeldKey>) -> Principal {
        let permissions = [Permission::Write].into_iter().collect();
        let rules = Rules::new([Rule { prefix: Prefix::parse("jobs").unwrap(), permissions }]);
        Principal { name: PrincipalName::parse("worker").unwrap(), rules, keys, rate: None }
    }

    fn held(key: &ApiKey, expires_at: Option<i64>) -> HeldKey {
        let expires_at = expires_at.map(Timestamp::from_ms);
        HeldKey { id: key.id().clone(), digest: key.digest(), expires_at }
    }

    #[test]
    fn a_key_opens_what_its_principal_may_do() {
        let (old, new) = (ApiKey::of([1; 6], [2; 32]), ApiKey::of([3; 6], [4; 32]));
        let roster = Roster::of([worker(vec![held(&old, Some(1_000)), held(&new, None)])]);
        let now = |ms| Timestamp::from_ms(ms);
        let by = |key: &ApiKey, ms| {
            roster.identify(Some(&key.reveal()), now(ms)).map(|caller| caller.name().to_string())
        };
        // While one key takes the place of another, both open the same.
        assert_eq!(by(&old, 999), Ok("worker".to_owned()));
        assert_eq!(by(&new, 999), Ok("worker".to_owned()));
        assert_eq!(by(&old, 1_000), Err(Denied::Refused));
        assert_eq!(by(&new, 1_000), Ok("worker".to_owned()));
        // The right id with another secret, and an id that nobody has.
        assert_eq!(by(&ApiKey::of([3; 6], [5; 32]), 0), Err(Denied::Refused));
        assert_eq!(by(&ApiKey::of([9; 6], [4; 32]), 0), Err(Denied::Refused));
        assert_eq!(roster.identify(None, now(0)).map(|_| ()), Err(Denied::Missing));
        assert_eq!(roster.identify(Some("something"), now(0)).map(|_| ()), Err(Denied::Refused));
    }

    #[test]
    fn a_typing_error_is_told_without_looking_anything_up() {
        let key = ApiKey::of([1; 6], [2; 32]);
        let roster = Roster::of([worker(vec![held(&key, None)])]);
        let text = key.reveal().replace("0202", "0203");
        let denied = roster.identify(Some(&text), Timestamp::from_ms(0)).map(|_| ());
        assert!(matches!(denied, Err(Denied::Malformed(_))));
    }

    #[test]
    fn without_principals_everybody_may_do_everything() {
        let roster = Roster::of([]);
        let caller = roster.identify(None, Timestamp::from_ms(0)).unwrap();
        assert!(roster.is_open() && caller.rules().cover("", Permission::Admin));
        assert_eq!(caller.name().as_str(), "anonymous");
    }
}
