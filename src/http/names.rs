//! Names in addresses: decoded once, here, from the raw path, so that nobody else's decoding can make another name of
//! one; then canonical or refused.

use axum::http::Uri;
use percent_encoding::percent_decode_str;

use crate::domain::lease::AcquisitionId;
use crate::domain::namespaces::{NamespaceRules, Namespaces};
use crate::domain::operation::OperationId;
use crate::domain::permission::Rules;
use crate::domain::resource::{Address, NameError, Namespace, Path};
use crate::domain::subject::Subject;
use crate::limits::WORD_CHARS;

use super::problem::{Code, Problem};

/// How far a mistyped word may be from the one that is offered instead (Jaro-Winkler, 0 to 1).
const LIKENESS: f64 = 0.8;

/// What a name leads to.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The resource, and the target below it.
    pub(super) address: Address,
    /// The rules of its namespace.
    pub(super) rules: NamespaceRules,
}

/// The place that the rest of the path names, for whoever asks: a handler goes through the gate.
pub(super) fn place_below(uri: &Uri, prefix: &str, known: &Namespaces) -> Result<Place, Problem> {
    place(&path_below(uri, prefix)?, known)
}

/// A decoded name.
pub(super) fn path_of(name: &str) -> Result<Path, Problem> {
    Path::parse(name).map_err(|error| invalid(&error))
}

/// What a rule may speak of: everything, a namespace or a resource.
pub(super) fn subject_of(name: &str) -> Result<Subject, Problem> {
    Subject::parse(name).map_err(|error| invalid(&error))
}

/// The namespace that the rest of the path names.
pub(super) fn namespace_below(uri: &Uri, prefix: &str) -> Result<Namespace, Problem> {
    let bytes = decoded_below(uri, prefix);
    let text = std::str::from_utf8(&bytes).map_err(|error| invalid(&not_utf8(&error)))?;
    namespace_of(text)
}

/// The namespace between a prefix and a suffix of the path.
pub(super) fn namespace_within(uri: &Uri, prefix: &str, suffix: &str) -> Result<Namespace, Problem> {
    let bytes = decoded_below(uri, prefix);
    let text = std::str::from_utf8(&bytes).map_err(|error| invalid(&not_utf8(&error)))?;
    namespace_of(text.strip_suffix(suffix).unwrap_or(text))
}

/// The namespace of this name.
pub(super) fn namespace_of(text: &str) -> Result<Namespace, Problem> {
    Namespace::parse(text).map_err(|error| invalid(&error))
}

/// The rules of a namespace.
pub(super) fn rules_of(namespace: &Namespace, known: &Namespaces) -> Result<NamespaceRules, Problem> {
    match known.rules(namespace) {
        Some(rules) => Ok(*rules),
        None => Err(unknown(namespace, known)),
    }
}

/// What the store of the namespace in this address promises, where the address has one that is known.
pub(super) fn guarantee_of(uri: &Uri, known: &Namespaces, asking: &Rules) -> Option<&'static str> {
    let namespace = first_below(uri, "/fenced").filter(|name| asking.know(name.as_str()))?;
    known.rules(&namespace).map(|rules| rules.definition.store.guarantee())
}

/// The namespace that the rest of the path begins with, where it is one.
pub(super) fn first_below(uri: &Uri, prefix: &str) -> Option<Namespace> {
    let bytes = decoded_below(uri, prefix);
    let name = bytes.split(|byte| *byte == b'/').next()?;
    Namespace::parse(std::str::from_utf8(name).ok()?).ok()
}

/// A namespace, or `*` for all of them, between a prefix and a suffix of the path.
pub(super) fn subject_within(uri: &Uri, prefix: &str, suffix: &str) -> Result<Subject, Problem> {
    let path = uri.path().strip_suffix(suffix).unwrap_or_else(|| uri.path());
    let below = path.strip_prefix(prefix).unwrap_or_default();
    let bytes: Vec<u8> = percent_decode_str(below.strip_prefix('/').unwrap_or(below)).collect();
    let text = std::str::from_utf8(&bytes).map_err(|error| invalid(&not_utf8(&error)))?;
    match Subject::parse(text) {
        Ok(subject @ (Subject::Everywhere | Subject::Namespace(_))) => Ok(subject),
        Ok(Subject::Resource(name)) => namespace_of(name.as_str()).map(Subject::Namespace),
        Err(error) => Err(invalid(&error)),
    }
}

/// The operation id that the rest of the path is.
pub(super) fn operation_below(uri: &Uri, prefix: &str) -> Result<OperationId, Problem> {
    operation_of(&decoded_below(uri, prefix))
}

/// The operation id between a prefix and a suffix of the path. The suffix is looked for before anything is decoded: an
/// id may end like it.
pub(super) fn operation_within(uri: &Uri, prefix: &str, suffix: &str) -> Result<OperationId, Problem> {
    let path = uri.path().strip_suffix(suffix).unwrap_or_else(|| uri.path());
    let below = path.strip_prefix(prefix).unwrap_or_default();
    let bytes: Vec<u8> = percent_decode_str(below.strip_prefix('/').unwrap_or(below)).collect();
    operation_of(&bytes)
}

fn operation_of(bytes: &[u8]) -> Result<OperationId, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Problem::new(Code::InvalidOperationId, format!("the operation id is not text from byte {at} on"))
    })?;
    OperationId::parse(text).map_err(|error| Problem::new(Code::InvalidOperationId, error.to_string()))
}

/// The acquisition id between a prefix and a suffix of the path.
pub(super) fn acquisition_within(uri: &Uri, prefix: &str, suffix: &str) -> Result<AcquisitionId, Problem> {
    let bytes = decoded_below(uri, prefix);
    let text = String::from_utf8_lossy(&bytes);
    AcquisitionId::parse(text.strip_suffix(suffix).unwrap_or(&text))
        .map_err(|error| Problem::new(Code::InvalidRequest, error.to_string()))
}

/// The known word that is nearest to a mistyped one. Whatever is far longer than every word is not compared: that takes as
/// long as the word is.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.chars().nth(WORD_CHARS).is_some() {
        return None;
    }
    let scored = known.into_iter().map(|other| (strsim::jaro_winkler(word, other), other));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= LIKENESS).map(|(_, other)| other)
}

/// The place that a path leads to.
pub(super) fn place(path: &Path, known: &Namespaces) -> Result<Place, Problem> {
    let rules = rules_of(path.namespace(), known).map_err(|problem| problem.about(path.as_str()))?;
    let address = path.split(rules.definition.scope).map_err(|error| invalid(&error).about(path.as_str()))?;
    Ok(Place { address, rules })
}

/// The path that the rest of an address is.
pub(super) fn path_below(uri: &Uri, prefix: &str) -> Result<Path, Problem> {
    Path::parse_bytes(&decoded_below(uri, prefix)).map_err(|error| invalid(&error))
}

/// The bytes of the path after a prefix, with each percent triplet decoded once. What only looks like a triplet stays
/// as it is, and the grammars refuse its `%`.
fn decoded_below(uri: &Uri, prefix: &str) -> Vec<u8> {
    let below = uri.path().strip_prefix(prefix).unwrap_or_default();
    percent_decode_str(below.strip_prefix('/').unwrap_or(below)).collect()
}

const fn not_utf8(error: &std::str::Utf8Error) -> NameError {
    NameError::NotUtf8 { at: error.valid_up_to() }
}

fn invalid(error: &NameError) -> Problem {
    Problem::new(Code::InvalidResource, error.to_string())
}

fn unknown(namespace: &Namespace, known: &Namespaces) -> Problem {
    let names = known.named().map(|(name, _)| name.as_str());
    let advice = match nearest(namespace.as_str(), names) {
        Some(name) => format!("the nearest is {name:?}"),
        None => "GET /v1/namespaces lists those that are".to_owned(),
    };
    Problem::new(Code::UnknownNamespace, format!("namespace {namespace:?} is not configured; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> Result<String, Problem> {
        let uri: Uri = path.parse().unwrap();
        place_below(&uri, "/fenced", &Namespaces::default()).map(|place| place.address.full())
    }

    fn refusal(path: &str) -> String {
        resource(path).unwrap_err().detail().to_owned()
    }

    #[test]
    fn a_name_is_decoded_once() {
        assert_eq!(resource("/fenced/s/a%2Fb").unwrap(), "s/a/b");
        assert_eq!(resource("/fenced/s%2Fa%20b").unwrap(), "s/a b");
        assert_eq!(resource("/fenced/s/%C3%A4").unwrap(), "s/ä");
        assert_eq!(resource("/fenced/s/ä").unwrap(), "s/ä");
        assert_eq!(resource("/fenced/s/a+b").unwrap(), "s/a+b");
        // A second decoding would make a slash of it.
        assert!(refusal("/fenced/s/a%252Fb").contains("'%'"));
        assert!(refusal("/fenced/s/a%zz").contains("'%'"));
    }

    #[test]
    fn a_refusal_names_the_place() {
        assert!(refusal("/fenced/s/%FF").contains("from byte 2 on"));
        assert!(refusal("/fenced/s/a%00").contains("U+0000"));
        assert!(refusal("/fenced/s/a%0d%0Ab").contains("U+000D"));
        assert!(refusal("/fenced/s/%2e%2E/b").contains("\"..\""));
        assert!(refusal("/fenced/s/a//b").contains("segment 3 is empty"));
        assert!(refusal("/fenced/s/a/").contains("segment 3 is empty"));
        assert!(refusal("/fenced/s/").contains("segment 2 is empty"));
        assert!(refusal("/fenced/s").contains("after the namespace"));
        assert!(refusal("/fenced/").contains("empty"));
        assert!(refusal("/fenced").contains("empty"));
        assert!(refusal("/fenced//s/a").contains("segment 1 is empty"));
        assert!(refusal("/fenced/s/%E2%80%AEa").contains("U+202E"));
        assert!(refusal("/fenced/s/a%CC%88").contains("normalization form C"));
    }

    #[test]
    fn a_mistyped_word_finds_its_neighbour() {
        assert_eq!(nearest("resourc", ["resource", "holder"]), Some("resource"));
        assert_eq!(nearest("xyz", ["resource", "holder"]), None);
        // Broken: comparing takes as long as the product of both lengths, and a body of megabytes is compared.
        let long = format!("resource{}", "s".repeat(WORD_CHARS));
        assert_eq!(nearest(&long, ["resource", "holder"]), None);
        assert_eq!(nearest(&long[..16], ["resource", "holder"]), Some("resource"));
    }

    #[test]
    fn an_operation_id_may_hold_any_visible_character() {
        let uri: Uri = "/v1/operations/a%2Fb%25".parse().unwrap();
        assert_eq!(operation_below(&uri, "/v1/operations").unwrap().as_str(), "a/b%");
        let uri: Uri = "/v1/operations/a%20b".parse().unwrap();
        assert_eq!(operation_below(&uri, "/v1/operations").unwrap_err().code(), Code::InvalidOperationId);
    }
}
