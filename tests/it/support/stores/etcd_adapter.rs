//! The receiver over etcd: what it is started with, and what etcd says that it has done.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::receiver::Effect;
use crate::support::issuers::etcd::Etcd;
use crate::support::issuers::missing;

/// A part of an etcd that all tests of this process share.
#[derive(Debug)]
pub(crate) struct Keys {
    etcd: &'static Etcd,
    prefix: String,
}

impl Keys {
    /// A part in which nothing is yet. None where there is no etcd and that is allowed.
    pub(crate) fn fresh(test: &str) -> Option<Self> {
        static SHARED: OnceLock<Etcd> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let programs = missing::etcd(test)?;
        let etcd = SHARED.get_or_init(|| Etcd::start(programs));
        Some(Self { etcd, prefix: format!("{}/", COUNT.fetch_add(1, Ordering::SeqCst)) })
    }

    /// What the script is started with.
    pub(crate) fn arguments(&self) -> Vec<String> {
        vec!["--etcd".into(), self.etcd.endpoint(), "--prefix".into(), self.prefix.clone()]
    }

    /// Every operation of a resource that had an effect.
    pub(crate) fn effects(&self, resource: &str) -> Vec<Effect> {
        let below = format!("{}operation ", self.prefix);
        let values = self.etcd.ctl(&["get", "--prefix", &below, "--print-value-only"]);
        let records = values.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.filter(|record| record["resource"] == resource).filter_map(|record| effect(&record)).collect()
    }
}

fn effect(record: &Value) -> Option<Effect> {
    let number = |value: &Value| value.as_u64().unwrap();
    Some(Effect {
        number: record["effect"].as_u64()?,
        position: (number(&record["position"][0]), number(&record["position"][1])),
        operation: record["operation"].as_str().unwrap().to_owned(),
    })
}
