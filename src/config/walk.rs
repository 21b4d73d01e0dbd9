//! The tables of a configuration, key by key, whatever source they stand in.

use toml_edit::TableLike;

use super::draft::{Draft, NamespaceDraft};
use super::given::{Given, Slot};
use super::keys::{self, CREDENTIALS, ISSUER, LEASE, NAMESPACE, ROOT, STAMP, STORE, TRACING, Table};
use super::limits::QUOTA_EXAMPLE;
use super::mistake::Mistakes;
use super::origin::Origin;
use super::store::NO_SECRET_HERE;

/// Takes everything that the top of a file holds.
pub(super) fn root(table: &dyn TableLike, origin: Origin<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    for (name, given) in origin.entries(table, "") {
        match name {
            "namespaces" => namespaces(&given, draft, mistakes),
            "limits" => draft.limits.take(&given, mistakes),
            "principals" => draft.principals.take(&given, mistakes),
            "tracing" => {
                let Some(table) = given.table("[tracing]", mistakes) else { continue };
                for (name, given) in given.entries(table) {
                    tracing_key(name, &given, draft, mistakes);
                }
            }
            "jwt" => draft.jwt.take_table(&given, mistakes),
            "tls" => draft.tls.take_table(&given, mistakes),
            "seal_key" => given.wrong(
                mistakes,
                "a secret does not stand in the configuration; use `seal_key_file` or the variable FENCEGATE_SEAL_KEY",
            ),
            _ => {
                let known = draft.take(name, &given, mistakes);
                note_unknown(known, name, &given, ROOT, mistakes);
            }
        }
    }
}

/// Takes one key of `[tracing]`.
pub(super) fn tracing_key(name: &str, given: &Given<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    let known = draft.tracing.take(name, given, mistakes);
    note_unknown(known, name, given, TRACING, mistakes);
}

fn namespaces(given: &Given<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    let Some(table) = given.table("[namespaces.statements]", mistakes) else { return };
    for (name, given) in given.entries(table) {
        let Some(namespace) = draft.namespace(name, &given.key_place, &given.key, mistakes) else { continue };
        let Some(table) = given.table("[namespaces.statements]", mistakes) else { continue };
        for (name, given) in given.entries(table) {
            namespace_key(name, &given, namespace, mistakes);
        }
    }
}

/// Takes one key of a namespace, those with a table of their own included.
pub(super) fn namespace_key(
    name: &str,
    given: &Given<'_>,
    namespace: &mut NamespaceDraft,
    mistakes: &mut Mistakes,
) {
    match (name, given.item.as_table_like()) {
        ("store", None) => namespace.store.take_word(given, mistakes),
        ("store", Some(table)) => {
            namespace.store.begin(given);
            for (name, given) in given.entries(table) {
                store_key(name, &given, namespace, mistakes);
            }
        }
        ("issuer", None) => namespace.take_issuer_word(given, mistakes),
        ("issuer", Some(table)) => issuer(table, given, namespace, mistakes),
        ("lease", _) => {
            let Some(table) = given.table("{ ttl_ms = 30000 }", mistakes) else { return };
            for (name, given) in given.entries(table) {
                lease_key(name, &given, namespace, mistakes);
            }
        }
        ("quota", _) => {
            let Some(table) = given.table(QUOTA_EXAMPLE, mistakes) else { return };
            namespace.quota.take(table, given, mistakes);
        }
        (_, _) => {
            let known = namespace.take(name, given, mistakes);
            note_unknown(known, name, given, NAMESPACE, mistakes);
        }
    }
}

fn issuer(table: &dyn TableLike, given: &Given<'_>, namespace: &mut NamespaceDraft, mistakes: &mut Mistakes) {
    // A whole issuer replaces what an earlier source said of its parts.
    namespace.max_jump = Slot::Absent;
    namespace.issuer = Slot::Mistaken;
    if table.get("external").is_none() {
        given.wrong(
            mistakes,
            "names no mode; write { external = \"trusted\" } or { external = \"registered\" }",
        );
    }
    for (name, given) in given.entries(table) {
        issuer_key(name, &given, namespace, mistakes);
    }
}

/// Takes one key of `issuer = { … }`.
pub(super) fn issuer_key(
    name: &str,
    given: &Given<'_>,
    namespace: &mut NamespaceDraft,
    mistakes: &mut Mistakes,
) {
    let known = namespace.take_issuer(name, given, mistakes);
    note_unknown(known, name, given, ISSUER, mistakes);
}

/// Takes one key of `quota = { … }`.
pub(super) fn quota_key(
    name: &str,
    given: &Given<'_>,
    namespace: &mut NamespaceDraft,
    mistakes: &mut Mistakes,
) {
    namespace.quota.take_key(name, given, mistakes);
}

/// Takes one key of `store = { … }`, those with a table of their own included.
pub(super) fn store_key(
    name: &str,
    given: &Given<'_>,
    namespace: &mut NamespaceDraft,
    mistakes: &mut Mistakes,
) {
    let store = &mut namespace.store;
    match (name, given.item.as_table_like()) {
        ("stamp", Some(table)) => {
            store.begin_stamp(table, given, mistakes);
            for (name, given) in given.entries(table) {
                stamp_key(name, &given, namespace, mistakes);
            }
        }
        ("credentials", Some(table)) => {
            store.credentials.begin(given);
            for (name, given) in given.entries(table) {
                credentials_key(name, &given, namespace, mistakes);
            }
        }
        (_, _) => {
            let known = store.take(name, given, mistakes);
            note_unknown(known, name, given, STORE, mistakes);
        }
    }
}

/// Takes one key of `stamp = { … }`.
pub(super) fn stamp_key(
    name: &str,
    given: &Given<'_>,
    namespace: &mut NamespaceDraft,
    mistakes: &mut Mistakes,
) {
    let known = namespace.store.take_stamp(name, given, mistakes);
    note_unknown(known, name, given, STAMP, mistakes);
}

/// Takes one key of `credentials = { … }`.
pub(super) fn credentials_key(
    name: &str,
    given: &Given<'_>,
    namespace: &mut NamespaceDraft,
    mistakes: &mut Mistakes,
) {
    namespace.store.speak_of(given);
    match name {
        "value" | "secret" | "token" | "password" => given.wrong(mistakes, NO_SECRET_HERE),
        _ => {
            let known = namespace.store.credentials.take(name, given, mistakes);
            note_unknown(known, name, given, CREDENTIALS, mistakes);
        }
    }
}

/// Takes one key of `lease = { … }`.
pub(super) fn lease_key(
    name: &str,
    given: &Given<'_>,
    namespace: &mut NamespaceDraft,
    mistakes: &mut Mistakes,
) {
    let known = namespace.take_lease(name, given, mistakes);
    note_unknown(known, name, given, LEASE, mistakes);
}

fn note_unknown(known: bool, name: &str, given: &Given<'_>, table: Table, mistakes: &mut Mistakes) {
    if !known {
        keys::note_unknown(name, given, table, mistakes);
    }
}
