//! `[principals.NAME]`: who may do what, and the hashes of the keys that they show.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::TableLike;

use super::given::{Given, ListItem};
use super::jwt::JwtDraft;
use super::keys::{PRINCIPAL, PRINCIPAL_KEY, note_unknown};
use super::limits;
use super::mistake::{Mistakes, Place};
use super::tls::TlsDraft;
use crate::access::key::{ApiKey, KeyDigest, KeyId, is_key};
use crate::access::{HeldKey, Principal};
use crate::domain::permission::{Permission, Permissions, Prefix, Rule, Rules};
use crate::domain::principal::PrincipalName;
use crate::domain::time::Timestamp;
use crate::limits::{PRINCIPAL_KEYS, PRINCIPAL_NAMES, PRINCIPAL_RULES, PRINCIPALS};
use crate::tls::names::CertificateName;

const EXAMPLE: &str = "[principals.worker-a]";
const PERMISSIONS_EXAMPLE: &str = "{ \"statements\" = [\"read\", \"lease\", \"write\"] }";
const KEY_EXAMPLE: &str = "{ id = \"…\", sha256 = \"…\" }; `fencegate key create` prints it";

/// What was said of principals, by their names; a later source replaces a principal as a whole.
#[derive(Default)]
pub(super) struct PrincipalsDraft(BTreeMap<PrincipalName, (Place, Principal)>);

impl PrincipalsDraft {
    /// Takes the whole table.
    pub(super) fn take(&mut self, given: &Given<'_>, mistakes: &mut Mistakes) {
        let Some(table) = given.table(EXAMPLE, mistakes) else { return };
        for (name, given) in given.entries(table) {
            let name = match PrincipalName::parse(name) {
                Ok(name) => name,
                Err(error) => {
                    mistakes.note(&given.key_place, &given.key, error.to_string());
                    continue;
                }
            };
            if let Some(table) = given.table(EXAMPLE, mistakes)
                && let Some(principal) = principal(name.clone(), table, &given, mistakes)
            {
                self.0.insert(name, (given.key_place.clone(), principal));
            }
        }
        if self.0.len() > PRINCIPALS {
            given.wrong(
                mistakes,
                format!("names {} principals; at most {PRINCIPALS} are taken", self.0.len()),
            );
        }
        self.refuse_twins(given, mistakes);
    }

    /// What a caller shows names one principal. Roles may be shared: they name one only where a token has one of them.
    fn refuse_twins(&self, given: &Given<'_>, mistakes: &mut Mistakes) {
        let (mut keys, mut certificates, mut subjects) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut twice = |what: &str, name: &str| {
            let problem = format!("the {what} {name} stands there twice; it is one principal's");
            given.wrong(mistakes, problem);
        };
        for (_, principal) in self.0.values() {
            for key in principal.keys.iter().filter(|key| !keys.insert(&key.id)) {
                twice("key", key.id.as_str());
            }
            for name in principal.certificates.iter().filter(|name| !certificates.insert(*name)) {
                let (CertificateName::Uri(text) | CertificateName::Dns(text)) = name;
                twice("certificate's name", text);
            }
            for subject in principal.jwt_subjects.iter().filter(|subject| !subjects.insert(*subject)) {
                twice("token's subject", subject);
            }
        }
    }

    /// Whether there is somebody who verifies what principals are known by.
    pub(super) fn check(&self, jwt: &JwtDraft, tls: &TlsDraft, mistakes: &mut Mistakes) {
        for (name, (place, principal)) in &self.0 {
            let mut missing = |part: &str, advice: &str| {
                mistakes.note(
                    place,
                    &format!("principals.{name}.{part}"),
                    format!("opens nothing: {advice}"),
                );
            };
            if !principal.certificates.is_empty() && !tls.knows_clients() {
                missing(
                    "certificates",
                    "configure [tls] with client_ca_file, which holds those who vouch for callers",
                );
            }
            if !principal.jwt_subjects.is_empty() && !jwt.is_spoken_of() {
                missing("jwt_subjects", "configure [jwt] with the issuer of the tokens");
            }
            if !principal.jwt_roles.is_empty() && !jwt.knows_roles() {
                missing("jwt_roles", "configure [jwt] with roles_claim, the claim that holds roles");
            }
        }
    }

    /// All of them.
    pub(super) fn settle(&self) -> Vec<Principal> {
        self.0.values().map(|(_, principal)| principal.clone()).collect()
    }
}

fn principal(
    name: PrincipalName,
    table: &dyn TableLike,
    whole: &Given<'_>,
    mistakes: &mut Mistakes,
) -> Option<Principal> {
    let mut rules = None;
    let mut made = Principal::new(name, Rules::default());
    for (part, given) in whole.entries(table) {
        match part {
            "permissions" => rules = permissions(&given, mistakes),
            "keys" => made.keys = held_keys(&given, mistakes),
            "certificates" => made.certificates = certificates(&given, mistakes),
            "jwt_subjects" => made.jwt_subjects = texts(&given, mistakes),
            "jwt_roles" => made.jwt_roles = texts(&given, mistakes),
            "rate" => made.rate = limits::rate(&given, mistakes),
            _ => note_unknown(part, &given, PRINCIPAL, mistakes),
        }
    }
    if table.get("permissions").is_none() {
        whole.wrong(mistakes, format!("may do nothing: write permissions = {PERMISSIONS_EXAMPLE}"));
    }
    Some(Principal { rules: rules?, ..made })
}

fn texts(given: &Given<'_>, mistakes: &mut Mistakes) -> Vec<String> {
    let Some(list) = given.list("texts", PRINCIPAL_NAMES, mistakes) else { return Vec::new() };
    list.iter().filter_map(|item| item.given().text(mistakes).map(str::to_owned)).collect()
}

fn certificates(given: &Given<'_>, mistakes: &mut Mistakes) -> Vec<CertificateName> {
    let Some(list) = given.list("certificates' names", PRINCIPAL_NAMES, mistakes) else { return Vec::new() };
    let name = |item: &ListItem<'_>| {
        let given = item.given();
        let name = CertificateName::parse(given.text(mistakes)?);
        name.map_err(|problem| given.wrong(mistakes, problem)).ok()
    };
    list.iter().filter_map(name).collect()
}

fn permissions(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Rules> {
    let table = given.table(PERMISSIONS_EXAMPLE, mistakes)?;
    let entries = given.entries(table);
    if entries.len() > PRINCIPAL_RULES {
        given.wrong(mistakes, format!("has {} rules; at most {PRINCIPAL_RULES} are taken", entries.len()));
    }
    let mut rules: Vec<Rule> = Vec::with_capacity(entries.len());
    for (text, given) in entries {
        let prefix = match Prefix::parse(text) {
            Ok(prefix) => prefix,
            Err(error) => {
                mistakes.note(&given.key_place, &given.key, error.to_string());
                continue;
            }
        };
        if rules.iter().any(|rule| rule.prefix == prefix) {
            given.wrong(mistakes, format!("there is another rule for {:?}; write one", prefix.as_str()));
        }
        let words = Permission::ALL.map(|permission| (permission.word(), permission));
        let Some(list) = given.list("permissions", Permission::ALL.len(), mistakes) else { continue };
        let word = |item: &ListItem<'_>| item.given().word(&words, &[], mistakes);
        let permissions: Permissions = list.iter().filter_map(word).collect();
        rules.push(Rule { prefix, permissions });
    }
    Some(Rules::new(rules))
}

fn held_keys(given: &Given<'_>, mistakes: &mut Mistakes) -> Vec<HeldKey> {
    let Some(list) = given.list("keys", PRINCIPAL_KEYS, mistakes) else { return Vec::new() };
    list.iter().filter_map(|item| held_key(&item.given(), mistakes)).collect()
}

/// A key itself has no place here, and no mistake repeats what stands where one could be.
fn held_key(whole: &Given<'_>, mistakes: &mut Mistakes) -> Option<HeldKey> {
    if whole.item.as_str().is_some_and(is_key) {
        let advice = "is a key; only its hash stands in the configuration: write";
        whole.wrong(mistakes, format!("{advice} {KEY_EXAMPLE}"));
        return None;
    }
    let table = whole.table(KEY_EXAMPLE, mistakes)?;
    let (mut id, mut digest, mut expires_at, mut fine) = (None, None, None, true);
    for (part, given) in whole.entries(table) {
        match part {
            "id" => id = part_of(&given, KeyId::parse, "has twelve hexadecimal digits", mistakes),
            "sha256" => digest = digest_of(&given, mistakes),
            "expires_at" => {
                expires_at = instant(&given, mistakes);
                fine = expires_at.is_some();
            }
            _ => note_unknown(part, &given, PRINCIPAL_KEY, mistakes),
        }
    }
    for part in ["id", "sha256"] {
        if table.get(part).is_none() {
            whole.wrong(mistakes, format!("has no {part}; write {KEY_EXAMPLE}"));
        }
    }
    fine.then_some(HeldKey { id: id?, digest: digest?, expires_at })
}

fn digest_of(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<KeyDigest> {
    if given.item.as_str().is_some_and(|text| ApiKey::parse(text).is_ok()) {
        given.wrong(
            mistakes,
            "is a key and not its hash; have a new one made, since this one was written down",
        );
        return None;
    }
    part_of(given, KeyDigest::parse, "has 64 hexadecimal digits", mistakes)
}

fn part_of<T, E>(
    given: &Given<'_>,
    read: impl FnOnce(&str) -> Result<T, E>,
    form: &str,
    mistakes: &mut Mistakes,
) -> Option<T> {
    let text = given.text(mistakes)?;
    let part = read(text).ok();
    if part.is_none() {
        given.wrong(mistakes, format!("is not of the form of a key's: it {form}, in small letters"));
    }
    part
}

fn instant(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Timestamp> {
    let text = given.item.as_datetime().map(ToString::to_string);
    let text = text.as_deref().or_else(|| given.text(mistakes))?;
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(Timestamp::from_ms(instant.as_millisecond()));
    }
    given.wrong(mistakes, "is not an instant; write one such as \"2027-01-31T00:00:00Z\"");
    None
}
