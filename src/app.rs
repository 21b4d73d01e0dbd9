//! Placeholder of the composition root, until the real one is merged.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::config::Config;
use crate::domain::entropy::{Entropy, EntropyFailed};
use crate::domain::time::{Clock, Timestamp};

/// The system's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic side begins now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "placeholder")]
    pub fn started() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "placeholder")]
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Randomness of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[expect(clippy::disallowed_methods, reason = "placeholder")]
    fn draw(&self) -> Result<[u8; 16], EntropyFailed> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| EntropyFailed(error.to_string()))?;
        Ok(bytes)
    }
}

/// Serves.
///
/// # Errors
/// Always.
#[expect(clippy::unused_async, reason = "placeholder")]
pub async fn serve(config: Config) -> anyhow::Result<()> {
    anyhow::bail!("there is no gateway yet to serve {config:?}")
}

/// What `fencegate migrate` is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrateMode {
    /// Apply what is missing.
    Apply,
    /// Only tell what is applied and what is missing.
    Status,
}

/// One migration and whether the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationState {
    /// Its version.
    pub version: i64,
    /// What it does.
    pub description: String,
    /// Whether it stands in the database.
    pub applied: bool,
}

/// Applies or lists the migrations of the configured database.
///
/// # Errors
/// Always.
pub fn migrate(
    config: &Config,
    mode: MigrateMode,
) -> impl Future<Output = anyhow::Result<Vec<MigrationState>>> + use<> {
    let text = format!("there is no database yet to migrate: {config:?} {mode:?}");
    async move { Err(anyhow::anyhow!(text)) }
}
