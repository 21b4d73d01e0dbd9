//! The HTTP side of the client commands: one request, one answer, nothing behind the caller's back.
//!
//! No proxy variables, no redirects, no retries: a write that this client repeated on its own would hide from the
//! caller what happened to it.

use std::error::Error as _;
use std::fs::File;
use std::io::Read as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url, redirect, retry};
use serde_json::Value;
use zeroize::Zeroizing;

use super::answer::Answer;
use super::failure::{Failure, Problem};
use super::relayed::Relayed;
use crate::domain::resource::Path;
use crate::limits::{CLIENT_ANSWER_BYTES, CLIENT_CONNECT_TIMEOUT, CLIENT_KEY_BYTES, CLIENT_TIMEOUT};
use crate::tls::client::{Trust, config};

/// Variable that holds the caller's key.
const KEY_VARIABLE: &str = "FENCEGATE_KEY";

/// Variable that names the file with it.
const KEY_FILE_VARIABLE: &str = "FENCEGATE_KEY_FILE";

/// All but the unreserved characters of RFC 3986; a slash is encoded too, so this is for one segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A write that was not refused.
pub(super) enum Delivered {
    /// The gateway's receipt.
    Gateway(Answer),
    /// What the store behind it answered.
    Store(Relayed),
}

/// Where a gateway is, and whom to believe that it is one.
pub(super) struct Target {
    /// Its address.
    pub(super) url: String,
    /// Who vouches for it, and what it is shown.
    pub(super) trust: Trust,
}

/// A gateway somewhere.
pub(super) struct Client {
    base: String,
    http: reqwest::Client,
}

impl Client {
    /// A client of the gateway at this address, which believes whom the system believes.
    pub(super) fn new(address: &str) -> Result<Self, Failure> {
        Self::of(&Target { url: address.to_owned(), trust: Trust::default() })
    }

    /// A client of a gateway.
    pub(super) fn of(target: &Target) -> Result<Self, Failure> {
        let Target { url: address, trust } = target;
        let base = base_of(address).map_err(|why| Failure::Usage(format!("--url {address:?} {why}")))?;
        let tls = config(trust, base.starts_with("https:"));
        let http = reqwest::Client::builder()
            .default_headers(credentials()?)
            .tls_backend_preconfigured(tls.map_err(|error| Failure::Usage(error.to_string()))?)
            .user_agent(concat!("fencegate/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .http1_only()
            .pool_max_idle_per_host(0)
            .connect_timeout(CLIENT_CONNECT_TIMEOUT)
            .timeout(CLIENT_TIMEOUT)
            .build()
            .map_err(|error| Failure::Start(error.into()))?;
        Ok(Self { base, http })
    }

    /// The address that was given, without a slash at its end.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// A request to a path of the gateway, which must be encoded.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// Sends and reads the whole answer. `again` says how to find out, or repeat safely, if the answer is lost.
    pub(super) async fn ask(&self, request: RequestBuilder, again: &str) -> Result<Answer, Failure> {
        let mut response = self.open(request, again).await?;
        let body = self.read(&mut response, again).await?;
        self.json_of(&response, body)
    }

    /// The same for a write, which a store behind the gateway may have answered in its own words.
    pub(super) async fn deliver(&self, request: RequestBuilder, again: &str) -> Result<Delivered, Failure> {
        let mut response = self.open(request, again).await?;
        let body = self.read(&mut response, again).await?;
        match Relayed::head(&response) {
            Some(head) => Ok(Delivered::Store(head.with(body))),
            None => self.json_of(&response, body).map(Delivered::Gateway),
        }
    }

    fn json_of(&self, response: &Response, body: Vec<u8>) -> Result<Answer, Failure> {
        let json: Value = serde_json::from_slice(&body).map_err(|_| self.foreign(response))?;
        Ok(Answer { raw: body, json })
    }

    /// Sends, and leaves the body of a success to the caller. Everything else is a failure.
    pub(super) async fn open(&self, request: RequestBuilder, again: &str) -> Result<Response, Failure> {
        let mut response = request.send().await.map_err(|error| self.failed(&error, again))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let body = self.read(&mut response, again).await?;
        if let Some(head) = Relayed::head(&response) {
            return Err(Failure::Relayed(Box::new(head.with(body))));
        }
        match Problem::read(&body, &self.base) {
            Some(problem) if problem.status() == response.status().as_u16() => {
                Err(Failure::Refused(Box::new(problem)))
            }
            Some(_) | None => Err(self.foreign(&response)),
        }
    }

    async fn read(&self, response: &mut Response, again: &str) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error, again))? {
            body.extend_from_slice(&chunk);
            if body.len() > CLIENT_ANSWER_BYTES {
                let problem =
                    format!("the answer of {} is larger than {CLIENT_ANSWER_BYTES} bytes", self.base);
                return Err(Failure::Lost(problem));
            }
        }
        Ok(body)
    }

    /// What a failed exchange means.
    pub(super) fn failed(&self, error: &reqwest::Error, again: &str) -> Failure {
        let mut cause = error.to_string();
        let mut next = error.source();
        while let Some(inner) = next {
            cause = inner.to_string();
            next = inner.source();
        }
        if error.is_builder() {
            return Failure::Usage(format!("the request cannot be made: {cause}"));
        }
        if error.is_connect() {
            return Failure::Unreachable(format!(
                "cannot reach a gateway at {}: {cause}. Start one with `fencegate serve`, or give its address with --url",
                self.base
            ));
        }
        let cause = if error.is_timeout() { "it took too long".to_owned() } else { cause };
        Failure::Lost(format!("the answer of {} was lost: {cause}. {again}", self.base))
    }

    fn foreign(&self, response: &Response) -> Failure {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("none");
        Failure::Lost(format!(
            "what answers at {} is not a fencegate gateway: status {}, content type {kind}",
            self.base,
            response.status().as_u16()
        ))
    }
}

/// What the caller shows: the key in [`KEY_VARIABLE`], or in the file that [`KEY_FILE_VARIABLE`] names. It is no flag: other
/// users of the machine can read those.
fn credentials() -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key()? {
        let value = Zeroizing::new(format!("Bearer {}", key.trim()));
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| Failure::Usage("the key holds what no header can".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn key() -> Result<Option<Zeroizing<String>>, Failure> {
    let (key, file) = (std::env::var(KEY_VARIABLE).ok(), std::env::var_os(KEY_FILE_VARIABLE));
    match (key.filter(|key| !key.is_empty()), file.filter(|file| !file.is_empty())) {
        (None, None) => Ok(None),
        (Some(key), None) => Ok(Some(Zeroizing::new(key))),
        (Some(_), Some(_)) => Err(Failure::Usage(format!(
            "{KEY_VARIABLE} and {KEY_FILE_VARIABLE} are both set; unset one of the two"
        ))),
        (None, Some(path)) => {
            let unusable = |error: std::io::Error| {
                Failure::Usage(format!(
                    "{KEY_FILE_VARIABLE} names {}, which cannot be read: {error}",
                    path.display()
                ))
            };
            let mut text = Zeroizing::new(String::new());
            let file = File::open(&path).map_err(unusable)?;
            file.take(CLIENT_KEY_BYTES).read_to_string(&mut text).map_err(unusable)?;
            Ok(Some(text))
        }
    }
}

/// A name as it stands in an address: each segment encoded anew.
pub(super) fn encoded(name: &Path) -> String {
    name.as_str().split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// One segment of an address.
pub(super) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

fn base_of(address: &str) -> Result<String, String> {
    let url = Url::parse(address)
        .map_err(|error| format!("is not an address: {error}; write https://HOST:PORT"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("is not an http:// or https:// address; write https://HOST:PORT".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds credentials, which do not belong into an address".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a `?` or `#` in it; write http://HOST:PORT".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_http() {
        assert_eq!(base_of("http://127.0.0.1:8080/").unwrap(), "http://127.0.0.1:8080");
        assert_eq!(base_of("http://gate/base").unwrap(), "http://gate/base");
        assert_eq!(base_of("https://gate:8443/").unwrap(), "https://gate:8443");
        for wrong in ["gate:8080", "127.0.0.1:8080", "ftp://gate", "http://u:p@gate", "http://gate/?a", ""] {
            assert!(base_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_is_encoded_segment_by_segment() {
        let name = Path::parse("statement:account-42/2026 09/ü+&=;@").unwrap();
        assert_eq!(encoded(&name), "statement%3Aaccount-42/2026%2009/%C3%BC%2B%26%3D%3B%40");
    }
}
