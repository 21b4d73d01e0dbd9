//! Configurations: any text is read or told what is wrong with it, at a place that is there, and no secret is repeated.

use std::path::Path;

use fencegate::config::{Config, FileText, Flags, Outside, Place, Sources, Variables};
use zeroize::Zeroizing;

use super::{Met, Target, cut, text};

pub(super) const TARGET: Target = Target {
    name: "config",
    run,
    longest: 2_000,
    words: &[
        "listen = \"127.0.0.1:8080\"",
        "database = \"sqlite://x.db\"",
        "database = \"postgres://u@h/d\"",
        "database = \"memory\"",
        "[namespaces.a]",
        "[namespaces.\"*\"]",
        "policy = \"single\"",
        "policy = \"ordered\"",
        "contract = \"immediate\"",
        "issuer = { external = \"trusted\" }",
        "store = { http = \"http://h/b/\", class = \"conditional\", stamp = { header = \"x-s\" } }",
        "class = \"serial\"",
        "stamp = { json = \"/_f\" }",
        "lease = { ttl_ms = 1000 }",
        "quota = { resources = 1 }",
        "[principals.w]",
        "permissions = { \"jobs\" = [\"read\"] }",
        "jwt_roles = [\"r\"]",
        "keys = [{ id = \"070707070707\", sha256 = \"",
        "[jwt]",
        "issuer = \"https://i\"",
        "audience = \"g\"",
        "jwks_file = \"k\"",
        "[tls]",
        "cert_file = \"c\"",
        "[limits]",
        "[tracing]",
        "scope = 1",
        "max_body_bytes = 1",
        "operation_retention = \"30d\"",
        "\0FENCEGATE_LISTEN=127.0.0.1:1",
        "\0FENCEGATE_NAMESPACES__A__POLICY=single",
        "\0FENCEGATE_SEAL_KEY=",
        "'''",
        "\"\"\"",
        "[[",
        "]]",
        "{",
        "}",
        "#",
        "=",
        "\u{feff}",
        "é",
        "\r\n",
        "1979-05-27T07:32:00Z",
        "0x1f",
        "inf",
        "-1",
        "9223372036854775807",
        "10000000000000000y",
    ],
    meets: &["config read", "config refused", "variables", "several mistakes", "stores", "principals"],
};

/// Files with a secret and nothing else.
struct Secrets;

const SECRET: &str = "hunter2-hunter2-hunter2";

impl Outside for Secrets {
    fn file(&self, _: &Path, _: u64) -> Result<Zeroizing<Vec<u8>>, String> {
        Ok(Zeroizing::new(SECRET.as_bytes().to_vec()))
    }

    fn variable(&self, _: &str) -> Result<Zeroizing<String>, String> {
        Ok(Zeroizing::new(SECRET.to_owned()))
    }
}

/// The file, and after each NUL a variable.
fn run(data: &[u8], met: &mut Met) {
    let (file, mut rest) = cut(data, 0);
    let Some(file) = text(file) else { return met.note("no text") };
    let mut variables = Variables::new();
    while !rest.is_empty() {
        let (variable, behind) = cut(rest, 0);
        rest = behind;
        let (name, value) = cut(variable, b'=');
        let Some(name) = text(name).filter(|name| name.starts_with("FENCEGATE_")) else { continue };
        variables.insert(name.to_owned(), text(value).map(str::to_owned));
        met.note("variables");
    }
    let sources = Sources {
        file: Some(FileText { path: Path::new("f.toml"), text: file }),
        variables: &variables,
        flags: &Flags::default(),
        outside: &Secrets,
    };
    let config = Config::parse(&sources);
    met.read("config", &config);
    match &config {
        Ok(config) => sound(config, met),
        Err(mistakes) => {
            assert!(mistakes.iter().next().is_some(), "refused, and nothing is told");
            if mistakes.iter().nth(1).is_some() {
                met.note("several mistakes");
            }
            for mistake in mistakes.iter() {
                assert!(!mistake.problem.is_empty() && !mistake.to_string().contains(SECRET), "{mistake}");
                if let Place::File { line, column, .. } = &mistake.place {
                    let lines = file.split('\n').count();
                    assert!((1..=lines).contains(line) && *column >= 1, "{mistake}: there are {lines} lines");
                    let there = file.split('\n').nth(line - 1).unwrap_or_default();
                    assert!(*column <= there.chars().count() + 1, "{mistake}: {there:?}");
                }
            }
        }
    }
    assert_eq!(Config::parse(&sources), config, "the same twice");
    assert!(!format!("{config:?}").contains(SECRET), "a secret is printed");
}

/// What the parts of a configuration that was read promise each other.
fn sound(config: &Config, met: &mut Met) {
    for (name, rules) in config.namespaces.named() {
        assert_eq!(rules.definition.check(), Ok(()), "{name}");
        let class = rules.definition.store.class();
        assert_eq!(class, config.stores.get(name).map(|store| store.class), "{name}");
        assert_eq!(
            rules.definition.to_string().parse(),
            Ok(rules.definition),
            "{name} reads back from its row"
        );
        assert!(rules.ttl.least <= rules.ttl.default && rules.ttl.default <= rules.ttl.greatest, "{name}");
    }
    for (name, store) in &config.stores {
        met.note("stores");
        assert!(store.base.ends_with('/') && store.base.starts_with("http"), "{name}: {}", store.base);
        let below = format!("{}a", store.base);
        assert!(
            url::Url::parse(&below).is_ok_and(|url| url.query().is_none() && url.fragment().is_none()),
            "{name}"
        );
        assert!(
            fencegate::backing::Upstream::open(store.clone()).is_ok() || store.ca_file.is_some(),
            "{name}: {}",
            store.base
        );
    }
    for principal in &config.principals {
        met.note("principals");
        assert!(!principal.name.as_str().is_empty());
    }
    let beyond = !config.listen.ip().is_loopback();
    assert!(!beyond || !config.principals.is_empty(), "everybody may do everything, from everywhere");
}
