//! The epochs that this process knows to have been begun: those that it has read or committed, and those that a seal of
//! this database speaks of.
//!
//! A database that goes back in time forgets epochs too. One that was begun and forgotten must not be begun again: what was
//! issued in it would be admissible once more, beside what is issued now. So what has been seen up to the decision binds
//! it, and not what was known when the call came: a call can wait in the queue while the database goes back.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::counter::Epoch;
use crate::domain::resource::Namespace;
use crate::domain::subject::Subject;
use crate::protocol::{Command, Snapshot};

use super::changeset::ChangeSet;

/// What is known, for as long as the process lives; what outlives it is the witness's.
#[derive(Debug, Default)]
pub(super) struct Epochs(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Of namespaces that were never used, and so of all of them.
    everywhere: Epoch,
    /// Of those that were acted on by themselves, where it lies above: no more than operators have named.
    namespaces: BTreeMap<Namespace, Epoch>,
}

impl Epochs {
    /// Takes in what a transaction has read.
    pub(super) fn read(&self, rows: &Snapshot) {
        let named = rows.namespaces().map(|row| (&row.namespace, row.epoch));
        self.learn(rows.everywhere().epoch, named);
    }

    /// Takes in what a commit has made durable, before anybody is told.
    pub(super) fn committed(&self, changes: &ChangeSet) {
        let everywhere = changes.everywhere.as_ref().map_or(Epoch::ZERO, |change| change.after.epoch);
        let named = changes.namespaces.values().map(|change| (&change.after.namespace, change.after.epoch));
        self.learn(everywhere, named);
    }

    /// A command was refused because its valid seal lies above everything that is recorded: its epoch had begun.
    pub(super) fn told_by_seals(&self, command: &Command) {
        for (resource, position) in command.sealed() {
            self.learn(Epoch::ZERO, [(&resource.namespace(), position.epoch)].into_iter());
        }
    }

    /// The highest that is known to have been begun in what an act is about.
    pub(super) fn begun(&self, subject: &Subject) -> Epoch {
        let known = self.known();
        let named = match subject {
            Subject::Everywhere => known.namespaces.values().max(),
            Subject::Namespace(name) => known.namespaces.get(name),
            Subject::Resource(resource) => known.namespaces.get(&resource.namespace()),
        };
        known.everywhere.max(named.copied().unwrap_or_default())
    }

    fn learn<'n>(&self, everywhere: Epoch, named: impl Iterator<Item = (&'n Namespace, Epoch)>) {
        // In most databases no epoch was ever begun, and nothing is to be remembered.
        let mut named = named.filter(|(_, epoch)| *epoch > Epoch::ZERO).peekable();
        if everywhere == Epoch::ZERO && named.peek().is_none() {
            return;
        }
        let mut known = self.known();
        if everywhere > known.everywhere {
            known.everywhere = everywhere;
            known.namespaces.retain(|_, epoch| *epoch > everywhere);
        }
        for (name, epoch) in named {
            if epoch > known.everywhere && known.namespaces.get(name).is_none_or(|last| *last < epoch) {
                known.namespaces.insert(name.clone(), epoch);
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
