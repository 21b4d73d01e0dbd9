//! Requests, one after another at one door, and what must hold of every answer.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri};
use fencegate::http::problem::Code;

use super::Met;
use super::house::{Answer, House};

/// Most bytes of an answer that is made for the request, beside what the request itself brought.
const ANSWER_BYTES: usize = 64 * 1_024;

/// How often an answer may repeat what the request brought: quoted twice, as text and in JSON.
const ECHOES: usize = 16;

/// A request in the making.
#[derive(Debug, Clone, Default)]
pub(super) struct Ask {
    pub(super) method: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

/// What answers have given out: `{token}`, `{id}`, `{etag}` and `{cursor}` stand for it in later requests.
#[derive(Debug, Default)]
pub(super) struct Given {
    token: String,
    id: String,
    etag: String,
    cursor: String,
}

impl Ask {
    /// A request with a JSON body.
    pub(super) fn json(method: &str, path: &str, body: &[u8]) -> Self {
        let headers = vec![(b"content-type".to_vec(), b"application/json".to_vec())];
        Self { method: method.into(), path: path.into(), headers, body: body.to_vec() }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Bytes that the request is made of.
    fn length(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.path.len() + headers + self.body.len()
    }

    fn filled(&self, given: &Given) -> Self {
        let fill = |bytes: &[u8]| given.fill(bytes);
        Self {
            method: self.method.clone(),
            path: fill(&self.path),
            headers: self.headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
            body: fill(&self.body),
        }
    }

    /// The request; none where hyper would not have let it through.
    pub(super) fn request(&self) -> Option<Request<Body>> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = Method::from_bytes(&self.method).ok()?;
        *request.uri_mut() = Uri::try_from(self.path.as_slice()).ok()?;
        let named =
            |name: &str| self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
        if !named("host") {
            request.headers_mut().insert("host", HeaderValue::from_static("localhost"));
        }
        for (name, value) in &self.headers {
            let (name, value) = (HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
            request.headers_mut().append(name, value);
        }
        Some(request)
    }
}

impl Given {
    fn fill(&self, bytes: &[u8]) -> Vec<u8> {
        let all = [
            ("{token}", &self.token),
            ("{id}", &self.id),
            ("{etag}", &self.etag),
            ("{cursor}", &self.cursor),
        ];
        let mut filled = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((first, behind)) = rest.split_first() {
            let found = all.iter().find(|(name, _)| rest.starts_with(name.as_bytes()));
            if let Some((name, value)) = found {
                filled.extend_from_slice(value.as_bytes());
                rest = &rest[name.len()..];
            } else {
                filled.push(*first);
                rest = behind;
            }
        }
        filled
    }

    fn learn(&mut self, answer: &Answer) {
        if let Some(etag) = answer.header("etag") {
            etag.clone_into(&mut self.etag);
        }
        let json = answer.json();
        let places = [
            ("fencing_token", &mut self.token),
            ("acquisition_id", &mut self.id),
            ("next_cursor", &mut self.cursor),
        ];
        for (name, place) in places {
            if let Some(text) = json[name].as_str() {
                text.clone_into(place);
            }
        }
    }
}

/// Plays them, and holds every answer.
pub(super) async fn play(house: &House, asks: &[Ask], met: &mut Met) -> Given {
    let mut given = Given::default();
    for ask in asks {
        let ask = ask.filled(&given);
        let Some(request) = ask.request() else {
            met.note("no request");
            continue;
        };
        let path = request.uri().path().to_owned();
        let before = house.recorded().await;
        let Some(answer) = house.answer(request).await else {
            met.note("waits");
            let asked_to = [&ask.body[..], &ask.path].iter().any(|bytes| has(bytes, b"wait_ms"));
            let asked_to = asked_to
                || path.contains("events")
                || ask.headers.iter().any(|(_, value)| has(value, b"wait"));
            assert!(asked_to, "nobody wanted to wait: {ask:?}");
            continue;
        };
        met.note(told(&answer));
        let after = house.recorded().await;
        hold(&ask, &path, &answer);
        if is_harmless(&ask, &answer) {
            assert_eq!(before, after, "{} and yet something changed: {ask:?}", told(&answer));
        }
        let applied = answer.header("fencing-effect") == Some("applied");
        if applied && answer.header("idempotent-replayed").is_none() {
            met.note("applied");
            again(house, &ask, &answer, &after, met).await;
        }
        let whole = path.split('/').all(|segment| segment == given.id || !segment.contains(&given.id));
        // Below `/fenced` it is part of a resource's name, which an answer may tell.
        let is_name = path.starts_with("/fenced/");
        let meant = !is_name && path.contains("leases") && path.contains(&given.id) && whole;
        if meant && !given.id.is_empty() && answer.status >= 400 {
            assert!(
                !has(&answer.bytes, given.id.as_bytes()),
                "the acquisition id stands in an error: {answer:?}"
            );
        }
        given.learn(&answer);
    }
    given
}

pub(super) fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// The status, and of a problem its code.
fn told(answer: &Answer) -> String {
    let json = answer.json();
    format!("{} {}", answer.status, json["code"].as_str().unwrap_or_default()).trim_end().to_owned()
}

/// What must not have changed anything.
fn is_harmless(ask: &Ask, answer: &Answer) -> bool {
    let safe = [&b"GET"[..], b"HEAD", b"OPTIONS"].contains(&ask.method.as_slice());
    safe || (answer.status >= 400 && answer.json()["effect"] == "none")
}

/// An operation that was applied is in its place for good: the same again gets the same answer, and does nothing.
async fn again(house: &House, ask: &Ask, first: &Answer, recorded: &str, met: &mut Met) {
    let Some(request) = ask.request() else { return };
    let Some(second) = house.answer(request).await else { panic!("a repetition waits: {ask:?}") };
    assert_eq!(second.status, first.status, "{ask:?} {second:?}");
    assert_eq!(second.bytes, first.bytes, "{ask:?}");
    assert_eq!(second.header("etag"), first.header("etag"));
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(house.recorded().await, recorded, "a repetition changed something: {ask:?}");
    met.note("replayed");
}

/// What holds of every answer.
pub(super) fn hold(ask: &Ask, path: &str, answer: &Answer) {
    let shown =
        format!("{} {path} -> {} {}", ask.method.escape_ascii(), answer.status, answer.bytes.escape_ascii());
    assert!(answer.status != 500, "a fault: {shown}");
    assert!(answer.header("x-request-id").is_some(), "{shown}");
    let data_plane =
        path.strip_prefix("/fenced").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    assert_eq!(answer.header("fencing-effect").is_some(), data_plane, "{shown}");
    if ask.method == b"HEAD" || answer.status == 304 {
        assert!(answer.bytes.is_empty(), "{shown}");
        return;
    }
    let relayed = answer.header("fencing-source") == Some("upstream");
    if answer.status >= 400 && !relayed && path != "/readyz" {
        hold_problem(answer, data_plane, &shown);
        let most = ANSWER_BYTES + ECHOES * ask.length();
        assert!(answer.bytes.len() <= most, "{} bytes: {shown}", answer.bytes.len());
    } else if !relayed && !data_plane && answer.header("content-type") == Some("application/json") {
        assert!(serde_json::from_slice::<serde_json::Value>(&answer.bytes).is_ok(), "{shown}");
    }
}

fn hold_problem(answer: &Answer, data_plane: bool, shown: &str) {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{shown}");
    let problem: serde_json::Value =
        serde_json::from_slice(&answer.bytes).unwrap_or_else(|error| panic!("{error}: {shown}"));
    let (code, effect) = (problem["code"].as_str(), problem["effect"].as_str());
    let known = |known: &&Code| {
        Some(known.word()) == code
            && known.status().as_u16() == answer.status
            && Some(known.effect().word()) == effect
    };
    let code = Code::ALL.iter().find(known).unwrap_or_else(|| panic!("no such code: {shown}"));
    assert!(problem["status"] == answer.status && problem["retryable"] == code.retryable(), "{shown}");
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{shown}");
    if data_plane {
        assert_eq!(answer.header("fencing-effect"), effect, "{shown}");
    }
}

/// A body that is not JSON for anybody.
pub(super) fn is_object(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).is_ok()
}
