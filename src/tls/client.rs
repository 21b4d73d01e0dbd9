//! The client's side: whom it believes, and what it shows.

use std::path::{Path, PathBuf};

use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::rustls;

use super::{TlsError, certificates, private_key, provider, roots};

/// Whom a client believes, and the certificate that it shows where it is asked for one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Who vouches for servers; without it those whom the system believes.
    pub ca_file: Option<PathBuf>,
    /// The certificate with its chain, and the file of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The settings of a client that speaks TLS; `secure` is whether it will: without, no roots are read.
///
/// # Errors
/// [`TlsError`] names the file that cannot be used.
pub fn config(trust: &Trust, secure: bool) -> Result<ClientConfig, TlsError> {
    let trusted = match &trust.ca_file {
        Some(file) => roots(file)?,
        None if secure => system_roots()?,
        None => RootCertStore::empty(),
    };
    let wrong = |error: rustls::Error| TlsError { file: PathBuf::from("TLS"), why: error.to_string() };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_root_certificates(trusted);
    match &trust.identity {
        None => Ok(builder.with_no_client_auth()),
        Some((cert_file, key_file)) => builder
            .with_client_auth_cert(certificates(cert_file)?, private_key(key_file)?)
            .map_err(|error| TlsError::of(cert_file, error)),
    }
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        let why = "this system trusts nobody; name a file with certificates";
        return Err(TlsError::of(Path::new("the system's roots"), why));
    }
    Ok(roots)
}
