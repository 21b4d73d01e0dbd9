//! `fencegate key`: keys are made and looked at here, offline. The gateway is told only their hashes, by its configuration.

use std::io::Read as _;

use clap::{Args, Subcommand};
use serde_json::json;
use zeroize::Zeroizing;

use super::failure::Failure;
use super::output::{self, Output};
use super::table;
use crate::access::key::{ApiKey, ID_BYTES, SECRET_BYTES};
use crate::app::{OsEntropy, SystemClock};
use crate::domain::entropy::Entropy as _;
use crate::domain::principal::PrincipalName;
use crate::domain::time::Clock as _;
use crate::limits::CLIENT_KEY_BYTES;

/// What `key` takes.
#[derive(Subcommand)]
pub(super) enum Key {
    /// Make a key, show it once, and print what the gateway's configuration needs of it
    ///
    /// To rotate, add the new key beside the old one, give the old one an `expires_at`, and take it out when that has passed:
    /// until then both work. To revoke, take a key out. Gateways learn of it by SIGHUP or a restart.
    Create(Create),
    /// Say whether a key is whole, without asking anybody; it is read from standard input
    ///
    /// Prints its public id and its hash, never the key. Exit code 1 when a character is wrong.
    Check,
}

/// What `key create` takes.
#[derive(Args)]
pub(super) struct Create {
    /// Whose key it is, as in [principals.NAME]
    #[arg(value_parser = principal)]
    principal: PrincipalName,
    /// How long it is valid, such as 90d [default: until it is taken out]
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    expires_in: Option<std::time::Duration>,
}

fn principal(text: &str) -> Result<PrincipalName, String> {
    PrincipalName::parse(text).map_err(|error| error.to_string())
}

impl Key {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(output),
            Self::Check => check(output),
        }
    }
}

impl Create {
    fn run(self, output: &Output) -> Result<(), Failure> {
        let drawn = || OsEntropy.draw().map_err(|error| Failure::Start(error.into()));
        let (id, one, other): ([u8; 16], [u8; 16], [u8; 16]) = (drawn()?, drawn()?, drawn()?);
        let secret = Zeroizing::new([one, other].concat());
        let key = ApiKey::of(first::<ID_BYTES>(&id), first::<SECRET_BYTES>(&secret));
        let expires_at = self.expires_in.map(instant).transpose()?;
        let ends = expires_at.as_ref().map(|end| format!(", expires_at = \"{end}\"")).unwrap_or_default();
        let entry = format!("{{ id = \"{}\", sha256 = \"{}\"{ends} }}", key.id(), key.digest());
        let shown = Zeroizing::new(key.reveal().to_string());
        let json = json!({
            "principal": self.principal.as_str(),
            "key": shown.as_str(),
            "id": key.id().as_str(),
            "sha256": key.digest().to_string(),
            "expires_at": expires_at,
            "configuration": entry,
        });
        output.answer(&output::json(&json), || {
            format!(
                "{}\n\nThe key is shown this once. In the gateway's configuration stands only its hash; add it to\n\n\
                 [principals.{}]\nkeys = [{entry}]",
                shown.as_str(),
                quoted(&self.principal),
            )
        })
    }
}

/// A key of a table as TOML takes it: bare, or in quotes.
fn quoted(name: &PrincipalName) -> String {
    let bare = |found: char| found.is_ascii_alphanumeric() || matches!(found, '-' | '_');
    if name.as_str().chars().all(bare) { name.to_string() } else { format!("{:?}", name.as_str()) }
}

fn instant(span: std::time::Duration) -> Result<String, Failure> {
    let now = SystemClock::started().wall();
    let now = jiff::Timestamp::from_millisecond(now.ms()).map_err(|error| Failure::Start(error.into()))?;
    let end = now.checked_add(span).map_err(|_| Failure::Usage("--expires-in is too long".to_owned()))?;
    // Whole seconds are read more easily, and a key that ends a moment earlier is no loss.
    let end = end.round(jiff::Unit::Second).unwrap_or(end);
    Ok(end.to_string())
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    for (to, from) in taken.iter_mut().zip(bytes) {
        *to = *from;
    }
    taken
}

fn check(output: &Output) -> Result<(), Failure> {
    let mut text = Zeroizing::new(String::new());
    let mut input = std::io::stdin().lock().take(CLIENT_KEY_BYTES);
    input.read_to_string(&mut text).map_err(|_| Failure::Usage("standard input holds no text".to_owned()))?;
    match ApiKey::parse(text.trim()) {
        Ok(key) => {
            let json = json!({"id": key.id().as_str(), "sha256": key.digest().to_string()});
            output
                .answer(&output::json(&json), || table::facts(&json, &[("id", "/id"), ("sha256", "/sha256")]))
        }
        Err(error) => Err(Failure::Story(format!("this is not a whole key: {error}"))),
    }
}
