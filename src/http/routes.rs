//! The one visible list of routes: the router is built from it, and a test holds it against `openapi.yaml`.

use std::future::{Future, ready};
use std::pin::Pin;

use axum::http::Method;
use axum::response::Response;

use super::body::Payload;
use super::gate::Gate;
use super::problem::Problem;
use super::{
    Asked, acquire, advance, audit, control, definition, docs, epoch, events, fenced, health, leases,
    metrics, namespaces, observe, operations, resolve, resources, timeline, transfer, whoami, writes,
};
use crate::access::pace::Share;
use crate::domain::permission::Permission::{Admin, Advance, Lease, Operate, Read, Write};
use crate::protocol::control::ControlVerb;

type Running<'a> = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send + 'a>>;

/// What serves a call.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// Changes nothing, and goes on while the process drains.
    Read(for<'a> fn(Asked<'a>) -> Running<'a>),
    /// May change something.
    Change(for<'a> fn(Asked<'a>, &'a mut Payload) -> Running<'a>),
}

/// One path and what can be done with it.
pub struct Route {
    /// As in `openapi.yaml`.
    pub path: &'static str,
    /// As the router reads it. A name takes the rest of the path and is decoded by `names`; the router's wildcard does
    /// not match an empty rest, so those stand apart.
    pub patterns: &'static [&'static str],
    /// What can be done.
    pub calls: &'static [Call],
}

/// One method of a path.
pub struct Call {
    /// The method's word.
    pub method: &'static str,
    /// The parameters that it takes in the query.
    pub query: &'static [&'static str],
    /// Who may make it.
    pub gate: Gate,
    /// Whether it is served though it may change something and the process drains: what keeps a lease, ends one or hands it
    /// over, so that no owner loses its work to the stop of a gateway.
    pub(super) outlasts: bool,
    /// Which allowance it takes from.
    pub(super) share: Share,
    pub(super) run: Run,
}

impl Call {
    /// It goes through when ordinary calls do not.
    const fn reserved(self) -> Self {
        Self { share: Share::Reserved, ..self }
    }
}

impl Route {
    /// The call that a method makes. HEAD is answered wherever GET is (RFC 9110 section 9.1), without its body.
    pub(super) fn call(&self, method: &Method) -> Option<&'static Call> {
        let named = |word: &str| self.calls.iter().find(|call| call.method == word);
        named(method.as_str()).or_else(|| if *method == Method::HEAD { named("GET") } else { None })
    }

    /// The methods, as `Allow` lists them.
    pub(super) fn allow(&self) -> String {
        let mut words: Vec<&str> = self.calls.iter().map(|call| call.method).collect();
        if let (Some(at), false) = (words.iter().position(|word| *word == "GET"), words.contains(&"HEAD")) {
            words.insert(at.saturating_add(1), "HEAD");
        }
        words.join(", ")
    }

    /// Which allowance a call takes from.
    pub(super) fn share(&self, method: &Method) -> Share {
        self.call(method).map_or(Share::Ordinary, |call| call.share)
    }

    /// Whether nobody is asked for credentials.
    pub(super) fn is_open(&self) -> bool {
        self.calls.iter().all(|call| call.gate == Gate::Open)
    }

    /// Whether every answer has its effect in a header.
    pub(super) fn is_data_plane(&self) -> bool {
        is_data_plane(self.path)
    }
}

/// Whether a path belongs to the data plane.
pub(super) fn is_data_plane(path: &str) -> bool {
    path.strip_prefix("/fenced").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

const fn read(
    method: &'static str,
    query: &'static [&'static str],
    gate: Gate,
    run: for<'a> fn(Asked<'a>) -> Running<'a>,
) -> Call {
    Call { method, query, gate, outlasts: true, share: Share::Ordinary, run: Run::Read(run) }
}

const fn change(
    method: &'static str,
    query: &'static [&'static str],
    gate: Gate,
    run: for<'a> fn(Asked<'a>, &'a mut Payload) -> Running<'a>,
) -> Call {
    Call { method, query, gate, outlasts: false, share: Share::Ordinary, run: Run::Change(run) }
}

/// A change that is made to the last.
const fn lasting(
    method: &'static str,
    query: &'static [&'static str],
    gate: Gate,
    run: for<'a> fn(Asked<'a>, &'a mut Payload) -> Running<'a>,
) -> Call {
    Call { method, query, gate, outlasts: true, share: Share::Ordinary, run: Run::Change(run) }
}

/// Every route there is.
#[must_use]
pub const fn routes() -> &'static [Route] {
    ROUTES
}

const READ: Gate = Gate::Permitted(&[Read]);
const LEASE: Gate = Gate::Permitted(&[Lease]);
const WRITE: Gate = Gate::Permitted(&[Write]);
const ADVANCE: Gate = Gate::Permitted(&[Advance]);
const OPERATE: Gate = Gate::Permitted(&[Operate]);
const ADMIN: Gate = Gate::Permitted(&[Admin]);
/// With a token as its owner, without one as an operator.
const OWNER_OR_OPERATOR: Gate = Gate::Permitted(&[Write, Operate]);

const ROUTES: &[Route] = &[
    Route {
        path: "/fenced/{namespace}/{name}",
        patterns: &["/fenced/{*name}", "/fenced/", "/fenced"],
        calls: &[
            read("GET", &[], READ, |asked| Box::pin(fenced::read(asked))),
            read("HEAD", &[], READ, |asked| Box::pin(fenced::read(asked))),
            change("PUT", &[], WRITE, |asked, body| Box::pin(fenced::write(asked, body))),
            change("POST", &[], WRITE, |asked, body| Box::pin(fenced::write(asked, body))),
            change("PATCH", &[], WRITE, |asked, body| Box::pin(fenced::write(asked, body))),
            change("DELETE", &[], WRITE, |asked, body| Box::pin(fenced::write(asked, body))),
        ],
    },
    Route {
        path: "/v1/leases",
        patterns: &["/v1/leases"],
        calls: &[change("POST", &[], LEASE, |asked, body| Box::pin(acquire::acquire(asked, body)))],
    },
    Route {
        path: "/v1/leases/{acquisition_id}",
        patterns: &["/v1/leases/{acquisition_id}"],
        calls: &[
            read("GET", &[], LEASE, |asked| Box::pin(leases::show(asked))),
            lasting("DELETE", &[], LEASE, |asked, _| Box::pin(leases::release(asked))).reserved(),
        ],
    },
    Route {
        path: "/v1/leases/{acquisition_id}/renew",
        patterns: &["/v1/leases/{acquisition_id}/renew"],
        calls: &[lasting("POST", &[], LEASE, |asked, body| Box::pin(leases::renew(asked, body))).reserved()],
    },
    Route {
        path: "/v1/leases/{acquisition_id}/events",
        patterns: &["/v1/leases/{acquisition_id}/events"],
        calls: &[read("GET", &[], LEASE, |asked| Box::pin(observe::events(asked)))],
    },
    Route {
        path: "/v1/leases/{acquisition_id}/transfer",
        patterns: &["/v1/leases/{acquisition_id}/transfer"],
        calls: &[lasting("POST", &[], LEASE, |asked, body| Box::pin(transfer::transfer(asked, body)))],
    },
    Route {
        path: "/v1/writes",
        patterns: &["/v1/writes"],
        calls: &[change("POST", &["dry_run"], WRITE, |asked, body| Box::pin(writes::apply(asked, body)))],
    },
    Route {
        path: "/v1/resources",
        patterns: &["/v1/resources"],
        calls: &[read("GET", &["namespace", "prefix", "life", "state", "cursor", "limit"], READ, |asked| {
            Box::pin(resources::list(asked))
        })],
    },
    Route {
        path: "/v1/resources/{name}",
        patterns: &["/v1/resources/{*name}", "/v1/resources/"],
        calls: &[read("GET", &["wait_ms"], READ, |asked| Box::pin(observe::resource(asked)))],
    },
    Route {
        path: "/v1/timeline/{name}",
        patterns: &["/v1/timeline/{*name}", "/v1/timeline/", "/v1/timeline"],
        calls: &[read("GET", &["cursor", "limit"], READ, |asked| Box::pin(timeline::show(asked)))],
    },
    Route {
        path: "/v1/advance/{name}",
        patterns: &["/v1/advance/{*name}", "/v1/advance/", "/v1/advance"],
        calls: &[change("POST", &[], ADVANCE, |asked, body| Box::pin(advance::advance(asked, body)))],
    },
    Route {
        path: "/v1/revoke/{name}",
        patterns: &["/v1/revoke/{*name}", "/v1/revoke/", "/v1/revoke"],
        calls: &[change("POST", &[], OWNER_OR_OPERATOR, |asked, body| {
            Box::pin(control::control(asked, body, ControlVerb::Revoke))
        })
        .reserved()],
    },
    Route {
        path: "/v1/cancel/{name}",
        patterns: &["/v1/cancel/{*name}", "/v1/cancel/", "/v1/cancel"],
        calls: &[change("POST", &[], OWNER_OR_OPERATOR, |asked, body| {
            Box::pin(control::control(asked, body, ControlVerb::Cancel))
        })
        .reserved()],
    },
    Route {
        path: "/v1/reopen/{name}",
        patterns: &["/v1/reopen/{*name}", "/v1/reopen/", "/v1/reopen"],
        calls: &[change("POST", &[], OWNER_OR_OPERATOR, |asked, body| {
            Box::pin(control::control(asked, body, ControlVerb::Reopen))
        })
        .reserved()],
    },
    Route {
        path: "/v1/operations",
        patterns: &["/v1/operations"],
        calls: &[read("GET", &["resource", "state", "cursor", "limit"], READ, |asked| {
            Box::pin(operations::list(asked))
        })],
    },
    Route {
        path: "/v1/operations/{operation_id}",
        patterns: &["/v1/operations/{operation_id}"],
        calls: &[read("GET", &["resource", "incarnation"], READ, |asked| Box::pin(operations::show(asked)))],
    },
    Route {
        path: "/v1/operations/{operation_id}/resolve",
        patterns: &["/v1/operations/{operation_id}/resolve"],
        calls: &[change("POST", &["resource", "incarnation"], OPERATE, |asked, body| {
            Box::pin(resolve::resolve(asked, body))
        })
        .reserved()],
    },
    Route {
        path: "/v1/namespaces",
        patterns: &["/v1/namespaces"],
        calls: &[read("GET", &[], Gate::Known, |asked| Box::pin(namespaces::list(asked)))],
    },
    Route {
        path: "/v1/namespaces/{namespace}",
        patterns: &["/v1/namespaces/{namespace}", "/v1/namespaces/"],
        calls: &[read("GET", &[], Gate::Known, |asked| Box::pin(namespaces::show(asked)))],
    },
    Route {
        path: "/v1/namespaces/{namespace}/epoch",
        patterns: &["/v1/namespaces/{namespace}/epoch"],
        calls: &[change("POST", &[], ADMIN, |asked, body| Box::pin(epoch::advance(asked, body))).reserved()],
    },
    Route {
        path: "/v1/namespaces/{namespace}/definition",
        patterns: &["/v1/namespaces/{namespace}/definition"],
        calls: &[
            change("POST", &[], ADMIN, |asked, body| Box::pin(definition::change(asked, body))).reserved()
        ],
    },
    Route {
        path: "/v1/events",
        patterns: &["/v1/events"],
        calls: &[read("GET", &["namespace", "prefix"], Gate::Known, |asked| Box::pin(events::stream(asked)))],
    },
    Route {
        path: "/v1/audit",
        patterns: &["/v1/audit"],
        calls: &[read(
            "GET",
            &["since", "until", "namespace", "verb", "actor", "cursor", "limit"],
            OPERATE,
            |asked| Box::pin(audit::list(asked)),
        )],
    },
    Route {
        path: "/v1/status",
        patterns: &["/v1/status"],
        calls: &[read("GET", &[], READ, |asked| Box::pin(health::status(asked)))],
    },
    Route {
        path: "/v1/whoami",
        patterns: &["/v1/whoami"],
        calls: &[read("GET", &["permission", "resource"], Gate::Known, |asked| {
            Box::pin(ready(whoami::show(&asked)))
        })],
    },
    Route {
        path: "/livez",
        patterns: &["/livez"],
        calls: &[read("GET", &[], Gate::Open, |_| Box::pin(ready(Ok(health::livez()))))],
    },
    Route {
        path: "/readyz",
        patterns: &["/readyz"],
        calls: &[read("GET", &["verbose"], Gate::Open, |asked| Box::pin(health::readyz(asked)))],
    },
    Route {
        path: "/metrics",
        patterns: &["/metrics"],
        calls: &[read("GET", &[], READ, |asked| Box::pin(ready(metrics::show(&asked))))],
    },
    Route {
        path: "/openapi.yaml",
        patterns: &["/openapi.yaml"],
        calls: &[read("GET", &[], Gate::Open, |_| Box::pin(ready(Ok(docs::openapi()))))],
    },
    Route {
        path: "/docs/errors/{code}",
        patterns: &["/docs/errors/{code}"],
        calls: &[read("GET", &[], Gate::Open, |asked| Box::pin(ready(docs::error_page(&asked))))],
    },
];
