//! The recorded-key check: a process that cannot verify what this database issued must not serve it.

use crate::domain::seal::{KeyId, Keyring};

use super::engine::RecordedKey;

/// Why a keyring does not fit a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyMismatch {
    /// A key that sealed tokens of this database is not here.
    #[error(
        "this database was used with seal key {0}, which is not in the key file; add its line below the active one \
         (tokens and acquisition ids that it made are refused without it), or point seal_key_file at the file that \
         belongs to this database"
    )]
    Missing(KeyId),
    /// A key of that name, and another one.
    #[error("the key file has another key under the id {0} than the one that this database was used with")]
    Other(KeyId),
}

/// Holds the keyring against what the database recorded, and names the key that is to be recorded now.
///
/// # Errors
/// [`KeyMismatch`] when a recorded key is missing or another one.
pub fn check(recorded: &[RecordedKey], keyring: &Keyring) -> Result<Option<RecordedKey>, KeyMismatch> {
    for known in recorded {
        match keyring.find(known.id) {
            None => return Err(KeyMismatch::Missing(known.id)),
            Some(key) if key.fingerprint() != known.fingerprint => return Err(KeyMismatch::Other(known.id)),
            Some(_) => {}
        }
    }
    let active = keyring.active();
    if recorded.iter().any(|known| known.id == active.id()) {
        return Ok(None);
    }
    Ok(Some(RecordedKey { id: active.id(), fingerprint: active.fingerprint() }))
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::domain::seal::SealKey;

    fn key(id: u8, secret: u8) -> SealKey {
        SealKey::new([id; 4], Zeroizing::new([secret; 32]))
    }

    fn recorded(key: &SealKey) -> RecordedKey {
        RecordedKey { id: key.id(), fingerprint: key.fingerprint() }
    }

    #[test]
    fn a_fresh_database_records_the_active_key() {
        assert_eq!(check(&[], &Keyring::of(key(1, 1))), Ok(Some(recorded(&key(1, 1)))));
        assert_eq!(check(&[recorded(&key(1, 1))], &Keyring::of(key(1, 1))), Ok(None));
    }

    #[test]
    fn a_process_without_the_recorded_key_does_not_start() {
        let known = [recorded(&key(1, 1))];
        assert_eq!(check(&known, &Keyring::of(key(2, 2))), Err(KeyMismatch::Missing(KeyId([1; 4]))));
        assert_eq!(check(&known, &Keyring::of(key(1, 9))), Err(KeyMismatch::Other(KeyId([1; 4]))));
    }
}
