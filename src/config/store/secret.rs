//! What the gateway identifies itself to an upstream with.
//!
//! A person may have put the secret where the name of its place belongs, so no mistake repeats anything that stands in
//! `credentials`.

use std::mem::discriminant;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::super::given::{Given, Slot};
use super::super::mistake::{Mistakes, Place};
use super::super::outside::Outside;
use super::{NO_SECRET_HERE, headers};
use crate::domain::store::Credentials;
use crate::limits::STORE_SECRET_BYTES;

/// What was said of credentials.
#[derive(Default)]
pub(in crate::config) struct CredentialsDraft {
    /// Where they were first spoken of; mistaken where no table stands.
    spoken: Slot<()>,
    header: Slot<String>,
    file: Slot<PathBuf>,
    variable: Slot<String>,
}

impl CredentialsDraft {
    /// Of a value that is no table, which was noted.
    pub(super) const fn mistaken() -> Self {
        Self { spoken: Slot::Mistaken, header: Slot::Absent, file: Slot::Absent, variable: Slot::Absent }
    }

    /// A whole table replaces what an earlier source said of its parts.
    pub(in crate::config) fn begin(&mut self, given: &Given<'_>) {
        *self = Self { spoken: Slot::of(given, Some(())), ..Self::default() };
    }

    /// Takes one key. `false`: there is no such key.
    pub(in crate::config) fn take(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        if self.spoken.found().is_none() {
            self.spoken = Slot::of(given, Some(()));
        }
        match name {
            "header" => self.header = Slot::of(given, headers::of_credentials(given, mistakes)),
            "file" => {
                let path = given.text(mistakes).map(|text| given.origin.base().join(text));
                self.file = Slot::of(given, path);
                forget_earlier(&mut self.variable, &given.place);
            }
            "variable" => {
                self.variable = Slot::of(given, variable_name(given, mistakes));
                forget_earlier(&mut self.file, &given.place);
            }
            _ => {
                self.spoken = Slot::Mistaken;
                return false;
            }
        }
        true
    }

    /// The header's name, where it is right.
    pub(super) fn header(&self) -> Option<&str> {
        self.header.found().map(|found| found.value.as_str())
    }

    /// Where a mistake of the whole is told.
    pub(super) fn place(&self) -> Option<&Place> {
        self.spoken.found().map(|found| &found.place)
    }

    /// Reads the secret. `None`: nothing was said, or something wrong, which was noted.
    pub(super) fn settle(
        &self,
        key: &str,
        outside: &dyn Outside,
        mistakes: &mut Mistakes,
    ) -> Option<Credentials> {
        let at = self.place()?;
        if self.header.is_mistaken() || self.file.is_mistaken() || self.variable.is_mistaken() {
            return None;
        }
        let Some(header) = self.header() else {
            mistakes.note(at, key, "names no header; write header = \"authorization\"");
            return None;
        };
        let read = match (self.file.found(), self.variable.found()) {
            (Some(file), None) => outside
                .secret_file(&file.value, STORE_SECRET_BYTES)
                .map_err(|why| (&file.place, "file", why))
                .and_then(|bytes| secret(&bytes).map_err(|why| (&file.place, "file", why))),
            (None, Some(variable)) => outside
                .variable(&variable.value)
                .map_err(|why| (&variable.place, "variable", why))
                .and_then(|text| secret(text.as_bytes()).map_err(|why| (&variable.place, "variable", why))),
            (Some(_), Some(_)) => {
                mistakes.note(at, key, "names a file and a variable; leave one of them out");
                return None;
            }
            (None, None) => {
                mistakes.note(at, key, format!("names no place of the secret; {NO_SECRET_HERE}"));
                return None;
            }
        };
        match read {
            Ok(secret) => Some(Credentials { header: header.to_owned(), secret: secret.to_string() }),
            Err((place, part, why)) => {
                mistakes.note(place, &format!("{key}.{part}"), why);
                None
            }
        }
    }
}

/// A later source may name the other place; one source may not name both.
fn forget_earlier<T>(other: &mut Slot<T>, now: &Place) {
    if other.found().is_some_and(|found| discriminant(&found.place) != discriminant(now)) {
        *other = Slot::Absent;
    }
}

fn variable_name(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    let text = given.text(mistakes)?;
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain || text.starts_with(|first: char| first.is_ascii_digit()) {
        given.wrong(mistakes, "is not the name of a variable; write letters, digits and `_`");
        return None;
    }
    Some(text.to_owned())
}

/// The value of a header: one line of visible characters, whose end may be a line's end.
fn secret(bytes: &[u8]) -> Result<Zeroizing<String>, String> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let inside = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    let blank = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    if line.is_empty() {
        return Err("is empty; give it the value of the header".to_owned());
    }
    if !line.iter().all(inside) || blank(line.first()) || blank(line.last()) {
        let problem = "holds what no header can: write one line of visible ASCII, without blanks at its ends";
        return Err(problem.to_owned());
    }
    if u64::try_from(line.len()).unwrap_or(u64::MAX) > STORE_SECRET_BYTES {
        return Err(format!("is longer than {STORE_SECRET_BYTES} bytes"));
    }
    let text = std::str::from_utf8(line).map_err(|_| "is not ASCII".to_owned())?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_line_and_loses_one_line_end() {
        for text in ["Bearer x", "Bearer x\n", "Bearer x\r\n"] {
            assert_eq!(secret(text.as_bytes()).unwrap().as_str(), "Bearer x");
        }
        for text in ["", "\n", "hush\n\n", "hush\nhush", " hush", "hush ", "hu\u{7f}sh", "hüsh"] {
            let problem = secret(text.as_bytes()).unwrap_err();
            assert!(!problem.contains("hu"), "{problem}");
        }
        assert!(secret(&[b'x'; 8_193]).is_err());
    }
}
