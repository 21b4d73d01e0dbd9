//! `[jwt]`: which tokens of which issuer are taken.

use std::path::PathBuf;

use url::{Host, Url};

use super::given::{Given, ListItem, Slot};
use super::keys::{JWT, note_unknown};
use super::mistake::{Mistakes, Place};
use super::tls::file;
use crate::access::jwt::{Algorithm, JwtSettings, KeysFrom};
use crate::domain::time::Millis;
use crate::limits;

const EXAMPLE: &str = "{ issuer = \"https://…\", audience = \"fencegate\", jwks_url = \"https://…\" }";

/// No shared secret is among them, and no "none".
const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
];

const USUAL: [Algorithm; 3] = [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256];

/// Everything that was said of tokens.
#[derive(Default)]
pub(super) struct JwtDraft {
    place: Option<Place>,
    issuer: Slot<String>,
    audiences: Slot<Vec<String>>,
    jwks_url: Slot<String>,
    jwks_file: Slot<PathBuf>,
    jwks_ca_file: Slot<PathBuf>,
    algorithms: Slot<Vec<Algorithm>>,
    leeway: Slot<Millis>,
    refresh: Slot<Millis>,
    max_stale: Slot<Millis>,
    roles_claim: Slot<String>,
}

impl JwtDraft {
    /// Takes the whole table.
    pub(super) fn take_table(&mut self, given: &Given<'_>, mistakes: &mut Mistakes) {
        let Some(table) = given.table(EXAMPLE, mistakes) else { return };
        self.place.get_or_insert_with(|| given.key_place.clone());
        for (name, given) in given.entries(table) {
            self.take(name, &given, mistakes);
        }
    }

    /// Takes one key.
    pub(super) fn take(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) {
        self.place.get_or_insert_with(|| given.key_place.clone());
        match name {
            "issuer" => self.issuer = Slot::of(given, given.text(mistakes).map(str::to_owned)),
            "audience" => self.audiences = Slot::of(given, audiences(given, mistakes)),
            "jwks_url" => self.jwks_url = Slot::of(given, address(given, mistakes)),
            "jwks_file" => self.jwks_file = file(given, mistakes),
            "jwks_ca_file" => self.jwks_ca_file = file(given, mistakes),
            "algorithms" => self.algorithms = Slot::of(given, algorithms(given, mistakes)),
            "leeway" => {
                let range = 0..=limits::JWT_LEEWAY_GREATEST_MS;
                self.leeway = Slot::of(given, given.span(&range, "0s to 5min", mistakes));
            }
            "refresh" => {
                let range = limits::JWKS_REFRESH_LEAST_MS..=limits::JWKS_REFRESH_GREATEST_MS;
                self.refresh = Slot::of(given, given.span(&range, "10s to 24h", mistakes));
            }
            "max_stale" => {
                let range = limits::JWKS_REFRESH_LEAST_MS..=limits::JWKS_STALE_GREATEST_MS;
                self.max_stale = Slot::of(given, given.span(&range, "10s to 7d", mistakes));
            }
            "roles_claim" => self.roles_claim = Slot::of(given, given.text(mistakes).map(str::to_owned)),
            _ => note_unknown(name, given, JWT, mistakes),
        }
    }

    /// Whether anything was said.
    pub(super) const fn is_spoken_of(&self) -> bool {
        self.place.is_some()
    }

    /// Whether tokens have roles.
    pub(super) const fn knows_roles(&self) -> bool {
        !matches!(self.roles_claim, Slot::Absent)
    }

    /// What it means. `is_open`: nobody is configured whom a token could name.
    pub(super) fn settle(&self, is_open: bool, mistakes: &mut Mistakes) -> Option<JwtSettings> {
        let place = self.place.as_ref()?;
        if is_open {
            let advice = "names nobody; configure [principals.NAME] with jwt_subjects = [\"…\"] or jwt_roles = [\"…\"]";
            mistakes.note(place, "jwt", advice);
        }
        for (key, is_absent) in [
            ("issuer", matches!(self.issuer, Slot::Absent)),
            ("audience", matches!(self.audiences, Slot::Absent)),
        ] {
            if is_absent {
                mistakes.note(place, "jwt", format!("has no {key}; write {EXAMPLE}"));
            }
        }
        match (&self.jwks_url, &self.jwks_file) {
            (Slot::Absent, Slot::Absent) => {
                mistakes.note(
                    place,
                    "jwt",
                    "has no keys; write jwks_url = \"https://…\", or jwks_file = \"…\"",
                );
            }
            (Slot::Given(_), Slot::Given(file)) => {
                mistakes.note(
                    &file.place,
                    "jwt.jwks_file",
                    "jwks_url is there too; leave one of the two out",
                );
            }
            _ => {}
        }
        let (refresh, max_stale) = (
            self.refresh.or(Millis::new(limits::JWKS_REFRESH_MS)),
            self.max_stale.or(Millis::new(limits::JWKS_STALE_MS)),
        );
        if let (true, Some(found)) = (max_stale < refresh, self.max_stale.found()) {
            mistakes.note(
                &found.place,
                "jwt.max_stale",
                "is shorter than refresh: the keys would be too old before they are fetched again",
            );
        }
        let ca_file = self.jwks_ca_file.found().map(|found| found.value.clone());
        let keys = match (self.jwks_url.found(), self.jwks_file.found()) {
            (Some(url), _) => KeysFrom::Url(url.value.clone(), ca_file),
            (None, file) => KeysFrom::File(file?.value.clone()),
        };
        Some(JwtSettings {
            issuer: self.issuer.found()?.value.clone(),
            audiences: self.audiences.found()?.value.clone(),
            keys,
            algorithms: self.algorithms.found().map_or_else(|| USUAL.to_vec(), |found| found.value.clone()),
            leeway: self.leeway.or(Millis::new(limits::JWT_LEEWAY_MS)),
            refresh,
            max_stale,
            roles_claim: self.roles_claim.found().map(|found| found.value.clone()),
        })
    }
}

/// One name, or a list of them.
fn audiences(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Vec<String>> {
    if given.item.is_str() {
        return given.text(mistakes).map(|text| vec![text.to_owned()]);
    }
    let list = given.list("names", limits::JWT_AUDIENCES, mistakes)?;
    if list.is_empty() {
        given.wrong(mistakes, "is empty; name whom tokens must be for");
    }
    list.iter().map(|item| item.given().text(mistakes).map(str::to_owned)).collect()
}

fn algorithms(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Vec<Algorithm>> {
    let list = given.list("algorithms", ALGORITHMS.len(), mistakes)?;
    if list.is_empty() {
        given.wrong(mistakes, "is empty; leave it out for ES256, EdDSA and RS256");
        return None;
    }
    list.iter().map(|item| algorithm(item, mistakes)).collect()
}

fn algorithm(item: &ListItem<'_>, mistakes: &mut Mistakes) -> Option<Algorithm> {
    let given = item.given();
    if given.item.as_str().is_some_and(|text| text == "none" || text.starts_with("HS")) {
        given.wrong(mistakes, "proves nothing with a public key: whoever reads the key could sign so");
        return None;
    }
    given.word(&ALGORITHMS, &[], mistakes)
}

/// Whoever stands between the gateway and this address could put a key of its own in, so it is protected.
fn address(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    let text = given.text(mistakes)?;
    let problem = match Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "holds credentials; an issuer's keys are public"
        }
        Ok(url) if url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url)) => {
            return Some(url.into());
        }
        Ok(_) => "must begin with https:// (http:// is taken of a loopback address alone)",
        Err(_) => "is not an address; write https://HOST/PATH",
    };
    given.wrong(mistakes, problem);
    None
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
