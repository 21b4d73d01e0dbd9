//! `[tracing]`: where spans go, and of how many requests.

use std::time::Duration;

use url::Url;

use super::given::{Given, Slot};
use super::mistake::Mistakes;

/// Where a collector takes spans when its address has no path (OTLP over HTTP).
const USUAL_PATH: &str = "/v1/traces";

/// A collector of spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracing {
    /// Its whole address.
    pub endpoint: String,
    /// Of a million requests that belong to no trace yet, how many begin one that is collected.
    pub per_million: u32,
}

/// What was said of it.
#[derive(Default)]
pub(super) struct TracingDraft {
    endpoint: Slot<String>,
    per_million: Slot<u32>,
}

impl TracingDraft {
    /// Takes one key. `false`: there is no such key.
    pub(super) fn take(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        match name {
            "otlp_endpoint" => self.endpoint = Slot::of(given, endpoint(given, mistakes)),
            "sample_ratio" => self.per_million = Slot::of(given, ratio(given, mistakes)),
            _ => return false,
        }
        true
    }

    /// None: nobody collects.
    pub(super) fn settle(&self, mistakes: &mut Mistakes) -> Option<Tracing> {
        let endpoint = self.endpoint.found().map(|found| found.value.clone());
        if let (Some(found), None, false) = (self.per_million.found(), &endpoint, self.endpoint.is_mistaken())
        {
            let problem = "says how many spans are sent, and nothing says where to; set otlp_endpoint too";
            mistakes.note(&found.place, "tracing.sample_ratio", problem);
        }
        endpoint.map(|endpoint| Tracing { endpoint, per_million: self.per_million.or(1_000_000) })
    }
}

/// What stands in it may be a secret, so it is not repeated.
fn endpoint(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    let text = given.text(mistakes)?;
    let example = "write one such as \"http://127.0.0.1:4318\"";
    let Ok(mut url) = Url::parse(text) else {
        given.wrong(mistakes, format!("is not an address; {example}"));
        return None;
    };
    let problem = if url.scheme() == "https" {
        Some(
            "spans are sent without TLS; name a collector on this machine or a network of your own by http://",
        )
    } else if url.scheme() != "http" || url.host().is_none() {
        Some("is not an address of HTTP; write one such as \"http://127.0.0.1:4318\"")
    } else if !url.username().is_empty() || url.password().is_some() {
        Some("holds a name or a password, which do not stand in the configuration; leave them out")
    } else if url.query().is_some() || url.fragment().is_some() {
        Some("has a query or a fragment, which a collector does not read; leave them out")
    } else {
        None
    };
    if let Some(problem) = problem {
        given.wrong(mistakes, problem);
        return None;
    }
    if url.path() == "/" {
        url.set_path(USUAL_PATH);
    }
    Some(url.into())
}

/// A share from 0 to 1.
fn ratio(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<u32> {
    let whole = given.item.as_integer().and_then(|number| u8::try_from(number).ok()).map(f64::from);
    let share = given.item.as_float().or(whole).filter(|share| (0.0..=1.0).contains(share));
    let Some(share) = share else {
        given.wrong(mistakes, "wants a share from 0 to 1, such as 0.1");
        return None;
    };
    // A millionth of a second is to a second what one request is to a million.
    u32::try_from(Duration::from_secs_f64(share).as_micros()).ok()
}
