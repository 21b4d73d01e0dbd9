//! The door: requests become words of the domain, once; outcomes become status, headers and body.
//!
//! A handler is parse, execute, render. It knows no rule and no SQL, compares no positions, never retries, and never
//! awaits a database: it hands a command to the ledger and waits for the answer.

mod acquire;
mod advance;
mod audit;
mod body;
mod control;
mod count;
mod decide;
mod definition;
mod docs;
mod epoch;
mod events;
mod extract;
mod fenced;
mod gate;
mod health;
mod json;
mod layers;
mod leases;
mod member;
mod metrics;
mod names;
mod namespaces;
mod observe;
mod operations;
mod pace;
mod patience;
mod permitted;
pub mod problem;
mod query;
mod relay;
mod reloads;
mod resolve;
mod resources;
mod routes;
mod stopping;
mod timeline;
mod transfer;
mod visit;
mod warning;
mod whoami;
mod whole;
mod wire;
mod writes;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::Span;

use crate::access::pace::Share;
use crate::access::{Access, Caller};
use crate::dispatch::Dispatch;
use crate::domain::entropy::Entropy;
use crate::domain::namespaces::Namespaces;
use crate::domain::principal::PrincipalName;
use crate::domain::time::{Clock, Timestamp};
use crate::ledger::{Ledger, Unserved};
use crate::limits;

use body::Payload;
use events::Streams;
use layers::RequestIds;
use patience::Refusing;
use permitted::Permitted;
use problem::{Code, Problem};
use query::Query;
use routes::{Run, is_data_plane};

pub use extract::TwoLengths;
pub use gate::Gate;
pub use namespaces::render_whole;
pub use reloads::{Reload, Reloads};
pub use resources::render_control;
pub use routes::{Call, Route, routes};
pub use stopping::Stopping;
pub use visit::Visit;
pub use wire::render_receipt;

/// What the door stands on.
#[derive(Clone)]
pub struct Door {
    /// Where commands and reads go.
    pub ledger: Ledger,
    /// Where announced effects and reads of upstreams go.
    pub dispatch: Dispatch,
    /// Measures latency and dates request ids; leases live by the ledger's own time.
    pub clock: Arc<dyn Clock>,
    /// Makes request ids, nonces and jitter.
    pub entropy: Arc<dyn Entropy>,
    /// How far the process has come with its stop.
    pub stopping: Stopping,
    /// What became of the last reload.
    pub reloads: Reloads,
    /// When the process started.
    pub started_at: Timestamp,
    /// Who may do what.
    pub access: Access,
}

/// The door with what it shares between requests.
struct Hall {
    door: Door,
    /// Who is waiting to be refused.
    refusing: Refusing,
    /// Memory for bodies, in KiB.
    bodies: Arc<Semaphore>,
    /// The same for bodies of what goes through when nothing else does.
    reserved_bodies: Arc<Semaphore>,
    /// Room on disk for bodies that go to upstreams, in KiB.
    spooled: Arc<Semaphore>,
    /// Whose streams of events are open.
    streams: Arc<Streams>,
    /// Who watches a lease or a resource.
    watchers: Arc<Streams>,
    /// How many of these look at once.
    looks: Arc<Semaphore>,
    /// Who may keep which leases, as far as it was looked up.
    permitted: Permitted,
    request_ids: RequestIds,
    /// Requests that are being answered; a stream counts until it begins.
    under_way: TaskTracker,
}

impl Hall {
    fn namespaces(&self) -> &Namespaces {
        &self.door.ledger.setting().namespaces
    }
}

/// A request that has passed the gate: its head, its query, and what it may use.
struct Asked<'a> {
    hall: &'a Hall,
    head: &'a Parts,
    query: Query,
    caller: &'a Caller,
    share: Share,
}

impl Asked<'_> {
    const fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Who asks, as records have it. The one place that says so.
    fn actor(&self) -> PrincipalName {
        self.caller.name().clone()
    }
}

/// Answers requests. Clones share everything.
///
/// What is asked for most goes straight to its handler: a router and its layers cost several allocations with every
/// request, and the data plane is a prefix.
#[derive(Clone)]
pub struct Front {
    hall: Arc<Hall>,
    data_plane: Option<&'static Route>,
    others: Router,
}

impl Front {
    /// Every route of [`routes()`], and a problem for everything else.
    #[must_use]
    pub fn new(door: Door) -> Self {
        let metrics = door.ledger.metrics();
        metrics.http.open(routes().iter().map(|route| route.path));
        metrics.started_at(door.started_at);
        for code in [Code::Overloaded, Code::Draining, Code::DatabaseUnavailable, Code::CommitUnknown] {
            // There from the beginning: nobody can be warned of the first one in a series that is not there before.
            let _there = metrics.unserved.of(code.word());
        }
        let hall = Arc::new(Hall {
            door,
            refusing: Refusing::default(),
            bodies: Arc::new(Semaphore::new(limits::BODIES_IN_FLIGHT_KIB)),
            reserved_bodies: Arc::new(Semaphore::new(limits::BODIES_RESERVED_KIB)),
            spooled: Arc::new(Semaphore::new(limits::SPOOLED_IN_FLIGHT_KIB)),
            streams: Streams::of_events(),
            watchers: Streams::of_watchers(),
            looks: Arc::new(Semaphore::new(limits::WATCHERS_LOOKING)),
            permitted: Permitted::default(),
            request_ids: RequestIds::default(),
            under_way: TaskTracker::new(),
        });
        let mut others = Router::new();
        for route in routes().iter().filter(|route| !route.is_data_plane()) {
            for pattern in route.patterns {
                let hall = hall.clone();
                let named = async move |request| {
                    Span::current().record("path", route.path);
                    let mut response = served(&hall, route, request).await;
                    // Whoever counts stands outside the router.
                    response.extensions_mut().insert(layers::Path(route.path));
                    response
                };
                others = others.route(pattern, any(named));
            }
        }
        let data_plane = routes().iter().find(|route| route.is_data_plane());
        Self { hall, data_plane, others: others.fallback(unknown) }
    }

    /// Requests that are being answered: a stop waits for them.
    #[must_use]
    pub fn under_way(&self) -> TaskTracker {
        self.hall.under_way.clone()
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request) -> Response {
        let _answering = self.hall.under_way.token();
        let route = self.data_plane.filter(|_| is_data_plane(request.uri().path()));
        layers::around(&self.hall, request, route.map(|route| route.path), async |request| match route {
            Some(route) => served(&self.hall, route, request).await,
            None => self.others.clone().oneshot(request).await.unwrap_or_else(|never| match never {}),
        })
        .await
    }
}

/// Serves one request of a known path.
async fn served(hall: &Hall, route: &'static Route, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let mut payload = Payload::new(&head.headers, body);
    let caller = if route.is_open() { Ok(Caller::nobody()) } else { pace::identified(hall, &head).await };
    let mut pace = Ok(None);
    let answer = match &caller {
        Ok(caller) => {
            if !route.is_open() {
                pace = pace::take(hall, route.share(&head.method), caller);
            }
            match pace {
                Ok(_) => called(hall, route, &head, &mut payload, caller).await,
                Err(spent) => Err(pace::too_often(caller, spent)),
            }
        }
        Err(problem) => Err(problem.clone()),
    };
    payload.linger();
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    pace::tell(hall, pace, &mut response);
    if let Ok(caller) = &caller {
        if route.is_data_plane()
            && let Some(guarantee) = names::guarantee_of(&head.uri, hall.namespaces(), caller.rules())
        {
            response.headers_mut().insert(wire::FENCING_GUARANTEE, HeaderValue::from_static(guarantee));
        }
        warning::add(hall, route, &head.uri, caller.rules(), &mut response);
    }
    response
}

async fn called(
    hall: &Hall,
    route: &'static Route,
    head: &Parts,
    payload: &mut Payload,
    caller: &Caller,
) -> Result<Response, Problem> {
    let is_open = hall.door.access.is_open();
    if !is_open {
        Span::current().record("principal", caller.name().as_str());
    }
    let call = route.call(&head.method).ok_or_else(|| not_allowed(route, head, hall.namespaces(), caller))?;
    extract::addressed(head, is_open)?;
    extract::single(&head.headers)?;
    // What the query of the data plane means, the store behind it tells.
    let query = if route.is_data_plane() { Query::default() } else { Query::parse(&head.uri, call.query)? };
    let asked = Asked { hall, head, query, caller, share: call.share };
    let answer = match call.run {
        Run::Read(read) => read(asked).await,
        Run::Change(_) if !call.outlasts && hall.door.stopping.draining.is_cancelled() => {
            Err(problem::draining())
        }
        // What could not be queued is not read either: a refusal then costs next to nothing.
        Run::Change(_) if call.share == Share::Ordinary && !hall.has_room().await => {
            Err(problem::unserved(&Unserved::Overloaded, None))
        }
        Run::Change(change) => change(asked, payload).await,
    };
    answer.map_err(|problem| gate::seen(caller, problem))
}

impl Hall {
    /// Whether there is room for an ordinary command.
    async fn has_room(&self) -> bool {
        self.refusing.has_room(&self.door.ledger, self.door.clock.as_ref()).await
    }
}

fn not_allowed(route: &Route, head: &Parts, known: &Namespaces, caller: &Caller) -> Problem {
    let of_store =
        if route.is_data_plane() { fenced::methods_of(&head.uri, known, caller.rules()) } else { None };
    let allow = of_store.map_or_else(|| route.allow(), str::to_owned);
    let detail = format!("{} is not allowed here; this address takes {allow}", head.method);
    Problem::method_not_allowed(detail, allow)
}

async fn unknown(request: Request) -> Problem {
    let detail = format!(
        "there is nothing at {:?}; /openapi.yaml describes what there is (a slash inside an id is written %2F)",
        problem::elsewhere(request.uri().path())
    );
    Problem::new(Code::NotFound, detail)
}
