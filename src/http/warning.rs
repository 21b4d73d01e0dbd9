//! The warning that what is read may lack what was lost: on every answer about a namespace that is stopped.

use axum::http::{HeaderValue, Uri};
use axum::response::Response;

use crate::domain::permission::Rules;
use crate::domain::resource::{Namespace, ResourceName};
use crate::protocol::outcome::LeaseView;

use super::query::Query;
use super::routes::Route;
use super::wire::FENCING_WARNING;
use super::{Hall, names};

const QUARANTINED: HeaderValue = HeaderValue::from_static("quarantined");

/// Lists without a filter: what they show is of any namespace.
const OF_ALL: [&str; 3] = ["/v1/resources", "/v1/operations", "/v1/namespaces"];

/// What an answer is about, where its address does not tell.
#[derive(Debug, Clone)]
struct Concerns(Vec<Namespace>);

/// Notes what an answer is about.
pub(super) fn about<'r>(
    mut response: Response,
    resources: impl IntoIterator<Item = &'r ResourceName>,
) -> Response {
    let namespaces = resources.into_iter().map(ResourceName::namespace).collect();
    response.extensions_mut().insert(Concerns(namespaces));
    response
}

/// Notes which lease an answer is about.
pub(super) fn about_lease(response: Response, view: &LeaseView) -> Response {
    about(response, view.lease.members().map(|(resource, _)| resource))
}

/// Adds the warning where it is due.
/// A caller is not told of namespaces in which it may do nothing.
pub(super) fn add(hall: &Hall, route: &Route, uri: &Uri, asking: &Rules, response: &mut Response) {
    let ledger = &hall.door.ledger;
    if !ledger.is_any_stopped() {
        return;
    }
    let noted = response.extensions().get::<Concerns>();
    let due = match (named(route, uri), noted) {
        (Some(namespace), _) => asking.know(namespace.as_str()) && ledger.is_stopped(&namespace),
        (None, Some(Concerns(namespaces))) => namespaces.iter().any(|one| ledger.is_stopped(one)),
        (None, None) => OF_ALL.contains(&route.path),
    };
    if due {
        response.headers_mut().insert(FENCING_WARNING, QUARANTINED);
    }
}

/// The namespace that an address names, in its path or in its query.
fn named(route: &Route, uri: &Uri) -> Option<Namespace> {
    let in_path = ["{namespace}", "{name}"].iter().find_map(|part| route.path.split_once(part));
    if let Some((prefix, _)) = in_path {
        return names::first_below(uri, prefix.trim_end_matches('/'));
    }
    let taken = route.calls.iter().flat_map(|call| call.query).copied().collect::<Vec<_>>();
    let query = Query::parse(uri, &taken).ok()?;
    let name = ["resource", "namespace", "prefix"].iter().find_map(|word| query.value(word))?;
    Namespace::parse(name.split('/').next()?).ok()
}
