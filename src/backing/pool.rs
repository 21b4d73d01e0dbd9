//! The connections to one upstream: bounded, the last one used first. It never sends a request again once a byte of it
//! may have been written; one that came back untouched from a connection that had been idle goes to a fresh one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::http::uri::Parts;
use hyper::{Request, Response, Uri, Version};
use tokio::runtime::{self, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::incoming::ReadBody;
use super::line::Line;
use super::link::{Link, One, Tried};
use super::order::Deadline;
use super::outgoing::Outgoing;
use super::version::Versions;
use crate::limits;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// Not one byte of the request was written.
    Unsent(String),
    /// No answer in time.
    TimedOut(String),
    /// Cut off, or none that can be understood.
    Broken(String),
}

impl Fault {
    /// What is wrong, for people.
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Unsent(why) | Self::TimedOut(why) | Self::Broken(why) => why,
        }
    }
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Until a connection stands, the turn for one included.
    pub(super) connect: Duration,
    /// From the first byte sent to the head of the answer; afterwards for each piece of its body.
    pub(super) answer: Duration,
}

/// The connections to one upstream.
pub(super) struct Pool {
    pub(super) line: Arc<Line>,
    pub(super) versions: Versions,
    patience: Patience,
    /// Whether each request has a connection of its own.
    fresh: bool,
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    shared: Mutex<Option<http2::SendRequest<Outgoing>>>,
    looks: AtomicU64,
    looking: AtomicBool,
}

struct Idle {
    one: Box<One>,
    since: u64,
    /// Whose events wake it.
    home: runtime::Id,
}

/// The right to use a connection; dropped, it closes the connection.
pub(super) struct Lease {
    link: Option<Link>,
    reused: bool,
    pool: Arc<Pool>,
    _turn: OwnedSemaphorePermit,
}

impl Lease {
    /// The connection.
    pub(super) const fn link(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// Keeps the connection for the next request, where it is fit for one.
    pub(super) fn give_back(mut self) {
        if let Some(Link::One(mut one)) = self.link.take()
            && !self.pool.fresh
            && one.is_fit()
        {
            self.pool.keep(one);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool without a connection.
    pub(super) fn new(line: Arc<Line>, patience: Patience, fresh: bool, versions: Versions) -> Self {
        Self {
            line,
            versions,
            patience,
            fresh,
            turns: Arc::new(Semaphore::new(limits::UPSTREAM_CONNECTIONS)),
            idle: Mutex::default(),
            shared: Mutex::default(),
            looks: AtomicU64::new(0),
            looking: AtomicBool::new(false),
        }
    }

    /// One request and the head of its answer. Nothing is begun after the deadline, by whom ever the wait was made long.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        request: Request<Outgoing>,
        deadline: &Deadline,
    ) -> Result<Response<ReadBody>, Fault> {
        let in_time = |lease: Lease| if deadline.has_passed() { Err(Self::too_late()) } else { Ok(lease) };
        let lease = match self.lease_at_once() {
            Some(lease) => lease,
            // Apart on the heap, as the second try: the future of the usual way is copied several times with each request.
            None => Box::pin(self.lease(self.fresh)).await?,
        };
        let lease = in_time(lease)?;
        let reused = lease.reused;
        match self.send(lease, request).await? {
            Ok(response) => Ok(response),
            Err((request, _)) if reused => {
                let again = async {
                    let lease = self.lease(true).await.and_then(in_time)?;
                    self.send(lease, request).await?.map_err(|(_, why)| Fault::Unsent(why))
                };
                Box::pin(again).await
            }
            Err((_, why)) => Err(Fault::Unsent(why)),
        }
    }

    fn too_late() -> Fault {
        Fault::Unsent("the connection stood only when the time of this attempt was over".to_owned())
    }

    /// The inner error is a request that came back untouched.
    async fn send(
        self: &Arc<Self>,
        mut lease: Lease,
        mut request: Request<Outgoing>,
    ) -> Result<Result<Response<ReadBody>, (Request<Outgoing>, String)>, Fault> {
        let Some(link) = lease.link() else {
            return Err(Fault::Unsent("the connection is gone".to_owned()));
        };
        self.dress(&mut request, matches!(link, Link::Two(_)));
        match timeout(self.patience.answer, link.send(request)).await {
            Err(_) => {
                self.forget(&lease);
                let ms = self.patience.answer.as_millis();
                Err(Fault::TimedOut(format!("no answer from {} in {ms} ms", self.line.authority)))
            }
            Ok(Tried::GivenBack(request, why)) => {
                self.forget(&lease);
                Ok(Err((request, format!("{} hung up: {why}", self.line.authority))))
            }
            Ok(Tried::Failed(why)) => {
                self.forget(&lease);
                Err(Fault::Broken(format!("no whole answer from {}: {why}", self.line.authority)))
            }
            Ok(Tried::Answered(response)) => {
                if let Some(why) = malformed(&response) {
                    return Err(Fault::Broken(format!("{} answered {why}", self.line.authority)));
                }
                self.versions.note(response.status().as_u16(), response.headers());
                Ok(Ok(response.map(|body| ReadBody::flowing(body, lease, self.patience.answer))))
            }
        }
    }

    /// HTTP/1.1 names the host in a header, HTTP/2 in the address.
    fn dress(&self, request: &mut Request<Outgoing>, two: bool) {
        if two {
            request.headers_mut().remove(HOST);
            let mut parts = Parts::default();
            parts.scheme = Some(self.line.scheme.clone());
            parts.authority = Some(self.line.authority.clone());
            parts.path_and_query = request.uri().path_and_query().cloned();
            if let Ok(uri) = Uri::from_parts(parts) {
                *request.uri_mut() = uri;
            }
            *request.version_mut() = Version::HTTP_2;
        } else {
            // It may have been dressed for the other version before.
            if request.uri().authority().is_some() {
                let mut parts = Parts::default();
                parts.path_and_query = request.uri().path_and_query().cloned();
                if let Ok(uri) = Uri::from_parts(parts) {
                    *request.uri_mut() = uri;
                }
            }
            request.headers_mut().insert(HOST, self.line.host_header.clone());
            *request.version_mut() = Version::HTTP_11;
        }
    }

    /// One that stands already, where nobody is waiting for a turn.
    fn lease_at_once(self: &Arc<Self>) -> Option<Lease> {
        if self.fresh {
            return None;
        }
        let turn = self.turns.clone().try_acquire_owned().ok()?;
        Some(Lease { link: Some(self.rested()?), reused: true, pool: self.clone(), _turn: turn })
    }

    async fn lease(self: &Arc<Self>, fresh: bool) -> Result<Lease, Fault> {
        let late = || {
            let ms = self.patience.connect.as_millis();
            Fault::Unsent(format!("no connection to {} in {ms} ms", self.line.authority))
        };
        timeout(self.patience.connect, self.lease_slowly(fresh)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn lease_slowly(self: &Arc<Self>, fresh: bool) -> Result<Lease, Fault> {
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|error| Fault::Unsent(error.to_string()))?;
        let rested = if fresh { None } else { self.rested() };
        let reused = rested.is_some();
        let link = match rested {
            Some(link) => link,
            None => self.line.connect().await.map_err(Fault::Unsent)?,
        };
        if let Link::Two(sender) = &link
            && !self.fresh
        {
            *locked(&self.shared) = Some(sender.clone());
        }
        Ok(Lease { link: Some(link), reused, pool: self.clone(), _turn: turn })
    }

    /// A connection that stands already: the shared one, else the one that was used last on this runtime, since that of
    /// another one would wake its threads too.
    fn rested(&self) -> Option<Link> {
        if let Some(sender) = locked(&self.shared).as_ref().filter(|sender| !sender.is_closed()) {
            return Some(Link::Two(sender.clone()));
        }
        let home = Handle::try_current().ok()?.id();
        loop {
            let Idle { mut one, .. } = {
                let mut idle = locked(&self.idle);
                let last = idle.iter().rposition(|idle| idle.home == home)?;
                idle.remove(last)
            };
            if one.is_fit() {
                return Some(Link::One(one));
            }
        }
    }

    /// A shared connection that failed once serves nobody any more: a frozen one would let everybody time out.
    fn forget(&self, lease: &Lease) {
        match &lease.link {
            Some(Link::Two(_)) => *locked(&self.shared) = None,
            Some(Link::One(_)) | None => {}
        }
    }

    fn keep(self: &Arc<Self>, one: Box<One>) {
        // An answer may be dropped where no runtime is left to look after its connection.
        let Ok(runtime) = Handle::try_current() else { return };
        let since = self.looks.load(Ordering::Relaxed);
        {
            let mut idle = locked(&self.idle);
            if idle.len() >= limits::UPSTREAM_IDLE {
                idle.remove(0);
            }
            idle.push(Idle { one, since, home: runtime.id() });
        }
        if !self.looking.swap(true, Ordering::AcqRel) {
            drop(runtime.spawn(look(Arc::downgrade(self))));
        }
    }

    /// Closes what has rested for two looks. Says whether anything is left to look at.
    fn close_old(&self) -> bool {
        let now = self.looks.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut idle = locked(&self.idle);
        idle.retain(|idle| now.saturating_sub(idle.since) < 2);
        if idle.is_empty() {
            self.looking.store(false, Ordering::Release);
        }
        !idle.is_empty()
    }
}

/// Looks after idle connections while there are any.
async fn look(pool: Weak<Pool>) {
    loop {
        sleep(limits::UPSTREAM_IDLE_LOOK).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_old()) {
            return;
        }
    }
}

/// Answers whose end two readers would see at two places, or whose status is none.
fn malformed(response: &Response<Incoming>) -> Option<String> {
    let headers = response.headers();
    if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
        return Some("with two lengths".to_owned());
    }
    let status = response.status().as_u16();
    (!(200..=599).contains(&status)).then(|| format!("with the status {status}"))
}
