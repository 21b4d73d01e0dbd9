//! `fencegate check`: what holds, or all that is wrong.

use std::path::Path;

use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{self, Output};
use super::{settings, table};
use crate::app;
use crate::config::{Config, Database, Flags, KeySource};
use crate::domain::namespaces::{NamespaceRules, Namespaces};
use crate::domain::resource::Namespace;
use crate::domain::store::{HttpStore, StampPlace};
use crate::domain::time::Millis;
use crate::domain::upstream::Class;

/// Checks the configuration and starts nothing.
pub(super) fn run(config: Option<&Path>, output: &Output) -> Result<(), Failure> {
    let settings = settings::load(config, &Flags::default())?;
    app::check(&settings.config).map_err(Failure::Start)?;
    let file = settings.file.map(|file| file.display().to_string());
    let json = as_json(file.as_deref(), &settings.config);
    output.answer(&output::json(&json), || told(file.as_deref(), &json))
}

fn as_json(file: Option<&str>, config: &Config) -> Value {
    let key = match &config.seal_key {
        KeySource::File(path) => path.display().to_string(),
        KeySource::Inline(_) => "FENCEGATE_SEAL_KEY".to_owned(),
    };
    let database = match &config.database {
        Database::Sqlite(path) => format!("sqlite://{}", path.display()),
        Database::Postgres(address) => address.to_string(),
        Database::Memory => "memory".to_owned(),
    };
    let named = config
        .namespaces
        .named()
        .map(|(name, rules)| namespace(name.as_str(), rules, config.stores.get(name)));
    let any = rules_of_others(&config.namespaces).map(|rules| namespace("*", rules, None));
    json!({
        "file": file,
        "listen": config.listen.to_string(),
        "database": database,
        "seal_key_from": key,
        "witness": config.witness.as_ref().map(|path| path.display().to_string()),
        "max_body_bytes": config.max_body_bytes,
        "operation_retention_ms": config.operation_retention.get(),
        "tracing": config.tracing.as_ref().map(|tracing| json!({
            "otlp_endpoint": tracing.endpoint,
            "sampled_per_million": tracing.per_million,
        })),
        "log": config.log,
        "drain_delay_ms": config.drain_delay.get(),
        "drain_timeout_ms": config.drain_timeout.get(),
        "namespaces": named.chain(any).collect::<Vec<_>>(),
    })
}

/// The rules of every name that is not configured: those of some such name.
fn rules_of_others(namespaces: &Namespaces) -> Option<&NamespaceRules> {
    let tries = namespaces.named().count().saturating_add(1);
    (1..=tries)
        .filter_map(|length| Namespace::parse(&"x".repeat(length)).ok())
        .find(|name| namespaces.named().all(|(other, _)| other != name))
        .and_then(|name| namespaces.rules(&name))
}

fn namespace(name: &str, rules: &NamespaceRules, upstream: Option<&HttpStore>) -> Value {
    let (ttl, store) = (rules.ttl, rules.definition.store);
    json!({
        "namespace": name,
        "store": store.word(),
        "class": store.class().map(Class::word),
        "guarantee": store.guarantee(),
        "upstream": upstream.map(as_upstream),
        "definition": rules.definition.to_string(),
        "max_body_bytes": rules.max_body_bytes,
        "lease": {
            "ttl_ms": ttl.default.millis().get(),
            "min_ttl_ms": ttl.least.millis().get(),
            "max_ttl_ms": ttl.greatest.millis().get(),
            "lock_delay_ms": rules.lock_delay.get(),
            "max_hold_ms": rules.max_hold.unwrap_or_default().get(),
            "order": rules.order.word(),
        },
    })
}

/// An upstream as it holds, defaults included. Of its credentials the header alone is shown.
fn as_upstream(store: &HttpStore) -> Value {
    let stamp = store.stamp.as_ref().map(|stamp| match stamp {
        StampPlace::Header(name) => json!({ "header": name }),
        StampPlace::Json(pointer) => json!({ "json": pointer }),
        StampPlace::Pointer => json!("pointer"),
    });
    let is_idempotent = store.class == Class::Idempotent;
    json!({
        "base": store.base,
        "stamp": stamp,
        "protocol": store.protocol.word(),
        "timeout_ms": store.timeout.get(),
        "connect_timeout_ms": store.connect_timeout.get(),
        "max_response_bytes": store.max_response_bytes,
        "refused_statuses": store.refused.iter().collect::<Vec<_>>(),
        "forward_headers": store.forward_headers,
        "return_headers": store.return_headers,
        "key_header": is_idempotent.then_some(&store.key_header),
        "status": store.status,
        "key_retention_ms": is_idempotent.then_some(store.key_retention.get()),
        "max_uncertain_ms": store.max_uncertain.map(Millis::get),
        "probe": store.probe,
        "version_header": store.version_header,
        "ca_file": store.ca_file,
        "credentials": store.credentials.as_ref().map(|credentials| &credentials.header),
    })
}

fn told(file: Option<&str>, json: &Value) -> String {
    let heading = file.map_or_else(
        || "no configuration file; defaults and variables".to_owned(),
        |file| table::clean(&format!("{file}: no mistakes")),
    );
    let facts = table::facts(
        json,
        &[
            ("listen", "/listen"),
            ("database", "/database"),
            ("seal key from", "/seal_key_from"),
            ("witness", "/witness"),
            ("largest body", "/max_body_bytes"),
            ("records kept ms", "/operation_retention_ms"),
            ("spans go to", "/tracing/otlp_endpoint"),
            ("sampled per million", "/tracing/sampled_per_million"),
            ("log", "/log"),
            ("drain delay ms", "/drain_delay_ms"),
            ("drain timeout ms", "/drain_timeout_ms"),
        ],
    );
    let namespaces =
        json.pointer("/namespaces").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rows = table::rows(
        namespaces,
        &[
            ("namespace", "/namespace"),
            ("store", "/store"),
            ("class", "/class"),
            ("guarantee", "/guarantee"),
            ("address", "/upstream/base"),
            ("definition", "/definition"),
            ("largest body", "/max_body_bytes"),
            ("ttl ms", "/lease/ttl_ms"),
            ("from", "/lease/min_ttl_ms"),
            ("to", "/lease/max_ttl_ms"),
            ("lock delay ms", "/lease/lock_delay_ms"),
            ("longest hold ms", "/lease/max_hold_ms"),
            ("order", "/lease/order"),
        ],
    );
    format!("{heading}\n{facts}\n\n{rows}")
}
