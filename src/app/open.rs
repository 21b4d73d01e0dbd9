//! The database, with the seal key held against it, the witness beside it, and the committers over it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use tracing::{info, warn};
use uuid::Uuid;

use super::{Surroundings, keyfile};
use crate::config::{Config, Database, PostgresAddress};
use crate::domain::entropy::Entropy;
use crate::domain::seal::Keyring;
use crate::http;
use crate::ledger::engine::{Engine, Identity};
use crate::ledger::read::Reader;
use crate::ledger::sqlite::OpenMode;
use crate::ledger::{Committers, Ledger, Setting, WitnessFile, keys, memory, postgres, sqlite};

/// Opens the configured database, holds the seal key against it, and starts the committer.
///
/// # Errors
/// When one of them cannot be used.
pub(super) async fn open_ledger(
    config: &Config,
    surroundings: &Surroundings,
) -> anyhow::Result<(Ledger, Committers)> {
    let fresh = fresh_id(surroundings.entropy.as_ref())?;
    match &config.database {
        Database::Memory => {
            let keyring = Keyring::of(keyfile::fresh_key(surroundings.entropy.as_ref())?);
            let (engine, reader, identity) = memory::open(fresh, surroundings.clock.clone());
            warn!("database = \"memory\": everything is lost when this process ends");
            Ok(start(vec![engine], Arc::new(reader), config, keyring, identity))
        }
        Database::Postgres(address) => open_postgres(address, fresh, config, surroundings).await,
        Database::Sqlite(path) => {
            let witness = witness(config).await?;
            open_sqlite(path, fresh, config, witness, surroundings).await
        }
    }
}

pub(super) async fn open_sqlite(
    path: &Path,
    fresh: Uuid,
    config: &Config,
    witness: Option<WitnessFile>,
    surroundings: &Surroundings,
) -> anyhow::Result<(Ledger, Committers)> {
    let mut database =
        sqlite::Database::open(path, OpenMode::Create, fresh, surroundings.clock.clone()).await?;
    let recorded = database.recorded_keys().await?;
    let keyring = keyfile::keyring(&config.seal_key, &recorded, surroundings.entropy.as_ref())?;
    if let Some(key) = keys::check(&recorded, &keyring)? {
        database.record_key(key).await?;
        info!(key = %key.id, "a seal key is in use with this database for the first time");
    }
    if let Some(witness) = witness {
        database = database.watched_by(witness).await?;
    }
    let (engine, reader, identity) = database.start().await?;
    Ok(start(vec![engine], Arc::new(reader), config, keyring, identity))
}

/// Reads the witness, before the database is asked how far it has come.
pub(super) async fn witness(config: &Config) -> anyhow::Result<Option<WitnessFile>> {
    let Some(path) = config.witness.clone() else {
        warn!(
            "witness = \"\": an older database that is put in the place of this one while no gateway runs is noticed only by \
             the tokens that clients still hold; do not go without a witness in production"
        );
        return Ok(None);
    };
    let opened = tokio::task::spawn_blocking(move || WitnessFile::open(&path)).await;
    Ok(Some(opened.context("the witness cannot be read")??))
}

/// Several gateways may use one database: what each of them records is what all of them need.
async fn open_postgres(
    address: &PostgresAddress,
    fresh: Uuid,
    config: &Config,
    surroundings: &Surroundings,
) -> anyhow::Result<(Ledger, Committers)> {
    let address = postgres::Address::of(address.urls())?;
    let witness = witness(config).await?;
    let mode = postgres::OpenMode::Create;
    let time = postgres::TimeSource::Database;
    let mut database = postgres::Database::open(&address, mode, fresh, time, config.max_connections).await?;
    let recorded = database.recorded_keys().await?;
    let keyring = keyfile::keyring(&config.seal_key, &recorded, surroundings.entropy.as_ref())?;
    if let Some(key) = keys::check(&recorded, &keyring)? {
        database.record_key(key).await?;
        info!(key = %key.id, "a seal key is in use with this database for the first time");
    }
    if let Some(witness) = witness {
        database = database.watched_by(witness).await?;
    }
    let (engines, reader, identity) = database.start().await?;
    Ok(start(engines, Arc::new(reader), config, keyring, identity))
}

fn start<E: Engine>(
    engines: Vec<E>,
    reader: Arc<dyn Reader>,
    config: &Config,
    keyring: Keyring,
    identity: Identity,
) -> (Ledger, Committers) {
    let namespaces = config.namespaces.clone();
    let setting = Setting {
        namespaces,
        keyring,
        identity,
        render: http::render_receipt,
        render_control: http::render_control,
        render_whole: http::render_whole,
    };
    Ledger::start(engines, reader, setting)
}

pub(super) fn fresh_id(entropy: &dyn Entropy) -> anyhow::Result<Uuid> {
    Ok(uuid::Builder::from_random_bytes(entropy.draw()?).into_uuid())
}
