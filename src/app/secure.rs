//! What the gateway shows and believes: its certificate, and who issues tokens. All files are read and held against each
//! other here, before anything is listened on or replaced.

use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::SystemClock;
use crate::access::jwt::{Fetcher, JwtSettings, Tokens};
use crate::access::pace::Paces;
use crate::access::{Access, Roster};
use crate::config::Config;
use crate::domain::time::Clock;
use crate::tls::TlsSettings;
use crate::tls::listener::{Greeting, Listener};

/// The certificate of a configuration, where it has one.
///
/// # Errors
/// When a file cannot be used, with its name.
pub fn listener(config: &Config) -> anyhow::Result<Option<Listener>> {
    let greeting = config.tls.as_ref().map(Greeting::read).transpose();
    Ok(greeting.context("TLS cannot be spoken")?.map(Listener::new))
}

/// Puts the certificate that the files hold now in the place of the one in use: connections that are open go on, new ones get
/// it. Where anything is wrong with it, the one in use stays.
///
/// # Errors
/// When a file cannot be used, with its name.
pub fn reload_tls(listener: &Listener, settings: &TlsSettings) -> anyhow::Result<()> {
    show(listener, another(settings)?);
    Ok(())
}

/// The certificate that the files hold now; nothing is replaced yet.
pub(super) fn another(settings: &TlsSettings) -> anyhow::Result<Greeting> {
    Greeting::read(settings).context("the certificate in use stays")
}

/// Puts a certificate in the place of the one in use.
pub(super) fn show(listener: &Listener, greeting: Greeting) {
    listener.replace(greeting);
    super::greet::warn_of_the_end(listener.until(), SystemClock::started().wall());
}

/// Reads everything that a configuration names, and starts nothing.
///
/// # Errors
/// When a file cannot be used, with its name.
pub fn check(config: &Config) -> anyhow::Result<()> {
    listener(config)?;
    if let Some(settings) = &config.jwt {
        Tokens::open(settings.clone(), Arc::new(SystemClock::started()))?;
    }
    Ok(())
}

/// Who fetches the keys of an issuer; dropped, it ends.
pub(super) type Fetching = Option<DropGuard>;

/// How tokens are checked that a configuration takes. Those that are checked already keep their keys where these are the same;
/// otherwise somebody has to begin to fetch them.
///
/// # Errors
/// When the source of the keys cannot be used.
pub(super) fn tokens(
    settings: Option<&JwtSettings>,
    before: Option<&Tokens>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<(Option<Tokens>, Option<Fetcher>)> {
    let Some(settings) = settings else { return Ok((None, None)) };
    if let Some(tokens) = before.and_then(|before| before.with(settings)) {
        return Ok((Some(tokens), None));
    }
    let (tokens, fetcher) = Tokens::open(settings.clone(), clock.clone())?;
    Ok((Some(tokens), Some(fetcher)))
}

/// Begins to fetch, until the gateway stops or what is given back is dropped.
pub(super) fn fetch(fetcher: Fetcher, shutdown: &CancellationToken) -> DropGuard {
    let stop = shutdown.child_token();
    drop(tokio::spawn(fetcher.run(stop.clone())));
    stop.drop_guard()
}

/// Who may do what, with the task that fetches an issuer's keys.
pub(super) fn access(
    config: &Config,
    clock: &Arc<dyn Clock>,
    shutdown: &CancellationToken,
) -> anyhow::Result<(Access, Fetching)> {
    let access = Access::new(Roster::of(config.principals.iter().cloned()))
        .paced(Paces::new(config.limits.rate, clock.clone()))
        .telling_rates(config.limits.ratelimit_headers);
    if config.plaintext && !config.listen.ip().to_canonical().is_loopback() {
        warn!(
            address = %config.listen,
            "plaintext = true: credentials and all that is written cross the network so that everybody on the way can read them"
        );
    }
    let (tokens, fetcher) = tokens(config.jwt.as_ref(), None, clock)?;
    let fetching = fetcher.map(|fetcher| fetch(fetcher, shutdown));
    Ok((access.with_tokens(tokens), fetching))
}
