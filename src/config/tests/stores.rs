//! What a store behind HTTP means, in the file and in variables.

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::super::{Config, FileText, Flags, Mistakes, Outside, Sources};
use super::{parse, rules};
use crate::domain::policy::{Contract, Store};
use crate::domain::resource::Namespace;
use crate::domain::store::{Credentials, FORWARD_HEADERS, HttpStore, Protocol, RETURN_HEADERS, StampPlace};
use crate::domain::time::Millis;
use crate::domain::upstream::{Class, REFUSED_STATUSES, StatusSet};
use crate::limits;

/// One file and one variable with a secret each, and one file of roots.
struct Shelf;

impl Outside for Shelf {
    fn file(&self, path: &Path, _: u64) -> Result<Zeroizing<Vec<u8>>, String> {
        let text = match path.to_str() {
            Some("etc/secret") => "Bearer from-file\n",
            Some("etc/broken") => "hush\nhush\n",
            Some("etc/roots.pem") => "-----BEGIN CERTIFICATE-----\n",
            _ => return Err("no such file".to_owned()),
        };
        Ok(Zeroizing::new(text.as_bytes().to_vec()))
    }

    fn variable(&self, name: &str) -> Result<Zeroizing<String>, String> {
        match name {
            "STORE_SECRET" => Ok(Zeroizing::new("Bearer from-variable".to_owned())),
            _ => Err("names a variable that is not set".to_owned()),
        }
    }
}

/// The file's text, variables, and the shelf.
pub(super) fn layered(text: &str, pairs: &[(&str, &str)]) -> Result<Config, Mistakes> {
    let variables =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
    let file = Some(FileText { path: Path::new("etc/f.toml"), text });
    Config::parse(&Sources { file, variables: &variables, flags: &Flags::default(), outside: &Shelf })
}

fn store_of(config: &Config, name: &str) -> HttpStore {
    config.stores[&Namespace::parse(name).unwrap()].clone()
}

/// The store of `[namespaces.a]` with this inside of `store = { … }`.
fn store(inside: &str) -> HttpStore {
    store_of(&layered(&format!("[namespaces.a]\nstore = {{ {inside} }}"), &[]).unwrap(), "a")
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_address_and_a_class_are_a_store() {
    let text = "[namespaces.a]\nstore = { http = \"https://H.example/api\", class = \"fence_aware\" }";
    let config = parse(text).unwrap();
    let expected = HttpStore {
        base: "https://h.example/api/".to_owned(),
        class: Class::FenceAware,
        stamp: None,
        protocol: Protocol::Auto,
        timeout: Millis::new(5_000),
        connect_timeout: Millis::new(1_000),
        max_response_bytes: 1_048_576,
        refused: StatusSet::of(&REFUSED_STATUSES),
        forward_headers: names(&FORWARD_HEADERS),
        return_headers: names(&RETURN_HEADERS),
        key_header: "idempotency-key".to_owned(),
        status: None,
        key_retention: Millis::new(86_400_000),
        max_uncertain: None,
        version_header: "server".to_owned(),
        probe: true,
        ca_file: None,
        credentials: None,
    };
    assert_eq!(store_of(&config, "a"), expected);
    let rules = rules(&config, "a");
    assert_eq!(rules.upstream, Some(expected.rules()));
    assert_eq!((rules.definition.store, rules.max_body_bytes), (Store::Http(Class::FenceAware), 1_048_576));
    let shown = config.namespaces.base(&Namespace::parse("a").unwrap()).map(str::to_owned);
    assert_eq!(shown, Some(expected.base));
}

#[test]
fn every_key_of_a_conditional_store_is_read() {
    let read = store(
        "http = \"https://h:8443/\", class = \"conditional\", stamp = { header = \"X-Fencing-Stamp\" }, \
         protocol = \"http2\", timeout_ms = 1, connect_timeout_ms = 2, max_response_bytes = 67108864, \
         refused_statuses = [404, 499], forward_headers = [\"Accept\", \"X-Tenant\"], return_headers = [], \
         ca_file = \"roots.pem\", credentials = { header = \"Authorization\", file = \"secret\" }",
    );
    let stamp = Some(StampPlace::Header("x-fencing-stamp".to_owned()));
    assert_eq!((read.class, read.stamp, read.protocol), (Class::Conditional, stamp, Protocol::Http2));
    assert_eq!((read.timeout, read.connect_timeout), (Millis::new(1), Millis::new(2)));
    assert_eq!((read.max_response_bytes, read.refused), (67_108_864, StatusSet::of(&[404, 499])));
    assert_eq!((read.forward_headers, read.return_headers), (names(&["accept", "x-tenant"]), names(&[])));
    assert_eq!(read.ca_file, Some(PathBuf::from("etc/roots.pem")));
    let secret = Credentials { header: "authorization".to_owned(), secret: "Bearer from-file".to_owned() };
    assert_eq!(read.credentials, Some(secret));
}

#[test]
fn each_class_has_keys_of_its_own() {
    let read = store(
        "http = \"http://h/\", class = \"idempotent\", key_header = \"Payment-Key\", status = \"by-key/{key}\", \
         key_retention = \"7d\"",
    );
    assert_eq!((read.key_header.as_str(), read.status.as_deref()), ("payment-key", Some("by-key/{key}")));
    assert_eq!(read.key_retention, Millis::new(7 * 86_400_000));
    let read = store("http = \"http://h/\", class = \"serial\", max_uncertain_ms = 60000");
    assert_eq!(read.max_uncertain, Some(Millis::new(60_000)));
    // A probe that sends a request twice is only made where its owner asks for it.
    assert!(!store("http = \"http://h/\", class = \"idempotent\"").probe);
    assert!(store("http = \"http://h/\", class = \"idempotent\", probe = true").probe);
    assert!(!store("http = \"http://h/\", class = \"fence_aware\", probe = false").probe);
    assert!(!store("http = \"http://h/\", class = \"serial\"").probe);
    for (stamp, place) in [
        ("\"pointer\"", StampPlace::Pointer),
        ("{ json = \"/meta/_fencegate~1\" }", StampPlace::Json("/meta/_fencegate~1".to_owned())),
    ] {
        let read = store(&format!("http = \"http://h/\", class = \"conditional\", stamp = {stamp}"));
        assert_eq!(read.stamp, Some(place));
    }
}

#[test]
fn an_upstream_means_observed_unless_said_otherwise() {
    let contract = |more: &str| {
        let text = format!("[namespaces.a]\nstore = {{ http = \"http://h/\", class = \"serial\" }}\n{more}");
        rules(&parse(&text).unwrap(), "a").definition.contract
    };
    assert_eq!(contract(""), Contract::Observed);
    assert_eq!(contract("issuer = { external = \"registered\" }"), Contract::Observed);
    assert_eq!(contract("contract = \"immediate\""), Contract::Immediate);
}

#[test]
fn a_header_of_the_stores_own_is_not_in_the_usual_lists() {
    let read = store(
        "http = \"http://h/\", class = \"idempotent\", key_header = \"traceparent\", \
         credentials = { header = \"vary\", variable = \"STORE_SECRET\" }",
    );
    assert!(!read.forward_headers.iter().any(|name| name == "traceparent"));
    assert!(!read.return_headers.iter().any(|name| name == "vary"));
    assert_eq!(read.forward_headers.len() + 1, FORWARD_HEADERS.len());
}

#[test]
fn a_secret_is_never_shown() {
    let text = "[namespaces.a.store]\nhttp = \"http://h/\"\nclass = \"serial\"\n\
                credentials = { header = \"x-key\", variable = \"STORE_SECRET\" }";
    let config = layered(text, &[]).unwrap();
    let secret = store_of(&config, "a").credentials.map(|credentials| credentials.secret);
    assert_eq!(secret.as_deref(), Some("Bearer from-variable"));
    assert!(!format!("{config:?}").contains("from-variable"), "{config:?}");
}

#[test]
fn a_store_can_be_configured_by_variables_alone() {
    let pairs = [
        ("FENCEGATE_NAMESPACES__A__STORE__HTTP", "https://h/"),
        ("FENCEGATE_NAMESPACES__A__STORE__CLASS", "conditional"),
        ("FENCEGATE_NAMESPACES__A__STORE__STAMP__JSON", "/_fencegate"),
        ("FENCEGATE_NAMESPACES__A__STORE__PROTOCOL", "http1"),
        ("FENCEGATE_NAMESPACES__A__STORE__TIMEOUT_MS", "7"),
        ("FENCEGATE_NAMESPACES__A__STORE__CONNECT_TIMEOUT_MS", "8"),
        ("FENCEGATE_NAMESPACES__A__STORE__MAX_RESPONSE_BYTES", "9"),
        ("FENCEGATE_NAMESPACES__A__STORE__REFUSED_STATUSES", "[403]"),
        ("FENCEGATE_NAMESPACES__A__STORE__FORWARD_HEADERS", "[\"accept\"]"),
        ("FENCEGATE_NAMESPACES__A__STORE__RETURN_HEADERS", "[\"vary\"]"),
        ("FENCEGATE_NAMESPACES__A__STORE__CA_FILE", "etc/roots.pem"),
        ("FENCEGATE_NAMESPACES__A__STORE__CREDENTIALS__HEADER", "authorization"),
        ("FENCEGATE_NAMESPACES__A__STORE__CREDENTIALS__VARIABLE", "STORE_SECRET"),
        ("FENCEGATE_NAMESPACES__B__STORE", "{ http = \"https://i/\", class = \"idempotent\" }"),
        ("FENCEGATE_NAMESPACES__B__STORE__KEY_HEADER", "x-key"),
        ("FENCEGATE_NAMESPACES__B__STORE__STATUS", "s/{key}"),
        ("FENCEGATE_NAMESPACES__B__STORE__KEY_RETENTION", "2h"),
        ("FENCEGATE_NAMESPACES__C__STORE__HTTP", "https://j/"),
        ("FENCEGATE_NAMESPACES__C__STORE__CLASS", "serial"),
        ("FENCEGATE_NAMESPACES__C__STORE__MAX_UNCERTAIN_MS", "6001"),
    ];
    let config = layered("", &pairs).unwrap();
    let read = store_of(&config, "a");
    assert_eq!((read.timeout.get(), read.connect_timeout.get(), read.max_response_bytes), (7, 8, 9));
    assert_eq!((read.stamp, read.protocol), (Some(StampPlace::Json("/_fencegate".into())), Protocol::Http1));
    assert_eq!((read.forward_headers, read.return_headers), (names(&["accept"]), names(&["vary"])));
    assert_eq!((read.refused, read.ca_file.is_some()), (StatusSet::of(&[403]), true));
    assert_eq!(read.credentials.unwrap().secret, "Bearer from-variable");
    let read = store_of(&config, "b");
    assert_eq!((read.key_header.as_str(), read.status.as_deref()), ("x-key", Some("s/{key}")));
    assert_eq!(read.key_retention, Millis::new(7_200_000));
    assert_eq!(store_of(&config, "c").max_uncertain, Some(Millis::new(6_001)));
}

#[test]
fn a_whole_store_replaces_the_parts_of_the_file_and_a_part_only_itself() {
    let text = "[namespaces.a]\nstore = { http = \"https://h/\", class = \"serial\", timeout_ms = 9, \
                credentials = { header = \"authorization\", file = \"secret\" } }";
    let whole = ("FENCEGATE_NAMESPACES__A__STORE", "{ http = \"https://i/\", class = \"fence_aware\" }");
    let read = store_of(&layered(text, &[whole]).unwrap(), "a");
    assert_eq!((read.base.as_str(), read.timeout.get(), read.credentials), ("https://i/", 5_000, None));
    let word = layered(text, &[("FENCEGATE_NAMESPACES__A__STORE", "document")]).unwrap();
    assert!(word.stores.is_empty());
    let part = ("FENCEGATE_NAMESPACES__A__STORE__TIMEOUT_MS", "10");
    let other = ("FENCEGATE_NAMESPACES__A__STORE__CREDENTIALS__VARIABLE", "STORE_SECRET");
    let read = store_of(&layered(text, &[part, other]).unwrap(), "a");
    assert_eq!((read.base.as_str(), read.timeout.get()), ("https://h/", 10));
    assert_eq!(read.credentials.unwrap().secret, "Bearer from-variable");
}

#[test]
fn stores_beside_each_other_do_not_meet() {
    let text = "[namespaces.a]\nstore = { http = \"https://h/a\", class = \"serial\" }\n\
                [namespaces.b]\nstore = { http = \"https://h/ab\", class = \"serial\" }\n\
                [namespaces.c]\nstore = { http = \"https://h:8443/a\", class = \"serial\" }\n\
                [namespaces.\"*\"]";
    assert_eq!(layered(text, &[]).unwrap().stores.len(), 3);
}

/// A key that the page leaves out is one that nobody finds; a setting on it that is refused is worse.
#[test]
fn the_page_on_stores_names_every_key_and_its_settings_hold() {
    let page = include_str!("../../../docs/STORES.md");
    for key in super::super::keys::STORE.keys {
        assert!(page.contains(&format!("\n| `{key}` |")), "{key}");
    }
    for name in FORWARD_HEADERS.iter().chain(&RETURN_HEADERS) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    assert!(page.contains(&REFUSED_STATUSES.map(|status| status.to_string()).join(" ")));
    for bound in [
        limits::STORE_TIMEOUT_MS,
        limits::STORE_TIMEOUT_MS_GREATEST,
        limits::STORE_CONNECT_TIMEOUT_MS,
        limits::STORE_CONNECT_TIMEOUT_MS_GREATEST,
        limits::STORE_RESPONSE_BYTES,
        limits::STORE_RESPONSE_BYTES_GREATEST,
        limits::STORE_UNCERTAIN_MS_GREATEST,
        limits::STORE_SECRET_BYTES,
        limits::STORE_ROOTS_BYTES,
    ] {
        assert!(page.contains(&format!(" {bound} ")), "{bound}");
    }
    let settings = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let settings = settings.replace("ORDERS_AUTHORIZATION", "STORE_SECRET");
    assert_eq!(layered(&settings, &[]).unwrap().stores.len(), Class::ALL.len());
}
