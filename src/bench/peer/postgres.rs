//! B1(PostgreSQL): what a service does that keeps its own fence in PostgreSQL with a pool and one transaction per
//! request.

use std::time::Duration;

use anyhow::Context as _;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

use super::Write;

pub(super) async fn pool(url: &str, connections: u32, wait: Duration) -> anyhow::Result<PgPool> {
    PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(connections)
        .acquire_timeout(wait)
        .connect(url)
        .await
        .context("cannot open the database")
}

/// The settings of one of the connections, which all have the same.
pub(super) async fn durability(pool: &PgPool) -> anyhow::Result<String> {
    let sql = "SELECT 'fsync=' || current_setting('fsync') || ', synchronous_commit='
        || current_setting('synchronous_commit')";
    sqlx::query_scalar(sql).fetch_one(pool).await.context("cannot read the settings")
}

/// One transaction: compare the token and replace the document, record the operation. `None`: the token is stale.
pub(super) async fn apply(pool: &PgPool, write: &Write) -> Result<Option<i64>, sqlx::Error> {
    let Ok(operation) = Uuid::parse_str(&write.operation) else { return Ok(None) };
    let mut transaction = pool.begin().await?;
    let version: Option<i64> = sqlx::query_scalar(
        "UPDATE documents SET max_token = $1, version = version + 1, body = $2
         WHERE resource = $3 AND max_token <= $1 RETURNING version",
    )
    .bind(write.token)
    .bind(&write.body[..])
    .bind(&write.resource)
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(version) = version else { return Ok(None) };
    sqlx::query("INSERT INTO operations (resource, operation, token, fingerprint) VALUES ($1, $2, $3, $4)")
        .bind(&write.resource)
        .bind(operation)
        .bind(write.token)
        .bind(&write.fingerprint)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(Some(version))
}
