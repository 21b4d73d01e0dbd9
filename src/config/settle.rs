//! From what was said to what holds: defaults, and whether the settings fit together.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use toml_edit::Key;

use super::draft::{Draft, IssuerWord, NamespaceDraft, PolicyWord};
use super::given::{Found, Slot};
use super::mistake::{Mistakes, Place};
use super::outside::Outside;
use super::store::{self, Around, Settled};
use super::{Config, DEFAULT_PORT, Database, KeySource};
use crate::domain::lease::{Ttl, TtlBounds, WaitOrder};
use crate::domain::namespaces::{DEFAULT_MAX_BODY_BYTES, NamespaceRules, Namespaces};
use crate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use crate::domain::resource::Namespace;
use crate::domain::store::HttpStore;
use crate::domain::time::Millis;
use crate::limits::{
    DRAIN_DELAY_MS, DRAIN_TIMEOUT, LOG_FILTER, OPERATION_RETENTION_MS, POSTGRES_CONNECTIONS,
};

/// The configuration that a draft without mistakes means. `base` is the folder of the file, or of the process.
pub(super) fn settle(draft: &Draft, base: &Path, outside: &dyn Outside, mistakes: &mut Mistakes) -> Config {
    let max_body_bytes = draft.max_body_bytes.or(DEFAULT_MAX_BODY_BYTES);
    let (namespaces, stores) = settle_namespaces(&draft.namespaces, max_body_bytes, outside, mistakes);
    let principals = draft.principals.settle();
    let listen = listen(draft, principals.is_empty(), mistakes);
    draft.principals.check(&draft.jwt, &draft.tls, mistakes);
    let (jwt, tls) = (draft.jwt.settle(principals.is_empty(), mistakes), draft.tls.settle(mistakes));
    let database = draft.database.found().map(|found| found.value.clone());
    let database = database.unwrap_or_else(|| Database::Sqlite(base.join("fencegate.db")));
    Config {
        listen,
        max_connections: max_connections(draft, &database, mistakes),
        witness: witness(draft, base, &database, mistakes),
        database,
        seal_key: seal_key(draft, base, mistakes),
        max_body_bytes,
        operation_retention: draft.operation_retention.or(Millis::new(OPERATION_RETENTION_MS)),
        tracing: draft.tracing.settle(mistakes),
        log: draft.log.found().map_or_else(|| LOG_FILTER.to_owned(), |found| found.value.clone()),
        drain_delay: draft.drain_delay.or(drain_delay(&listen)),
        drain_timeout: draft.drain_timeout.or(Millis::of(DRAIN_TIMEOUT)),
        namespaces,
        stores,
        limits: draft.limits.settle(mistakes),
        principals,
        jwt,
        tls,
        plaintext: draft.plaintext.or(false),
    }
}

/// Where no credentials are asked for, whoever reaches the listener may write everything.
fn listen(draft: &Draft, is_open: bool, mistakes: &mut Mistakes) -> SocketAddr {
    let preset = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT);
    let Some(found) = draft.listen.found() else { return preset };
    let address = found.value;
    let is_public = !address.ip().to_canonical().is_loopback();
    if let (true, Some(Found { value: true, place })) = (draft.tls.is_spoken_of(), draft.plaintext.found()) {
        mistakes.note(place, "plaintext", "[tls] is there too; leave one of the two out");
    }
    if is_public && !is_open && !draft.tls.is_spoken_of() && !draft.plaintext.or(false) {
        let problem = format!(
            "{address} is reachable from other machines, and credentials would cross the network so that everybody on the way can \
             read them; configure [tls] with cert_file and key_file, or write plaintext = true where something in front of the \
             gateway speaks TLS"
        );
        mistakes.note(&found.place, "listen", problem);
    }
    if is_open && is_public {
        let problem = format!(
            "{address} is reachable from other machines, and no credentials are configured; configure [principals.NAME] with \
             keys (`fencegate key create` makes one), or listen on loopback, such as 127.0.0.1:{}",
            address.port()
        );
        mistakes.note(&found.place, "listen", problem);
    }
    address
}

/// On loopback nobody has to be told that it stops; elsewhere whoever sends requests here needs a moment to look.
fn drain_delay(listen: &SocketAddr) -> Millis {
    Millis::new(if listen.ip().is_loopback() { 0 } else { DRAIN_DELAY_MS })
}

fn max_connections(draft: &Draft, database: &Database, mistakes: &mut Mistakes) -> u32 {
    if let (Database::Sqlite(_) | Database::Memory, Some(found), false) =
        (database, draft.max_connections.found(), draft.database.is_mistaken())
    {
        let problem = "counts connections to PostgreSQL: it goes with database = \"postgres://…\" alone";
        mistakes.note(&found.place, "max_connections", problem);
    }
    draft.max_connections.or(POSTGRES_CONNECTIONS)
}

/// Beside the database's file where it has one: two gateways in one folder have two.
fn witness(draft: &Draft, base: &Path, database: &Database, mistakes: &mut Mistakes) -> Option<PathBuf> {
    match (draft.witness.found(), database) {
        (Some(Found { value: Some(_), place }), Database::Memory) => {
            let problem =
                "there is nothing to be witnessed of database = \"memory\"; leave one of the two out";
            mistakes.note(place, "witness", problem);
            None
        }
        (_, Database::Memory) => None,
        (Some(found), Database::Sqlite(_) | Database::Postgres(_)) => found.value.clone(),
        (None, Database::Sqlite(path)) => Some(path.with_extension("witness"))
            .filter(|witness| witness != path)
            .or_else(|| Some(path.with_extension("witness.witness"))),
        (None, Database::Postgres(_)) => Some(base.join("fencegate.witness")),
    }
}

fn seal_key(draft: &Draft, base: &Path, mistakes: &mut Mistakes) -> KeySource {
    match (draft.seal_key.found(), draft.seal_key_file.found()) {
        (None, None) => KeySource::File(base.join("fencegate.key")),
        (None, Some(file)) => KeySource::File(file.value.clone()),
        (Some(keys), None) => KeySource::Inline(keys.value.clone()),
        (Some(keys), Some(file)) => match &file.place {
            // A flag is above a variable, a variable above the file.
            Place::Flag { .. } => KeySource::File(file.value.clone()),
            Place::File { .. } => KeySource::Inline(keys.value.clone()),
            Place::Variable { .. } => {
                let problem = "FENCEGATE_SEAL_KEY is set too; unset one of the two";
                mistakes.note(&file.place, "seal_key_file", problem);
                KeySource::Inline(keys.value.clone())
            }
        },
    }
}

/// As soon as one namespace is configured the others do not exist, unless `"*"` is configured too.
fn settle_namespaces(
    drafts: &BTreeMap<Option<Namespace>, NamespaceDraft>,
    max_body_bytes: u64,
    outside: &dyn Outside,
    mistakes: &mut Mistakes,
) -> (Namespaces, BTreeMap<Namespace, HttpStore>) {
    let (mut named, mut any, mut stores) = (BTreeMap::new(), None, BTreeMap::new());
    if drafts.is_empty() {
        any = Some(NamespaceRules { max_body_bytes, ..NamespaceRules::default() });
    }
    for (name, draft) in drafts {
        let shown = Key::new(name.as_ref().map_or("*", |name| name.as_str()));
        let key = format!("namespaces.{}", shown.display_repr());
        let around = Around { key: &key, is_star: name.is_none(), scope: &draft.scope };
        let store = store::settle(&draft.store, &around, outside, mistakes);
        let rules = rules(&key, draft, &store, max_body_bytes, mistakes);
        let Some(name) = name else {
            any = Some(rules);
            continue;
        };
        named.insert(name.clone(), rules);
        if let Settled::Http(store) = store {
            stores.insert(name.clone(), *store);
        }
    }
    let bases: Vec<_> =
        drafts.iter().filter_map(|(name, draft)| Some((name.as_ref()?, draft.store.base()?))).collect();
    store::refuse_shared(&bases, mistakes);
    let addresses = stores.iter().map(|(name, store)| (name.clone(), store.base.clone())).collect();
    (Namespaces::new(named, any).with_bases(addresses), stores)
}

fn rules(
    key: &str,
    draft: &NamespaceDraft,
    store: &Settled,
    max_body_bytes: u64,
    mistakes: &mut Mistakes,
) -> NamespaceRules {
    let ttl = ttl(key, draft, mistakes);
    NamespaceRules {
        definition: definition(key, draft, store, mistakes),
        ttl,
        lock_delay: Millis::new(draft.lock_delay_ms.or(0)),
        max_hold: max_hold(key, draft, &ttl, mistakes),
        order: draft.order.or(WaitOrder::Race),
        max_body_bytes: draft.max_body_bytes.or(max_body_bytes),
        quota: draft.quota.settle(),
        upstream: match store {
            Settled::Http(store) => Some(store.rules()),
            Settled::Document | Settled::Mistaken => None,
        },
    }
}

fn definition(key: &str, draft: &NamespaceDraft, store: &Settled, mistakes: &mut Mistakes) -> Definition {
    let issuer = issuer(key, draft, mistakes);
    let store = match store {
        Settled::Http(store) => Store::Http(store.class),
        Settled::Document | Settled::Mistaken => Store::Document,
    };
    let definition = Definition {
        policy: policy(key, draft, mistakes),
        contract: draft.contract.or(Contract::default_of(issuer, store)),
        issuer,
        store,
        scope: draft.scope.or(0),
    };
    if draft.issuer.is_mistaken() || draft.contract.is_mistaken() {
        return definition;
    }
    if let Err(error) = definition.check() {
        let at = place_of(&draft.contract).or_else(|| place_of(&draft.issuer)).unwrap_or(&draft.place);
        mistakes.note(at, &format!("{key}.contract"), error.to_string());
    }
    definition
}

fn policy(key: &str, draft: &NamespaceDraft, mistakes: &mut Mistakes) -> Policy {
    let gapless = draft.gapless.or(false);
    match (draft.policy.or(PolicyWord::Single), draft.gapless.found()) {
        (PolicyWord::Ordered, _) => Policy::Ordered { gapless },
        (PolicyWord::Single | PolicyWord::Session, Some(Found { value: true, place }))
            if !draft.policy.is_mistaken() =>
        {
            let problem = "only sequences can have gaps: it goes with policy = \"ordered\" alone";
            mistakes.note(place, &format!("{key}.gapless"), problem);
            Policy::Single
        }
        (PolicyWord::Single, _) => Policy::Single,
        (PolicyWord::Session, _) => Policy::Session,
    }
}

fn issuer(key: &str, draft: &NamespaceDraft, mistakes: &mut Mistakes) -> Issuer {
    let max_jump = draft.max_jump.found();
    let unbounded = match draft.issuer.or(IssuerWord::Gateway) {
        IssuerWord::Trusted => return Issuer::Trusted { max_jump: max_jump.map(|found| found.value) },
        IssuerWord::Registered => Issuer::Registered,
        IssuerWord::Gateway => Issuer::Gateway,
    };
    if let (Some(found), false) = (max_jump, draft.issuer.is_mistaken()) {
        let problem = "bounds how far a write may raise the floor: it goes with external = \"trusted\" alone";
        mistakes.note(&found.place, &format!("{key}.issuer.max_jump"), problem);
    }
    unbounded
}

fn ttl(key: &str, draft: &NamespaceDraft, mistakes: &mut Mistakes) -> TtlBounds {
    let preset = TtlBounds::default();
    let default = draft.ttl_ms.or(preset.default.millis().get());
    let least = draft.min_ttl_ms.or(preset.least.millis().get());
    let greatest = draft.max_ttl_ms.or(preset.greatest.millis().get());
    let mut ascending = |low: (&str, u64, &Slot<u64>), high: (&str, u64, &Slot<u64>)| {
        if low.1 <= high.1 || low.2.is_mistaken() || high.2.is_mistaken() {
            return;
        }
        let at = place_of(high.2).or_else(|| place_of(low.2)).unwrap_or(&draft.place);
        let problem = format!(
            "{} is {}{}, above {}, which is {}{}",
            low.0,
            low.1,
            preset_mark(low.2),
            high.0,
            high.1,
            preset_mark(high.2)
        );
        mistakes.note(at, &format!("{key}.lease"), problem);
    };
    let (ttl, min) = (("ttl_ms", default, &draft.ttl_ms), ("min_ttl_ms", least, &draft.min_ttl_ms));
    let max = ("max_ttl_ms", greatest, &draft.max_ttl_ms);
    ascending(min, max);
    ascending(min, ttl);
    ascending(ttl, max);
    if min.1 <= ttl.1 && ttl.1 <= max.1 {
        return TtlBounds {
            default: Ttl::from_ms(default),
            least: Ttl::from_ms(least),
            greatest: Ttl::from_ms(greatest),
        };
    }
    preset
}

/// Zero is no bound. One below the ttl that an acquire gets would refuse every plain acquire.
fn max_hold(key: &str, draft: &NamespaceDraft, ttl: &TtlBounds, mistakes: &mut Mistakes) -> Option<Millis> {
    let found = draft.max_hold_ms.found().filter(|found| found.value > 0)?;
    let default = ttl.default.millis().get();
    if found.value < default {
        let problem = format!(
            "max_hold_ms is {}, below ttl_ms, which is {default}{}",
            found.value,
            preset_mark(&draft.ttl_ms)
        );
        mistakes.note(&found.place, &format!("{key}.lease"), problem);
        return None;
    }
    Some(Millis::new(found.value))
}

fn preset_mark(slot: &Slot<u64>) -> &'static str {
    if slot.found().is_some() { "" } else { " (the default)" }
}

fn place_of<T>(slot: &Slot<T>) -> Option<&Place> {
    slot.found().map(|found| &found.place)
}
