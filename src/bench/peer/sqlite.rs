//! B1(SQLite): what a service does that keeps its own fence in SQLite with a pool and one transaction per request.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::Write;
use crate::limits::BENCH_BUSY_TIMEOUT;

/// The file's name in its folder.
pub(in crate::bench) const DATABASE: &str = "hand.db";

/// The obvious tables.
pub(in crate::bench) const SCHEMA: &str = "
CREATE TABLE documents (
    resource  TEXT    NOT NULL PRIMARY KEY,
    max_token INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    body      BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE operations (
    resource    TEXT    NOT NULL,
    operation   TEXT    NOT NULL,
    token       INTEGER NOT NULL,
    fingerprint BLOB    NOT NULL,
    PRIMARY KEY (resource, operation)
) STRICT, WITHOUT ROWID;
";

pub(super) async fn pool(path: &Path, connections: u32, wait: Duration) -> anyhow::Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BENCH_BUSY_TIMEOUT);
    SqlitePoolOptions::new()
        .max_connections(connections)
        .min_connections(connections)
        .acquire_timeout(wait)
        .connect_with(options)
        .await
        .context("cannot open the database")
}

/// The settings of one of the connections, which all have the same.
pub(super) async fn durability(pool: &SqlitePool) -> anyhow::Result<String> {
    let asked = async {
        let mut connection = pool.acquire().await?;
        let version: String =
            sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut *connection).await?;
        let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *connection).await?;
        let flush: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *connection).await?;
        let wait: i64 = sqlx::query_scalar("PRAGMA busy_timeout").fetch_one(&mut *connection).await?;
        Ok::<_, sqlx::Error>(format!(
            "SQLite {version}, journal_mode={journal}, synchronous={flush} (2 is FULL), busy_timeout={wait} ms"
        ))
    };
    asked.await.context("cannot read the settings")
}

/// One transaction: compare the token and replace the document, record the operation. `None`: the token is stale.
pub(super) async fn apply(pool: &SqlitePool, write: &Write) -> Result<Option<i64>, sqlx::Error> {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    let version: Option<i64> = sqlx::query_scalar(
        "UPDATE documents SET max_token = ?1, version = version + 1, body = ?2
         WHERE resource = ?3 AND max_token <= ?1 RETURNING version",
    )
    .bind(write.token)
    .bind(&write.body[..])
    .bind(&write.resource)
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(version) = version else { return Ok(None) };
    sqlx::query("INSERT INTO operations (resource, operation, token, fingerprint) VALUES (?1, ?2, ?3, ?4)")
        .bind(&write.resource)
        .bind(&write.operation)
        .bind(write.token)
        .bind(&write.fingerprint)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(Some(version))
}
