//! The base address of an upstream, and whether two of them meet.
//!
//! What was written may hold a password, so nothing here ever repeats it.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use toml_edit::Key;
use url::{Host, Url};

use super::super::given::{Found, Given};
use super::super::mistake::Mistakes;
use crate::domain::resource::Namespace;
use crate::limits::STORE_ADDRESS_BYTES;

/// A base address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) struct Base {
    /// As it is sent: canonical, with a slash at its end.
    pub(super) address: String,
    /// Whether it is `https://`.
    pub(super) is_tls: bool,
    /// What it is compared with others by.
    spot: Spot,
}

/// Host, port and path. A host on its usual ports is one server whether it is spoken to by TLS or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    host: String,
    port: Option<u16>,
    path: Vec<Vec<u8>>,
}

/// Reads `http`.
pub(super) fn read(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Base> {
    let text = given.text(mistakes)?;
    match parse(text) {
        Ok(base) => Some(base),
        Err(problem) => {
            given.wrong(mistakes, problem);
            None
        }
    }
}

fn parse(text: &str) -> Result<Base, String> {
    if text.len() > STORE_ADDRESS_BYTES {
        return Err(format!("is longer than {STORE_ADDRESS_BYTES} bytes"));
    }
    let form = "write \"https://HOST/\" or \"http://HOST:PORT/PATH/\"";
    let Some((scheme @ ("http" | "https"), rest)) = text.split_once("://") else {
        return Err(format!("is not an address; {form}"));
    };
    if text.contains(['?', '#']) {
        return Err("has a query or a fragment; names are put below it, so leave them out".to_owned());
    }
    if text.contains(['\\', ' ']) {
        return Err("has a space or a backslash; write them %20 and %5C".to_owned());
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains('@') {
        return Err("has a user or a password; leave it out and use `credentials`".to_owned());
    }
    let segments = path.strip_suffix('/').unwrap_or(path);
    if !path.is_empty() && segments.split('/').any(is_no_segment) {
        return Err("has an empty segment, `.` or `..` in its path; write the path that it means".to_owned());
    }
    let mut url = Url::parse(text).map_err(|error| format!("is not an address ({error}); {form}"))?;
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    if url.port() == Some(0) {
        return Err("has port 0; write a port from 1 to 65535".to_owned());
    }
    let spot = spot(&url).ok_or_else(|| format!("names no host; {form}"))?;
    Ok(Base { address: url.into(), is_tls: scheme == "https", spot })
}

/// A segment that a server or a client may leave out or step over: what lies below would then not be where it seems.
fn is_no_segment(segment: &str) -> bool {
    let plain: Vec<u8> = percent_decode_str(segment).collect();
    matches!(plain.as_slice(), b"" | b"." | b"..") || plain.contains(&b'/') || plain.contains(&b'\\')
}

fn spot(url: &Url) -> Option<Spot> {
    let host = match url.host()? {
        Host::Domain(name) => name.trim_end_matches('.').to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_canonical().to_string(),
    };
    let path = url.path().split('/').filter(|segment| !segment.is_empty());
    Some(Spot {
        host,
        port: url.port().filter(|port| !matches!(port, 80 | 443)),
        path: path.map(|segment| percent_decode_str(segment).collect()).collect(),
    })
}

/// Refuses two namespaces whose addresses are equal, or one below the other: one cell would be two resources, each with
/// a fence of its own. Addresses are compared as text; two names of one host are not seen.
pub(in crate::config) fn refuse_shared(bases: &[(&Namespace, &Found<Base>)], mistakes: &mut Mistakes) {
    let mut taken: BTreeMap<&Spot, &Namespace> = BTreeMap::new();
    let mut note = |namespace: &Namespace, base: &Found<Base>, what: &str, other: &Namespace| {
        let problem = format!(
            "{what} the address of namespace `{other}`: what lies there would be two resources; give each an address \
             of its own"
        );
        let shown = Key::new(namespace.as_str());
        mistakes.note(&base.place, &format!("namespaces.{}.store.http", shown.display_repr()), problem);
    };
    for (namespace, base) in bases {
        match taken.get(&base.value.spot) {
            Some(other) => note(namespace, base, "is", other),
            None => {
                taken.insert(&base.value.spot, namespace);
            }
        }
    }
    for (namespace, base) in bases {
        let mut above = base.value.spot.clone();
        while above.path.pop().is_some() {
            if let Some(other) = taken.get(&above) {
                note(namespace, base, "lies below", other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_its_slash_and_its_canonical_form() {
        for (text, address) in [
            ("https://h", "https://h/"),
            ("https://h/", "https://h/"),
            ("http://H.Example:8080/a/b", "http://h.example:8080/a/b/"),
            ("http://h:80/a%20b/", "http://h/a%20b/"),
            ("http://[::1]:9/", "http://[::1]:9/"),
        ] {
            assert_eq!(parse(text).unwrap().address, address, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for (text, said) in [
            ("secret", "is not an address"),
            ("ftp://secret/", "is not an address"),
            ("HTTP://secret/", "is not an address"),
            ("https://", "is not an address"),
            ("https://h:secret/", "is not an address"),
            ("https://h:0/", "port 0"),
            ("https://u:secret@h/", "user or a password"),
            ("https://h/?secret", "query"),
            ("https://h/#secret", "fragment"),
            ("https://h/secret/../b/", "`..`"),
            ("https://h/secret/%2e%2E/b/", "`..`"),
            ("https://h/secret//b/", "empty segment"),
            ("https://h//", "empty segment"),
            ("https://h/secret%2fb/", "empty segment"),
            ("https://h/secret\\b/", "%5C"),
            ("https://h /secret/", "%20"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(said), "{text}: {problem}");
            assert!(!problem.contains("secret"), "{text}: {problem}");
        }
        assert!(parse(&format!("https://h/{}", "a".repeat(STORE_ADDRESS_BYTES))).is_err());
    }

    #[test]
    fn one_server_is_one_however_it_is_spelled() {
        let spot = |text: &str| parse(text).unwrap().spot;
        for (one, other) in [
            ("http://h/", "https://h"),
            ("http://h./", "http://H/"),
            ("http://h/%61/", "http://h/a"),
            ("http://127.0.0.1/", "http://0x7f.1/"),
        ] {
            assert_eq!(spot(one), spot(other), "{one} {other}");
        }
        assert_ne!(spot("http://h/a"), spot("http://h/A"));
        assert_ne!(spot("http://h:1/"), spot("http://h:2/"));
    }
}
