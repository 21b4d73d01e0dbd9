//! Fetches an issuer's keys, one fetch at a time: regularly, and when a token names one that is not there.
//!
//! The address is the configured one and no other: no proxy, no redirect, nothing unpacked, and an answer that is too large
//! is no answer. What cannot be fetched leaves the keys in use as they are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::{Client, StatusCode, redirect, retry};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::keys::Keys;
use super::{JwtError, KeysFrom, Shared};
use crate::limits::{JWKS_BYTES, JWKS_PAUSE, JWKS_TIMEOUT};
use crate::tls::client::{Trust, config};

/// Where keys come from, ready for use.
pub(super) enum Source {
    Url(String, Client),
    File(PathBuf),
}

impl Source {
    pub(super) fn open(from: &KeysFrom) -> Result<Self, JwtError> {
        match from {
            KeysFrom::File(path) => Ok(Self::File(path.clone())),
            KeysFrom::Url(url, ca_file) => {
                let wrong = |why: String| JwtError { from: url.clone(), why };
                let trust = Trust { ca_file: ca_file.clone(), identity: None };
                let tls =
                    config(&trust, url.starts_with("https:")).map_err(|error| wrong(error.to_string()))?;
                let client = Client::builder()
                    .user_agent(concat!("fencegate/", env!("CARGO_PKG_VERSION")))
                    .tls_backend_preconfigured(tls)
                    .no_proxy()
                    .redirect(redirect::Policy::none())
                    .retry(retry::never())
                    .referer(false)
                    .http1_only()
                    .pool_max_idle_per_host(0)
                    .timeout(JWKS_TIMEOUT)
                    .build()
                    .map_err(|error| wrong(error.to_string()))?;
                Ok(Self::Url(url.clone(), client))
            }
        }
    }

    /// The keys of a file; none of an address, which is not asked yet.
    pub(super) fn read_now(&self) -> Result<Option<Keys>, JwtError> {
        let Self::File(path) = self else { return Ok(None) };
        let wrong = |why: String| JwtError { from: path.display().to_string(), why };
        let length = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if usize::try_from(length).unwrap_or(usize::MAX) > JWKS_BYTES {
            return Err(wrong(format!("it is larger than {JWKS_BYTES} bytes")));
        }
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        Keys::read(&bytes).map(Some).map_err(wrong)
    }

    async fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Url(url, client) => fetched(client, url).await,
            Self::File(path) => read_file(path).await.map_err(|error| error.to_string()),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Url(url, _) => url.clone(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

async fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let most = u64::try_from(JWKS_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    tokio::fs::File::open(path).await?.take(most).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

async fn fetched(client: &Client, url: &str) -> Result<Vec<u8>, String> {
    let mut response = client.get(url).send().await.map_err(told)?;
    if response.status() != StatusCode::OK {
        return Err(format!("it answered {}", response.status().as_u16()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(told)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > JWKS_BYTES {
            return Err(format!("it answered more than {JWKS_BYTES} bytes"));
        }
    }
    Ok(bytes)
}

fn told(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// The task in the background.
pub struct Fetcher {
    shared: Arc<Shared>,
    source: Source,
    /// What the keys in use were read from: the same again is no news.
    last: Vec<u8>,
}

impl Fetcher {
    pub(super) const fn new(shared: Arc<Shared>, source: Source) -> Self {
        Self { shared, source, last: Vec::new() }
    }

    /// Fetches at once, and then until it is told to stop.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = self.fetch() => {}
                () = shutdown.cancelled() => return,
            }
            let failed = self.shared.standing.borrow().failed;
            let pause = if failed { JWKS_PAUSE } else { self.shared.refresh.duration() };
            tokio::select! {
                () = self.shared.wanted.notified() => {}
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    async fn fetch(&mut self) {
        self.shared.standing.send_modify(|standing| standing.under_way = true);
        let bytes = self.source.read().await;
        let read = bytes.and_then(|bytes| Keys::read(&bytes).map(|keys| (keys, bytes)));
        let now = self.shared.clock.monotonic();
        let new = match read {
            Ok((keys, bytes)) => {
                let new = bytes != self.last;
                if new {
                    info!(
                        from = self.source.name(),
                        keys = keys.count(),
                        "the keys of the issuer were fetched"
                    );
                    self.shared.keys.store(Arc::new(keys));
                    self.last = bytes;
                }
                Some(new)
            }
            Err(error) => {
                warn!(
                    from = self.source.name(),
                    error, "the keys of the issuer cannot be fetched; those that are there are used on"
                );
                None
            }
        };
        self.shared.standing.send_modify(|standing| {
            standing.under_way = false;
            standing.tried = Some(now);
            standing.failed = new.is_none();
            if let Some(new) = new {
                standing.fetched = Some(now);
                standing.generation = standing.generation.wrapping_add(u64::from(new));
            }
        });
    }
}
