//! Who a caller is and what it may do. This room reads credentials and knows nothing of requests, of leases or of writes.
//!
//! No secret is kept here: a key is held against the hash of the one that was given out, a token against its issuer's public
//! keys, and a certificate was verified when the connection was made.

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod jwt;
pub mod key;
pub mod pace;
mod roster;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::domain::permission::Rules;
use crate::domain::principal::PrincipalName;
use crate::domain::time::Timestamp;
use crate::tls::names::{CertificateName, Shown};

use jwt::Tokens;
use key::{KeyDigest, KeyId, is_key};
use pace::{Paces, Passed, Rate, Share, Spent};

pub use roster::Roster;

/// Somebody who may do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// What it is called in the log and in the audit.
    pub name: PrincipalName,
    /// What it may do.
    pub rules: Rules,
    /// Its keys: several while one takes the place of another.
    pub keys: Vec<HeldKey>,
    /// The names of certificates that it is known by.
    pub certificates: Vec<CertificateName>,
    /// The subjects of tokens that it is known by.
    pub jwt_subjects: Vec<String>,
    /// The roles in tokens that it is known by, where no principal is known by the subject.
    pub jwt_roles: Vec<String>,
    /// How often it may ask, where that is its own.
    pub rate: Option<Rate>,
}

impl Principal {
    /// One that has no credential yet.
    #[must_use]
    pub const fn new(name: PrincipalName, rules: Rules) -> Self {
        Self {
            name,
            rules,
            keys: Vec::new(),
            certificates: Vec::new(),
            jwt_subjects: Vec::new(),
            jwt_roles: Vec::new(),
            rate: None,
        }
    }
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

/// Who is at the other end of a connection: what its certificate says, which was verified when the connection was made.
#[derive(Debug, Clone)]
pub struct Peer(Arc<Shown>);

impl Peer {
    /// Of a verified certificate.
    #[must_use]
    pub fn of(shown: Shown) -> Self {
        Self(Arc::new(shown))
    }
}

/// By what a caller was known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Credential {
    None,
    Key(KeyId),
    Jwt,
    Certificate,
}

/// A caller as it has shown itself.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
    credential: Credential,
    until: Option<Timestamp>,
}

impl Caller {
    /// A caller that was not asked who it is, and may do nothing.
    #[must_use]
    pub fn nobody() -> Self {
        Self::unasked(Arc::new(Principal::new(PrincipalName::anonymous(), Rules::default())))
    }

    const fn unasked(principal: Arc<Principal>) -> Self {
        Self { principal, credential: Credential::None, until: None }
    }

    /// By what it was known.
    #[must_use]
    pub const fn credential(&self) -> &'static str {
        match self.credential {
            Credential::None => "none",
            Credential::Key(_) => "key",
            Credential::Jwt => "jwt",
            Credential::Certificate => "certificate",
        }
    }

    /// Who it is. After a reload it is another one, also where its rules are the same.
    #[must_use]
    pub const fn principal(&self) -> &Arc<Principal> {
        &self.principal
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
        match &self.credential {
            Credential::Key(id) => Some(id),
            Credential::None | Credential::Jwt | Credential::Certificate => None,
        }
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
    #[error(
        "this gateway asks for credentials; send the header Authorization: Bearer with your key or token"
    )]
    Missing,
    /// What it showed cannot be read; nothing was looked up.
    #[error("the credentials in the header Authorization are {0}")]
    Malformed(&'static str),
    /// It is unknown, wrong, or over: which of them, only the log tells.
    #[error("the credentials are not known here, or no longer valid")]
    Refused,
    /// The keys that a token is checked with are not there: the token may be good.
    #[error("the keys of the tokens' issuer cannot be fetched; send the request again in {} s", .0.as_secs())]
    Unavailable(Duration),
    /// It names a key that was not there when the keys were fetched last, which is too short a time ago to fetch them again:
    /// the token may be good, and anybody can make such a name up.
    #[error("the token names a key that its issuer was not asked for yet; send the request again in {} s", .0.as_secs())]
    NotAsked(Duration),
}

impl Denied {
    /// Whether whoever shows it too often is told to wait. Where the issuer is down, nobody has made anything up.
    #[must_use]
    pub const fn counts(self) -> bool {
        match self {
            Self::Missing | Self::Malformed(_) | Self::Refused | Self::NotAsked(_) => true,
            Self::Unavailable(_) => false,
        }
    }
}

/// What can be replaced while the process runs. It is one value, so that no token is held against principals that are not of
/// its configuration.
#[derive(Debug, Clone)]
struct Held {
    roster: Arc<Roster>,
    tokens: Option<Tokens>,
    tells_rates: bool,
}

/// Who may do what, how tokens are checked, and how often callers may ask. Clones share all of it.
#[derive(Debug, Clone)]
pub struct Access {
    held: Arc<ArcSwap<Held>>,
    /// None: nobody's rate is bounded.
    paces: Option<Arc<Paces>>,
}

impl Access {
    /// Begins with a roster, and bounds nobody's rate.
    #[must_use]
    pub fn new(roster: Roster) -> Self {
        let held = Held { roster: Arc::new(roster), tokens: None, tells_rates: false };
        Self { held: Arc::new(ArcSwap::from_pointee(held)), paces: None }
    }

    /// With an issuer of tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: Option<Tokens>) -> Self {
        self.change(|held| Held { tokens, ..held.clone() });
        self
    }

    /// Bounds how often those of the roster may ask, and how often strangers may fail.
    #[must_use]
    pub fn paced(self, paces: Paces) -> Self {
        Self { paces: Some(Arc::new(paces)), ..self }
    }

    /// Answers tell what is left of a rate.
    #[must_use]
    pub fn telling_rates(self, tells_rates: bool) -> Self {
        self.change(|held| Held { tells_rates, ..held.clone() });
        self
    }

    /// Whoever reads the configuration is alone in changing it.
    fn change(&self, change: impl FnOnce(&Held) -> Held) {
        let next = change(&self.held.load());
        self.held.store(Arc::new(next));
    }

    /// Whether answers tell what is left of a rate.
    #[must_use]
    pub fn tells_rates(&self) -> bool {
        self.held.load().tells_rates
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
        self.held.load().roster.clone()
    }

    /// Whether no credentials are asked for.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.held.load().roster.is_open()
    }

    /// Puts others in force; requests under way go on with what they were let in by. Streams, and whoever waits for a change,
    /// are asked again.
    pub fn replace(&self, roster: Roster) {
        let roster = Arc::new(roster);
        self.change(|held| Held { roster, ..held.clone() });
    }

    /// Puts others in force together with how their tokens are checked from now on.
    pub fn replace_with(&self, roster: Arc<Roster>, tokens: Option<Tokens>) {
        self.change(|held| Held { roster, tokens, ..held.clone() });
    }

    /// Bounds those who have no rate of their own so from now on, and tells what is left or not. Whose rate is another one
    /// begins with all of it.
    pub fn pace(&self, general: Option<Rate>, tells_rates: bool) {
        if let Some(paces) = &self.paces {
            paces.replace(general);
        }
        self.change(|held| Held { tells_rates, ..held.clone() });
    }

    /// How tokens are checked, where they are taken.
    #[must_use]
    pub fn tokens(&self) -> Option<Tokens> {
        self.held.load().tokens.clone()
    }

    /// Who shows this. What stands in the request decides, and where it is wrong no certificate helps it: a caller that
    /// believes to act as one principal must not act as another.
    ///
    /// # Errors
    /// [`Denied`] says why it is nobody.
    pub async fn identify(
        &self,
        bearer: Option<&str>,
        peer: Option<&Peer>,
        now: Timestamp,
    ) -> Result<Caller, Denied> {
        let held = self.held.load_full();
        let roster = &held.roster;
        match (roster.anybody(), bearer, &held.tokens) {
            (Some(anybody), _, _) => Ok(Caller::unasked(anybody)),
            (None, None, _) => peer.map_or(Err(Denied::Missing), |peer| roster.by_certificate(&peer.0, now)),
            (None, Some(text), _) if is_key(text) => roster.by_key(text, now),
            (None, Some(_), None) => Err(Denied::Refused),
            (None, Some(text), Some(tokens)) => roster.by_claims(&*tokens.verify(text, now).await?),
        }
    }
}
