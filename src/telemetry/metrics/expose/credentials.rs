//! How long what the gateway shows and believes will hold: its certificate, and the keys of an issuer of tokens. What is not
//! configured has no series.

use std::fmt;
use std::time::Duration;

use super::Page;
use super::sheet::{Sheet, ms, whole};

/// The public keys of an issuer, as they are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuerKeys {
    /// How many there are; none before the first fetch.
    pub count: usize,
    /// How long ago they were fetched; none where that never was.
    pub age: Option<Duration>,
    /// How old they may become.
    pub most: Duration,
}

impl Page {
    pub(super) fn credentials(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        if let Some(certificate) = self.metrics.certificate.get() {
            sheet.seconds(
                "fencegate_certificate_not_after_seconds",
                "When the certificate that the listener shows ends, in seconds since 1970",
                ms(certificate.until().ms()),
            )?;
        }
        let Some(IssuerKeys { count, age, most }) = self.now.issuer else { return Ok(()) };
        sheet.gauges(
            "fencegate_jwks_keys",
            "Public keys of the issuer of tokens that are in use; 0 where they were never fetched",
            [([], whole(count))],
        )?;
        sheet.seconds(
            "fencegate_jwks_age_limit_seconds",
            "How old the issuer's keys may become before tokens are refused (jwt.max_stale)",
            most,
        )?;
        // Of keys that were never there no age would be true.
        age.map_or(Ok(()), |age| {
            sheet.seconds(
                "fencegate_jwks_age_seconds",
                "How long ago the issuer's keys were fetched or found unchanged",
                age,
            )
        })
    }
}
