//! Flags are above variables, variables above the file.

use std::path::Path;

use super::super::{Config, Database, FileText, Flags, KeySource, Mistakes, Nowhere, Sources, Variables};
use super::rules;
use crate::domain::policy::{Contract, Issuer, Policy};

const KEY: &str = "00000000:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn variables(pairs: &[(&str, &str)]) -> Variables {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
}

fn layered(text: &str, pairs: &[(&str, &str)], flags: &Flags) -> Result<Config, Mistakes> {
    let file = Some(FileText { path: Path::new("etc/f.toml"), text });
    Config::parse(&Sources { file, variables: &variables(pairs), flags, outside: &Nowhere })
}

fn with(text: &str, pairs: &[(&str, &str)]) -> Result<Config, Mistakes> {
    layered(text, pairs, &Flags::default())
}

/// The only mistake.
fn only(text: &str, pairs: &[(&str, &str)]) -> String {
    let mistakes = with(text, pairs).unwrap_err();
    assert_eq!(mistakes.len(), 1, "{mistakes}");
    mistakes.to_string()
}

#[test]
fn a_flag_is_above_a_variable_and_a_variable_above_the_file() {
    let text = "listen = \"127.0.0.1:1\"\ndatabase = \"sqlite://file.db\"\nmax_body_bytes = 1";
    let pairs = [("FENCEGATE_LISTEN", "127.0.0.1:2"), ("FENCEGATE_DATABASE", "sqlite://variable.db")];
    let flags = Flags { listen: Some("[::1]:3".to_owned()), ..Flags::default() };
    let config = layered(text, &pairs, &flags).unwrap();
    assert_eq!(config.listen, "[::1]:3".parse().unwrap());
    assert_eq!(config.database, Database::Sqlite("variable.db".into()));
    assert_eq!(config.max_body_bytes, 1);
}

#[test]
fn the_file_is_right_even_where_it_is_overwritten() {
    let told = only("listen = 1", &[("FENCEGATE_LISTEN", "127.0.0.1:2")]);
    assert!(told.starts_with("etc/f.toml:1:10"), "{told}");
}

#[test]
fn a_mistake_names_its_variable_or_flag() {
    let told = only("", &[("FENCEGATE_LISTEN", "localhost:8080")]);
    assert!(told.starts_with("variable FENCEGATE_LISTEN: listen: \"localhost:8080\" is not an IP"), "{told}");
    let flags = Flags { database: Some("postgres://h".to_owned()), ..Flags::default() };
    let told = layered("", &[], &flags).unwrap_err().to_string();
    assert!(told.starts_with("flag --database: database: names no database"), "{told}");
}

#[test]
fn a_value_may_be_bare_or_toml() {
    for value in ["memory", "\"memory\"", "'memory'"] {
        assert_eq!(with("", &[("FENCEGATE_DATABASE", value)]).unwrap().database, Database::Memory, "{value}");
    }
    assert_eq!(with("", &[("FENCEGATE_MAX_BODY_BYTES", "2_000")]).unwrap().max_body_bytes, 2000);
    // Text that reads as a number stays text.
    let config = with("", &[("FENCEGATE_SEAL_KEY_FILE", "123")]).unwrap();
    assert_eq!(config.seal_key, KeySource::File("123".into()));
    assert!(only("", &[("FENCEGATE_MAX_BODY_BYTES", "1M")]).contains("not the text \"1M\""));
    assert!(only("", &[("FENCEGATE_DATABASE", "\"memory")]).contains("not a TOML value"));
    assert!(only("", &[("FENCEGATE_DATABASE", "")]).contains("is empty"));
}

#[test]
fn a_value_that_is_not_utf8_is_a_mistake() {
    let variables = Variables::from([("FENCEGATE_LISTEN".to_owned(), None)]);
    let sources = Sources { file: None, variables: &variables, flags: &Flags::default(), outside: &Nowhere };
    assert!(Config::parse(&sources).unwrap_err().to_string().contains("is not UTF-8"));
}

#[test]
fn a_namespace_can_be_configured_by_variables_alone() {
    let pairs = [
        ("FENCEGATE_NAMESPACES__JOBS__CONTRACT", "immediate"),
        ("FENCEGATE_NAMESPACES__JOBS__ISSUER", "{ external = \"registered\" }"),
        ("FENCEGATE_NAMESPACES__JOBS__POLICY", "ordered"),
        ("FENCEGATE_NAMESPACES__JOBS__GAPLESS", "true"),
        ("FENCEGATE_NAMESPACES__JOBS__SCOPE", "2"),
        ("FENCEGATE_NAMESPACES__JOBS__LEASE__TTL_MS", "2000"),
        ("FENCEGATE_NAMESPACES__JOBS__LEASE", "{ min_ttl_ms = 500 }"),
    ];
    let config = with("", &pairs).unwrap();
    let rules = rules(&config, "jobs");
    assert_eq!(rules.definition.issuer, Issuer::Registered);
    assert_eq!(rules.definition.contract, Contract::Immediate);
    assert_eq!(rules.definition.policy, Policy::Ordered { gapless: true });
    assert_eq!(rules.definition.scope, 2);
    assert_eq!((rules.ttl.least.millis().get(), rules.ttl.default.millis().get()), (500, 2000));
    assert!(!config.namespaces.allows_any());
}

#[test]
fn a_variable_finds_the_namespace_of_the_file_whose_name_it_spells() {
    let text = "[namespaces.My-Jobs]\npolicy = \"single\"\n[namespaces.a__b]\n[namespaces.\"*\"]";
    let pairs = [
        ("FENCEGATE_NAMESPACES__MY_JOBS__POLICY", "session"),
        ("FENCEGATE_NAMESPACES__A__B__SCOPE", "3"),
        ("FENCEGATE_NAMESPACES__*__SCOPE", "4"),
    ];
    let config = with(text, &pairs).unwrap();
    assert_eq!(rules(&config, "My-Jobs").definition.policy, Policy::Session);
    assert_eq!(rules(&config, "a__b").definition.scope, 3);
    assert_eq!(rules(&config, "other").definition.scope, 4);
}

/// It stood on the page of settings and was taken for a variable of somebody else.
#[test]
fn the_number_of_connections_has_its_variable() {
    let pairs = [("FENCEGATE_DATABASE", "postgres://u@h/d"), ("FENCEGATE_MAX_CONNECTIONS", "3")];
    assert_eq!(with("", &pairs).unwrap().max_connections, 3);
}

#[test]
fn a_spelling_of_two_namespaces_is_refused() {
    let told = only("[namespaces.a-b]\n[namespaces.a_b]", &[("FENCEGATE_NAMESPACES__A_B__SCOPE", "1")]);
    assert!(told.contains("could mean each of `a-b`, `a_b`"), "{told}");
}

#[test]
fn a_whole_issuer_replaces_the_parts_of_the_file() {
    let text = "[namespaces.a]\nissuer = { external = \"trusted\", max_jump = 5 }";
    let config = with(text, &[("FENCEGATE_NAMESPACES__A__ISSUER", "gateway")]).unwrap();
    assert_eq!(rules(&config, "a").definition.issuer, Issuer::Gateway);
    let config = with(text, &[("FENCEGATE_NAMESPACES__A__ISSUER__MAX_JUMP", "6")]).unwrap();
    assert_eq!(rules(&config, "a").definition.issuer, Issuer::Trusted { max_jump: Some(6) });
}

/// Elsewhere an empty variable is a mistake; here it is how the witness is switched off.
#[test]
fn an_empty_witness_goes_without_one() {
    let witness = |pairs: &[(&str, &str)]| with("witness = \"w\"", pairs).unwrap().witness;
    assert_eq!(witness(&[]), Some("etc/w".into()));
    assert_eq!(witness(&[("FENCEGATE_WITNESS", "")]), None);
    assert_eq!(witness(&[("FENCEGATE_WITNESS", "/mnt/w")]), Some("/mnt/w".into()));
}

#[test]
fn a_slip_of_the_pen_in_a_variable_is_told() {
    assert!(only("", &[("FENCEGATE_LISTN", "x")]).contains("the nearest is `FENCEGATE_LISTEN`"));
    assert!(only("", &[("FENCEGATE_DATABSE", "x")]).contains("the nearest is `FENCEGATE_DATABASE`"));
    assert!(only("", &[("FENCEGATE_NAMESPACES__A__POLCY", "x")]).contains("the nearest is `POLICY`"));
    assert!(only("", &[("FENCEGATE_NAMESPACES_A_POLICY", "x")]).contains("NAMESPACES__NAME__KEY"));
    assert!(only("", &[("FENCEGATE_NAMESPACES__POLICY", "x")]).contains("NAMESPACES__NAME__KEY"));
    assert!(only("", &[("FENCEGATE_OPERATION_RETENTON", "x")]).contains("`FENCEGATE_OPERATION_RETENTION`"));
    assert!(only("", &[("FENCEGATE_WITNES", "x")]).contains("the nearest is `FENCEGATE_WITNESS`"));
}

#[test]
fn variables_of_others_are_left_alone() {
    let pairs = [
        ("FENCEGATE_SERVICE_HOST", "10.0.0.1"),
        ("FENCEGATE_PORT", "tcp://10.0.0.1:8080"),
        ("FENCEGATE_URL", "http://127.0.0.1:1"),
        ("OTHER", "x"),
    ];
    assert_eq!(with("", &pairs), with("", &[]));
}

#[test]
fn the_key_comes_from_one_place() {
    let inline = ("FENCEGATE_SEAL_KEY", KEY);
    let is_inline = |config: &Config| matches!(config.seal_key, KeySource::Inline(_));
    assert!(is_inline(&with("seal_key_file = \"k\"", &[inline]).unwrap()));
    assert!(only("", &[inline, ("FENCEGATE_SEAL_KEY_FILE", "k")]).contains("unset one of the two"));
    let flags = Flags { seal_key_file: Some("k".to_owned()), ..Flags::default() };
    assert_eq!(layered("", &[inline], &flags).unwrap().seal_key, KeySource::File("k".into()));
}

#[test]
fn a_damaged_key_is_told_without_the_key() {
    let told = only("", &[("FENCEGATE_SEAL_KEY", "00000000:hushhush")]);
    assert!(told.starts_with("variable FENCEGATE_SEAL_KEY: seal_key: "), "{told}");
    assert!(!told.contains("hush"), "{told}");
}
