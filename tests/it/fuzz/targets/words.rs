//! The small grammars of headers and rows: what reads prints, and what prints reads to the same.

use fencegate::domain::breaker::Breaker;
use fencegate::domain::counter::{CommitNo, Incarnation};
use fencegate::domain::document::ContentType;
use fencegate::domain::lease::{AcquisitionId, Holder};
use fencegate::domain::operation::{Method, OperationId};
use fencegate::domain::policy::Definition;
use fencegate::domain::precondition::{DeclaredTag, EntityTag, TagList};
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::trace::Trace;
use fencegate::domain::upstream::{Stamp, Validator};
use fencegate::tls::names::CertificateName;

use super::{Met, Target, text};

pub(super) const TARGET: Target = Target {
    name: "words",
    run,
    longest: 700,
    words: &[
        "\"",
        "\"1.2\"",
        "W/",
        ", ",
        ",",
        "*",
        "\t",
        "fg1;",
        ";c;",
        ";t;",
        ";b;",
        ";e;",
        "0.1",
        "00-",
        "-01",
        "ff",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "00f067aa0ba902b7",
        "00000000000000000000000000000000",
        "store=document",
        "store=http+serial",
        " policy=single",
        " contract=immediate",
        " issuer=gateway",
        " issuer=trusted+8",
        " scope=0",
        "+gapless",
        "seal ",
        "witness ",
        "application/json",
        "; charset=utf-8",
        "dns:",
        "spiffe://",
        "é",
        "\u{0}",
        "+1",
        "anonymous",
    ],
    meets: &[
        "tags read",
        "tags refused",
        "stamp read",
        "stamp refused",
        "validator read",
        "trace read",
        "trace refused",
        "definition read",
        "content type read",
        "operation id read",
        "holder read",
        "breaker read",
        "acquisition read",
    ],
};

fn run(data: &[u8], met: &mut Met) {
    let Some(text) = text(data) else { return met.note("no text") };
    tags(text, met);
    of_stores(text, met);
    of_callers(text, met);
    if let Ok(definition) = text.parse::<Definition>() {
        met.note("definition read");
        assert_eq!(definition.to_string(), text, "a definition has one spelling");
    }
    if let Some(breaker) = Breaker::parse(text) {
        met.note("breaker read");
        assert_eq!(breaker.to_string(), text, "what tripped has one spelling");
    }
    if let Some(trace) = Trace::parse(text) {
        met.note("trace read");
        assert_eq!(Trace::parse(&trace.header()), Some(trace), "what is sent on is the same trace");
        assert!(text.contains(&trace.id().to_string()) && trace.header().len() == 55);
        let span = trace.below(7);
        assert!(
            span.trace() == trace.trace()
                && span.span() != trace.span()
                && Trace::parse(&span.header()) == Some(span)
        );
    } else {
        met.note("trace refused");
    }
}

fn tags(text: &str, met: &mut Met) {
    let list = TagList::parse(text);
    met.read("tags", &list);
    let Ok(list) = list else { return };
    assert_eq!(TagList::parse(&list.to_string()).as_ref(), Ok(&list), "a list reads as it is printed");
    let ours = |list: &TagList| match list {
        TagList::Any => Vec::new(),
        TagList::Tags(tags) => tags.clone(),
    };
    for DeclaredTag { weak, opaque } in ours(&list) {
        let Some((incarnation, commit)) = opaque.split_once('.') else { continue };
        let (Ok(incarnation), Ok(commit)) = (Incarnation::parse(incarnation), CommitNo::parse(commit)) else {
            continue;
        };
        let tag = EntityTag { incarnation, commit };
        assert_eq!(tag.to_string(), format!("\"{opaque}\""));
        assert!(list.matches_weakly(Some(tag)) && (weak || list.matches_strongly(Some(tag))));
    }
    assert!(!list.matches_strongly(None) && !list.matches_weakly(None), "nothing matches what is not there");
    assert!(!list.has_strong_tag() || list != TagList::Any);
}

fn of_stores(text: &str, met: &mut Met) {
    let stamp = text.parse::<Stamp>();
    met.read("stamp", &stamp);
    if let Ok(stamp) = stamp {
        assert_eq!(stamp.to_string(), text, "a stamp has one spelling");
        assert!(axum::http::HeaderValue::from_str(text).is_ok(), "and stands in a header");
    }
    if let Some(validator) = Validator::parse(text) {
        met.note("validator read");
        assert_eq!(validator.as_str(), text);
        assert!(text.len() <= 512 && axum::http::HeaderValue::from_str(text).is_ok());
        // As a caller's precondition it is one strong tag, so that what the gateway sends is what it was given.
        assert!(TagList::parse(text).is_ok_and(|list| list.has_strong_tag()) || !text.is_ascii());
    }
}

fn of_callers(text: &str, met: &mut Met) {
    let id = OperationId::parse(text);
    met.read("operation id", &id);
    if let Ok(id) = id {
        assert!(id.as_str() == text && axum::http::HeaderValue::from_str(text).is_ok());
    }
    let kind = ContentType::parse(text);
    met.read("content type", &kind);
    if let Ok(kind) = kind {
        let value = axum::http::HeaderValue::from_str(kind.as_str()).expect("it stands in a header");
        assert!(kind.as_str() == text && value.as_bytes() == text.as_bytes());
    }
    let holder = Holder::parse(text);
    met.read("holder", &holder);
    if let Ok(holder) = holder {
        assert_eq!(holder.as_str(), text);
    }
    let name = PrincipalName::parse(text);
    met.read("principal", &name);
    if let Ok(name) = name {
        assert_eq!(PrincipalName::recorded(name.as_str()), Ok(name.clone()));
    }
    let id = AcquisitionId::parse(text);
    met.read("acquisition", &id);
    if let Ok(id) = id {
        assert!(id.reveal() == text && !format!("{id:?}").contains(text), "it is a secret");
    }
    if let Some(method) = Method::from_word(text) {
        assert_eq!(method.word(), text);
    }
    if let Ok(CertificateName::Dns(name)) = CertificateName::parse(text) {
        assert_eq!(name, name.to_ascii_lowercase());
    }
}
