//! The opponents: programs that do with a hand-written transaction what the gateway does, and one that does nothing.
//!
//! They take the same requests and give the same answers as the gateway, header by header, so that a ratio is about
//! the work and not about HTTP. Each runs in a process of its own, started by the bench.

mod postgres;
mod sqlite;
mod upstream;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use sha2::{Digest as _, Sha256};
use sqlx::{PgPool, SqlitePool};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::limits::{BENCH_ANSWER_BYTES, BENCH_POOL};

pub(super) use sqlite::{DATABASE, SCHEMA};
pub use upstream::serve_upstream;

/// Which one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opponent {
    /// Reads the request to its end and answers.
    Hello,
    /// One transaction per request on a pool of connections to this SQLite file.
    Sqlite(PathBuf),
    /// One transaction per request on a pool of connections to this PostgreSQL database.
    Postgres(String),
}

/// Where an opponent says what makes its commits durable, as its database told it.
pub(super) const DURABILITY: &str = "/durability";

/// How long a request may wait for a connection: longer than any cell, so that waiting shows as latency.
const POOL_WAIT: Duration = Duration::from_mins(1);

enum Store {
    Hello,
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// A write, as the opponents understand it.
struct Write {
    resource: String,
    operation: String,
    token: i64,
    sequence: String,
    fingerprint: Vec<u8>,
    body: Bytes,
}

/// Serves until TERM.
///
/// # Errors
/// When the address or the database cannot be used.
pub async fn serve(opponent: Opponent, address: SocketAddr) -> anyhow::Result<()> {
    let (store, durability) = match opponent {
        Opponent::Hello => (Store::Hello, "stores nothing".to_owned()),
        Opponent::Sqlite(path) => {
            let pool = sqlite::pool(&path, BENCH_POOL, POOL_WAIT).await?;
            let durability = sqlite::durability(&pool).await?;
            (Store::Sqlite(pool), durability)
        }
        Opponent::Postgres(url) => {
            let pool = postgres::pool(&url, BENCH_POOL, POOL_WAIT).await?;
            let durability = postgres::durability(&pool).await?;
            (Store::Postgres(pool), durability)
        }
    };
    let listener = TcpListener::bind(address).await.context("cannot listen")?;
    let listener = listener.tap_io(|stream| {
        // Without it an answer might wait for an acknowledgement; it is still an answer.
        stream.set_nodelay(true).unwrap_or_default();
    });
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let router = Router::new()
        .route("/readyz", get(async || ""))
        .route(DURABILITY, get(async || durability))
        .fallback(write)
        .with_state(Arc::new(store));
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served.context("cannot serve"),
        _ = terminate.recv() => Ok(()),
    }
}

async fn write(State(store): State<Arc<Store>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BENCH_ANSWER_BYTES).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let hashed = !matches!(*store, Store::Hello);
    let Some(write) = understood(head.uri.path(), &head.headers, body, hashed) else {
        return (StatusCode::BAD_REQUEST, "not a write of the bench").into_response();
    };
    let commit = match &*store {
        Store::Hello => Ok(Some(1)),
        Store::Sqlite(pool) => sqlite::apply(pool, &write).await,
        Store::Postgres(pool) => postgres::apply(pool, &write).await,
    };
    match commit {
        Ok(Some(commit)) => receipt(&write, commit),
        Ok(None) => (StatusCode::PRECONDITION_FAILED, "stale").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn understood(path: &str, headers: &HeaderMap, body: Bytes, hashed: bool) -> Option<Write> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let fingerprint = if hashed { Sha256::digest(&body).to_vec() } else { Vec::new() };
    Some(Write {
        resource: path.strip_prefix("/fenced/")?.to_owned(),
        operation: text("idempotency-key")?,
        token: text("fencing-token")?.parse().ok()?,
        sequence: text("fencing-sequence")?,
        fingerprint,
        body,
    })
}

/// The gateway's answer to a write, with all of its headers.
fn receipt(write: &Write, commit: i64) -> Response {
    let Write { resource, operation, token, sequence, .. } = write;
    let body = format!(
        "{{\"resource\":\"{resource}\",\"target\":null,\"operation_id\":\"{operation}\",\"effect\":\"applied\",\
         \"incarnation\":\"1\",\"position\":\"0.{token}\",\"sequence\":\"{sequence}\",\"commit\":\"{commit}\",\
         \"etag\":\"\\\"1.{commit}\\\"\",\"applied_at\":\"2026-01-01T00:00:00.000Z\"}}"
    );
    let location =
        format!("/v1/operations/{operation}?resource={}&incarnation=1", resource.replace('/', "%2F"));
    let answer = Response::builder()
        .status(StatusCode::OK)
        .header("content-type", "application/json")
        .header("fencing-effect", "applied")
        .header("fencing-position", format!("0.{token}"))
        .header("fencing-floor", format!("0.{token}"))
        .header("fencing-commit", commit)
        .header("etag", format!("\"1.{commit}\""))
        .header("location", location)
        .header("fencing-source", "gateway")
        .header("x-content-type-options", "nosniff")
        .header("content-security-policy", "sandbox; default-src 'none'")
        .header("x-request-id", operation)
        .body(Body::from(body));
    answer.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_opponent_answers_as_the_gateway_does() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("fencing-token", "7"), ("fencing-sequence", "12"), ("idempotency-key", "a-1")]
        {
            headers.insert(name, value.parse().unwrap());
        }
        let write =
            understood("/fenced/bench/doc-000001", &headers, Bytes::from_static(b"{}"), true).unwrap();
        assert_eq!((write.resource.as_str(), write.token), ("bench/doc-000001", 7));
        let answer = receipt(&write, 3);
        assert_eq!(answer.headers()["etag"], "\"1.3\"");
        let body = to_bytes(answer.into_body(), 4_096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["position"], &body["etag"]), (&"0.7".into(), &"\"1.3\"".into()));
    }

    #[test]
    fn a_request_without_its_fields_is_no_write() {
        assert!(understood("/fenced/a/b", &HeaderMap::new(), Bytes::new(), true).is_none());
    }
}
