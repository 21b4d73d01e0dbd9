//! What is recorded of a namespace, and of all of them.

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Epoch, Incarnation};
use crate::domain::policy::Definition;
use crate::domain::position::Position;
use crate::domain::resource::Namespace;

/// A namespace: its epoch, its base, its recorded definition and its breaker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamespaceRow {
    /// Its name.
    pub namespace: Namespace,
    /// Order above tokens.
    pub epoch: Epoch,
    /// Highest position of folded tombstones: a new row starts here.
    pub base: Position,
    /// Highest incarnation of folded tombstones.
    pub base_incarnation: Incarnation,
    /// The definition recorded at first use.
    pub definition: Definition,
    /// Version of the definition, from 1.
    pub version: u32,
    /// What stopped it, until an operator advances the epoch.
    pub breaker: Option<Breaker>,
}

impl NamespaceRow {
    /// What the first use records. Where the whole database was found to have gone back in time, nobody knows whether
    /// the namespace was in use before: so it begins in the epoch that was begun then, and stopped until one is.
    #[must_use]
    pub fn first_use(namespace: Namespace, definition: Definition, everywhere: &EverywhereRow) -> Self {
        Self {
            namespace,
            epoch: everywhere.epoch,
            base: Position::ZERO,
            base_incarnation: Incarnation::ZERO,
            definition,
            version: 1,
            breaker: everywhere.breaker.clone(),
        }
    }
}

/// What holds for every namespace that was never used yet. There is always one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EverywhereRow {
    /// The epoch in which a namespace begins: that of the last advance of all of them.
    pub epoch: Epoch,
    /// What stopped all of them.
    pub breaker: Option<Breaker>,
}
