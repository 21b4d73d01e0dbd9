//! How a listener names the place from where it goes on.

use uuid::Uuid;

use crate::domain::counter::{Epoch, parse_decimal};
use crate::domain::time::Timestamp;
use crate::ledger::events::{EventPlace, Reached};

/// From the oldest record that is kept.
pub(super) const OLDEST: &str = "0";

/// What an id of the stream holds. It is nothing for a client to look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Which database, in short.
    pub(super) database: String,
    /// The epoch of all namespaces: a new one is begun when records went back in time.
    pub(super) epoch: Epoch,
    /// How old the last is that was told.
    pub(super) at: Timestamp,
    pub(super) reached: EventPlace,
}

/// Enough of a database's id to tell it from another one.
pub(super) fn short(database: Uuid) -> String {
    database.simple().to_string().chars().take(8).collect()
}

impl Place {
    pub(super) fn text(&self) -> String {
        let EventPlace { acts, operations } = self.reached;
        let (database, epoch, at) = (&self.database, self.epoch.get(), self.at.ms());
        format!(
            "{database}-{epoch}-{at}-{}.{}-{}.{}",
            acts.transaction, acts.ordinal, operations.transaction, operations.ordinal
        )
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (database, epoch, at) = (parts.next()?, parts.next()?, parts.next()?);
        let (acts, operations) = (reached(parts.next()?)?, reached(parts.next()?)?);
        if parts.next().is_some() {
            return None;
        }
        Some(Self {
            database: database.to_owned(),
            epoch: Epoch::new(number(epoch)?)?,
            at: Timestamp::from_ms(i64::try_from(number(at)?).ok()?),
            reached: EventPlace { acts, operations },
        })
    }
}

fn reached(text: &str) -> Option<Reached> {
    let (transaction, ordinal) = text.split_once('.')?;
    Some(Reached { transaction: number(transaction)?, ordinal: number(ordinal)? })
}

/// A number that a column holds.
fn number(text: &str) -> Option<u64> {
    parse_decimal(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_a_made_up_one_does_not() {
        let text = "0a1b2c3d-2-1789286460000-17.3-9223372036854775807.0";
        assert_eq!(Place::parse(text).unwrap().text(), text);
        for bad in [
            "",
            "0",
            "a-0-0-1.0",
            "a-0-0-1.0-2",
            "a-0-0-1.0-2.0-",
            "a-0-x-1.0-2.0",
            "a-0-0--1.0-2.0",
            "a-+0-0-1.0-2.0",
        ] {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }
}
