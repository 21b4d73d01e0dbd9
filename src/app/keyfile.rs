//! The seal key: read from its file or variable, or made for a database that has none recorded.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tracing::info;
use zeroize::Zeroizing;

use crate::config::{KeySource, exposed};
use crate::domain::entropy::Entropy;
use crate::domain::seal::{Keyring, SealKey};
use crate::ledger::engine::RecordedKey;

/// Largest key file, in bytes: far above 64 keys with comments.
const MAX_FILE_BYTES: u64 = 65_536;

/// The keyring that this process seals and verifies with.
///
/// # Errors
/// When the key cannot be read, is readable by others, or is missing for a database that has one recorded: a new key
/// would call every token of that database not ours.
pub(super) fn keyring(
    source: &KeySource,
    recorded: &[RecordedKey],
    entropy: &dyn Entropy,
) -> anyhow::Result<Keyring> {
    match source {
        KeySource::Inline(text) => Keyring::parse(text).context("FENCEGATE_SEAL_KEY"),
        KeySource::File(path) => match read(path)? {
            Some(text) => Keyring::parse(&text).with_context(|| format!("seal key file {}", path.display())),
            None if recorded.is_empty() => create(path, entropy),
            None => bail!(
                "seal key file {} does not exist, and this database was used with another key; restore the file, or \
                 point seal_key_file at it. A new key is made only for a new database",
                path.display()
            ),
        },
    }
}

/// A key that nobody has seen.
///
/// # Errors
/// When the operating system gives no randomness.
pub(super) fn fresh_key(entropy: &dyn Entropy) -> anyhow::Result<SealKey> {
    let mut secret = Zeroizing::new([0_u8; 32]);
    let (first, second) = secret.split_at_mut(16);
    first.copy_from_slice(&entropy.draw()?);
    second.copy_from_slice(&entropy.draw()?);
    let id = entropy.draw()?;
    let (id, _) = id.split_at(4);
    Ok(SealKey::new(id.try_into().unwrap_or_default(), secret))
}

fn read(path: &Path) -> anyhow::Result<Option<Zeroizing<String>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot open seal key file {}", path.display()));
        }
    };
    let metadata = file.metadata().with_context(|| format!("cannot look at {}", path.display()))?;
    if let Some(why) = exposed(metadata.permissions().mode()) {
        bail!("seal key file {} {why} {}", path.display(), path.display());
    }
    if metadata.len() > MAX_FILE_BYTES {
        bail!("seal key file {} is larger than {MAX_FILE_BYTES} bytes; it is not a key file", path.display());
    }
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read seal key file {}", path.display()))?;
    Ok(Some(text))
}

/// Writes a new key so that it is on stable storage before anything is sealed with it.
fn create(path: &Path, entropy: &dyn Entropy) -> anyhow::Result<Keyring> {
    let key = fresh_key(entropy)?;
    let cannot = || format!("cannot create seal key file {}", path.display());
    // Written whole beside its place and then linked there, which never replaces: a crash in between leaves no half key.
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .with_context(cannot)?;
    file.write_all(key.reveal_line().as_bytes()).with_context(cannot)?;
    file.write_all(b"\n").with_context(cannot)?;
    file.sync_all().with_context(cannot)?;
    fs::hard_link(&draft, path).with_context(cannot)?;
    fs::remove_file(&draft).with_context(cannot)?;
    sync_folder(path).with_context(cannot)?;
    info!(file = %path.display(), key = %key.id(), "a seal key was made; keep a copy of it apart from the database");
    Ok(Keyring::of(key))
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::OsEntropy;

    #[test]
    fn a_made_key_is_0600_and_reads_back_as_itself() {
        let folder = tempfile::tempdir().unwrap();
        let source = KeySource::File(folder.path().join("seal.key"));
        let key = keyring(&source, &[], &OsEntropy).unwrap();
        let mode = fs::metadata(folder.path().join("seal.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = keyring(&source, &[], &OsEntropy).unwrap();
        assert_eq!(key.active().fingerprint(), again.active().fingerprint());
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        let source = KeySource::File(path.clone());
        keyring(&source, &[], &OsEntropy).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = keyring(&source, &[], &OsEntropy).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn no_key_is_made_for_a_database_that_had_one() {
        let folder = tempfile::tempdir().unwrap();
        let source = KeySource::File(folder.path().join("seal.key"));
        let key = fresh_key(&OsEntropy).unwrap();
        let recorded = [RecordedKey { id: key.id(), fingerprint: key.fingerprint() }];
        assert!(keyring(&source, &recorded, &OsEntropy).is_err());
        assert!(!folder.path().join("seal.key").exists());
    }
}
