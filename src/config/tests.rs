//! What a configuration means, and what is told of a wrong one.

mod doors;
mod layers;
mod limits;
mod mistakes;
mod store_mistakes;
mod stores;
mod tracing;

use std::collections::BTreeMap;
use std::path::Path;

use super::{Config, Database, FileText, Flags, KeySource, Limits, Mistakes, Nowhere, Sources, Variables};
use crate::domain::namespaces::{NamespaceRules, Namespaces};
use crate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use crate::domain::resource::Namespace;
use crate::domain::time::Millis;

/// A file `etc/f.toml` with this text, and nothing else.
fn parse(text: &str) -> Result<Config, Mistakes> {
    Config::parse(&Sources {
        file: Some(FileText { path: Path::new("etc/f.toml"), text }),
        variables: &Variables::new(),
        flags: &Flags::default(),
        outside: &Nowhere,
    })
}

fn rules(config: &Config, name: &str) -> NamespaceRules {
    *config.namespaces.rules(&Namespace::parse(name).unwrap()).unwrap()
}

/// The rules of namespace `a` that this body of `[namespaces.a]` gives.
fn rules_of(body: &str) -> NamespaceRules {
    rules(&parse(&format!("[namespaces.a]\n{body}")).unwrap(), "a")
}

#[test]
fn no_file_at_all_is_a_working_gateway() {
    let sources =
        Sources { file: None, variables: &Variables::new(), flags: &Flags::default(), outside: &Nowhere };
    assert_eq!(
        Config::parse(&sources).unwrap(),
        Config {
            listen: "127.0.0.1:8080".parse().unwrap(),
            database: Database::Sqlite("fencegate.db".into()),
            max_connections: 8,
            seal_key: KeySource::File("fencegate.key".into()),
            witness: Some("fencegate.witness".into()),
            max_body_bytes: 1_048_576,
            tracing: None,
            operation_retention: Millis::new(30 * 86_400_000),
            log: "info".to_owned(),
            drain_delay: Millis::new(0),
            drain_timeout: Millis::new(25_000),
            namespaces: Namespaces::default(),
            stores: BTreeMap::new(),
            limits: Limits::default(),
            principals: Vec::new(),
            jwt: None,
            tls: None,
            plaintext: false,
        }
    );
}

#[test]
fn relative_paths_of_a_file_and_its_defaults_are_relative_to_the_file() {
    let config = parse("database = \"sqlite://data/x.db\"\nseal_key_file = \"/run/key\"").unwrap();
    assert_eq!(config.database, Database::Sqlite("etc/data/x.db".into()));
    assert_eq!(config.seal_key, KeySource::File("/run/key".into()));
    let config = parse("").unwrap();
    assert_eq!(config.database, Database::Sqlite("etc/fencegate.db".into()));
    assert_eq!(config.seal_key, KeySource::File("etc/fencegate.key".into()));
}

#[test]
fn the_witness_stands_beside_the_database_or_where_it_is_told_to() {
    let witness = |text: &str| parse(text).unwrap().witness;
    assert_eq!(witness(""), Some("etc/fencegate.witness".into()));
    assert_eq!(witness("database = \"sqlite://data/x.db\""), Some("etc/data/x.witness".into()));
    assert_eq!(witness("database = \"sqlite://x.witness\""), Some("etc/x.witness.witness".into()));
    assert_eq!(witness("database = \"postgres://u@h/d\""), Some("etc/fencegate.witness".into()));
    assert_eq!(witness("witness = \"/mnt/other/w\""), Some("/mnt/other/w".into()));
    assert_eq!(witness("witness = \"\""), None);
    assert_eq!(witness("database = \"memory\""), None);
    assert!(parse("database = \"memory\"\nwitness = \"w\"").is_err());
    assert_eq!(parse("database = \"memory\"\nwitness = \"\"").unwrap().witness, None);
}

#[test]
fn an_absolute_database_path_has_three_slashes() {
    assert_eq!(
        parse("database = \"sqlite:///var/x.db\"").unwrap().database,
        Database::Sqlite("/var/x.db".into())
    );
    assert_eq!(parse("database = \"memory\"").unwrap().database, Database::Memory);
}

#[test]
fn a_file_without_namespaces_allows_any_with_its_own_body_limit() {
    let config = parse("max_body_bytes = 5").unwrap();
    assert!(config.namespaces.allows_any());
    assert_eq!(rules(&config, "whatever").max_body_bytes, 5);
    assert_eq!(rules(&config, "whatever").definition, Definition::default());
}

#[test]
fn one_configured_namespace_closes_all_others() {
    let config = parse("[namespaces.statements]").unwrap();
    assert!(!config.namespaces.allows_any());
    assert!(config.namespaces.rules(&Namespace::parse("other").unwrap()).is_none());
    assert_eq!(rules(&config, "statements"), NamespaceRules::default());
}

#[test]
fn the_star_keeps_them_open() {
    let config = parse("[namespaces.a]\n[namespaces.\"*\"]\npolicy = \"session\"").unwrap();
    assert!(config.namespaces.allows_any());
    assert_eq!(rules(&config, "a").definition.policy, Policy::Single);
    assert_eq!(rules(&config, "b").definition.policy, Policy::Session);
    assert_eq!(config.namespaces.named().count(), 1);
}

#[test]
fn every_key_of_a_namespace_is_read() {
    let rules = rules_of(
        "store = \"document\"\npolicy = \"ordered\"\ngapless = true\ncontract = \"lease_bound\"\nissuer = \"gateway\"\n\
         scope = 64\nmax_body_bytes = 7\nlease = { ttl_ms = 20, min_ttl_ms = 10, max_ttl_ms = 30 }",
    );
    assert_eq!(
        rules.definition,
        Definition {
            policy: Policy::Ordered { gapless: true },
            contract: Contract::LeaseBound,
            issuer: Issuer::Gateway,
            store: Store::Document,
            scope: 64,
        }
    );
    assert_eq!(rules.max_body_bytes, 7);
    let ttl = rules.ttl;
    assert_eq!([ttl.least, ttl.default, ttl.greatest].map(|ttl| ttl.millis().get()), [10, 20, 30]);
}

#[test]
fn an_external_issuer_means_observed_unless_said_otherwise() {
    assert_eq!(rules_of("issuer = \"gateway\"").definition.contract, Contract::Immediate);
    let trusted = rules_of("issuer = { external = \"trusted\" }").definition;
    assert_eq!((trusted.issuer, trusted.contract), (Issuer::Trusted { max_jump: None }, Contract::Observed));
    let registered = rules_of("issuer = { external = \"registered\" }\ncontract = \"immediate\"").definition;
    assert_eq!((registered.issuer, registered.contract), (Issuer::Registered, Contract::Immediate));
    let bounded = rules_of("issuer = { external = \"trusted\", max_jump = 9223372036854775807 }").definition;
    assert_eq!(bounded.issuer, Issuer::Trusted { max_jump: Some(9_223_372_036_854_775_807) });
}

#[test]
fn tables_may_be_written_in_every_way_that_toml_knows() {
    let ways = [
        "namespaces.a.lease.ttl_ms = 2000",
        "[namespaces]\na = { lease = { ttl_ms = 2000 } }",
        "[namespaces.a.lease]\nttl_ms = 2000",
        "[namespaces.\"a\"]\nlease.ttl_ms = 2_000",
    ];
    for way in ways {
        assert_eq!(rules(&parse(way).unwrap(), "a").ttl.default.millis().get(), 2000, "{way}");
    }
}

#[test]
fn the_loopback_is_known_in_all_its_forms() {
    for address in ["127.0.0.1:0", "127.9.9.9:80", "[::1]:8080", "[::ffff:127.0.0.1]:1"] {
        assert!(parse(&format!("listen = \"{address}\"")).is_ok(), "{address}");
    }
    for address in ["0.0.0.0:80", "[::]:80", "192.168.0.1:80", "[::ffff:10.0.0.1]:80", "128.0.0.1:1"] {
        let told = parse(&format!("listen = \"{address}\"")).unwrap_err().to_string();
        assert!(told.contains("no credentials"), "{told}");
        // Credentials that cross a network unprotected are everybody's, unless somebody says that something else protects them.
        let keyed = |more: &str| {
            let principal = "[principals.a]\npermissions = { \"*\" = [\"read\"] }";
            parse(&format!("listen = \"{address}\"\n{more}\n{principal}"))
        };
        let told = keyed("").unwrap_err().to_string();
        assert!(told.contains("configure [tls]") && told.contains("plaintext = true"), "{told}");
        assert!(keyed("plaintext = false").is_err() && keyed("plaintext = true").is_ok(), "{address}");
        let tls = "tls = { cert_file = \"c\", key_file = \"k\" }";
        assert!(keyed(tls).is_ok(), "{address}");
        assert!(keyed(&format!("{tls}\nplaintext = true")).is_err(), "{address}");
    }
}

#[test]
fn a_printed_configuration_shows_no_key() {
    let secret = "00000000:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let variables = Variables::from([("FENCEGATE_SEAL_KEY".to_owned(), Some(secret.to_owned()))]);
    let sources = Sources { file: None, variables: &variables, flags: &Flags::default(), outside: &Nowhere };
    let config = Config::parse(&sources).unwrap();
    assert!(matches!(&config.seal_key, KeySource::Inline(text) if text.as_str() == secret));
    assert!(!format!("{config:?}").contains("AAAA"), "{config:?}");
}

#[test]
fn a_postgresql_database_may_have_several_hosts_and_a_bound_of_connections() {
    let config = parse("database = \"postgres://u:pw@a,b:5433/d\"\nmax_connections = 3").unwrap();
    let Database::Postgres(address) = &config.database else { panic!("{:?}", config.database) };
    assert_eq!(address.urls().len(), 2);
    assert_eq!(config.max_connections, 3);
    assert!(!format!("{config:?}").contains("pw"), "a password is shown");
    assert!(parse("database = \"postgres://u@a/d\"\nmax_connections = 1").is_err());
    let told = parse("max_connections = 3").unwrap_err().to_string();
    assert!(told.contains("goes with database = \"postgres://…\" alone"), "{told}");
}

#[test]
fn records_are_kept_for_a_span_with_a_unit_and_a_range() {
    // Broken: records are pruned after 30 milliseconds where 30 days were meant. Must hold: a span has a unit, lies in its
    // range, and may come from a variable.
    let kept = |text: &str| parse(&format!("operation_retention = {text}")).map(|it| it.operation_retention);
    for (text, ms) in [("\"1h\"", 3_600_000), ("\"7d\"", 7 * 86_400_000), ("\"3650d\"", 3_650 * 86_400_000)] {
        assert_eq!(kept(text).unwrap(), Millis::new(ms), "{text}");
    }
    for (text, problem) in [
        ("30", "wants text in quotes"),
        ("\"30\"", "is not a span of time"),
        ("\"59min\"", "allowed is 1h to 3650d"),
        ("\"3651d\"", "allowed is 1h to 3650d"),
    ] {
        let told = kept(text).unwrap_err().to_string();
        assert!(told.contains("operation_retention") && told.contains(problem), "{told}");
    }
    let variables: Variables = [("FENCEGATE_OPERATION_RETENTION".to_owned(), Some("48h".to_owned()))].into();
    let (flags, file) = (Flags::default(), None);
    let sources = Sources { file, variables: &variables, flags: &flags, outside: &Nowhere };
    assert_eq!(Config::parse(&sources).unwrap().operation_retention, Millis::new(2 * 86_400_000));
}
