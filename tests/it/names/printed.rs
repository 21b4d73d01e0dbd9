//! What is printed of a value: in logs, in panics, in errors. Nothing that could be presented again, no content, and enough
//! to know what is spoken of.

use bytes::Bytes;
use fencegate::domain::document::{BodyDigest, Document};
use fencegate::domain::lease::{AcquisitionHash, AcquisitionId};
use fencegate::domain::operation::{Fingerprint, OperationId};
use fencegate::domain::permission::Prefix;
use fencegate::domain::position::PresentedToken;
use fencegate::domain::precondition::TagList;
use fencegate::domain::resource::{Namespace, ResourceName, Target};
use fencegate::domain::seal::SealKey;
use fencegate::domain::store::Credentials;
use fencegate::domain::subject::Subject;
use fencegate::domain::upstream::{Payload, Validator};
use fencegate::protocol::outcome::SealedToken;
use zeroize::Zeroizing;

#[test]
fn what_could_be_presented_again_is_not_printed() {
    // Broken: a line of the log is as good as a lease. Must hold: ids of acquisitions, seals, keys and credentials show that
    // they are there, and nothing of them.
    let id = AcquisitionId::parse("3fAAAAAAAAAAAAAAAAAAAAAA").unwrap();
    assert_eq!(format!("{id:?}"), "AcquisitionId(…)");
    assert_eq!(format!("{:?}", id.hash()), "AcquisitionHash(…)");
    assert_eq!(format!("{:?}", id.hash().tag()), "AcquisitionTag(…)");
    let hash = AcquisitionHash::from_bytes([0x0a; 32]);
    assert_eq!((hash.tag().short(), hash.tag().0), ("0a0a0a0a".to_owned(), [0x0a; 16]));
    assert_eq!(format!("{:?}", SealKey::new([1, 0x2b, 3, 4], Zeroizing::new([9; 32]))), "SealKey(012b0304)");
    assert_eq!(format!("{:?}", SealedToken("0.1.seal".to_owned())), "SealedToken(…)");
    let presented = |text| format!("{:?}", PresentedToken::parse(text).unwrap());
    assert_eq!(presented("2.107.secret"), "PresentedToken(2.107, sealed)");
    assert_eq!(presented("107"), "PresentedToken(0.107, unsealed)");
    let credentials = Credentials { header: "authorization".to_owned(), secret: "secret".to_owned() };
    assert_eq!(format!("{credentials:?}"), "Credentials(authorization: …)");
}

#[test]
fn content_is_measured_and_not_printed() {
    // Broken: what users write stands in the log. Must hold: how much it is, and for digests and fingerprints which.
    let document = Document { content_type: None, body: Bytes::from_static(b"secret") };
    assert_eq!(format!("{document:?}"), "Document(6 bytes)");
    assert_eq!(format!("{:?}", Payload::of(Bytes::from_static(b"secret"))), "Payload(6 bytes)");
    let shown = format!("sha256:{}", "0c".repeat(32));
    assert_eq!(format!("{:?}", BodyDigest::from_bytes([12; 32])), shown);
    let fingerprint = Fingerprint::from_bytes([12; 32]);
    assert_eq!((fingerprint.as_bytes(), BodyDigest::from_bytes([12; 32]).as_bytes()), (&[12; 32], &[12; 32]));
    assert_eq!((fingerprint.to_string(), format!("{fingerprint:?}")), (shown.clone(), shown));
}

#[test]
fn names_are_printed_as_they_are_written() {
    // Broken: an error speaks of something without saying of what. Must hold: the text itself, quoted where a space would
    // be lost.
    let namespace = Namespace::parse("w").unwrap();
    let resource = ResourceName::parse("w/a b").unwrap();
    let target = Target::parse("x/y").unwrap();
    assert_eq!((namespace.to_string(), format!("{namespace:?}")), ("w".to_owned(), "\"w\"".to_owned()));
    assert_eq!((resource.to_string(), format!("{resource:?}")), ("w/a b".to_owned(), "\"w/a b\"".to_owned()));
    assert_eq!((target.to_string(), format!("{target:?}")), ("x/y".to_owned(), "\"x/y\"".to_owned()));
    let operation = OperationId::parse("op").unwrap();
    assert_eq!((operation.to_string(), format!("{operation:?}")), ("op".to_owned(), "\"op\"".to_owned()));
    assert_eq!(format!("{:?}", Validator::parse("\"v1\"").unwrap()), "\"v1\"");
    let tags = TagList::parse("W/\"a\",\"1.2\"").unwrap();
    assert_eq!((tags.to_string(), TagList::Any.to_string()), ("W/\"a\", \"1.2\"".to_owned(), "*".to_owned()));
    assert_eq!(Prefix::parse("jobs/a/").unwrap().to_string(), "jobs/a");
    for name in ["*", "w", "w/a"] {
        let subject = Subject::parse(name).unwrap();
        assert_eq!((subject.to_string().as_str(), subject.as_str()), (name, name));
    }
}
