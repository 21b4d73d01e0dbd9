//! TLS: certificates, keys and roots from files, and the one library and one cryptography provider that everything uses
//! that speaks it. No ASN.1 is read here: what stands in a certificate is told by the parser that verifies chains.

pub mod client;
pub mod listener;
pub mod names;

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls;
use zeroize::Zeroizing;

use crate::limits::TLS_FILE_BYTES;

/// What HTTP is spoken inside TLS; nothing is offered that the listener does not speak.
pub const ALPN: &[&[u8]] = &[b"http/1.1"];

/// Whether callers show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// Who shows one is known by it; others show another credential.
    Optional,
    /// Without one there is no connection.
    Required,
}

/// How the listener speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate and the chain above it, in PEM.
    pub cert_file: PathBuf,
    /// Its key, in PEM; only its owner may read it.
    pub key_file: PathBuf,
    /// Who vouches for callers, and whether they must show a certificate.
    pub clients: Option<(PathBuf, ClientAuth)>,
}

/// Why TLS cannot be spoken with what is configured. Nothing of a key stands in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl TlsError {
    fn of(file: &Path, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { file: file.to_owned(), why: why.into().to_string() }
    }
}

/// The one provider of cryptography. A second one in a process makes the library ask which to use, and stop.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    if let Some(installed) = CryptoProvider::get_default() {
        return installed.clone();
    }
    // Somebody else may have been quicker, with the same one.
    drop(ring::default_provider().install_default());
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()))
}

/// The certificates of a file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let (bytes, _) = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(TlsError::of(file, "there is no certificate in it; it wants PEM"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::of(file, format!("it is not PEM: {error}"))),
    }
}

/// A private key that nobody but its owner can read.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let (bytes, mode) = read(file)?;
    if mode & 0o077 != 0 {
        let why = format!(
            "it has mode {mode:04o}: others could read the key and speak in this gateway's name; run: chmod 600 {}",
            file.display()
        );
        return Err(TlsError::of(file, why));
    }
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|_| TlsError::of(file, "there is no private key in it that can be read; it wants PEM"))
}

/// Those who vouch for others.
fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| TlsError::of(file, error))?;
    }
    Ok(roots)
}

/// The bytes of a file, and who may read it: asked of the file that was opened, so that no other one can take its place.
fn read(file: &Path) -> Result<(Zeroizing<Vec<u8>>, u32), TlsError> {
    let wrong = |error: std::io::Error| TlsError::of(file, error);
    let opened = File::open(file).map_err(wrong)?;
    let mode = opened.metadata().map_err(wrong)?.permissions().mode() & 0o777;
    let mut bytes = Zeroizing::new(Vec::new());
    opened.take(TLS_FILE_BYTES.saturating_add(1)).read_to_end(&mut bytes).map_err(wrong)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > TLS_FILE_BYTES {
        return Err(TlsError::of(file, format!("it is larger than {TLS_FILE_BYTES} bytes")));
    }
    Ok((bytes, mode))
}
