//! The keys of a configuration: those of this version, those that come later, and the nearest to a wrong one.

use super::given::Given;
use super::mistake::Mistakes;
use crate::limits::WORD_CHARS;

/// The keys of one table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    /// Known to this version.
    pub(super) keys: &'static [&'static str],
    /// Designed, and not there yet: refused by name, so that nobody believes in a setting that does nothing.
    pub(super) later: &'static [&'static str],
}

/// The top of the file.
pub(super) const ROOT: Table = Table {
    keys: &[
        "listen",
        "database",
        "seal_key_file",
        "witness",
        "max_connections",
        "max_body_bytes",
        "operation_retention",
        "tracing",
        "log",
        "drain_delay",
        "drain_timeout",
        "limits",
        "namespaces",
        "principals",
        "jwt",
        "tls",
        "plaintext",
    ],
    later: &[],
};

/// `[namespaces.NAME]`.
pub(super) const NAMESPACE: Table = Table {
    keys: &["store", "policy", "gapless", "contract", "issuer", "scope", "max_body_bytes", "lease", "quota"],
    later: &[],
};

/// `[tracing]`.
pub(super) const TRACING: Table = Table { keys: &["otlp_endpoint", "sample_ratio"], later: &[] };

/// `lease = { … }`.
pub(super) const LEASE: Table = Table {
    keys: &["ttl_ms", "min_ttl_ms", "max_ttl_ms", "lock_delay_ms", "max_hold_ms", "order"],
    later: &[],
};

/// `issuer = { … }`.
pub(super) const ISSUER: Table = Table { keys: &["external", "max_jump"], later: &[] };

/// `store = { … }`.
pub(super) const STORE: Table = Table {
    keys: &[
        "http",
        "class",
        "stamp",
        "protocol",
        "timeout_ms",
        "connect_timeout_ms",
        "max_response_bytes",
        "refused_statuses",
        "forward_headers",
        "return_headers",
        "key_header",
        "status",
        "key_retention",
        "max_uncertain_ms",
        "probe",
        "version_header",
        "ca_file",
        "credentials",
    ],
    later: &["sql", "object"],
};

/// `stamp = { … }` of a store.
pub(super) const STAMP: Table = Table { keys: &["header", "json"], later: &[] };

/// `credentials = { … }` of a store.
pub(super) const CREDENTIALS: Table = Table { keys: &["header", "file", "variable"], later: &[] };

/// `[limits]`.
pub(super) const LIMITS: Table = Table {
    keys: &["requests_per_second", "burst", "connections_per_address", "ratelimit_headers"],
    later: &[],
};

/// `rate = { … }` of a principal.
pub(super) const RATE: Table = Table { keys: &["requests_per_second", "burst"], later: &[] };

/// `quota = { … }` of a namespace.
pub(super) const QUOTA: Table = Table { keys: &["resources", "operations", "bytes"], later: &[] };

/// `[principals.NAME]`.
pub(super) const PRINCIPAL: Table =
    Table { keys: &["permissions", "keys", "certificates", "jwt_subjects", "jwt_roles", "rate"], later: &[] };

/// One item of `keys = [ … ]` of a principal.
pub(super) const PRINCIPAL_KEY: Table = Table { keys: &["id", "sha256", "expires_at"], later: &[] };

/// `[tls]`.
pub(super) const TLS: Table =
    Table { keys: &["cert_file", "key_file", "client_ca_file", "client_auth"], later: &[] };

/// `[jwt]`.
pub(super) const JWT: Table = Table {
    keys: &[
        "issuer",
        "audience",
        "jwks_url",
        "jwks_file",
        "jwks_ca_file",
        "algorithms",
        "leeway",
        "refresh",
        "max_stale",
        "roles_claim",
    ],
    later: &[],
};

/// Notes that a table has no such key.
pub(super) fn note_unknown(name: &str, given: &Given<'_>, table: Table, mistakes: &mut Mistakes) {
    mistakes.note(&given.key_place, &given.key, table.explain(name));
}

/// Said of what is designed and not there yet.
pub(super) const LATER: &str = "comes in a later version";

/// Least likeness (Jaro-Winkler) at which a valid word is offered for a wrong one.
pub(super) const LIKENESS: f64 = 0.75;

/// Least letters of a word that count when it stands inside another.
const INSIDE_LETTERS: usize = 3;

impl Table {
    /// What is wrong with a key that this table does not have.
    pub(super) fn explain(&self, key: &str) -> String {
        if self.later.contains(&key) {
            return LATER.to_owned();
        }
        let allowed = list(self.keys);
        if let Some(home) = home_of(key) {
            return format!("does not belong here; write it {home}. Allowed here: {allowed}");
        }
        match nearest(key, self.keys.iter().copied()) {
            Some(near) => format!("unknown key; the nearest is `{near}`. Allowed here: {allowed}"),
            None => format!("unknown key. Allowed here: {allowed}"),
        }
    }
}

/// Words in back quotes, separated by commas.
pub(super) fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The word that is most like `wrong`, where one is like it at all.
pub(super) fn nearest<'a>(wrong: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.chars().nth(WORD_CHARS).is_some() {
        return None;
    }
    let wrong = wrong.to_lowercase().replace('-', "_");
    words
        .map(|word| (likeness(&wrong, word), word))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, word)| word)
}

/// From 0 to 1. A word inside the other is like it, though the letters say otherwise (`jump` and `max_jump`).
pub(super) fn likeness(wrong: &str, word: &str) -> f64 {
    let letters = strsim::jaro_winkler(wrong, word);
    let inside = wrong.len() >= INSIDE_LETTERS && (word.contains(wrong) || wrong.contains(word));
    if inside { letters.max(LIKENESS) } else { letters }
}

/// Where a key belongs that is known, but not in the table it was found in.
fn home_of(key: &str) -> Option<&'static str> {
    match key {
        "listen"
        | "database"
        | "seal_key_file"
        | "witness"
        | "max_connections"
        | "operation_retention"
        | "tracing"
        | "log"
        | "drain_delay"
        | "drain_timeout" => Some("at the top of the file, before the first [table]"),
        "store" | "policy" | "gapless" | "contract" | "issuer" | "scope" | "lease" | "quota" => {
            Some("under [namespaces.NAME]")
        }
        "ttl_ms" | "min_ttl_ms" | "max_ttl_ms" | "lock_delay_ms" | "max_hold_ms" | "order" => {
            Some("in `lease = { … }` of a namespace")
        }
        "max_body_bytes" => Some("at the top of the file, or under [namespaces.NAME]"),
        "json" => Some("in `stamp = { … }` of a store"),
        "header" => Some("in `stamp = { … }` or `credentials = { … }` of a store"),
        "requests_per_second" | "burst" => Some("under [limits], or in `rate = { … }` of a principal"),
        "connections_per_address" | "ratelimit_headers" => Some("under [limits]"),
        "resources" | "operations" | "bytes" => Some("in `quota = { … }` of a namespace"),
        key if PRINCIPAL.keys.contains(&key) => Some("under [principals.NAME]"),
        key if TLS.keys.contains(&key) => Some("under [tls]"),
        key if key != "issuer" && JWT.keys.contains(&key) => Some("under [jwt]"),
        "plaintext" => Some("at the top of the file, before the first [table]"),
        "id" | "sha256" | "expires_at" => Some("in `keys = [ { … } ]` of a principal"),
        "file" | "variable" => Some("in `credentials = { … }` of a store"),
        key if STORE.keys.contains(&key) => Some("in `store = { … }` of a namespace"),
        "otlp_endpoint" | "sample_ratio" => Some("under [tracing]"),
        "external" | "max_jump" => Some("in `issuer = { … }` of a namespace"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_named() {
        assert!(NAMESPACE.explain("polcy").contains("the nearest is `policy`"));
        assert!(ROOT.explain("max-body-byte").contains("the nearest is `max_body_bytes`"));
        assert!(ISSUER.explain("jump").contains("the nearest is `max_jump`"));
        assert!(ROOT.explain("Listen").contains("the nearest is `listen`"));
    }

    #[test]
    fn a_word_like_no_key_gets_the_list_alone() {
        let said = ROOT.explain("zzz");
        assert!(!said.contains("nearest"), "{said}");
        assert!(said.contains("`seal_key_file`"), "{said}");
    }

    #[test]
    fn a_key_of_a_later_version_is_said_to_be_one() {
        for key in ROOT.later {
            assert_eq!(ROOT.explain(key), LATER);
        }
    }

    #[test]
    fn a_key_in_the_wrong_table_is_sent_home() {
        assert!(ROOT.explain("policy").contains("under [namespaces.NAME]"));
        assert!(NAMESPACE.explain("ttl_ms").contains("in `lease"));
        assert!(NAMESPACE.explain("listen").contains("top of the file"));
        assert!(NAMESPACE.explain("timeout_ms").contains("in `store"));
        assert!(STORE.explain("max_body_bytes").contains("under [namespaces.NAME]"));
        assert!(STORE.explain("header").contains("in `stamp"));
    }
}
