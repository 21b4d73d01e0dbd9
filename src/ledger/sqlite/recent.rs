//! The keys of a resource's newest operations, kept in the resource's own row: a new operation is looked for and noted
//! there without another page. When they have become many they move to the index together.

use sha2::{Digest, Sha256};

use crate::domain::operation::OperationId;
use crate::limits::SQLITE_RECENT_OPERATIONS;

use super::fault::Fault;

/// Bytes of one key.
const WIDTH: usize = 16;

/// What an operation is looked up by: its row still has to say whether it is the one that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    /// First 8 bytes of SHA-256 of the operation id.
    pub(super) hash: i64,
    /// The row.
    pub(super) operation: i64,
}

/// Bytes that all keys of a row take, used or not.
const ROOM: usize = SQLITE_RECENT_OPERATIONS * WIDTH;

/// Keys, oldest first: those that a row holds, or more until they move to the index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Recent(Vec<Key>);

impl Recent {
    /// From what stands in a row. No operation has the id 0: there the used part ends.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        if bytes.len() != ROOM {
            return Err(Fault::unreadable(format!("column recent: {} bytes", bytes.len())));
        }
        let (keys, _) = bytes.as_chunks::<WIDTH>();
        let read = keys.iter().map(|key| {
            let (hash, operation) = key.split_at(WIDTH / 2);
            Key { hash: number(hash), operation: number(operation) }
        });
        Ok(Self(read.take_while(|key| key.operation != 0).collect()))
    }

    /// What stands in a row: nothing when they are too many for it. The length is always the same.
    pub(super) fn bytes(&self) -> [u8; ROOM] {
        let mut bytes = [0; ROOM];
        if self.is_full() {
            return bytes;
        }
        let (places, _) = bytes.as_chunks_mut::<WIDTH>();
        for (place, key) in places.iter_mut().zip(&self.0) {
            let (hash, operation) = place.split_at_mut(WIDTH / 2);
            hash.copy_from_slice(&key.hash.to_be_bytes());
            operation.copy_from_slice(&key.operation.to_be_bytes());
        }
        bytes
    }

    /// Adds the key of a newer operation.
    pub(super) fn push(&mut self, key: Key) {
        self.0.push(key);
    }

    /// Takes a key out; whether it was here.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let before = self.0.len();
        self.0.retain(|one| *one != key);
        self.0.len() < before
    }

    /// Whether they are too many for the row.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() > SQLITE_RECENT_OPERATIONS
    }

    /// The keys, in the order of the index.
    pub(super) fn into_sorted(mut self) -> Vec<Key> {
        self.0.sort_unstable_by_key(|key| (key.hash, key.operation));
        self.0
    }

    /// The rows that may hold an operation of this hash, newest first.
    pub(super) fn having(&self, hash: i64) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().rev().filter(move |key| key.hash == hash).map(|key| key.operation)
    }
}

/// The hash of an operation id.
pub(super) fn hash_of(id: &OperationId) -> i64 {
    let digest = Sha256::digest(id.as_str().as_bytes());
    let (hash, _) = digest.split_at(WIDTH / 2);
    number(hash)
}

fn number(bytes: &[u8]) -> i64 {
    bytes.try_into().map(i64::from_be_bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_in_order_and_are_found_from_the_newest() {
        let mut recent = Recent::default();
        let keys = [(7, 1), (-3, 2), (7, 9)].map(|(hash, operation)| Key { hash, operation });
        for key in keys {
            recent.push(key);
        }
        let read = Recent::read(&recent.bytes()).unwrap();
        assert_eq!(read, recent);
        assert_eq!(read.having(7).collect::<Vec<_>>(), [9, 1]);
        assert_eq!(read.having(8).count(), 0);
        assert!(Recent::read(&[0; 15]).is_err());
        assert_eq!(read.into_sorted().iter().map(|key| key.operation).collect::<Vec<_>>(), [2, 1, 9]);
    }

    #[test]
    fn they_are_full_beyond_the_bound() {
        let mut recent = Recent::default();
        for operation in 1..=1 + i64::try_from(SQLITE_RECENT_OPERATIONS).unwrap() {
            assert!(!recent.is_full());
            recent.push(Key { hash: 0, operation });
        }
        assert!(recent.is_full());
        assert_eq!(Recent::read(&recent.bytes()).unwrap(), Recent::default());
    }

    #[test]
    fn a_hash_is_fixed_for_ever() {
        // The first 8 bytes of `printf op | sha256sum`.
        let id = OperationId::parse("op").unwrap();
        let digest = Sha256::digest(b"op");
        assert_eq!(hash_of(&id).to_be_bytes(), digest[..8]);
    }
}
