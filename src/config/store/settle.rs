//! From what was said of a store to what holds: defaults, what belongs to which class, and what fits together.

use super::super::given::{Found, Slot};
use super::super::mistake::{Mistakes, Place};
use super::super::outside::Outside;
use super::headers::Names;
use super::{FORM, Kind, StoreDraft};
use crate::domain::policy::DefinitionError;
use crate::domain::store::{
    self, FORWARD_HEADERS, HttpStore, KEY_HEADER, Protocol, RETURN_HEADERS, StampPlace, VERSION_HEADER,
};
use crate::domain::time::Millis;
use crate::domain::upstream::{Class, REFUSED_STATUSES, StatusSet};
use crate::limits;

/// What a namespace's effects go to.
pub(in crate::config) enum Settled {
    /// The gateway's own database.
    Document,
    /// An upstream.
    Http(Box<HttpStore>),
    /// Something that was asked for wrongly, which was noted; nothing may be concluded from it.
    Mistaken,
}

/// The namespace around a store.
pub(in crate::config) struct Around<'a> {
    /// The key of the namespace, such as `namespaces.ledger`.
    pub(in crate::config) key: &'a str,
    /// Whether it stands for all that are not named.
    pub(in crate::config) is_star: bool,
    /// Its scope.
    pub(in crate::config) scope: &'a Slot<u16>,
}

/// What a draft means.
pub(in crate::config) fn settle(
    draft: &StoreDraft,
    around: &Around<'_>,
    outside: &dyn Outside,
    mistakes: &mut Mistakes,
) -> Settled {
    let place = match &draft.kind {
        Slot::Absent => return Settled::Document,
        Slot::Mistaken => return Settled::Mistaken,
        Slot::Given(Found { value: Kind::Document, .. }) => {
            refuse_parts(draft, around.key, mistakes);
            return Settled::Document;
        }
        Slot::Given(Found { value: Kind::Http, place }) => place,
    };
    let before = mistakes.len();
    let whole = format!("{}.store", around.key);
    if around.is_star {
        let problem = "names of several namespaces would meet in one upstream; name each namespace, with an address \
                       of its own";
        mistakes.note(place, &whole, problem);
    }
    if matches!(draft.base, Slot::Absent) {
        mistakes.note(place, &whole, format!("names no address; write {FORM}"));
    }
    if matches!(draft.class, Slot::Absent) {
        let words = super::keys::list(&Class::ALL.map(Class::word));
        mistakes.note(place, &whole, format!("names no class. Allowed: {words}"));
    }
    refuse_clashes(draft, &whole, mistakes);
    let Some(class) = draft.class.found().map(|found| found.value) else { return Settled::Mistaken };
    check_class(draft, class, around, place, mistakes);
    check_times(draft, class, &whole, mistakes);
    let ca_file = ca_file(draft, &whole, outside, mistakes);
    let credentials = draft.credentials.settle(&format!("{whole}.credentials"), outside, mistakes);
    let Some(base) = draft.base.found() else { return Settled::Mistaken };
    if mistakes.len() != before {
        return Settled::Mistaken;
    }
    Settled::Http(Box::new(HttpStore {
        base: base.value.address.clone(),
        class,
        stamp: value_of(&draft.stamp),
        protocol: draft.protocol.or(Protocol::Auto),
        timeout: timeout(draft),
        connect_timeout: connect_timeout(draft),
        max_response_bytes: draft.max_response_bytes.or(limits::STORE_RESPONSE_BYTES),
        refused: draft.refused_statuses.or(StatusSet::of(&REFUSED_STATUSES)),
        forward_headers: listed(draft, &draft.forward_headers, &FORWARD_HEADERS),
        return_headers: listed(draft, &draft.return_headers, &RETURN_HEADERS),
        key_header: key_header(draft).to_owned(),
        status: value_of(&draft.status),
        key_retention: key_retention(draft),
        max_uncertain: draft.max_uncertain_ms.found().map(|found| Millis::new(found.value)),
        version_header: value_of(&draft.version_header).unwrap_or_else(|| VERSION_HEADER.to_owned()),
        probe: draft.probe.or(class.is_probed_by_default()),
        ca_file,
        credentials,
    }))
}

fn value_of<T: Clone>(slot: &Slot<T>) -> Option<T> {
    slot.found().map(|found| found.value.clone())
}

fn place_of<T>(slot: &Slot<T>) -> Option<&Place> {
    slot.found().map(|found| &found.place)
}

fn timeout(draft: &StoreDraft) -> Millis {
    Millis::new(draft.timeout_ms.or(limits::STORE_TIMEOUT_MS))
}

fn connect_timeout(draft: &StoreDraft) -> Millis {
    Millis::new(draft.connect_timeout_ms.or(limits::STORE_CONNECT_TIMEOUT_MS))
}

fn key_retention(draft: &StoreDraft) -> Millis {
    draft.key_retention.or(Millis::new(limits::STORE_KEY_RETENTION_MS))
}

fn key_header(draft: &StoreDraft) -> &str {
    draft.key_header.found().map_or(KEY_HEADER, |found| found.value.as_str())
}

/// Every part of an upstream, with its place where it was given.
fn parts(draft: &StoreDraft) -> [(&'static str, Option<&Place>); 18] {
    [
        ("http", place_of(&draft.base)),
        ("class", place_of(&draft.class)),
        ("stamp", place_of(&draft.stamp)),
        ("protocol", place_of(&draft.protocol)),
        ("timeout_ms", place_of(&draft.timeout_ms)),
        ("connect_timeout_ms", place_of(&draft.connect_timeout_ms)),
        ("max_response_bytes", place_of(&draft.max_response_bytes)),
        ("refused_statuses", place_of(&draft.refused_statuses)),
        ("forward_headers", place_of(&draft.forward_headers)),
        ("return_headers", place_of(&draft.return_headers)),
        ("key_header", place_of(&draft.key_header)),
        ("status", place_of(&draft.status)),
        ("key_retention", place_of(&draft.key_retention)),
        ("max_uncertain_ms", place_of(&draft.max_uncertain_ms)),
        ("probe", place_of(&draft.probe)),
        ("version_header", place_of(&draft.version_header)),
        ("ca_file", place_of(&draft.ca_file)),
        ("credentials", draft.credentials.place()),
    ]
}

/// A part from a variable or a flag, and a store in the file that has no parts.
fn refuse_parts(draft: &StoreDraft, key: &str, mistakes: &mut Mistakes) {
    for (part, place) in parts(draft) {
        if let Some(place) = place {
            let problem = "belongs to an upstream, and this store is \"document\"; leave one of them out";
            mistakes.note(place, &format!("{key}.store.{part}"), problem);
        }
    }
}

/// A key that does nothing in this class: whoever wrote it believes in something that does not hold.
fn check_class(
    draft: &StoreDraft,
    class: Class,
    around: &Around<'_>,
    place: &Place,
    mistakes: &mut Mistakes,
) {
    let owners = [
        ("key_header", Class::Idempotent),
        ("status", Class::Idempotent),
        ("key_retention", Class::Idempotent),
        ("max_uncertain_ms", Class::Serial),
    ];
    for (part, place) in parts(draft) {
        let owner = owners.iter().find(|(owned, _)| *owned == part).map(|(_, owner)| *owner);
        if let (Some(place), Some(owner)) = (place, owner)
            && owner != class
        {
            let problem = format!("{part} belongs to class {:?}; leave it out", owner.word());
            mistakes.note(place, &format!("{}.store.{part}", around.key), problem);
        }
    }
    if let (Class::Serial, Some(found)) = (class, draft.probe.found())
        && found.value
    {
        let problem = "there is nothing that a store of class \"serial\" could be tried for; leave it out";
        mistakes.note(&found.place, &format!("{}.store.probe", around.key), problem);
    }
    if draft.stamp.is_mistaken() || around.scope.is_mistaken() {
        return;
    }
    let stamp = draft.stamp.found().map(|found| &found.value);
    if let Err(error) = store::check(class, stamp, around.scope.or(0)) {
        let (part, at) = match &error {
            DefinitionError::StampWithoutCells => (".store.stamp", place_of(&draft.stamp)),
            DefinitionError::ScopeWithCells => (".scope", place_of(around.scope)),
            DefinitionError::StampMissing
            | DefinitionError::ImmediateNeedsRegistered
            | DefinitionError::LeaseBoundNeedsGateway => (".store", None),
        };
        mistakes.note(at.unwrap_or(place), &format!("{}{part}", around.key), error.to_string());
    }
}

/// What is longer than one attempt must be longer than one attempt.
fn check_times(draft: &StoreDraft, class: Class, whole: &str, mistakes: &mut Mistakes) {
    if draft.timeout_ms.is_mistaken() || draft.connect_timeout_ms.is_mistaken() {
        return;
    }
    let attempt = timeout(draft).get().saturating_add(connect_timeout(draft).get());
    let of_one = format!("one attempt, which takes up to {attempt} ms (timeout_ms and connect_timeout_ms)");
    // Before the same is sent again the store is asked, which takes as long.
    let two = attempt.saturating_mul(2);
    if let (Class::Idempotent, Some(found)) = (class, draft.key_retention.found())
        && found.value.get() / 2 <= two
    {
        let problem = format!(
            "is {} ms; after half of it nothing is sent again, so that half must be longer than to ask and to send once, \
             which take up to {two} ms (twice timeout_ms and connect_timeout_ms)",
            found.value.get()
        );
        mistakes.note(&found.place, &format!("{whole}.key_retention"), problem);
    }
    if let (Class::Serial, Some(found)) = (class, draft.max_uncertain_ms.found())
        && found.value <= attempt
    {
        let problem = format!("is {} ms, which must be longer than {of_one}", found.value);
        mistakes.note(&found.place, &format!("{whole}.max_uncertain_ms"), problem);
    }
}

/// The headers that the gateway itself gives a meaning, by what they are.
fn own_headers(draft: &StoreDraft) -> Vec<(&'static str, &str)> {
    let mut own = vec![("key_header", key_header(draft))];
    if let Some(Found { value: StampPlace::Header(name), .. }) = draft.stamp.found() {
        own.push(("stamp", name));
    }
    own.extend(draft.credentials.header().map(|name| ("credentials", name)));
    own
}

/// A header with two meanings.
fn refuse_clashes(draft: &StoreDraft, whole: &str, mistakes: &mut Mistakes) {
    let own = own_headers(draft);
    for (part, list) in
        [("forward_headers", &draft.forward_headers), ("return_headers", &draft.return_headers)]
    {
        for found in list.found().into_iter().flat_map(|found| &found.value) {
            if let Some((meaning, name)) = own.iter().find(|(_, name)| *name == found.value) {
                let problem = format!("{name:?} is the header of `{meaning}` and is never passed on");
                mistakes.note(&found.place, &format!("{whole}.{part}"), problem);
            }
        }
    }
    let (Some(at), Some(header)) = (draft.credentials.place(), draft.credentials.header()) else { return };
    let clash = own.iter().find(|(meaning, name)| *meaning != "credentials" && *name == header);
    if let Some((meaning, _)) = clash {
        let problem = format!("has the header of `{meaning}`; they need one each");
        mistakes.note(at, &format!("{whole}.credentials"), problem);
    }
}

/// A list as it was given, or the usual one without what has a meaning of its own here.
fn listed(draft: &StoreDraft, slot: &Slot<Names>, usual: &[&str]) -> Vec<String> {
    if let Some(found) = slot.found() {
        return found.value.iter().map(|found| found.value.clone()).collect();
    }
    let own = own_headers(draft);
    let is_own = |name: &str| own.iter().any(|(_, own)| *own == name);
    usual.iter().filter(|name| !is_own(name)).map(|name| (*name).to_owned()).collect()
}

/// A file of roots that is not there would show at the first write only.
fn ca_file(
    draft: &StoreDraft,
    whole: &str,
    outside: &dyn Outside,
    mistakes: &mut Mistakes,
) -> Option<std::path::PathBuf> {
    let found = draft.ca_file.found()?;
    let problem = match (draft.base.found(), outside.file(&found.value, limits::STORE_ROOTS_BYTES)) {
        (Some(base), _) if !base.value.is_tls => {
            "goes with an https:// address alone; leave it out".to_owned()
        }
        (_, Err(why)) => format!("{} cannot be read: {why}", found.value.display()),
        (_, Ok(bytes)) if !bytes.windows(PEM.len()).any(|window| window == PEM) => {
            format!("{} holds no certificate in PEM form", found.value.display())
        }
        (_, Ok(_)) => return Some(found.value.clone()),
    };
    mistakes.note(&found.place, &format!("{whole}.ca_file"), problem);
    None
}

const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----";
