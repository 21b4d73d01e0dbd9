//! `GET /metrics`: what the gateway counts, for whoever scrapes it. It asks nobody: a database that hangs does not hide
//! the figures that tell of it.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::domain::permission::Permission;
use crate::telemetry::{self, metrics};

use super::Asked;
use super::problem::Problem;

const TEXT: HeaderValue = HeaderValue::from_static(metrics::CONTENT_TYPE);

/// `GET /metrics`.
pub(super) fn show(asked: &Asked<'_>) -> Result<Response, Problem> {
    asked.require_all(Permission::Read, "")?;
    let door = &asked.hall.door;
    let stores = door.dispatch.stores();
    let now = metrics::Now {
        stores: stores.map(|(name, _, earned, _)| (name.to_string(), earned.admits())).collect(),
        forwards: door.dispatch.under_way(),
        log_lines_dropped: telemetry::lines_dropped(),
        issuer: door.access.tokens().map(|tokens| metrics::IssuerKeys {
            count: tokens.keys(),
            age: tokens.age(),
            most: tokens.greatest_age(),
        }),
        ..door.ledger.now()
    };
    let text = door.ledger.metrics().text(now).map_err(|_| Problem::fault_without_change())?;
    Ok(([(CONTENT_TYPE, TEXT)], text).into_response())
}
