//! What the gateway sends to a receiver, in the making.

use reqwest::Method;

use crate::support::client::{Answer, Client};

/// What the suite writes to where it says nothing else.
pub(super) const RESOURCE: &str = "orders/one";
pub(super) const PATH: &str = "/one";

/// A write or an advance.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) method: Method,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Write {
    /// A PUT.
    pub(super) fn put(position: &str, operation: &str, body: &str) -> Self {
        let write = Self { method: Method::PUT, path: PATH.into(), headers: Vec::new(), body: body.into() };
        write
            .header("fencing-resource", RESOURCE)
            .header("fencing-position", position)
            .header("fencing-operation", operation)
            .header("fencing-incarnation", "1")
            .header("content-type", "text/plain")
    }

    /// A POST, which appends: an effect that happened twice would show.
    pub(super) fn post(position: &str, operation: &str, body: &str) -> Self {
        Self::put(position, operation, body).method(Method::POST)
    }

    pub(super) fn delete(position: &str, operation: &str) -> Self {
        Self::put(position, operation, "").method(Method::DELETE)
    }

    pub(super) fn advance(position: &str) -> Self {
        Self::post(position, "", "")
            .without("fencing-operation")
            .without("fencing-incarnation")
            .without("content-type")
            .header("fencing-advance", "true")
    }

    pub(super) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Another resource, at another address.
    pub(super) fn to(mut self, resource: &str, path: &str) -> Self {
        self.path = path.into();
        self.header("fencing-resource", resource)
    }

    /// With this header, whatever it had before.
    pub(super) fn header(self, name: &str, value: &str) -> Self {
        let mut write = self.without(name);
        write.headers.push((name.into(), value.into()));
        write
    }

    /// With this header once more.
    pub(super) fn twice(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(super) async fn send(&self, client: &Client) -> Answer {
        Answer::of(self.request(client)).await
    }

    /// None when the receiver was gone before it had answered.
    pub(super) async fn try_send(&self, client: &Client) -> Option<Answer> {
        let response = self.request(client).send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Answer { status, headers, bytes: response.bytes().await.ok()?.to_vec() })
    }

    fn request(&self, client: &Client) -> reqwest::RequestBuilder {
        let mut request = client.request(self.method.clone(), &self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(self.body.clone())
    }

    /// As it goes over the wire.
    pub(super) fn text(&self, length: usize) -> String {
        let headers: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        let (method, path, body) = (&self.method, &self.path, &self.body);
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}")
    }
}

/// A refusal as stale, which must name what is held.
pub(super) fn stale(answer: &Answer, held: &str) {
    assert_eq!(answer.status, 412, "{}", answer.text());
    assert_eq!(answer.header("fencing-position"), Some(held));
}
