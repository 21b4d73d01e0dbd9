//! A gateway in front of a scripted store.

use std::time::Duration;

use fencegate::config::{Config, FileText, Flags, Nowhere, Sources, Variables};
use fencegate::ledger::wakeup::instant;
use tokio::time::sleep;

use crate::support::client::Answer;
use crate::support::engines::Kind as Engine;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Applied, Arrival, Kind, Tags, Upstream};

/// The classes, each with a store that is what it says.
pub(crate) const CLASSES: [&str; 4] = ["conditional", "fence_aware", "idempotent", "serial"];

/// The store that a class needs.
pub(crate) const fn kind_of(class: &str) -> Kind {
    match class.as_bytes() {
        b"conditional" => Kind::Conditional(Tags::Counter),
        b"fence_aware" => Kind::FenceAware,
        b"idempotent" => Kind::Idempotent,
        _ => Kind::Serial,
    }
}

/// A gateway and its store.
pub(crate) struct Scene {
    pub(crate) gateway: Gateway,
    pub(crate) upstream: Upstream,
}

impl Scene {
    /// Of a class, with further keys of the store and of the namespace `shop`.
    pub(crate) async fn of(engine: Engine, class: &str, store: &str, namespace: &str) -> Self {
        Self::before(engine, Upstream::start(kind_of(class)), class, store, namespace).await
    }

    /// Of a class, in front of this store.
    pub(crate) async fn before(
        engine: Engine,
        upstream: Upstream,
        class: &str,
        store: &str,
        namespace: &str,
    ) -> Self {
        let stamp = if class == "conditional" && !store.contains("stamp") {
            "stamp = { header = \"x-fencing-stamp\" }\n"
        } else {
            ""
        };
        let url = upstream.url();
        let text = format!(
            "[namespaces.shop]\n{namespace}\n[namespaces.shop.store]\nhttp = \"{url}\"\nclass = \"{class}\"\n{stamp}{store}\n"
        );
        let gateway = Gateway::configured(engine, &config(&text)).await;
        // What a test scripts is for its own requests, not for those of the probe.
        while gateway.client.get("/v1/status").await.json()["stores"][0]["probe"] == "pending" {
            sleep(Duration::from_millis(5)).await;
        }
        Self { gateway, upstream }
    }

    /// What had an effect on a name, probes left out.
    pub(crate) fn effects(&self) -> Vec<Applied> {
        self.upstream.effects().into_iter().filter(|one| !is_probe(&one.target)).collect()
    }

    /// What arrived, probes left out.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.upstream.log().into_iter().filter(|one| !is_probe(&one.target)).collect()
    }

    /// Writes that arrived, probes left out.
    pub(crate) fn writes(&self) -> Vec<Arrival> {
        self.arrivals().into_iter().filter(|one| !one.reads()).collect()
    }

    /// Waits until something holds, while time goes on.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let patience = instant() + Duration::from_secs(20);
        while !holds(self) {
            assert!(instant() < patience, "it never came so far: {what}");
            self.gateway.advance(200).await;
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The operation, once it is decided.
    pub(crate) async fn decided(&self, name: &str, operation: &str) -> serde_json::Value {
        let path = format!("/v1/operations/{operation}?resource={}", name.replace('/', "%2F"));
        let patience = instant() + Duration::from_secs(20);
        loop {
            let answer = self.gateway.client.get(&path).await;
            if answer.status == 200 && answer.json()["state"] != "intent" {
                return answer.json();
            }
            assert!(instant() < patience, "{operation} was never decided: {answer:?}");
            self.gateway.advance(200).await;
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Whether a target is that of a probe.
pub(crate) fn is_probe(target: &str) -> bool {
    target.contains(".fencegate-probe")
}

/// A configuration out of a text.
pub(crate) fn config(text: &str) -> Config {
    let file = Some(FileText { path: std::path::Path::new("scene.toml"), text });
    let (variables, flags) = (Variables::new(), Flags::default());
    let sources = Sources { file, variables: &variables, flags: &flags, outside: &Nowhere };
    Config::parse(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A header of an answer.
pub(crate) fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}
