//! `[tracing]`: what it means, and what is told of a wrong one. An address may hold a secret, so none is repeated.

use super::parse;
use crate::config::{Config, Flags, Nowhere, Sources, Tracing, Variables};

fn mistakes(text: &str) -> Vec<String> {
    parse(text).unwrap_err().iter().map(ToString::to_string).collect()
}

/// The only mistake of a value of `[tracing]`, which stands in its second line.
fn only(key: &str, value: &str) -> String {
    let more = if key == "sample_ratio" { "otlp_endpoint = \"http://c:4318\"\n" } else { "" };
    let told = mistakes(&format!("[tracing]\n{key} = {value}\n{more}"));
    assert_eq!(told.len(), 1, "{value}: {told:#?}");
    assert!(told[0].starts_with("etc/f.toml:2:") && told[0].contains(&format!("tracing.{key}")), "{told:#?}");
    told.concat()
}

#[test]
fn a_collector_has_the_usual_path_and_all_is_sent_unless_somebody_says_less() {
    let of = |text: &str| parse(text).unwrap().tracing.unwrap();
    let all = Tracing { endpoint: "http://127.0.0.1:4318/v1/traces".to_owned(), per_million: 1_000_000 };
    assert_eq!(of("[tracing]\notlp_endpoint = \"http://127.0.0.1:4318\"\n"), all);
    for (ratio, per_million) in
        [("0", 0), ("1", 1_000_000), ("0.1", 100_000), ("0.000001", 1), ("1.0", 1_000_000)]
    {
        let told = of(&format!("[tracing]\notlp_endpoint = \"http://c/own/path\"\nsample_ratio = {ratio}\n"));
        assert_eq!(told, Tracing { endpoint: "http://c/own/path".to_owned(), per_million });
    }
    assert_eq!(parse("[tracing]\n").unwrap().tracing, None);
}

/// Broken: a wrong address is taken, and spans go nowhere without a word; or what is told of it repeats a password. Must hold:
/// each slip is told with its place and with what to write, and nothing of the address stands in it.
#[test]
fn an_address_that_cannot_be_one_is_told_and_not_repeated() {
    for (value, because) in [
        ("\"\"", "is empty; leave it out, or give a value"),
        ("\"nonsense\"", "is not an address; write one such as \"http://127.0.0.1:4318\""),
        ("\"127.0.0.1:4318\"", "is not an address"),
        ("\"collector:4318\"", "is not an address of HTTP"),
        ("\"grpc://hush:4317\"", "is not an address of HTTP"),
        ("\"https://hush\"", "spans are sent without TLS"),
        ("\"http://user:hush@c:4318\"", "holds a name or a password"),
        ("\"http://c:4318/?key=hush\"", "has a query or a fragment"),
        ("\"http://c:4318/#hush\"", "has a query or a fragment"),
        ("4318", "otlp_endpoint"),
    ] {
        let told = only("otlp_endpoint", value);
        assert!(told.contains(because), "{value}: {told}");
        assert!(!told.contains("hush"), "{told}");
    }
}

#[test]
fn a_ratio_out_of_range_is_told() {
    for value in ["-0.1", "1.1", "2", "-1", "100", "nan", "inf", "\"half\"", "true"] {
        let told = only("sample_ratio", value);
        assert!(told.contains("wants a share from 0 to 1, such as 0.1"), "{value}: {told}");
    }
    let told = mistakes("[tracing]\nsample_ratio = 0.5\n");
    assert!(told.len() == 1 && told[0].contains("set otlp_endpoint too"), "{told:#?}");
    // The mistake in the address is told, and nothing that only follows from it.
    assert_eq!(mistakes("[tracing]\notlp_endpoint = \"x\"\nsample_ratio = 0.5\n").len(), 1);
}

#[test]
fn variables_say_the_same_and_other_keys_are_refused() {
    let told = |pairs: &[(&str, &str)]| {
        let variables: Variables =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
        let flags = Flags::default();
        Config::parse(&Sources { file: None, variables: &variables, flags: &flags, outside: &Nowhere })
    };
    let (endpoint, ratio) = ("FENCEGATE_TRACING__OTLP_ENDPOINT", "FENCEGATE_TRACING__SAMPLE_RATIO");
    let tracing = told(&[(endpoint, "http://c"), (ratio, "0.25")]).unwrap().tracing.unwrap();
    assert_eq!(tracing, Tracing { endpoint: "http://c/v1/traces".to_owned(), per_million: 250_000 });
    let wrong = told(&[(endpoint, "http://c"), (ratio, "25%")]).unwrap_err().to_string();
    assert!(wrong.contains(ratio) && wrong.contains("from 0 to 1"), "{wrong}");
    let unknown = mistakes("[tracing]\nendpoint = \"http://c\"\n");
    assert!(unknown[0].contains("otlp_endpoint"), "{unknown:#?}");
    assert!(mistakes("otlp_endpoint = \"http://c\"\n")[0].contains("under [tracing]"));
}
