//! Health: whether the process answers, whether to send requests to it, and what runs here.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use uuid::Uuid;

use crate::dispatch::{Earned, VersionsSeen};
use crate::domain::counter::LedgerSeq;
use crate::domain::permission::Permission;
use crate::domain::resource::Namespace;
use crate::domain::store::HttpStore;
use crate::limits::PROBE_TIMEOUT;

use super::namespaces::{BreakerJson, differing};
use super::problem::{Code, Problem};
use super::wire::{self, Rfc3339, Shown};
use super::{Asked, Hall, Reload};

#[derive(Serialize)]
struct AliveJson {
    alive: bool,
}

#[derive(Serialize)]
struct ReadyJson {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<[Check; 7]>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    /// None for those who may not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Serialize)]
struct StatusJson {
    version: &'static str,
    api_version: &'static str,
    database: DatabaseJson,
    namespaces: NamespacesJson,
    /// What is stopped, because the records were found to have gone back in time.
    quarantined: Vec<StoppedJson>,
    stores: Vec<StoreJson>,
    started_at: Rfc3339,
    /// What became of the last reload of the configuration; none before the first.
    reload: Option<ReloadJson>,
}

#[derive(Serialize)]
struct ReloadJson {
    at: Rfc3339,
    result: &'static str,
    /// Keys, never values.
    changed: Vec<String>,
    ignored: Vec<String>,
    detail: Option<String>,
}

impl ReloadJson {
    fn of(reload: Reload) -> Self {
        let result = reload.result();
        let Reload { at, changed, ignored, mistake } = reload;
        Self { at: Rfc3339(at), result, changed, ignored, detail: mistake }
    }
}

/// A namespace that is stopped, or `*` for all of them.
#[derive(Serialize)]
struct StoppedJson {
    namespace: String,
    #[serde(flatten)]
    breaker: BreakerJson,
}

/// A store behind HTTP.
#[derive(Serialize)]
struct StoreJson {
    namespace: String,
    class: &'static str,
    guarantee: &'static str,
    /// Whether it has earned its class.
    probe: &'static str,
    detail: Option<String>,
    /// As it named them to the probe that it passed.
    versions: Vec<String>,
    /// As it has named them since then.
    unprobed_versions: Vec<String>,
}

impl StoreJson {
    fn of(namespace: &Namespace, store: &HttpStore, earned: &Earned, seen: VersionsSeen) -> Self {
        let detail = match earned {
            Earned::Unreachable(reason) | Earned::Failed(reason) => Some(reason.clone()),
            Earned::NotAsked | Earned::NotYet | Earned::Passed => None,
        };
        Self {
            namespace: namespace.to_string(),
            class: store.class.word(),
            guarantee: store.class.guarantee(),
            probe: earned.word(),
            detail,
            versions: seen.probed,
            unprobed_versions: seen.unprobed,
        }
    }
}

#[derive(Serialize)]
struct DatabaseJson {
    engine: &'static str,
    id: Shown<Uuid>,
    schema_version: Option<i64>,
    durability: String,
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

/// `GET /readyz`. A namespace that is configured differently is named and makes nobody unready: the others are served. One
/// that is stopped makes every replica unready: what has happened to its records concerns the whole database.
pub(super) async fn readyz(asked: Asked<'_>) -> Result<Response, Problem> {
    let hall = asked.hall;
    let (writers, readers) = tokio::join!(ledger(hall), reads(hall));
    let breaker = breaker(hall).await;
    let checks =
        [writers, readers, definitions(hall).await, accepting(hall), breaker, queue(hall), stores(hall)];
    let [writers, readers, _, accepting, breaker, ..] = &checks;
    let ready = writers.ok && readers.ok && breaker.ok && accepting.ok;
    let status = if ready { StatusCode::OK } else { Code::DatabaseUnavailable.status() };
    let mut checks = asked.query.value("verbose").map(|_| checks);
    if let Some(checks) = checks.as_mut().filter(|_| !hall.door.access.is_open())
        && !may_see_all(&asked).await
    {
        for check in checks {
            check.detail = None;
        }
    }
    Ok(wire::json(status, &ReadyJson { ready, checks }))
}

/// Whether the caller showed who it is, though it need not here, and may read everything: numbers and names of namespaces
/// are for nobody else.
async fn may_see_all(asked: &Asked<'_>) -> bool {
    match super::pace::identified(asked.hall, asked.head).await {
        Ok(caller) => caller.rules().cover("", Permission::Read),
        Err(_) => false,
    }
}

/// `GET /v1/status`.
pub(super) async fn status(asked: Asked<'_>) -> Result<Response, Problem> {
    asked.require_all(Permission::Read, "")?;
    let hall = asked.hall;
    let (_, differing) = differing(hall).await?;
    let ledger_seq = hall.read(|reader| reader.ledger_seq()).await?;
    let stopped = hall.read(|reader| reader.stopped()).await?;
    let durability = hall.read(|reader| reader.durability()).await?;
    let identity = &hall.door.ledger.setting().identity;
    let answer = StatusJson {
        version: env!("CARGO_PKG_VERSION"),
        api_version: "v1",
        database: DatabaseJson {
            engine: identity.engine,
            id: Shown(identity.database),
            schema_version: identity.schema_version,
            durability,
            ledger_seq: Shown(ledger_seq),
        },
        namespaces: NamespacesJson {
            configured: hall.namespaces().named().count(),
            differing: differing.into_iter().map(|(name, _)| name.to_string()).collect(),
        },
        quarantined: stopped
            .into_iter()
            .map(|(subject, breaker)| StoppedJson {
                namespace: subject.to_string(),
                breaker: BreakerJson::of(&breaker),
            })
            .collect(),
        stores: hall
            .door
            .dispatch
            .stores()
            .map(|(name, store, earned, seen)| StoreJson::of(name, store, &earned, seen))
            .collect(),
        started_at: Rfc3339(hall.door.started_at),
        reload: hall.door.reloads.last().map(ReloadJson::of),
    };
    Ok(wire::json(StatusCode::OK, &answer))
}

/// Whether every committer can begin and end a transaction. Only the waiting is given up after a while, never the
/// transaction.
async fn ledger(hall: &Hall) -> Check {
    let probed = tokio::time::timeout(PROBE_TIMEOUT, hall.door.ledger.probe()).await;
    let (ok, detail) = match probed {
        Err(_) => (false, no_answer()),
        Ok(Err(unserved)) => (false, unserved.to_string()),
        Ok(Ok(())) => (true, hall.door.ledger.setting().identity.engine.to_owned()),
    };
    Check { name: "ledger", ok, detail: Some(detail) }
}

/// Whether the records can be read, and how far they go.
async fn reads(hall: &Hall) -> Check {
    let read = tokio::time::timeout(PROBE_TIMEOUT, hall.read(|reader| reader.ledger_seq())).await;
    let (ok, detail) = match read {
        Err(_) => (false, no_answer()),
        Ok(Err(problem)) => (false, problem.detail().to_owned()),
        Ok(Ok(seq)) => (true, format!("up to {seq}")),
    };
    Check { name: "reads", ok, detail: Some(detail) }
}

fn no_answer() -> String {
    format!("no answer within {} s", PROBE_TIMEOUT.as_secs())
}

/// Whether the records were found to have gone back in time.
async fn breaker(hall: &Hall) -> Check {
    let name = "breaker";
    let read = tokio::time::timeout(PROBE_TIMEOUT, hall.door.ledger.stopped()).await;
    let (ok, detail) = match read {
        Err(_) => (false, no_answer()),
        Ok(Err(unserved)) => (false, unserved.to_string()),
        Ok(Ok(stopped)) if stopped.is_empty() => (true, "nothing is stopped".to_owned()),
        Ok(Ok(stopped)) => {
            let named =
                stopped.iter().map(|(subject, breaker)| format!("{subject} is stopped: {}", breaker.found));
            (false, named.collect::<Vec<_>>().join("; "))
        }
    };
    Check { name, ok, detail: Some(detail) }
}

async fn definitions(hall: &Hall) -> Check {
    let name = "definitions";
    match differing(hall).await {
        Err(problem) => Check { name, ok: false, detail: Some(problem.detail().to_owned()) },
        Ok((count, differing)) if differing.is_empty() => {
            Check { name, ok: true, detail: Some(format!("{count} namespaces are recorded, none differs")) }
        }
        Ok((_, differing)) => {
            let named = differing.iter().map(|(namespace, difference)| format!("{namespace:?} {difference}"));
            Check { name, ok: false, detail: Some(named.collect::<Vec<_>>().join("; ")) }
        }
    }
}

/// Whether there is room for further commands. A gateway without is still ready: to send what it refuses to the others would
/// only fill their queues.
fn queue(hall: &Hall) -> Check {
    let (waiting, room) = hall.door.ledger.queued();
    Check { name: "queue", ok: waiting < room, detail: Some(format!("{waiting} of {room} places are taken")) }
}

/// Whether the stores behind HTTP have earned their classes. One that has not makes nobody unready: its namespace alone is
/// refused, by every replica alike.
fn stores(hall: &Hall) -> Check {
    let doubtful = hall.door.dispatch.stores().filter_map(|(name, _, earned, _)| match earned {
        Earned::Unreachable(reason) | Earned::Failed(reason) => Some(format!("{name:?}: {reason}")),
        Earned::NotAsked | Earned::NotYet | Earned::Passed => None,
    });
    let doubtful: Vec<String> = doubtful.collect();
    let detail = if doubtful.is_empty() { "no probe has failed".to_owned() } else { doubtful.join("; ") };
    Check { name: "stores", ok: doubtful.is_empty(), detail: Some(detail) }
}

fn accepting(hall: &Hall) -> Check {
    let ok = !hall.door.stopping.announced.is_cancelled();
    let detail = if ok { "accepting requests" } else { "draining: it stops, and serves what still comes" };
    Check { name: "accepting", ok, detail: Some(detail.to_owned()) }
}
