//! Health: whether the process answers, whether to send requests to it, and what runs here.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use uuid::Uuid;

use crate::domain::counter::LedgerSeq;
use crate::limits::PROBE_TIMEOUT;

use super::namespaces::differing;
use super::problem::{Code, Problem};
use super::wire::{self, Rfc3339, Shown};
use super::{Asked, Hall};

#[derive(Serialize)]
struct AliveJson {
    alive: bool,
}

#[derive(Serialize)]
struct ReadyJson {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<[Check; 3]>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
}

#[derive(Serialize)]
struct StatusJson<'a> {
    version: &'static str,
    api_version: &'static str,
    database: DatabaseJson<'a>,
    namespaces: NamespacesJson,
    started_at: Rfc3339,
}

#[derive(Serialize)]
struct DatabaseJson<'a> {
    engine: &'static str,
    id: Shown<Uuid>,
    schema_version: Option<i64>,
    durability: &'a str,
    ledger_seq: Shown<LedgerSeq>,
}

#[derive(Serialize)]
struct NamespacesJson {
    configured: usize,
    differing: Vec<String>,
}

/// `GET /livez`: it asks nobody, so it cannot hang on anybody.
pub(super) fn livez() -> Response {
    wire::json(StatusCode::OK, &AliveJson { alive: true })
}

/// `GET /readyz`. A namespace that is configured differently is named and makes nobody unready: the others are served.
pub(super) async fn readyz(asked: Asked<'_>) -> Result<Response, Problem> {
    let checks = [ledger(asked.hall).await, definitions(asked.hall).await, accepting(asked.hall)];
    let [ledger, _, accepting] = &checks;
    let ready = ledger.ok && accepting.ok;
    let status = if ready { StatusCode::OK } else { Code::DatabaseUnavailable.status() };
    let checks = asked.query.value("verbose").map(|_| checks);
    Ok(wire::json(status, &ReadyJson { ready, checks }))
}

/// `GET /v1/status`.
pub(super) async fn status(asked: Asked<'_>) -> Result<Response, Problem> {
    let hall = asked.hall;
    let (_, differing) = differing(hall).await?;
    let ledger_seq = hall.read(|reader| reader.ledger_seq()).await?;
    let identity = &hall.door.ledger.setting().identity;
    let answer = StatusJson {
        version: env!("CARGO_PKG_VERSION"),
        api_version: "v1",
        database: DatabaseJson {
            engine: identity.engine,
            id: Shown(identity.database),
            schema_version: identity.schema_version,
            durability: &identity.durability,
            ledger_seq: Shown(ledger_seq),
        },
        namespaces: NamespacesJson {
            configured: hall.namespaces().named().count(),
            differing: differing.into_iter().map(|(name, _)| name.to_string()).collect(),
        },
        started_at: Rfc3339(hall.door.started_at),
    };
    Ok(wire::json(StatusCode::OK, &answer))
}

/// Whether the committer can begin and end a transaction. Only the waiting is given up after a while, never the
/// transaction.
async fn ledger(hall: &Hall) -> Check {
    let name = "ledger";
    let probed = tokio::time::timeout(PROBE_TIMEOUT, hall.door.ledger.probe()).await;
    let unready = |detail: String| Check { name, ok: false, detail };
    match probed {
        Err(_) => unready(format!("no answer within {} s", PROBE_TIMEOUT.as_secs())),
        Ok(Err(unserved)) => unready(unserved.to_string()),
        Ok(Ok(())) => match hall.read(|reader| reader.ledger_seq()).await {
            Err(problem) => unready(problem.detail().to_owned()),
            Ok(seq) => {
                let detail = format!("{}, batch {seq}", hall.door.ledger.setting().identity.engine);
                Check { name, ok: true, detail }
            }
        },
    }
}

async fn definitions(hall: &Hall) -> Check {
    let name = "definitions";
    match differing(hall).await {
        Err(problem) => Check { name, ok: false, detail: problem.detail().to_owned() },
        Ok((count, differing)) if differing.is_empty() => {
            Check { name, ok: true, detail: format!("{count} namespaces are recorded, none differs") }
        }
        Ok((_, differing)) => {
            let named = differing.iter().map(|(namespace, difference)| format!("{namespace:?} {difference}"));
            Check { name, ok: false, detail: named.collect::<Vec<_>>().join("; ") }
        }
    }
}

fn accepting(hall: &Hall) -> Check {
    let ok = !hall.door.draining.is_cancelled();
    let detail = if ok { "accepting requests" } else { "shutting down" };
    Check { name: "accepting", ok, detail: detail.to_owned() }
}
