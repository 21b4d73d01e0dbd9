//! Reads what a configuration is made of, and hands it to [`Config::parse`].

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::failure::Failure;
use crate::config::{
    Config, DEFAULT_FILE, FileText, Flags, Outside, Sources, VARIABLE_PREFIX, Variables, exposed,
};
use crate::limits::CONFIG_BYTES;

/// A configuration, and the file that it came from.
pub(super) struct Settings {
    /// What holds.
    pub(super) config: Config,
    /// Where the file is; none was needed otherwise.
    pub(super) file: Option<PathBuf>,
}

/// Reads the named file, or the usual one where it exists, with the variables and flags on top.
pub(super) fn load(named: Option<&Path>, flags: &Flags) -> Result<Settings, Failure> {
    let path = named.unwrap_or_else(|| Path::new(DEFAULT_FILE));
    let text = read(path, named.is_some())?;
    let file = text.as_deref().map(|text| FileText { path, text });
    let config = Config::parse(&Sources { file, variables: &variables(), flags, outside: &Process })
        .map_err(Failure::Mistakes)?;
    Ok(Settings { config, file: text.map(|_| path.to_owned()) })
}

/// Reads a configuration that stands in one text, whatever else there is.
pub(super) fn parse_alone(file: FileText<'_>) -> Result<Config, Failure> {
    let (variables, flags) = (Variables::new(), Flags::default());
    Config::parse(&Sources { file: Some(file), variables: &variables, flags: &flags, outside: &Process })
        .map_err(Failure::Mistakes)
}

/// The text of a file; `None` where it does not exist and need not.
fn read(path: &Path, must_exist: bool) -> Result<Option<String>, Failure> {
    let unusable =
        |why: String| Failure::Usage(format!("cannot read the configuration {}: {why}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
    };
    let mut bytes = Vec::new();
    let taken = file.take(CONFIG_BYTES.saturating_add(1)).read_to_end(&mut bytes);
    let length = taken.map_err(|error| unusable(error.to_string()))?;
    if u64::try_from(length).unwrap_or(u64::MAX) > CONFIG_BYTES {
        return Err(unusable(format!("it is larger than {CONFIG_BYTES} bytes")));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let before = error.as_bytes().iter().take(valid);
            let line = before.filter(|byte| **byte == b'\n').count().saturating_add(1);
            Err(unusable(format!("line {line} is not UTF-8")))
        }
    }
}

fn variables() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok())))
        .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
        .collect()
}

/// The files and variables of this process.
struct Process;

impl Outside for Process {
    fn file(&self, path: &Path, most: u64) -> Result<Zeroizing<Vec<u8>>, String> {
        File::open(path).map_err(|error| error.to_string()).and_then(|file| bounded(file, most))
    }

    fn secret_file(&self, path: &Path, most: u64) -> Result<Zeroizing<Vec<u8>>, String> {
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let file = File::open(path).map_err(unreadable)?;
        // Of the file that was opened: another one may stand at the path by now.
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        match exposed(mode) {
            Some(why) => Err(why),
            None => bounded(file, most).map_err(|why| format!("cannot be read: {why}")),
        }
    }

    fn variable(&self, name: &str) -> Result<Zeroizing<String>, String> {
        let value = std::env::var_os(name).ok_or("names a variable that is not set")?;
        let value = value.into_string().map_err(|_| "names a variable whose value is not UTF-8")?;
        Ok(Zeroizing::new(value))
    }
}

/// The bytes of a file, `most` at most.
fn bounded(file: File, most: u64) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most {
        return Err(format!("it is larger than {most} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_secret_that_others_can_read_or_change_is_refused_as_the_seal_key_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "Bearer hush").unwrap();
        for mode in [0o644, 0o640, 0o604, 0o660, 0o620, 0o602, 0o611] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let why = Process.secret_file(&path, 100).unwrap_err();
            assert!(why.contains(&format!("mode {mode:04o}")) && why.contains("chmod 600"), "{why}");
            assert!(!why.contains("hush"), "{why}");
            // What is no secret may be read by all.
            assert!(Process.file(&path, 100).is_ok());
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(Process.secret_file(&path, 100).unwrap().as_slice(), b"Bearer hush");
        }
        assert!(Process.secret_file(&path, 3).unwrap_err().contains("larger than 3 bytes"));
        let missing = Process.secret_file(&folder.path().join("none"), 3).unwrap_err();
        assert!(missing.starts_with("cannot be read: "), "{missing}");
    }

    #[test]
    fn a_file_that_was_named_must_exist_and_the_usual_one_need_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.toml");
        assert!(matches!(read(&path, true), Err(Failure::Usage(why)) if why.contains("none.toml")));
        assert!(matches!(read(&path, false), Ok(None)));
    }

    #[test]
    fn a_file_that_is_no_text_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.toml");
        std::fs::write(&path, b"a = 1\nb = \"\xff\"\n").unwrap();
        assert!(
            matches!(read(&path, true), Err(Failure::Usage(why)) if why.ends_with("line 2 is not UTF-8"))
        );
        assert!(read(folder.path(), true).is_err());
    }

    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        assert!(
            matches!(read(Path::new("/dev/zero"), true), Err(Failure::Usage(why)) if why.contains("larger"))
        );
    }
}
