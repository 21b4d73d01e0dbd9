//! The log line of a namespace whose recorded definition was changed under a gateway that is configured otherwise.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tracing::warn;

use crate::domain::policy::Definition;
use crate::domain::resource::Namespace;

use super::Ledger;

/// What was told: of each namespace the recorded definition that it was told of. There are as many as namespaces.
#[derive(Debug, Default)]
pub(super) struct Differences(Mutex<BTreeMap<Namespace, Definition>>);

impl Ledger {
    /// Says, once for each recorded definition, that it is another one than this process is configured with.
    pub fn differs(&self, namespace: &Namespace, recorded: &Definition, configured: &Definition) {
        let mut told = self.differences.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(namespace) == Some(recorded) {
            return;
        }
        told.insert(namespace.clone(), *recorded);
        drop(told);
        warn!(
            %namespace,
            %recorded,
            %configured,
            "the configuration differs from the recorded definition; this namespace answers 503 definition_differs"
        );
    }
}
