//! `[tls]`: the listener's certificate, and who vouches for the certificates of callers.

use std::path::PathBuf;

use super::given::{Found, Given, Slot};
use super::keys::{TLS, note_unknown};
use super::mistake::{Mistakes, Place};
use crate::tls::{ClientAuth, TlsSettings};

const EXAMPLE: &str = "{ cert_file = \"…\", key_file = \"…\" }";

const AUTHS: [(&str, ClientAuth); 2] =
    [("optional", ClientAuth::Optional), ("required", ClientAuth::Required)];

/// Everything that was said of TLS.
#[derive(Default)]
pub(super) struct TlsDraft {
    place: Option<Place>,
    cert_file: Slot<PathBuf>,
    key_file: Slot<PathBuf>,
    client_ca_file: Slot<PathBuf>,
    client_auth: Slot<ClientAuth>,
}

impl TlsDraft {
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
            "cert_file" => self.cert_file = file(given, mistakes),
            "key_file" => self.key_file = file(given, mistakes),
            "client_ca_file" => self.client_ca_file = file(given, mistakes),
            "client_auth" => self.client_auth = Slot::of(given, given.word(&AUTHS, &[], mistakes)),
            _ => note_unknown(name, given, TLS, mistakes),
        }
    }

    /// Whether anything was said.
    pub(super) const fn is_spoken_of(&self) -> bool {
        self.place.is_some()
    }

    /// Whether certificates of callers are looked at.
    pub(super) const fn knows_clients(&self) -> bool {
        !matches!(self.client_ca_file, Slot::Absent)
    }

    /// What it means.
    pub(super) fn settle(&self, mistakes: &mut Mistakes) -> Option<TlsSettings> {
        let place = self.place.as_ref()?;
        for (key, slot) in [("cert_file", &self.cert_file), ("key_file", &self.key_file)] {
            if matches!(slot, Slot::Absent) {
                mistakes.note(place, "tls", format!("has no {key}; write {EXAMPLE}"));
            }
        }
        if let (Slot::Absent, Some(Found { place, .. })) = (&self.client_ca_file, self.client_auth.found()) {
            let problem = "says nothing without client_ca_file, which holds those who vouch for callers";
            mistakes.note(place, "tls.client_auth", problem);
        }
        let clients = self.client_ca_file.found();
        Some(TlsSettings {
            cert_file: self.cert_file.found()?.value.clone(),
            key_file: self.key_file.found()?.value.clone(),
            clients: clients.map(|file| (file.value.clone(), self.client_auth.or(ClientAuth::Optional))),
        })
    }
}

/// A path, relative to the configuration's file.
pub(super) fn file(given: &Given<'_>, mistakes: &mut Mistakes) -> Slot<PathBuf> {
    Slot::of(given, given.text(mistakes).map(|text| given.origin.base().join(text)))
}
