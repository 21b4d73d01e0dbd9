//! Everybody who may do something, by what they are known by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use subtle::ConstantTimeEq as _;
use tracing::debug;

use super::jwt::Claims;
use super::key::{ApiKey, KeyId};
use super::{Caller, Credential, Denied, HeldKey, Principal};
use crate::domain::permission::Rules;
use crate::domain::principal::PrincipalName;
use crate::domain::time::Timestamp;
use crate::tls::names::{CertificateName, Shown};

type By<T> = BTreeMap<T, Arc<Principal>>;

/// Everybody who may do something.
#[derive(Debug, Clone)]
pub struct Roster {
    /// Whoever asks, where no credentials are configured.
    anybody: Option<Arc<Principal>>,
    keys: BTreeMap<KeyId, (HeldKey, Arc<Principal>)>,
    certificates: By<CertificateName>,
    subjects: By<String>,
    /// A role may be that of several principals; a token must then name one of them by its subject.
    roles: BTreeMap<String, Vec<Arc<Principal>>>,
}

impl Roster {
    /// These, and nobody else. Without any, everybody may do everything, and is to be let in from this machine only.
    #[must_use]
    pub fn of(principals: impl IntoIterator<Item = Principal>) -> Self {
        let principals: Vec<Arc<Principal>> = principals.into_iter().map(Arc::new).collect();
        let anonymous = || Arc::new(Principal::new(PrincipalName::anonymous(), Rules::unlimited()));
        let mut roster = Self {
            anybody: principals.is_empty().then(anonymous),
            keys: BTreeMap::new(),
            certificates: By::new(),
            subjects: By::new(),
            roles: BTreeMap::new(),
        };
        for principal in &principals {
            let held = principal.keys.iter().map(|key| (key.id.clone(), (key.clone(), principal.clone())));
            roster.keys.extend(held);
            roster.certificates.extend(each(&principal.certificates, principal));
            roster.subjects.extend(each(&principal.jwt_subjects, principal));
            for role in &principal.jwt_roles {
                roster.roles.entry(role.clone()).or_default().push(principal.clone());
            }
        }
        roster
    }

    /// Whether no credentials are asked for.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.anybody.is_some()
    }

    /// Whoever asks, where no credentials are asked for.
    pub(super) fn anybody(&self) -> Option<Arc<Principal>> {
        self.anybody.clone()
    }

    /// Who has a key.
    pub(super) fn by_key(&self, text: &str, now: Timestamp) -> Result<Caller, Denied> {
        let key = ApiKey::parse(text).map_err(|error| Denied::Malformed(error.word()))?;
        let digest = key.digest();
        let found = self.keys.get(key.id());
        let right = found.filter(|(held, _)| bool::from(held.digest.as_bytes().ct_eq(digest.as_bytes())));
        match right {
            Some((held, _)) if held.expires_at.is_some_and(|end| end <= now) => Err(Denied::Refused),
            Some((held, principal)) => Ok(Caller {
                principal: principal.clone(),
                credential: Credential::Key(held.id.clone()),
                until: held.expires_at,
            }),
            None => Err(Denied::Refused),
        }
    }

    /// Who has a certificate. It is looked at with each request: a connection may live longer than what it was made with.
    pub(super) fn by_certificate(&self, shown: &Shown, now: Timestamp) -> Result<Caller, Denied> {
        if shown.until <= now {
            debug!("the certificate of the connection is over");
            return Err(Denied::Refused);
        }
        let found = shown.names.iter().filter_map(|name| self.certificates.get(name));
        let principal = only_one(found, "certificate")?;
        Ok(Caller { principal, credential: Credential::Certificate, until: Some(shown.until) })
    }

    /// Whom a verified token speaks of: the one that its subject names, else the only one with one of its roles.
    pub(super) fn by_claims(&self, claims: &Claims) -> Result<Caller, Denied> {
        let named = claims.subject.as_ref().and_then(|subject| self.subjects.get(subject));
        let principal = match named {
            Some(principal) => principal.clone(),
            None => only_one(claims.roles.iter().filter_map(|role| self.roles.get(role)).flatten(), "token")?,
        };
        Ok(Caller { principal, credential: Credential::Jwt, until: Some(claims.until) })
    }
}

fn each<'a, T: Clone>(
    names: &'a [T],
    principal: &'a Arc<Principal>,
) -> impl Iterator<Item = (T, Arc<Principal>)> + 'a {
    names.iter().map(|name| (name.clone(), principal.clone()))
}

/// Nobody is chosen between two principals: which of them it was would depend on an order that nobody sees.
fn only_one<'a>(
    found: impl Iterator<Item = &'a Arc<Principal>>,
    credential: &'static str,
) -> Result<Arc<Principal>, Denied> {
    let mut found: BTreeMap<&PrincipalName, &Arc<Principal>> =
        found.map(|principal| (&principal.name, principal)).collect();
    if found.len() > 1 {
        let names: BTreeSet<&str> = found.keys().map(|name| name.as_str()).collect();
        debug!(credential, ?names, "names several principals, and is refused");
    }
    match (found.pop_first(), found.is_empty()) {
        (Some((_, principal)), true) => Ok(principal.clone()),
        (Some(_), false) | (None, _) => Err(Denied::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::permission::{Permission, Prefix, Rule};

    fn worker(keys: Vec<HeldKey>) -> Principal {
        let permissions = [Permission::Write].into_iter().collect();
        let rules = Rules::new([Rule { prefix: Prefix::parse("jobs").unwrap(), permissions }]);
        Principal { keys, ..Principal::new(PrincipalName::parse("worker").unwrap(), rules) }
    }

    fn held(key: &ApiKey, expires_at: Option<i64>) -> HeldKey {
        let expires_at = expires_at.map(Timestamp::from_ms);
        HeldKey { id: key.id().clone(), digest: key.digest(), expires_at }
    }

    fn named(name: &str) -> Principal {
        Principal::new(PrincipalName::parse(name).unwrap(), Rules::default())
    }

    #[test]
    fn a_key_opens_what_its_principal_may_do() {
        let (old, new) = (ApiKey::of([1; 6], [2; 32]), ApiKey::of([3; 6], [4; 32]));
        let roster = Roster::of([worker(vec![held(&old, Some(1_000)), held(&new, None)])]);
        let now = |ms| Timestamp::from_ms(ms);
        let by =
            |key: &ApiKey, ms| roster.by_key(&key.reveal(), now(ms)).map(|caller| caller.name().to_string());
        // While one key takes the place of another, both open the same.
        assert_eq!(by(&old, 999), Ok("worker".to_owned()));
        assert_eq!(by(&new, 999), Ok("worker".to_owned()));
        assert_eq!(by(&old, 1_000), Err(Denied::Refused));
        assert_eq!(by(&new, 1_000), Ok("worker".to_owned()));
        // The right id with another secret, and an id that nobody has.
        assert_eq!(by(&ApiKey::of([3; 6], [5; 32]), 0), Err(Denied::Refused));
        assert_eq!(by(&ApiKey::of([9; 6], [4; 32]), 0), Err(Denied::Refused));
    }

    #[test]
    fn a_typing_error_is_told_without_looking_anything_up() {
        let key = ApiKey::of([1; 6], [2; 32]);
        let roster = Roster::of([worker(vec![held(&key, None)])]);
        let text = key.reveal().replace("0202", "0203");
        let denied = roster.by_key(&text, Timestamp::from_ms(0)).map(|_| ());
        assert!(matches!(denied, Err(Denied::Malformed(_))));
    }

    #[test]
    fn without_principals_everybody_may_do_everything() {
        let roster = Roster::of([]);
        let anybody = roster.anybody().unwrap();
        assert!(roster.is_open() && anybody.rules.cover("", Permission::Admin));
        assert_eq!(anybody.name.as_str(), "anonymous");
    }

    #[test]
    fn a_certificate_is_one_principals_and_ends() {
        // Broken: of two principals that a certificate names the first one in some order is taken, and a connection outlives
        // its certificate. Must hold: two are none, and its end is its end.
        let uri = |text: &str| CertificateName::Uri(text.to_owned());
        let a = Principal { certificates: vec![uri("spiffe://x/a"), uri("spiffe://x/a2")], ..named("a") };
        let b = Principal { certificates: vec![CertificateName::Dns("b.example".to_owned())], ..named("b") };
        let roster = Roster::of([a, b]);
        let by = |names: &[CertificateName], ms| {
            let shown = Shown { names: names.to_vec(), until: Timestamp::from_ms(1_000) };
            roster.by_certificate(&shown, Timestamp::from_ms(ms)).map(|caller| caller.name().to_string())
        };
        assert_eq!(by(&[uri("spiffe://x/a"), uri("spiffe://x/a2")], 999), Ok("a".to_owned()));
        assert_eq!(by(&[CertificateName::Dns("b.example".to_owned())], 0), Ok("b".to_owned()));
        let both = [uri("spiffe://x/a"), CertificateName::Dns("b.example".to_owned())];
        assert_eq!(by(&both, 0), Err(Denied::Refused));
        assert_eq!(by(&[uri("spiffe://x/a")], 1_000), Err(Denied::Refused));
        for stranger in ["spiffe://x/A", "spiffe://x/a/b", "spiffe://x", "dns:b.example"] {
            assert_eq!(by(&[uri(stranger)], 0), Err(Denied::Refused), "{stranger}");
        }
        assert_eq!(by(&[], 0), Err(Denied::Refused));
    }

    #[test]
    fn a_subject_decides_before_roles_and_two_roles_decide_nothing() {
        let role = |name: &str, roles: &[&str]| {
            let jwt_roles = roles.iter().map(|role| (*role).to_owned()).collect();
            Principal { jwt_roles, ..named(name) }
        };
        let alice = Principal { jwt_subjects: vec!["alice".to_owned()], ..named("alice") };
        let roster =
            Roster::of([alice, role("writers", &["write", "all"]), role("readers", &["read", "all"])]);
        let by = |subject: Option<&str>, roles: &[&str]| {
            let claims = Claims {
                subject: subject.map(str::to_owned),
                roles: roles.iter().map(|role| (*role).to_owned()).collect(),
                until: Timestamp::from_ms(7),
            };
            roster.by_claims(&claims).map(|caller| (caller.name().to_string(), caller.until()))
        };
        let found = |name: &str| Ok((name.to_owned(), Some(Timestamp::from_ms(7))));
        assert_eq!(by(Some("alice"), &["write", "read"]), found("alice"));
        assert_eq!(by(Some("bob"), &["write"]), found("writers"));
        assert_eq!(by(None, &["read", "other"]), found("readers"));
        for (subject, roles) in [(Some("bob"), &["write", "read"][..]), (None, &["all"]), (Some("bob"), &[])]
        {
            assert_eq!(by(subject, roles), Err(Denied::Refused), "{roles:?}");
        }
    }
}
