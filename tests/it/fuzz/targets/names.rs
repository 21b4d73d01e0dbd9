//! Names of what is fenced. Two that differ are two fences, two rows and two addresses of an upstream; a name is canonical or
//! refused; and nothing that stands in one leads out of the base.

use fencegate::backing::fuzzing::{is_of_content, path_of, path_of_content};
use fencegate::domain::permission::{Permission, Prefix, Rule, Rules};
use fencegate::domain::resource::{Address, Namespace, Path, ResourceName, Target as TargetPath};
use fencegate::domain::subject::Subject;
use percent_encoding::percent_decode_str;
use url::Url;

use super::{Met, Target, cut, text};

pub(super) const TARGET: Target = Target {
    name: "names",
    run,
    longest: 600,
    words: &[
        "a",
        "/",
        "//",
        ".",
        "..",
        "...",
        "%",
        "%2F",
        "%2e%2e",
        "\\",
        "?",
        "#",
        "*",
        "~",
        " ",
        "\n",
        "é",
        "e\u{301}",
        "\u{212b}",
        "\u{0}",
        "\u{7f}",
        "\u{85}",
        "\u{a0}",
        "\u{2003}",
        "\u{202e}",
        "\u{200b}",
        "\u{feff}",
        "漢",
        ".fencegate",
        ":",
        ";",
        "+",
        "&",
        "=",
        "@",
        "'",
        "\"",
        "<",
        "{",
        "|",
        "^",
        "`",
        "[",
        "\u{10ffff}",
        "\u{e000}",
    ],
    meets: &["name read", "name refused", "two names", "target", "of content"],
};

/// One name, or two with a line break between.
fn run(data: &[u8], met: &mut Met) {
    let (one, other) = cut(data, b'\n');
    let (one, other) = (name(one, met), name(other, met));
    if let (Some(one), Some(other)) = (one, other) {
        met.note("two names");
        apart(&one, &other);
    }
}

fn name(bytes: &[u8], met: &mut Met) -> Option<Path> {
    let path = Path::parse_bytes(bytes);
    met.read("name", &path);
    let Some(text) = text(bytes) else {
        assert!(path.is_err(), "a name that is no text");
        return None;
    };
    assert_eq!(Path::parse(text), path, "the same by bytes and as text");
    alone(text, met);
    let path = path.ok()?;
    assert_eq!(path.as_str(), text, "a name is never changed");
    assert_eq!(ResourceName::parse(text).map(|name| name.to_string()), Ok(text.to_owned()));
    assert!(text.starts_with(&format!("{}/", path.namespace())), "the namespace is what it begins with");
    for scope in 0..4 {
        let Ok(address) = path.split(scope) else { continue };
        assert_eq!(address.full(), text, "a scope loses nothing");
        if address.target.is_some() {
            met.note("target");
        }
        below(&address, met);
    }
    Some(path)
}

/// Texts that may be other things than whole names.
fn alone(text: &str, met: &mut Met) {
    if let Ok(namespace) = Namespace::parse(text) {
        assert!(namespace.as_str() == text && !text.contains('/') && text != "*");
    }
    if let Ok(target) = TargetPath::parse(text) {
        assert_eq!(target.as_str(), text);
    }
    let subject = Subject::parse(text);
    met.read("subject", &subject);
    if let Ok(subject) = subject {
        assert_eq!(subject.as_str(), text);
        let lies = matches!(&subject, Subject::Resource(name) if name.bucket() == subject.bucket());
        assert!(lies || subject.bucket().0 == 0);
    }
    if let Ok(prefix) = Prefix::parse(text) {
        assert_eq!(Prefix::parse(prefix.as_str()), Ok(prefix.clone()), "a prefix reads as it is told");
        assert_eq!(prefix.as_str(), text.strip_suffix('/').unwrap_or(text));
    }
}

/// Where a write goes that is below a base.
fn below(address: &Address, met: &mut Met) {
    let path = path_of("/base/", address);
    let named = address.full();
    let (_, rest) = named.split_once('/').expect("a namespace and a name");
    let below = path.strip_prefix("/base/").expect("below the base");
    let decoded = percent_decode_str(below).decode_utf8().expect("what was encoded is UTF-8");
    assert_eq!(decoded, rest, "what the upstream decodes is the name");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%".contains(&byte);
    assert!(path.bytes().all(plain), "{path}: only what every server reads alike");
    let whole = format!("http://upstream.example{path}");
    let url = Url::parse(&whole).expect("an address");
    assert_eq!(url.as_str(), whole, "no reader of addresses makes another one of it");
    assert!(path.parse::<axum::http::Uri>().is_ok_and(|uri| uri.path() == path && uri.query().is_none()));
    let resource = &address.resource;
    let content = path_of_content("/base/", resource, "1-0.1-00");
    let beside = ResourceName::parse(&format!("{resource}.fencegate/1-0.1-00"));
    if let Ok(beside) = beside {
        met.note("of content");
        assert!(is_of_content(&beside), "{beside}: nobody writes over the content of another");
        assert_eq!(path_of("/base/", &Address { resource: beside, target: None }), content);
    }
}

/// Two names.
fn apart(one: &Path, other: &Path) {
    if one == other {
        return;
    }
    let (Ok(a), Ok(b)) = (one.split(0), other.split(0)) else {
        panic!("without a scope all is the resource")
    };
    assert_ne!(a, b, "two names are two rows");
    if one.namespace() == other.namespace() {
        assert_ne!(path_of("/", &a), path_of("/", &b), "two names never meet at one address");
        let folded = |address: &Address| path_of("/", address).to_lowercase();
        let same = a.full().to_lowercase() == b.full().to_lowercase();
        assert!(same || folded(&a) != folded(&b), "not even where letters count alike");
        if !is_of_content(&b.resource) {
            let content = path_of_content("/", &a.resource, "1-0.1-00");
            assert_ne!(content, path_of("/", &b), "a name is no content object of another");
        }
    }
    for (scope, rules) in [(one, other), (other, one)].map(|(rule, name)| (name, rule)) {
        let Ok(prefix) = Prefix::parse(rules.as_str()) else { panic!("a name is a prefix") };
        let rule = Rule { prefix, permissions: [Permission::Write].into_iter().collect() };
        let inside = scope.as_str().starts_with(&format!("{}/", rules.as_str()));
        assert_eq!(
            Rules::new([rule]).allow(scope.as_str(), Permission::Write),
            inside,
            "a rule ends with a segment"
        );
    }
}
