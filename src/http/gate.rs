//! The gate: who asks, and whether it may. Every handler gets names from here, parsed and allowed in one step, so that
//! none can be used that was not asked about.
//!
//! What is forbidden and what does not exist are answered alike: only its own rules stand in what a caller is told.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HeaderValue};
use axum::http::request::Parts;

use crate::access::{Access, Caller, Denied, Peer, Principal};
use crate::domain::namespaces::Namespaces;
use crate::domain::permission::Permission;
use crate::domain::resource::{Namespace, Path, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::{Clock, Timestamp};

use super::names::{self, Place};
use super::problem::{Code, Problem};
use super::query::malformed;
use super::{Asked, Hall};

/// Who may make a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Everybody, without credentials.
    Open,
    /// Everybody who is known.
    Known,
    /// Whoever has one of these for what the call is about.
    Permitted(&'static [Permission]),
}

/// Somebody who is not let in.
pub(super) struct Stranger {
    pub(super) problem: Problem,
    /// Whether its address is told to wait when this happens too often.
    pub(super) counts: bool,
}

/// Who asks.
pub(super) async fn identified(hall: &Hall, head: &Parts) -> Result<Caller, Stranger> {
    let mut given = head.headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (given.next(), given.next());
    if second.is_some() {
        let problem = malformed("the header authorization is given twice; send it once");
        return Err(Stranger { problem, counts: false });
    }
    let (access, peer, now) = (&hall.door.access, head.extensions.get::<Peer>(), hall.door.clock.wall());
    known(access, first, peer, now).await.map_err(nobody)
}

/// Who shows this header, on a connection of this certificate.
async fn known(
    access: &Access,
    authorization: Option<&HeaderValue>,
    peer: Option<&Peer>,
    now: Timestamp,
) -> Result<Caller, Denied> {
    let bearer = match authorization {
        _ if access.is_open() => None,
        None => None,
        Some(value) => {
            let form = "not of the form Bearer, one blank, and your key or token";
            Some(bearer_of(value.as_bytes()).ok_or(Denied::Malformed(form))?)
        }
    };
    access.identify(bearer, peer, now).await
}

/// What a caller showed that is let in for long: a stream looks at it again and again, as if the request came now. So it ends
/// with a key or a token, and with the line or the rules of its principal.
pub(super) struct Credentials {
    access: Access,
    clock: Arc<dyn Clock>,
    authorization: Option<HeaderValue>,
    peer: Option<Peer>,
    principal: Arc<Principal>,
}

impl Credentials {
    pub(super) fn of(asked: &Asked<'_>) -> Self {
        let Asked { hall, head, caller, .. } = asked;
        Self {
            access: hall.door.access.clone(),
            clock: hall.door.clock.clone(),
            authorization: head.headers.get(AUTHORIZATION).cloned(),
            peer: head.extensions.get::<Peer>().cloned(),
            principal: caller.principal().clone(),
        }
    }

    /// Whether they would still let in the same caller, to whom the same is allowed.
    pub(super) async fn hold(&self) -> bool {
        let now = self.clock.wall();
        let found = known(&self.access, self.authorization.as_ref(), self.peer.as_ref(), now).await;
        found.is_ok_and(|caller| {
            *caller.name() == self.principal.name && *caller.rules() == self.principal.rules
        })
    }
}

/// What stands after the scheme, whose letters may be large or small (RFC 9110 section 11.1).
fn bearer_of(value: &[u8]) -> Option<&str> {
    let (scheme, rest) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    let token = rest.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn nobody(denied: Denied) -> Stranger {
    let problem = match denied {
        Denied::Missing | Denied::Malformed(_) | Denied::Refused => {
            Problem::new(Code::Unauthenticated, denied.to_string())
        }
        Denied::Unavailable(pause) | Denied::NotAsked(pause) => {
            Problem::new(Code::CredentialsUnavailable, denied.to_string()).retry_after(pause)
        }
    };
    Stranger { problem, counts: denied.counts() }
}

impl Asked<'_> {
    /// Whether the caller may do this to the resource of this name.
    pub(super) fn may(&self, permission: Permission, name: &str) -> bool {
        self.caller.rules().allow(name, permission)
    }

    /// Refuses a caller that may not do this to the resource of this name.
    pub(super) fn require(&self, permission: Permission, name: &str) -> Result<(), Problem> {
        require(self.caller, permission, name)
    }

    /// Refuses a caller that may do this to nothing at all, before a long body of its is read.
    pub(super) fn require_any(&self, permission: Permission) -> Result<(), Problem> {
        if self.caller.rules().mention(permission) {
            return Ok(());
        }
        let detail = format!(
            "{} may not {} anything; GET /v1/whoami tells what you may do",
            self.caller.name(),
            permission.word()
        );
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// Refuses a caller that may not do this to everything whose name begins so; the empty text is everything.
    pub(super) fn require_all(&self, permission: Permission, beginning: &str) -> Result<(), Problem> {
        if self.caller.rules().cover(beginning, permission) {
            return Ok(());
        }
        let what = if beginning.is_empty() {
            "everything".to_owned()
        } else {
            format!("all that begins with {beginning:?}")
        };
        let detail = format!(
            "{} may not {} {what}; ask for less (GET /v1/whoami tells what you may do), or have the rule changed",
            self.caller.name(),
            permission.word()
        );
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// The place that the rest of the path names, for a caller that may do this to it.
    pub(super) fn place(&self, prefix: &str, permission: Permission) -> Result<Place, Problem> {
        let path = names::path_below(&self.head.uri, prefix)?;
        admitted(self.caller, self.hall.namespaces(), &path, permission)
    }

    /// Refuses a caller that would not be let in to the rest of the path any more, if it came now: it has waited.
    pub(super) async fn still_placed(&self, prefix: &str, permission: Permission) -> Result<(), Problem> {
        let caller = identified(self.hall, self.head).await.map_err(|stranger| stranger.problem)?;
        let path = names::path_below(&self.head.uri, prefix)?;
        admitted(&caller, self.hall.namespaces(), &path, permission).map(drop)
    }

    /// The same for a caller that may do one of these to it; what is refused is told of the last of them.
    pub(super) fn place_for_any(&self, prefix: &str, permissions: &[Permission]) -> Result<Place, Problem> {
        let path = names::path_below(&self.head.uri, prefix)?;
        let mut refused = None;
        for permission in permissions {
            match admitted(self.caller, self.hall.namespaces(), &path, *permission) {
                Ok(place) => return Ok(place),
                Err(problem) => refused = Some(problem),
            }
        }
        Err(refused.unwrap_or_else(Problem::fault_without_change))
    }

    /// The place that a decoded name leads to, for a caller that may do this to it.
    pub(super) fn place_of(&self, name: &str, permission: Permission) -> Result<Place, Problem> {
        named(self.caller, self.hall.namespaces(), name, permission)
    }

    /// Refuses a caller that may not do this to all that an act on a namespace, or on all of them, touches.
    pub(super) fn require_whole(&self, permission: Permission, subject: &Subject) -> Result<(), Problem> {
        let name = match subject {
            Subject::Everywhere => return self.require_all(permission, ""),
            Subject::Namespace(name) => name.as_str(),
            Subject::Resource(name) => return self.require(permission, name.as_str()),
        };
        self.require(permission, name)?;
        self.require_all(permission, &format!("{name}/"))
    }

    /// Whether the caller may see that a namespace exists.
    pub(super) fn knows(&self, namespace: &Namespace) -> bool {
        self.caller.rules().know(namespace.as_str())
    }

    /// Whether the caller may do this to every resource of a lease.
    pub(super) fn may_all<'n>(
        &self,
        permission: Permission,
        mut resources: impl Iterator<Item = &'n ResourceName>,
    ) -> bool {
        resources.all(|resource| self.may(permission, resource.as_str()))
    }
}

/// The place that a decoded name leads to, for a caller that may do this to it.
pub(super) fn named(
    caller: &Caller,
    known: &Namespaces,
    name: &str,
    permission: Permission,
) -> Result<Place, Problem> {
    admitted(caller, known, &names::path_of(name)?, permission)
}

/// A target is asked about, and its resource, whose fence it stands behind. Whether its namespace exists is told only to
/// those who may do something there.
fn admitted(
    caller: &Caller,
    known: &Namespaces,
    path: &Path,
    permission: Permission,
) -> Result<Place, Problem> {
    require(caller, permission, path.as_str())?;
    let place = names::place(path, known)?;
    let resource = place.address.resource.as_str();
    if resource != path.as_str() {
        require(caller, permission, resource)?;
    }
    Ok(place)
}

fn require(caller: &Caller, permission: Permission, name: &str) -> Result<(), Problem> {
    if caller.rules().allow(name, permission) { Ok(()) } else { Err(forbidden(caller, permission, name)) }
}

/// A problem as this caller may see it: where a resource stands is told only to those who may read it.
pub(super) fn seen(caller: &Caller, problem: Problem) -> Problem {
    match problem.resource() {
        Some(resource) if !caller.rules().allow(resource, Permission::Read) => problem.without_standing(),
        Some(_) | None => problem,
    }
}

/// What a caller is told that may not do something, whether or not there is anything of that name.
fn forbidden(caller: &Caller, permission: Permission, name: &str) -> Problem {
    let because = match caller.rules().deciding(name) {
        Some(rule) => {
            format!("the rule for {:?} allows {}", rule.prefix.as_str(), words(&rule.permissions.words()))
        }
        None => "no rule speaks of it".to_owned(),
    };
    let detail = format!(
        "{} may not {} {name:?}: {because}; GET /v1/whoami tells what you may do",
        caller.name(),
        permission.word()
    );
    Problem::new(Code::Forbidden, detail)
}

fn words(list: &[&str]) -> String {
    if list.is_empty() { "nothing".to_owned() } else { list.join(", ") }
}
