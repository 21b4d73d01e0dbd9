//! What crosses the wire: header names, JSON shapes and links. Nothing of this leaves the room.
//!
//! Shapes are structs and not maps, so that the order of their fields is fixed: a saved receipt is replayed byte for
//! byte.

use std::fmt::Display;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Serialize, Serializer};

use crate::domain::counter::{CommitNo, Incarnation, Sequence};
use crate::domain::operation::{Effect, OperationId};
use crate::domain::policy::Definition;
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{ResourceName, Target};
use crate::domain::time::Timestamp;
use crate::protocol::outcome::Receipt;
use crate::protocol::rows::Mark;

/// What a delivery did to the store.
pub(super) const FENCING_EFFECT: HeaderName = HeaderName::from_static("fencing-effect");
/// The position under which an operation was accepted, or the one of the last accepted effect.
pub(super) const FENCING_POSITION: HeaderName = HeaderName::from_static("fencing-position");
/// The lowest position that is admissible now.
pub(super) const FENCING_FLOOR: HeaderName = HeaderName::from_static("fencing-floor");
/// The commit number of an effect.
pub(super) const FENCING_COMMIT: HeaderName = HeaderName::from_static("fencing-commit");
/// Who composed status and body.
pub(super) const FENCING_SOURCE: HeaderName = HeaderName::from_static("fencing-source");
/// What the class of the store promises: `G4` atomic, `G3` fenced at the store, `G2` serialised, `G1` fail-stop on doubt.
pub(super) const FENCING_GUARANTEE: HeaderName = HeaderName::from_static("fencing-guarantee");
/// What is left of a rate, and the rate (draft-ietf-httpapi-ratelimit-headers).
pub(super) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The rate in force.
pub(super) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What a caller should know of the namespace that an answer is about.
pub(super) const FENCING_WARNING: HeaderName = HeaderName::from_static("fencing-warning");
/// Whether this repeats the first answer.
pub(super) const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// An upstream's own `ETag`.
pub(super) const FENCING_UPSTREAM_ETAG: HeaderName = HeaderName::from_static("fencing-upstream-etag");
/// The token of an acquire or of an external issuer.
pub(super) const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");
/// Its other name.
pub(super) const X_FENCING_TOKEN: HeaderName = HeaderName::from_static("x-fencing-token");
/// Order of writes inside one position.
pub(super) const FENCING_SEQUENCE: HeaderName = HeaderName::from_static("fencing-sequence");
/// The incarnation that a write belongs to.
pub(super) const FENCING_INCARNATION: HeaderName = HeaderName::from_static("fencing-incarnation");
/// The operation id, or the request id of an acquire.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// RFC 7240.
pub(super) const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The gateway's own name for a request.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Media type of every JSON answer but problems.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Anything that has a text, as a JSON string: counters and positions can pass 2^53.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<T>(pub(super) T);

impl<T: Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An instant in UTC, RFC 3339 with milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rfc3339(pub(super) Timestamp);

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Beyond the year 9999 there is no RFC 3339; no lease and no write can be there.
        let instant = jiff::Timestamp::from_millisecond(self.0.ms()).unwrap_or(jiff::Timestamp::MAX);
        serializer.collect_str(&format_args!("{instant:.3}"))
    }
}

/// A place in the order of writes.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct MarkView {
    position: Shown<Position>,
    sequence: Option<Shown<Sequence>>,
}

impl MarkView {
    pub(super) fn of(mark: Mark) -> Self {
        Self { position: Shown(mark.position), sequence: mark.sequence.map(Shown) }
    }
}

#[derive(Serialize)]
struct ReceiptJson<'a> {
    resource: &'a str,
    target: Option<&'a str>,
    operation_id: &'a str,
    effect: &'static str,
    incarnation: Shown<Incarnation>,
    position: Shown<Position>,
    sequence: Option<Shown<Sequence>>,
    commit: Shown<CommitNo>,
    etag: Option<Shown<EntityTag>>,
    applied_at: Rfc3339,
}

/// Renders the receipt of an applied write. Its bytes are saved with the operation and replayed as they are.
#[must_use]
pub fn render_receipt(receipt: &Receipt) -> Vec<u8> {
    bytes(&ReceiptJson {
        resource: receipt.address.resource.as_str(),
        target: receipt.address.target.as_ref().map(Target::as_str),
        operation_id: receipt.operation_id.as_str(),
        effect: Effect::Applied.word(),
        incarnation: Shown(receipt.incarnation),
        position: Shown(receipt.position),
        sequence: receipt.sequence.map(Shown),
        commit: Shown(receipt.commit),
        etag: receipt.etag.map(Shown),
        applied_at: Rfc3339(receipt.applied_at),
    })
}

/// JSON of one of our own shapes. None of them can fail to be written: no map has keys that are not texts, and writing
/// to memory does not fail.
pub(super) fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// A JSON answer.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    (status, [(CONTENT_TYPE, JSON)], Body::from(bytes(value))).into_response()
}

/// A text in a path or a query.
pub(super) fn encoded(text: &str) -> impl Display + '_ {
    utf8_percent_encode(text, RESERVED)
}

/// Where the outcome of an operation can be asked for.
pub(super) fn operation_link(
    operation: &OperationId,
    resource: &ResourceName,
    incarnation: Option<Incarnation>,
) -> String {
    let named = incarnation.map(|number| format!("&incarnation={number}")).unwrap_or_default();
    format!("/v1/operations/{}?resource={}{named}", encoded(operation.as_str()), encoded(resource.as_str()))
}

/// How a configured definition differs from the recorded one, in the words of the configuration.
pub(super) fn difference(recorded: &Definition, configured: &Definition) -> String {
    let (recorded, configured) = (recorded.to_string(), configured.to_string());
    let pairs = recorded.split(' ').zip(configured.split(' '));
    let (was, is): (Vec<&str>, Vec<&str>) = pairs.filter(|(was, is)| was != is).unzip();
    format!("is recorded with {} and configured with {}", was.join(" "), is.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::counter::{Epoch, Token};
    use crate::domain::policy::{Contract, Policy};
    use crate::domain::resource::Path;

    #[test]
    fn the_receipt_reads_as_the_contract_shows_it() {
        let commit = CommitNo::new(2).unwrap();
        let receipt = Receipt {
            address: Path::parse("statements/account-42/2026-09-13").unwrap().split(0).unwrap(),
            operation_id: OperationId::parse("publish-1").unwrap(),
            incarnation: Incarnation::ONE,
            position: Position::new(Epoch::ZERO, Token::new(108).unwrap()),
            sequence: None,
            commit,
            etag: Some(EntityTag { incarnation: Incarnation::ONE, commit }),
            applied_at: Timestamp::from_ms(1_789_286_460_000),
        };
        let expected = concat!(
            r#"{"resource":"statements/account-42/2026-09-13","target":null,"operation_id":"publish-1","#,
            r#""effect":"applied","incarnation":"1","position":"0.108","sequence":null,"commit":"2","#,
            r#""etag":"\"1.2\"","applied_at":"2026-09-13T08:01:00.000Z"}"#
        );
        assert_eq!(String::from_utf8(render_receipt(&receipt)).unwrap(), expected);
    }

    #[test]
    fn a_link_survives_every_character_of_an_id_and_of_a_name() {
        let operation = OperationId::parse("a/b?c&d=%2F+#").unwrap();
        let resource = ResourceName::parse("s/ä b&c+d").unwrap();
        assert_eq!(
            operation_link(&operation, &resource, Some(Incarnation::ONE)),
            "/v1/operations/a%2Fb%3Fc%26d%3D%252F%2B%23?resource=s%2F%C3%A4%20b%26c%2Bd&incarnation=1"
        );
    }

    #[test]
    fn a_difference_names_only_what_differs() {
        let recorded = Definition::default();
        let configured = Definition { policy: Policy::Session, contract: Contract::Observed, ..recorded };
        assert_eq!(
            difference(&recorded, &configured),
            "is recorded with policy=single contract=immediate and configured with policy=session contract=observed"
        );
    }
}
