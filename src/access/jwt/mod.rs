//! Tokens of an issuer (JSON Web Tokens): signed by it, and checked with its public keys, which are fetched in the background
//! and never because a request came, but for a key that is not known yet.
//!
//! The format is jsonwebtoken's business, signatures are ring's. What is decided here is which algorithms are taken, for
//! whom a token must be, and for how long it holds.

mod fetch;
mod keys;
mod known;
mod signature;

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use tokio::sync::{Notify, watch};
use tracing::debug;

use super::Denied;
use crate::domain::time::{Clock, Millis, Timestamp};
use crate::limits::{JWKS_PATIENCE, JWKS_PAUSE, JWT_BYTES, JWT_ROLES};

use fetch::Source;
use keys::Keys;
use known::Known;

pub use fetch::Fetcher;
pub use jsonwebtoken::Algorithm;

/// Which tokens are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// Who must have made them (`iss`).
    pub issuer: String,
    /// For whom one of these they must be (`aud`).
    pub audiences: Vec<String>,
    /// Where the issuer's public keys are.
    pub keys: KeysFrom,
    /// By what they may be signed. A shared secret is never among them.
    pub algorithms: Vec<Algorithm>,
    /// How far the issuer's clock may be from ours.
    pub leeway: Millis,
    /// How often the keys are fetched.
    pub refresh: Millis,
    /// How old keys may become that cannot be fetched again.
    pub max_stale: Millis,
    /// The claim that holds roles: a name, or a JSON pointer where it begins with a slash.
    pub roles_claim: Option<String>,
}

/// Where public keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysFrom {
    /// At an address, with those who vouch for it where it is not the system.
    Url(String, Option<PathBuf>),
    /// In a file, which is read again as often as an address.
    File(PathBuf),
}

/// Why tokens cannot be checked at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the keys of {from}: {why}")]
pub struct JwtError {
    /// Where they were to come from.
    pub from: String,
    /// What is wrong.
    pub why: String,
}

/// What a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Of whom it speaks.
    pub subject: Option<String>,
    /// Its roles here.
    pub roles: Vec<String>,
    /// When it ends.
    pub until: Timestamp,
}

/// Checks tokens. Clones share everything.
#[derive(Clone)]
pub struct Tokens(Arc<Checks>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.settings.issuer)
    }
}

struct Checks {
    settings: JwtSettings,
    /// What was found right by these settings.
    known: Known,
    shared: Arc<Shared>,
}

/// The keys, with the task that fetches them.
struct Shared {
    refresh: Millis,
    keys: ArcSwap<Keys>,
    standing: watch::Sender<Standing>,
    wanted: Notify,
    clock: Arc<dyn Clock>,
}

/// How far fetching has come.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    /// One is under way, or will be at once: nobody begins a second one.
    under_way: bool,
    /// When the last one ended.
    tried: Option<Duration>,
    /// Whether it brought nothing.
    failed: bool,
    /// When the keys in use were fetched.
    fetched: Option<Duration>,
    /// How often other keys came.
    generation: u64,
}

/// The claims as they stand in a token.
#[derive(Deserialize)]
struct Said {
    exp: Number,
    nbf: Option<Number>,
    // One text, as RFC 7519 wants it; jsonwebtoken would take a list too.
    iss: String,
    sub: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Tokens {
    /// Prepares the source, and reads the keys where they are in a file. Those at an address are fetched by the
    /// [`Fetcher`]: an issuer that is down keeps no gateway from starting.
    ///
    /// # Errors
    /// [`JwtError`] when the source cannot be used.
    pub fn open(settings: JwtSettings, clock: Arc<dyn Clock>) -> Result<(Self, Fetcher), JwtError> {
        signature::install();
        let source = Source::open(&settings.keys)?;
        let keys = source.read_now()?;
        let fetched = keys.is_some().then(|| clock.monotonic());
        // Whoever asks before the first fetch has ended waits for it.
        let standing = Standing { under_way: true, fetched, ..Standing::default() };
        let shared = Arc::new(Shared {
            refresh: settings.refresh,
            keys: ArcSwap::from_pointee(keys.unwrap_or_default()),
            standing: watch::Sender::new(standing),
            wanted: Notify::new(),
            clock,
        });
        let task = Fetcher::new(shared.clone(), source);
        Ok((Self(Arc::new(Checks { settings, known: Known::default(), shared })), task))
    }

    /// By other settings from now on, with the keys that are there and whoever fetches them. None: those are to come from
    /// elsewhere, or at other times.
    #[must_use]
    pub fn with(&self, settings: &JwtSettings) -> Option<Self> {
        let Checks { settings: before, shared, .. } = &*self.0;
        let same = before.keys == settings.keys && before.refresh == settings.refresh;
        // What was found right was so by the settings of before.
        let checks =
            || Checks { settings: settings.clone(), known: Known::default(), shared: shared.clone() };
        same.then(|| Self(Arc::new(checks())))
    }

    /// How old the keys in use are; none where there never were any.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        let fetched = self.0.shared.standing.borrow().fetched?;
        Some(self.0.shared.clock.monotonic().saturating_sub(fetched))
    }

    /// How old they may become.
    #[must_use]
    pub fn greatest_age(&self) -> Duration {
        self.0.settings.max_stale.duration()
    }

    /// How many keys are in use.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.0.shared.keys.load().count()
    }

    /// What a token says, if it is one of the issuer's and holds now.
    ///
    /// # Errors
    /// [`Denied`]; the reason stands in the log, since it would tell a forger what to mend.
    pub(super) async fn verify(&self, text: &str, now: Timestamp) -> Result<Arc<Claims>, Denied> {
        if text.len() > JWT_BYTES {
            return Err(Denied::Malformed("longer than a token may be"));
        }
        let generation = self.0.shared.standing.borrow().generation;
        let verified = if let Some(known) = self.0.known.find(text, generation) {
            known
        } else {
            let claims = Arc::new(self.check(text, now).await?);
            self.0.known.keep(text, generation, &claims, now.less(self.0.settings.leeway));
            claims
        };
        if self.is_stale() {
            self.refresh().await;
        }
        if self.is_stale() {
            return Err(Denied::Unavailable(JWKS_PAUSE));
        }
        if verified.until.plus(self.0.settings.leeway) <= now {
            return Err(refused("it has ended"));
        }
        Ok(verified)
    }

    async fn check(&self, text: &str, now: Timestamp) -> Result<Claims, Denied> {
        let settings = &self.0.settings;
        let header = decode_header(text).map_err(|_| refused("it is not a token"))?;
        if !settings.algorithms.contains(&header.alg) {
            return Err(refused("its algorithm is not among those that are taken"));
        }
        let name = header.kid.as_deref();
        let (mut keys, mut was_asked) = (self.0.shared.keys.load_full(), false);
        if keys.find(name, header.alg).is_none() {
            was_asked = self.refresh().await;
            keys = self.0.shared.keys.load_full();
        }
        let Some(key) = keys.find(name, header.alg) else {
            return Err(self.keyless(name.filter(|name| !was_asked && !keys.has(name))));
        };
        let said = self.signed(text, key, header.alg)?;
        let seconds = |number: &Number| whole_seconds(number).ok_or_else(|| refused("a time in it is none"));
        if let Some(begins) = said.nbf.as_ref().map(seconds).transpose()?
            && begins > now.plus(settings.leeway)
        {
            return Err(refused("it does not hold yet"));
        }
        let until = seconds(&said.exp)?;
        if said.iss != settings.issuer {
            return Err(refused("another issuer made it"));
        }
        Ok(Claims { subject: said.sub, roles: roles(settings, said.others), until })
    }

    /// Why a token is not taken whose key is not there. `unasked` is a name that the issuer was not asked for since the token came:
    /// it may sign with a key that is newer than the keys here.
    fn keyless(&self, unasked: Option<&str>) -> Denied {
        let standing = *self.0.shared.standing.borrow();
        // As long as the issuer cannot be asked, nobody knows that it has no such key.
        if standing.failed || standing.fetched.is_none() {
            return Denied::Unavailable(JWKS_PAUSE);
        }
        if unasked.is_none() {
            return refused("it names no key of the issuer");
        }
        let since = standing.tried.map(|tried| self.0.shared.clock.monotonic().saturating_sub(tried));
        let rest = JWKS_PAUSE.saturating_sub(since.unwrap_or_default());
        Denied::NotAsked(Duration::from_secs(
            rest.as_secs().saturating_add(u64::from(rest.subsec_nanos() > 0)).max(1),
        ))
    }

    /// Times are compared by the caller, with the clock of the gateway.
    fn signed(&self, text: &str, key: &DecodingKey, algorithm: Algorithm) -> Result<Said, Denied> {
        let settings = &self.0.settings;
        let mut rules = Validation::new(algorithm);
        rules.required_spec_claims = HashSet::from(["exp", "aud", "iss"].map(str::to_owned));
        rules.validate_exp = false;
        rules.validate_nbf = false;
        rules.set_audience(&settings.audiences);
        rules.set_issuer(&[&settings.issuer]);
        match decode::<Said>(text, key, &rules) {
            Ok(token) => Ok(token.claims),
            Err(error) => {
                debug!(%error, "a token was refused");
                Err(Denied::Refused)
            }
        }
    }

    /// Has the keys fetched, if that was not tried a moment ago, and waits a moment for them. Whether a fetch that began with
    /// this has ended: one that was under way may have asked before.
    async fn refresh(&self) -> bool {
        let now = self.0.shared.clock.monotonic();
        let mut standing = self.0.shared.standing.subscribe();
        let begun = self.0.shared.standing.send_if_modified(|standing| {
            let lately = standing.tried.is_some_and(|tried| now < tried.saturating_add(JWKS_PAUSE));
            let begins = !standing.under_way && !lately;
            standing.under_way |= begins;
            begins
        });
        if begun {
            self.0.shared.wanted.notify_one();
        }
        let ended = standing.wait_for(|standing| !standing.under_way);
        let has_ended = tokio::time::timeout(JWKS_PATIENCE, ended).await.is_ok();
        if !has_ended {
            debug!("the keys of the issuer have not come in time");
        }
        begun && has_ended
    }

    fn is_stale(&self) -> bool {
        self.age().is_none_or(|age| age > self.greatest_age())
    }
}

/// How many keys of a set would be used.
#[cfg(feature = "fuzzing")]
pub(super) fn usable_keys(set: &[u8]) -> Result<usize, String> {
    Keys::read(set).map(|keys| keys.count())
}

fn refused(reason: &'static str) -> Denied {
    debug!(reason, "a token was refused");
    Denied::Refused
}

/// A time of a token, which may have a fraction (RFC 7519 section 2); what is below a second is left out.
fn whole_seconds(number: &Number) -> Option<Timestamp> {
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    // `1.5e300` is no moment, and not the first second of 1970: as `nbf` that would let it hold before its time.
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let seconds: i64 = whole.parse().ok().filter(|seconds| *seconds >= 0)?;
    Some(Timestamp::from_ms(seconds.checked_mul(1_000)?))
}

/// A list of texts, or texts with blanks between them, such as `scope`.
fn roles(settings: &JwtSettings, claims: Map<String, Value>) -> Vec<String> {
    let Some(claim) = &settings.roles_claim else { return Vec::new() };
    let claims = Value::Object(claims);
    let found = if claim.starts_with('/') { claims.pointer(claim) } else { claims.get(claim) };
    match found {
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).take(JWT_ROLES).map(str::to_owned).collect()
        }
        Some(Value::String(all)) => {
            all.split(' ').filter(|role| !role.is_empty()).take(JWT_ROLES).map(str::to_owned).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_whole_seconds_and_no_power() {
        // Broken: `1.5e300` is read up to its dot, so that a token which never begins to hold holds at once. Must hold: what is
        // no moment is none.
        let moment = |text: &str| {
            let number: Number = serde_json::from_str(text).unwrap();
            whole_seconds(&number).map(Timestamp::ms)
        };
        assert_eq!(moment("1789286400"), Some(1_789_286_400_000));
        assert_eq!(moment("1789286400.9"), Some(1_789_286_400_000));
        assert_eq!(moment("1.7892864e9"), Some(1_789_286_400_000));
        for none in ["1.5e300", "15e30", "1e300", "-1", "9223372036854775807", "18446744073709551615"] {
            assert_eq!(moment(none), None, "{none}");
        }
    }
}
