//! What an upstream answered and what is sent to it, as values.

use bytes::Bytes;
use fencegate::domain::upstream::{Payload, Relayed, Validator};

#[test]
fn an_answer_and_a_payload_are_what_they_seem() {
    // Broken: a refusal is taken for a success, or two bodies for one. Must hold: 200 to 299; and equal where length and
    // digest are.
    let answer = |status, etag: Option<&str>| Relayed {
        status,
        headers: Vec::new(),
        etag: etag.map(str::to_owned),
        body: Bytes::new(),
    };
    for (status, success) in [(199, false), (200, true), (204, true), (299, true), (300, false), (412, false)]
    {
        assert_eq!(answer(status, None).is_success(), success, "{status}");
    }
    assert_eq!(answer(200, Some("\"v\"")).validator(), Validator::parse("\"v\""));
    assert_eq!(answer(200, Some("W/\"v\"")).validator(), None);
    let payload = |text: &'static str| Payload::of(Bytes::from_static(text.as_bytes()));
    assert!(payload("a") == payload("a") && payload("a") != payload("b") && payload("a") != payload("aa"));
}
