//! From names to addresses of an upstream. Names are encoded anew, segment by segment, so that two names never meet at one
//! address and none leaves the base.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::domain::resource::{Address, ResourceName};

/// All but the unreserved characters of RFC 3986 section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What the objects that hold the content of pointer cells have in their addresses.
const CONTENT_SUFFIX: &str = ".fencegate";

/// A whole name, namespace included, as it is named to an upstream: encoded, slashes kept.
pub(super) fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (index, segment) in name.split('/').enumerate() {
        if index > 0 {
            text.push('/');
        }
        text.extend(utf8_percent_encode(segment, RESERVED));
    }
    text
}

/// The path of a name below the base: what comes after the namespace.
pub(super) fn path_of(prefix: &str, address: &Address) -> String {
    let mut path = path_of_resource(prefix, &address.resource);
    if let Some(target) = &address.target {
        path.push('/');
        path.push_str(&encoded(target.as_str()));
    }
    path
}

/// The path of a resource below the base.
pub(super) fn path_of_resource(prefix: &str, resource: &ResourceName) -> String {
    let below = resource.as_str().split_once('/').map_or("", |(_, below)| below);
    format!("{prefix}{}", encoded(below))
}

/// The path of a content object of a pointer cell.
pub(super) fn path_of_content(prefix: &str, resource: &ResourceName, object: &str) -> String {
    format!("{}{CONTENT_SUFFIX}/{}", path_of_resource(prefix, resource), encoded(object))
}

/// Whether a name could be that of a content object: nobody may write those but the gateway itself.
pub(super) fn is_of_content(resource: &ResourceName) -> bool {
    resource.as_str().split('/').any(|segment| segment.ends_with(CONTENT_SUFFIX))
}

/// Whether a query can stand in an address as it is.
pub(super) fn is_query(query: &str) -> bool {
    query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// Adds a query as it came.
///
/// # Errors
/// When it holds what could end it, or is no text of an address.
pub(super) fn with_query(mut path: String, query: Option<&str>) -> Result<String, String> {
    let Some(query) = query else { return Ok(path) };
    if !is_query(query) {
        return Err("the query holds what an address cannot".to_owned());
    }
    path.push('?');
    path.push_str(query);
    Ok(path)
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| DIGITS.get(usize::from(half))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_go_one_to_one_and_nothing_traverses() {
        let path = |name: &str| path_of_resource("/base/", &ResourceName::parse(name).unwrap());
        assert_eq!(path("n/a:b"), "/base/a%3Ab");
        assert_eq!(path("n/a b/ü"), "/base/a%20b/%C3%BC");
        assert_eq!(path("n/a;b=c&d+e~f"), "/base/a%3Bb%3Dc%26d%2Be~f");
        assert_eq!(path("n/..."), "/base/...");
        let names = ["n/a", "n/A", "n/a:b", "n/a/b", "n/a+b", "n/a b", "n/a&b", "n/a"];
        let mut paths: Vec<String> = names.iter().map(|name| path(name)).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), names.len() - 1, "one name stands there twice, and no two others meet");
    }

    #[test]
    fn a_query_goes_as_it_came_or_not_at_all() {
        assert_eq!(with_query("/a".into(), Some("b=%20&c=d?/")), Ok("/a?b=%20&c=d?/".to_owned()));
        for query in ["a#b", "a b", "ü", "a\r\nb"] {
            assert!(with_query("/a".into(), Some(query)).is_err(), "{query:?}");
        }
    }
}
