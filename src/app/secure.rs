//! What the gateway shows and believes: its certificate, and who issues tokens. All files are read and held against each
//! other here, before anything is listened on or replaced.

use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::SystemClock;
use crate::access::jwt::Tokens;
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
    listener.replace(Greeting::read(settings).context("the certificate in use stays")?);
    super::greet::warn_of_the_end(listener.until(), SystemClock::started().wall());
    Ok(())
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

/// Who may do what, with the task that fetches an issuer's keys.
pub(super) fn access(
    config: &Config,
    clock: Arc<dyn Clock>,
    shutdown: &CancellationToken,
) -> anyhow::Result<Access> {
    let access = Access::new(Roster::of(config.principals.iter().cloned()))
        .paced(Paces::new(config.limits.rate, clock.clone()))
        .telling_rates(config.limits.ratelimit_headers);
    if config.plaintext && !config.listen.ip().to_canonical().is_loopback() {
        warn!(
            address = %config.listen,
            "plaintext = true: credentials and all that is written cross the network so that everybody on the way can read them"
        );
    }
    let Some(settings) = &config.jwt else { return Ok(access) };
    let (tokens, fetcher) = Tokens::open(settings.clone(), clock)?;
    drop(tokio::spawn(fetcher.run(shutdown.clone())));
    Ok(access.with_tokens(Some(tokens)))
}
