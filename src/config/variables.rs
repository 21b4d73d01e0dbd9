//! `FENCEGATE_…` variables: every key of the file, with two underscores for each dot.
//!
//! `FENCEGATE_NAMESPACES__STATEMENTS__LEASE__TTL_MS` is `namespaces.statements.lease.ttl_ms`. The namespace is the one
//! of the file whose name is spelled so in capitals; where the file has none, it is the name in small letters.

mod slips;

use std::collections::BTreeMap;

use toml_edit::{Item, Value};
use zeroize::Zeroizing;

use super::draft::{Draft, NamespaceDraft};
use super::given::{Given, Slot};
use super::keys;
use super::mistake::{Mistakes, Place};
use super::origin::Origin;
use super::walk;
use crate::domain::seal::Keyring;
use slips::{explain_unknown, refuse_slips};

/// What all of them begin with.
const PREFIX: &str = "FENCEGATE_";

/// What those of namespaces go on with.
const NAMESPACES: &str = "NAMESPACES__";

/// What those of limits go on with.
const LIMITS: &str = "LIMITS__";

/// Most letters in which a name may differ from a known one and still be taken for a slip of the pen. Others are left
/// alone: a cluster puts variables of its own, such as `FENCEGATE_SERVICE_HOST`, into every process.
const SLIP_LETTERS: usize = 2;

/// The variables that begin with `FENCEGATE_`, by name; `None` for a value that is not UTF-8.
pub type Variables = BTreeMap<String, Option<String>>;

/// The keys of the tables that are not of namespaces, as their variables are spelled.
const TABLE_KEYS: [(&str, &str, &str, Form); 14] = [
    ("TLS__CERT_FILE", "tls", "cert_file", Form::Text),
    ("TLS__KEY_FILE", "tls", "key_file", Form::Text),
    ("TLS__CLIENT_CA_FILE", "tls", "client_ca_file", Form::Text),
    ("TLS__CLIENT_AUTH", "tls", "client_auth", Form::Text),
    ("JWT__ISSUER", "jwt", "issuer", Form::Text),
    ("JWT__AUDIENCE", "jwt", "audience", Form::Toml),
    ("JWT__JWKS_URL", "jwt", "jwks_url", Form::Text),
    ("JWT__JWKS_FILE", "jwt", "jwks_file", Form::Text),
    ("JWT__JWKS_CA_FILE", "jwt", "jwks_ca_file", Form::Text),
    ("JWT__ALGORITHMS", "jwt", "algorithms", Form::Toml),
    ("JWT__LEEWAY", "jwt", "leeway", Form::Text),
    ("JWT__REFRESH", "jwt", "refresh", Form::Text),
    ("JWT__MAX_STALE", "jwt", "max_stale", Form::Text),
    ("JWT__ROLES_CLAIM", "jwt", "roles_claim", Form::Text),
];

/// How a key's value is written in a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As it is; quotes or braces at its beginning make it TOML.
    Text,
    /// As in the file.
    Toml,
}

/// The keys of a namespace as their variables end, with the table that each stands in.
const NAMESPACE_KEYS: [(&str, Home, &str, Form); 43] = [
    ("STORE", Home::Namespace, "store", Form::Text),
    ("STORE__HTTP", Home::Store, "http", Form::Text),
    ("STORE__CLASS", Home::Store, "class", Form::Text),
    ("STORE__STAMP", Home::Store, "stamp", Form::Text),
    ("STORE__STAMP__HEADER", Home::Stamp, "header", Form::Text),
    ("STORE__STAMP__JSON", Home::Stamp, "json", Form::Text),
    ("STORE__PROTOCOL", Home::Store, "protocol", Form::Text),
    ("STORE__TIMEOUT_MS", Home::Store, "timeout_ms", Form::Toml),
    ("STORE__CONNECT_TIMEOUT_MS", Home::Store, "connect_timeout_ms", Form::Toml),
    ("STORE__MAX_RESPONSE_BYTES", Home::Store, "max_response_bytes", Form::Toml),
    ("STORE__REFUSED_STATUSES", Home::Store, "refused_statuses", Form::Toml),
    ("STORE__FORWARD_HEADERS", Home::Store, "forward_headers", Form::Toml),
    ("STORE__RETURN_HEADERS", Home::Store, "return_headers", Form::Toml),
    ("STORE__KEY_HEADER", Home::Store, "key_header", Form::Text),
    ("STORE__STATUS", Home::Store, "status", Form::Text),
    ("STORE__KEY_RETENTION", Home::Store, "key_retention", Form::Text),
    ("STORE__MAX_UNCERTAIN_MS", Home::Store, "max_uncertain_ms", Form::Toml),
    ("STORE__PROBE", Home::Store, "probe", Form::Toml),
    ("STORE__VERSION_HEADER", Home::Store, "version_header", Form::Text),
    ("STORE__CA_FILE", Home::Store, "ca_file", Form::Text),
    ("STORE__CREDENTIALS", Home::Store, "credentials", Form::Text),
    ("STORE__CREDENTIALS__HEADER", Home::Credentials, "header", Form::Text),
    ("STORE__CREDENTIALS__FILE", Home::Credentials, "file", Form::Text),
    ("STORE__CREDENTIALS__VARIABLE", Home::Credentials, "variable", Form::Text),
    ("POLICY", Home::Namespace, "policy", Form::Text),
    ("GAPLESS", Home::Namespace, "gapless", Form::Toml),
    ("CONTRACT", Home::Namespace, "contract", Form::Text),
    ("ISSUER", Home::Namespace, "issuer", Form::Text),
    ("ISSUER__EXTERNAL", Home::Issuer, "external", Form::Text),
    ("ISSUER__MAX_JUMP", Home::Issuer, "max_jump", Form::Toml),
    ("SCOPE", Home::Namespace, "scope", Form::Toml),
    ("MAX_BODY_BYTES", Home::Namespace, "max_body_bytes", Form::Toml),
    ("LEASE", Home::Namespace, "lease", Form::Toml),
    ("LEASE__TTL_MS", Home::Lease, "ttl_ms", Form::Toml),
    ("LEASE__MIN_TTL_MS", Home::Lease, "min_ttl_ms", Form::Toml),
    ("LEASE__MAX_TTL_MS", Home::Lease, "max_ttl_ms", Form::Toml),
    ("LEASE__LOCK_DELAY_MS", Home::Lease, "lock_delay_ms", Form::Toml),
    ("LEASE__MAX_HOLD_MS", Home::Lease, "max_hold_ms", Form::Toml),
    ("LEASE__ORDER", Home::Lease, "order", Form::Text),
    ("QUOTA", Home::Namespace, "quota", Form::Toml),
    ("QUOTA__RESOURCES", Home::Quota, "resources", Form::Toml),
    ("QUOTA__OPERATIONS", Home::Quota, "operations", Form::Toml),
    ("QUOTA__BYTES", Home::Quota, "bytes", Form::Toml),
];

/// The table that a key stands in.
#[derive(Clone, Copy)]
enum Home {
    Namespace,
    Store,
    Stamp,
    Credentials,
    Issuer,
    Lease,
    Quota,
}

impl Home {
    /// The table below that of the namespace, with a dot at its end.
    const fn path(self) -> &'static str {
        match self {
            Self::Namespace => "",
            Self::Store => "store.",
            Self::Stamp => "store.stamp.",
            Self::Credentials => "store.credentials.",
            Self::Issuer => "issuer.",
            Self::Lease => "lease.",
            Self::Quota => "quota.",
        }
    }
}

/// Takes everything that the variables say.
pub(super) fn take(variables: &Variables, draft: &mut Draft, mistakes: &mut Mistakes) {
    for (name, value) in variables {
        let Some(key) = name.strip_prefix(PREFIX) else { continue };
        let place = Place::Variable { variable: name.clone() };
        let variable = Variable { name: key, value: value.as_deref(), place: &place };
        match key {
            "LISTEN"
            | "DATABASE"
            | "SEAL_KEY_FILE"
            | "OPERATION_RETENTION"
            | "LOG"
            | "DRAIN_DELAY"
            | "DRAIN_TIMEOUT" => {
                take_root(&variable, Form::Text, draft, mistakes);
            }
            "PRINCIPALS" => take_principals(&variable, draft, mistakes),
            "MAX_CONNECTIONS" | "MAX_BODY_BYTES" | "PLAINTEXT" => {
                take_root(&variable, Form::Toml, draft, mistakes);
            }
            "LIMITS" => take_limits(&variable, draft, mistakes),
            "WITNESS" => take_witness(&variable, draft, mistakes),
            "TRACING__OTLP_ENDPOINT" => take_tracing("otlp_endpoint", &variable, Form::Text, draft, mistakes),
            "TRACING__SAMPLE_RATIO" => take_tracing("sample_ratio", &variable, Form::Toml, draft, mistakes),
            "SEAL_KEY" => draft.seal_key = seal_key(&variable, mistakes),
            _ => match (key.strip_prefix(NAMESPACES), key.strip_prefix(LIMITS)) {
                (Some(rest), _) => take_namespace(rest, &variable, draft, mistakes),
                (None, Some(rest)) => take_limit(rest, &variable, draft, mistakes),
                (None, None) => take_table(&variable, draft, mistakes),
            },
        }
    }
}

/// Takes a flag that stands for a key of the file.
pub(super) fn take_flag(flag: &str, key: &str, text: &str, draft: &mut Draft, mistakes: &mut Mistakes) {
    let place = Place::Flag { flag: flag.to_owned() };
    let item = Item::Value(Value::from(text));
    let given = spot(key, &item, &place);
    draft.take(key, &given, mistakes);
}

struct Variable<'a> {
    /// Without the prefix.
    name: &'a str,
    value: Option<&'a str>,
    place: &'a Place,
}

impl Variable<'_> {
    /// The value as an item. `None`: it cannot be read, which was noted.
    fn item(&self, key: &str, form: Form, mistakes: &mut Mistakes) -> Option<Item> {
        let text = self.text(key, mistakes)?;
        let is_toml = form == Form::Toml || text.starts_with(['"', '\'', '{']);
        match text.parse::<Value>() {
            Ok(value) if is_toml => Some(Item::Value(value)),
            Err(error) if is_toml && text.starts_with(['"', '\'', '{']) => {
                mistakes.note(self.place, key, format!("this is not a TOML value: {}", error.message()));
                None
            }
            Ok(_) | Err(_) => Some(Item::Value(Value::from(text))),
        }
    }

    fn text(&self, key: &str, mistakes: &mut Mistakes) -> Option<&str> {
        match self.value {
            Some("") => mistakes.note(self.place, key, "is empty; unset it, or give it a value"),
            None => mistakes.note(self.place, key, "is not UTF-8"),
            Some(text) => return Some(text),
        }
        None
    }
}

fn spot<'a>(key: &str, item: &'a Item, place: &'a Place) -> Given<'a> {
    Given {
        key: key.to_owned(),
        item,
        key_place: place.clone(),
        place: place.clone(),
        origin: Origin::Spot(place),
    }
}

fn take_root(variable: &Variable<'_>, form: Form, draft: &mut Draft, mistakes: &mut Mistakes) {
    let key = variable.name.to_lowercase();
    if let Some(item) = variable.item(&key, form, mistakes) {
        draft.take(&key, &spot(&key, &item, variable.place), mistakes);
    }
}

/// The whole table, in braces: names of principals are not spelled in capitals.
fn take_principals(variable: &Variable<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    if let Some(item) = variable.item("principals", Form::Toml, mistakes) {
        draft.principals.take(&spot("principals", &item, variable.place), mistakes);
    }
}

fn take_tracing(key: &str, variable: &Variable<'_>, form: Form, draft: &mut Draft, mistakes: &mut Mistakes) {
    let whole = format!("tracing.{key}");
    if let Some(item) = variable.item(&whole, form, mistakes) {
        walk::tracing_key(key, &spot(&whole, &item, variable.place), draft, mistakes);
    }
}

/// One key of `[tls]` or `[jwt]`.
fn take_table(variable: &Variable<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    let Some((_, table, key, form)) = TABLE_KEYS.iter().find(|(name, ..)| *name == variable.name) else {
        return refuse_slips(variable, mistakes);
    };
    let whole = format!("{table}.{key}");
    let Some(item) = variable.item(&whole, *form, mistakes) else { return };
    let given = spot(&whole, &item, variable.place);
    match *table {
        "tls" => draft.tls.take(key, &given, mistakes),
        _ => draft.jwt.take(key, &given, mistakes),
    }
}

/// The whole table of limits, in braces.
fn take_limits(variable: &Variable<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    if let Some(item) = variable.item("limits", Form::Toml, mistakes) {
        draft.limits.take(&spot("limits", &item, variable.place), mistakes);
    }
}

/// One of them.
fn take_limit(rest: &str, variable: &Variable<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    let name = rest.to_lowercase();
    let key = format!("limits.{name}");
    if let Some(item) = variable.item(&key, Form::Toml, mistakes) {
        draft.limits.take_key(&name, &spot(&key, &item, variable.place), mistakes);
    }
}

/// As the others, but empty is a value.
fn take_witness(variable: &Variable<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    if variable.value == Some("") {
        let item = Item::Value(Value::from(""));
        draft.take("witness", &spot("witness", &item, variable.place), mistakes);
    } else {
        take_root(variable, Form::Text, draft, mistakes);
    }
}

/// The keys themselves. They are read here so that `check` finds a damaged one; no part of one is in the mistake.
fn seal_key(variable: &Variable<'_>, mistakes: &mut Mistakes) -> Slot<Zeroizing<String>> {
    let Some(text) = variable.text("seal_key", mistakes) else { return Slot::Mistaken };
    if let Err(error) = Keyring::parse(text) {
        mistakes.note(variable.place, "seal_key", error.to_string());
        return Slot::Mistaken;
    }
    let item = Item::None;
    Slot::of(&spot("seal_key", &item, variable.place), Some(Zeroizing::new(text.to_owned())))
}

fn take_namespace(rest: &str, variable: &Variable<'_>, draft: &mut Draft, mistakes: &mut Mistakes) {
    // `…__LEASE__TTL_MS` ends like no other key, but a namespace may be called `a__lease`: the longest ending counts.
    let parts = NAMESPACE_KEYS
        .iter()
        .filter_map(|key| Some((rest.strip_suffix(key.0)?.strip_suffix("__")?, key)))
        .filter(|(namespace, _)| !namespace.is_empty())
        .min_by_key(|(namespace, _)| namespace.len());
    let Some((spelled, (_, home, key, form))) = parts else {
        mistakes.note(variable.place, "", explain_unknown(rest));
        return;
    };
    let Some(name) = resolve(spelled, variable, draft, mistakes) else { return };
    let whole = format!("namespaces.{name}.{}{key}", home.path());
    let Some(item) = variable.item(&whole, *form, mistakes) else { return };
    let given = spot(&whole, &item, variable.place);
    let Some(namespace) = draft.namespace(&name, variable.place, &whole, mistakes) else { return };
    let take: fn(&str, &Given<'_>, &mut NamespaceDraft, &mut Mistakes) = match home {
        Home::Namespace => walk::namespace_key,
        Home::Store => walk::store_key,
        Home::Stamp => walk::stamp_key,
        Home::Credentials => walk::credentials_key,
        Home::Issuer => walk::issuer_key,
        Home::Lease => walk::lease_key,
        Home::Quota => walk::quota_key,
    };
    take(key, &given, namespace, mistakes);
}

/// The namespace that a variable means.
fn resolve(spelled: &str, variable: &Variable<'_>, draft: &Draft, mistakes: &mut Mistakes) -> Option<String> {
    let known: Vec<&str> = draft
        .namespaces
        .keys()
        .map(|name| name.as_ref().map_or("*", |name| name.as_str()))
        .filter(|name| capitals(name) == spelled)
        .collect();
    match known.as_slice() {
        [] => Some(spelled.to_lowercase()),
        [one] => Some((*one).to_owned()),
        [..] => {
            let problem = format!("could mean each of {}; set it in the file", keys::list(&known));
            mistakes.note(variable.place, "", problem);
            None
        }
    }
}

/// A name as a variable spells it.
fn capitals(name: &str) -> String {
    if name == "*" {
        return name.to_owned();
    }
    name.to_uppercase().chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect()
}
