//! The listener's side: a certificate that can be replaced while connections are open.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;

use super::names::shown;
use super::{ALPN, ClientAuth, TlsError, TlsSettings, certificates, private_key, provider, roots};
use crate::domain::time::Timestamp;

/// What new connections are greeted with. Clones share it.
#[derive(Clone)]
pub struct Listener(Arc<ArcSwap<Greeting>>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener(until {:?})", self.until())
    }
}

/// A certificate in use, checked as a whole.
pub struct Greeting {
    config: Arc<ServerConfig>,
    /// When the certificate ends.
    pub until: Timestamp,
}

impl Greeting {
    /// Reads all files and holds them against each other. Nothing is in use yet.
    ///
    /// # Errors
    /// [`TlsError`] names the file that cannot be used.
    pub fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let wrong = |error: rustls::Error| TlsError::of(&settings.cert_file, error);
        let chain = certificates(&settings.cert_file)?;
        let until = chain.first().and_then(shown).map(|shown| shown.until);
        let until =
            until.ok_or_else(|| TlsError::of(&settings.cert_file, "its first certificate cannot be read"))?;
        let key = private_key(&settings.key_file)?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let builder = match &settings.clients {
            None => builder.with_no_client_auth(),
            Some((file, auth)) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots(file)?), provider());
                let verifier = match auth {
                    ClientAuth::Required => verifier,
                    ClientAuth::Optional => verifier.allow_unauthenticated(),
                };
                builder
                    .with_client_cert_verifier(verifier.build().map_err(|error| TlsError::of(file, error))?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(wrong)?;
        config.alpn_protocols = ALPN.iter().map(|word| word.to_vec()).collect();
        Ok(Self { config: Arc::new(config), until })
    }
}

impl Listener {
    /// Begins with a greeting.
    #[must_use]
    pub fn new(greeting: Greeting) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(greeting)))
    }

    /// Greets new connections with another one; those that are open go on as they are. Nobody resumes a session of before.
    pub fn replace(&self, greeting: Greeting) {
        self.0.store(Arc::new(greeting));
    }

    /// When the certificate in use ends.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        self.0.load().until
    }

    /// For one new connection.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.load().config.clone())
    }
}
