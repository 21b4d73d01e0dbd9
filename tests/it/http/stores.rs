//! Namespaces whose stores are behind HTTP, for the house: each of them as its twin that keeps documents is.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencegate::dispatch::{Upstream, Upstreams};
use fencegate::domain::namespaces::NamespaceRules;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::resource::Namespace;
use fencegate::domain::store::{
    FORWARD_HEADERS, HttpStore, KEY_HEADER, Protocol, RETURN_HEADERS, StampPlace,
};
use fencegate::domain::time::Millis;
use fencegate::domain::upstream::{Class, REFUSED_STATUSES, StatusSet};

use super::house::SMALL_BYTES;

/// An address at which nobody listens.
pub(super) const NOBODY: &str = "http://127.0.0.1:1/base/";

/// What the store of a class is configured with.
pub(super) fn store(class: Class, base: &str) -> HttpStore {
    HttpStore {
        base: base.to_owned(),
        class,
        stamp: (class == Class::Conditional).then(|| StampPlace::Header("x-fencing-stamp".to_owned())),
        protocol: Protocol::Http1,
        timeout: Millis::new(2_000),
        connect_timeout: Millis::new(1_000),
        max_response_bytes: 1_048_576,
        refused: StatusSet::of(&REFUSED_STATUSES),
        forward_headers: FORWARD_HEADERS.map(str::to_owned).to_vec(),
        return_headers: RETURN_HEADERS.map(str::to_owned).to_vec(),
        key_header: KEY_HEADER.to_owned(),
        status: None,
        key_retention: Millis::new(86_400_000),
        max_uncertain: None,
        version_header: "server".to_owned(),
        probe: false,
        ca_file: None,
        credentials: None,
    }
}

/// The namespaces, with the class of each.
pub(super) fn named() -> Vec<(Namespace, NamespaceRules)> {
    let define = |name: &str, class, policy, contract, issuer| {
        let definition = Definition { policy, contract, issuer, store: Store::Http(class), scope: 0 };
        definition.check().unwrap();
        let upstream = Some(store(class, NOBODY).rules());
        (
            Namespace::parse(name).unwrap(),
            NamespaceRules { definition, upstream, ..NamespaceRules::default() },
        )
    };
    let (own, immediate, observed) = (Issuer::Gateway, Contract::Immediate, Contract::Observed);
    let trusted = Issuer::Trusted { max_jump: Some(50) };
    let serial = Class::Serial;
    let mut all = vec![
        define("store-pages", serial, Policy::Single, immediate, own),
        define("store-ledger", serial, Policy::Ordered { gapless: true }, immediate, own),
        define("store-drafts", serial, Policy::Session, immediate, own),
        define("store-bound", serial, Policy::Single, Contract::LeaseBound, own),
        define("store-jobs", serial, Policy::Single, observed, trusted),
        define("store-elected", serial, Policy::Single, observed, Issuer::Registered),
        define("aware", Class::FenceAware, Policy::Single, immediate, own),
        define("aware-elected", Class::FenceAware, Policy::Single, immediate, Issuer::Registered),
        define("keyed", Class::Idempotent, Policy::Single, immediate, own),
        define("cells", Class::Conditional, Policy::Single, immediate, own),
    ];
    let (small, rules) = define("store-small", serial, Policy::Single, immediate, own);
    all.push((small, NamespaceRules { max_body_bytes: SMALL_BYTES, ..rules }));
    all
}

/// A client for each of them, to one upstream.
pub(super) fn upstreams(base: &str) -> Upstreams {
    let open = |(name, rules): (Namespace, NamespaceRules)| {
        let class = rules.definition.store.class()?;
        Some((name, Arc::new(Upstream::open(store(class, base)).unwrap())))
    };
    named().into_iter().filter_map(open).collect::<BTreeMap<_, _>>()
}
