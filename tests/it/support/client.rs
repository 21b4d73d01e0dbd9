//! A caller: it sends what a test says and keeps everything that comes back.

use std::collections::BTreeMap;

use fencegate::tls::client::{Trust, config};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

/// Calls one gateway.
#[derive(Clone)]
pub(crate) struct Client {
    base: String,
    http: reqwest::Client,
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

/// A lease as a worker remembers it.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) position: String,
}

impl Client {
    pub(crate) fn to(base: String) -> Self {
        Self::trusting(base, &Trust::default())
    }

    /// One that believes somebody, and may have a certificate.
    pub(crate) fn trusting(base: String, trust: &Trust) -> Self {
        // The system's roots are not read: no test asks anybody on the network.
        let tls = config(trust, false).unwrap();
        let http = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
        Self { base, http }
    }

    /// Where the gateway listens, for a socket of one's own.
    pub(crate) fn address(&self) -> &str {
        self.base.trim_start_matches("http://").trim_start_matches("https://")
    }

    /// The address of the gateway, for a command.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path).json(body)).await
    }

    /// A fenced PUT; further headers as pairs.
    pub(crate) async fn put(
        &self,
        name: &str,
        token: &str,
        operation: &str,
        body: &str,
        more: &[(&str, &str)],
    ) -> Answer {
        self.fenced(Method::PUT, name, token, operation, more, body.to_owned()).await
    }

    /// A fenced DELETE.
    pub(crate) async fn remove(&self, name: &str, token: &str, operation: &str) -> Answer {
        self.fenced(Method::DELETE, name, token, operation, &[], String::new()).await
    }

    async fn fenced(
        &self,
        method: Method,
        name: &str,
        token: &str,
        operation: &str,
        more: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let mut request = self
            .request(method, &format!("/fenced/{name}"))
            .header("fencing-token", token)
            .header("idempotency-key", operation);
        for (header, value) in more {
            request = request.header(*header, *value);
        }
        Answer::of(if body.is_empty() { request } else { request.body(body) }).await
    }

    pub(crate) async fn try_acquire(&self, name: &str, holder: &str) -> Answer {
        self.post("/v1/leases", &json!({"resource": name, "holder": holder})).await
    }

    /// An acquire that must succeed.
    pub(crate) async fn acquire(&self, name: &str, holder: &str) -> Owned {
        let lease = self.try_acquire(name, holder).await.expect(201);
        let text = |key: &str| lease[key].as_str().unwrap().to_owned();
        Owned { id: text("acquisition_id"), token: text("fencing_token"), position: text("position") }
    }

    pub(crate) async fn renew(&self, lease: &Owned) -> Answer {
        self.post(&format!("/v1/leases/{}/renew", lease.id), &json!({})).await
    }

    pub(crate) async fn release(&self, lease: &Owned) -> Answer {
        self.delete(&format!("/v1/leases/{}", lease.id)).await
    }

    /// Every operation of a resource, by its id, page by page. None may stand there twice.
    pub(crate) async fn operations(&self, name: &str) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        let mut path = format!("/v1/operations?resource={name}&limit=100");
        loop {
            let page = self.get(&path).await.expect(200);
            for item in page["items"].as_array().unwrap() {
                let id = item["operation_id"].as_str().unwrap().to_owned();
                assert!(found.insert(id, item.clone()).is_none(), "{name}: an operation stands twice");
            }
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/v1/operations?resource={name}&limit=100&cursor={cursor}");
        }
        found
    }
}

impl Answer {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, bytes: response.bytes().await.unwrap().to_vec() }
    }

    /// None where the gateway has gone before it answered.
    pub(crate) async fn unless_gone(request: RequestBuilder) -> Option<Self> {
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Self { status, headers, bytes: response.bytes().await.ok()?.to_vec() })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("no JSON: {:?}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The JSON of an answer that must have this status.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// A refusal that must have this status, code and effect.
    pub(crate) fn refused(&self, status: u16, code: &str, effect: &str) -> Value {
        let problem = self.expect(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(
            (problem["code"].as_str(), problem["effect"].as_str()),
            (Some(code), Some(effect)),
            "{problem}"
        );
        assert_eq!(problem["status"], status);
        problem
    }
}
