//! Whom a certificate names, and until when it holds. Both are read by the parser that verifies chains (webpki, which
//! rustls brings along), so that no second reader of ASN.1 can see something else in it.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls;
use webpki::{EndEntityCert, Error, KeyUsage};

use crate::domain::time::Timestamp;

/// One name that a certificate was issued for (a subject alternative name).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertificateName {
    /// A URI, such as `spiffe://example.org/worker`, to the letter.
    Uri(String),
    /// A host name, in small letters.
    Dns(String),
}

/// What a verified certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its names. One with a `*` names nobody and is left out.
    pub names: Vec<CertificateName>,
    /// When it ends.
    pub until: Timestamp,
}

impl CertificateName {
    /// Reads a name as it is configured: `dns:worker.example.org`, or a URI.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence goes on.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a character that no certificate's name has");
        }
        match text.split_once(':') {
            Some(("dns", name)) if name.contains('*') => {
                Err("is a pattern; a certificate is matched by its whole name")
            }
            Some(("dns", name)) if !name.is_empty() => Ok(Self::Dns(name.to_ascii_lowercase())),
            Some((scheme, rest)) if is_scheme(scheme) && !rest.is_empty() && scheme != "dns" => {
                Ok(Self::Uri(text.to_owned()))
            }
            Some(_) | None => {
                Err("is not a name of a certificate; write \"spiffe://…\" or another URI, or \"dns:HOST\"")
            }
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// What a certificate says; `None` where it cannot be read.
#[must_use]
pub fn shown(certificate: &CertificateDer<'_>) -> Option<Shown> {
    let parsed = EndEntityCert::try_from(certificate).ok()?;
    let uris = parsed.valid_uri_names().map(|name| CertificateName::Uri(name.to_owned()));
    let hosts = parsed.valid_dns_names().filter(|name| !name.contains('*'));
    let hosts = hosts.map(|name| CertificateName::Dns(name.to_ascii_lowercase()));
    Some(Shown { names: uris.chain(hosts).collect(), until: end_of(&parsed)? })
}

/// When a certificate ends. The verifier tells it of one that is over, and at the end of time every one is: it looks at the
/// time before it looks for anybody who vouches.
fn end_of(certificate: &EndEntityCert<'_>) -> Option<Timestamp> {
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    let verified =
        certificate.verify_for_usage(&[], &[], &[], end_of_time, KeyUsage::client_auth(), None, None);
    match verified {
        Err(Error::CertExpired { not_after, .. }) => {
            let seconds = i64::try_from(not_after.as_secs()).ok()?;
            Some(Timestamp::from_ms(seconds.saturating_mul(1_000)))
        }
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(
            CertificateName::parse("spiffe://a/b"),
            Ok(CertificateName::Uri("spiffe://a/b".to_owned()))
        );
        assert_eq!(CertificateName::parse("dns:A.example"), Ok(CertificateName::Dns("a.example".to_owned())));
        for wrong in ["worker", "dns:", "dns:*.example", "spiffe:", "://a", "a b:c", "", "spiffe://ü"] {
            assert!(CertificateName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_certificate_tells_its_names_and_its_end() {
        // Broken: a URI that is spelled "dns:admin" is taken for a host's name, or a pattern for everybody's. Must hold:
        // each kind of name stays what it is, and the end is that of the certificate.
        let mut draft =
            rcgen::CertificateParams::new(vec!["Worker.example".to_owned(), "*.example".to_owned()]).unwrap();
        let uri = |text: &str| rcgen::SanType::URI(text.try_into().unwrap());
        draft.subject_alt_names.extend([uri("spiffe://example/a"), uri("dns:admin")]);
        draft.not_after = rcgen::date_time_ymd(2031, 2, 3);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = draft.self_signed(&key).unwrap();
        let shown = shown(certificate.der()).unwrap();
        let expected = [
            CertificateName::Uri("spiffe://example/a".to_owned()),
            CertificateName::Uri("dns:admin".to_owned()),
            CertificateName::Dns("worker.example".to_owned()),
        ];
        assert_eq!(shown.names, expected);
        assert_eq!(shown.until, Timestamp::from_ms(1_927_843_200_000));
        let der = certificate.der();
        assert_eq!(super::shown(&CertificateDer::from(&der[..der.len() - 40])), None);
    }
}
