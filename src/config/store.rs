//! A store behind HTTP: what was said of it (`store = { http = "…", … }`), and what it means.

mod base;
mod headers;
mod secret;
mod settle;
mod values;

use std::mem::discriminant;
use std::path::PathBuf;

use toml_edit::TableLike;

use super::given::{Found, Given, Slot};
use super::keys;
use super::mistake::Mistakes;
use crate::domain::store::{Protocol, StampPlace};
use crate::domain::time::Millis;
use crate::domain::upstream::{Class, StatusSet};
use crate::limits;

use base::Base;
use headers::Names;
use secret::CredentialsDraft;

pub(super) use base::refuse_shared;
pub(super) use settle::{Around, Settled, settle};

/// Said of a secret in the configuration, without the secret.
pub(super) const NO_SECRET_HERE: &str = "a secret does not stand in the configuration; write \
     credentials = { header = \"authorization\", file = \"…\" } or { header = \"…\", variable = \"NAME\" }";

/// How a store of this kind is written.
const FORM: &str = "store = { http = \"https://…/\", class = \"…\" }";

/// How the place of a stamp is written.
const STAMP_FORMS: &str = "{ header = \"x-fencing-stamp\" }, { json = \"/_fencegate\" } or \"pointer\"";

/// Which kind of store was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Document,
    Http,
}

/// Everything that was said of a store.
#[derive(Default)]
pub(super) struct StoreDraft {
    kind: Slot<Kind>,
    base: Slot<Base>,
    class: Slot<Class>,
    stamp: Slot<StampPlace>,
    protocol: Slot<Protocol>,
    timeout_ms: Slot<u64>,
    connect_timeout_ms: Slot<u64>,
    max_response_bytes: Slot<u64>,
    refused_statuses: Slot<StatusSet>,
    forward_headers: Slot<Names>,
    return_headers: Slot<Names>,
    key_header: Slot<String>,
    status: Slot<String>,
    key_retention: Slot<Millis>,
    max_uncertain_ms: Slot<u64>,
    probe: Slot<bool>,
    version_header: Slot<String>,
    ca_file: Slot<PathBuf>,
    pub(super) credentials: CredentialsDraft,
}

impl StoreDraft {
    /// The address, where it is right.
    pub(super) const fn base(&self) -> Option<&Found<Base>> {
        self.base.found()
    }

    /// Takes `store = "document"`; the table form is taken key by key.
    pub(super) fn take_word(&mut self, given: &Given<'_>, mistakes: &mut Mistakes) {
        let kind = match given.item.as_str() {
            // What follows a scheme may hold a password.
            Some(text) if text == "http" || text.contains("://") => {
                given.wrong(mistakes, format!("an upstream is a table; write {FORM}"));
                None
            }
            Some(_) | None => given.word(&[("document", Kind::Document)], keys::STORE.later, mistakes),
        };
        *self = Self { kind: Slot::of(given, kind), ..Self::default() };
    }

    /// A whole table replaces what an earlier source said of its parts.
    pub(super) fn begin(&mut self, given: &Given<'_>) {
        *self = Self { kind: Slot::of(given, Some(Kind::Http)), ..Self::default() };
    }

    /// One part of a store is enough to ask for one; of a `document` it is a mistake, which is told at the end.
    pub(super) fn speak_of(&mut self, given: &Given<'_>) {
        match self.kind {
            Slot::Absent => self.kind = Slot::of(given, Some(Kind::Http)),
            Slot::Mistaken | Slot::Given(_) => {}
        }
    }

    /// Takes one key of `store = { … }`, `stamp` and `credentials` as tables excepted. `false`: there is no such key.
    pub(super) fn take(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        self.speak_of(given);
        match name {
            "http" => self.base = Slot::of(given, base::read(given, mistakes)),
            "class" => self.class = Slot::of(given, given.word(&CLASSES, &[], mistakes)),
            "stamp" => self.stamp = Slot::of(given, stamp_word(given, mistakes)),
            "protocol" => self.protocol = Slot::of(given, given.word(&Protocol::WORDS, &[], mistakes)),
            "refused_statuses" => self.refused_statuses = Slot::of(given, values::statuses(given, mistakes)),
            "forward_headers" => {
                self.forward_headers = Slot::of(given, headers::forwarded(given, mistakes));
            }
            "return_headers" => self.return_headers = Slot::of(given, headers::returned(given, mistakes)),
            "key_header" => self.key_header = Slot::of(given, headers::of_key(given, mistakes)),
            "status" => self.status = Slot::of(given, values::status_path(given, mistakes)),
            "key_retention" => self.key_retention = Slot::of(given, values::retention(given, mistakes)),
            "version_header" => self.version_header = Slot::of(given, headers::of_version(given, mistakes)),
            "probe" => self.probe = Slot::of(given, given.truth(mistakes)),
            "ca_file" => {
                let path = given.text(mistakes).map(|text| given.origin.base().join(text));
                self.ca_file = Slot::of(given, path);
            }
            "credentials" => {
                // Whatever stands here may be the secret itself.
                given.wrong(mistakes, NO_SECRET_HERE);
                self.credentials = CredentialsDraft::mistaken();
            }
            _ => return self.take_number(name, given, mistakes),
        }
        true
    }

    fn take_number(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        let (slot, greatest) = match name {
            "timeout_ms" => (&mut self.timeout_ms, limits::STORE_TIMEOUT_MS_GREATEST),
            "connect_timeout_ms" => (&mut self.connect_timeout_ms, limits::STORE_CONNECT_TIMEOUT_MS_GREATEST),
            "max_response_bytes" => (&mut self.max_response_bytes, limits::STORE_RESPONSE_BYTES_GREATEST),
            "max_uncertain_ms" => (&mut self.max_uncertain_ms, limits::STORE_UNCERTAIN_MS_GREATEST),
            _ => return false,
        };
        *slot = Slot::of(given, given.whole(&(1..=greatest), mistakes));
        true
    }

    /// A whole stamp replaces what an earlier source said of its parts.
    pub(super) fn begin_stamp(&mut self, table: &dyn TableLike, given: &Given<'_>, mistakes: &mut Mistakes) {
        self.speak_of(given);
        if !keys::STAMP.keys.iter().any(|key| table.contains_key(key)) {
            given.wrong(mistakes, format!("names no place; write {STAMP_FORMS}"));
        }
        self.stamp = if table.is_empty() { Slot::Mistaken } else { Slot::Absent };
    }

    /// Takes one key of `stamp = { … }`. `false`: there is no such key.
    pub(super) fn take_stamp(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        self.speak_of(given);
        let place = match name {
            "header" => headers::of_stamp(given, mistakes).map(StampPlace::Header),
            "json" => values::json_pointer(given, mistakes).map(StampPlace::Json),
            _ => {
                self.stamp = Slot::Mistaken;
                return false;
            }
        };
        if self.stamp.found().is_some_and(|found| discriminant(&found.place) == discriminant(&given.place)) {
            given.wrong(mistakes, format!("is a second place of the stamp; write one of {STAMP_FORMS}"));
            self.stamp = Slot::Mistaken;
        } else {
            self.stamp = Slot::of(given, place);
        }
        true
    }
}

const CLASSES: [(&str, Class); 4] = [
    (Class::Conditional.word(), Class::Conditional),
    (Class::FenceAware.word(), Class::FenceAware),
    (Class::Idempotent.word(), Class::Idempotent),
    (Class::Serial.word(), Class::Serial),
];

fn stamp_word(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<StampPlace> {
    if given.item.as_str() == Some("pointer") {
        return Some(StampPlace::Pointer);
    }
    given.wrong(mistakes, format!("is not known. Allowed: {STAMP_FORMS}"));
    None
}
