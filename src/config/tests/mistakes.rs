//! Each mistake is told once, with its line, and all of a file at once.

use super::parse;

/// What is told of a text, one mistake each.
fn told(text: &str) -> Vec<String> {
    parse(text).unwrap_err().iter().map(ToString::to_string).collect()
}

/// The only mistake of a text.
fn only(text: &str) -> String {
    let told = told(text);
    assert_eq!(told.len(), 1, "{told:#?}");
    told.concat()
}

/// The only mistake in the body of `[namespaces.a]`.
fn only_in(body: &str) -> String {
    only(&format!("[namespaces.a]\n{body}\n"))
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once_by_line() {
    let text = "\
listen = \"0.0.0.0:8080\"
databse = \"memory\"
operation_retention = \"30 days ago\"
max_body_bytes = 0

[namespaces.statements]
polcy = \"single\"
contract = \"imediate\"
scope = 65
lease = { ttl_ms = 10, order = \"lifo\" }

[namespaces.\"a b \"]
[namespaces.jobs]
issuer = { external = \"trustd\", jump = 1 }
";
    let told = told(text);
    let lines: Vec<&str> = told.iter().map(|told| told.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(
        lines,
        [
            "etc/f.toml:1:10",
            "etc/f.toml:2:1",
            "etc/f.toml:3:23",
            "etc/f.toml:4:18",
            "etc/f.toml:7:1",
            "etc/f.toml:8:12",
            "etc/f.toml:9:9",
            "etc/f.toml:10:20",
            "etc/f.toml:10:32",
            "etc/f.toml:12:13",
            "etc/f.toml:14:23",
            "etc/f.toml:14:33",
        ],
        "{told:#?}"
    );
}

#[test]
fn an_unknown_key_names_the_nearest_and_all_others() {
    let told = only_in("  polcy = \"single\"");
    assert_eq!(
        told,
        "etc/f.toml:2:3: namespaces.a.polcy: unknown key; the nearest is `policy`. Allowed here: `store`, `policy`, \
         `gapless`, `contract`, `issuer`, `scope`, `max_body_bytes`, `lease`, `quota`"
    );
}

#[test]
fn an_unknown_word_names_the_nearest_and_all_others() {
    let told = only_in("policy = \"orderd\"");
    assert_eq!(
        told,
        "etc/f.toml:2:10: namespaces.a.policy: \"orderd\" is not known; the nearest is `ordered`. Allowed: `single`, \
         `ordered`, `session`"
    );
}

#[test]
fn what_comes_later_is_refused_by_name() {
    for store in ["\"sql\"", "\"object\"", "{ http = \"https://x/\", class = \"serial\", sql = \"\" }"] {
        assert!(only_in(&format!("store = {store}")).contains("comes in a later version"), "{store}");
    }
}

#[test]
fn a_database_address_is_refused_without_showing_a_password() {
    for address in [
        "postgres://u:pw@h",
        "postgres://u:pw@h:x/d",
        "postgresql://u:pw@h/d?pw=1",
        "mysql://u:pw@h/d",
        "sqlite://",
        "sqlite://:memory:",
        "sqlite://x/",
        "sqlite://x?a=pw",
    ] {
        assert!(!only(&format!("database = \"{address}\"")).contains("pw"), "{address}");
    }
    assert!(only("database = \"sqlite:x.db\"").contains("write \"sqlite://PATH\""));
}

#[test]
fn a_value_of_another_kind_is_told_with_both_kinds() {
    assert!(only("listen = 8080").ends_with("listen: wants text in quotes, not a whole number"));
    assert!(
        only("max_body_bytes = \"1M\"")
            .contains("wants a whole number from 1 to 67108864, not the text \"1M\"")
    );
    assert!(only("max_body_bytes = 1.5").contains("not a number with a fraction"));
    assert!(only_in("gapless = \"yes\"").contains("wants true or false, not the text \"yes\""));
    assert!(only_in("lease = 5").contains("wants a table such as { ttl_ms = 30000 }"));
    assert!(only("namespaces = 1").contains("wants a table"));
    assert!(only("[[namespaces]]\na = 1").contains("wants a table"));
    assert!(only("[namespaces]\nstatements = \"document\"").contains("wants a table"));
    assert!(only("seal_key_file = \"\"").contains("is empty"));
    assert!(only("seal_key_file = \"a\\u0000b\"").contains("U+0000"));
}

#[test]
fn numbers_have_bounds() {
    assert!(only("max_body_bytes = 0").ends_with("is 0; allowed is 1 to 67108864"));
    assert!(only("max_body_bytes = 67108865").contains("allowed is 1 to 67108864"));
    assert!(only_in("scope = -1").contains("allowed is 0 to 64"));
    assert!(only_in("lease = { ttl_ms = 0 }").contains("allowed is 1 to 86400000"));
    assert!(only_in("issuer = { external = \"trusted\", max_jump = 0 }").contains("allowed is 1 to"));
}

#[test]
fn the_ttl_stands_between_its_bounds() {
    assert_eq!(
        only_in("lease = { ttl_ms = 500 }"),
        "etc/f.toml:2:20: namespaces.a.lease: min_ttl_ms is 1000 (the default), above ttl_ms, which is 500"
    );
    assert!(
        only_in("lease = { max_ttl_ms = 20000 }").contains("ttl_ms is 30000 (the default), above max_ttl_ms")
    );
    let both =
        super::parse("[namespaces.a]\nlease = { min_ttl_ms = 40000, max_ttl_ms = 35000, ttl_ms = 50000 }");
    assert_eq!(both.unwrap_err().len(), 2);
}

#[test]
fn gapless_goes_with_ordered_and_a_jump_with_trusted() {
    assert!(only_in("gapless = true").contains("policy = \"ordered\" alone"));
    assert!(
        only_in("policy = \"session\"\ngapless = true").starts_with("etc/f.toml:3:11: namespaces.a.gapless")
    );
    assert!(parse("[namespaces.a]\ngapless = false").is_ok());
    let jump = only_in("issuer = { external = \"registered\", max_jump = 3 }");
    assert!(jump.contains("external = \"trusted\" alone"), "{jump}");
}

#[test]
fn a_wrong_word_makes_no_second_mistake_out_of_its_default() {
    assert!(only_in("policy = \"orderd\"\ngapless = true").contains("namespaces.a.policy"));
    assert!(only_in("issuer = { external = \"x\", max_jump = 3 }").contains("issuer.external"));
    assert!(only_in("issuer = { max_jump = 3 }").contains("names no mode"));
    assert!(only_in("issuer = { external = \"x\" }\ncontract = \"lease_bound\"").contains("issuer.external"));
    assert!(only_in("lease = { ttl_ms = \"1s\", max_ttl_ms = 2000 }").contains("lease.ttl_ms"));
}

#[test]
fn a_promise_that_cannot_be_kept_is_told_at_the_contract() {
    let told = only_in("issuer = { external = \"trusted\" }\ncontract = \"immediate\"");
    assert!(told.starts_with("etc/f.toml:3:12: namespaces.a.contract: contract \"immediate\""), "{told}");
    let told = only_in("contract = \"lease_bound\"\nissuer = { external = \"registered\" }");
    assert!(told.starts_with("etc/f.toml:2:12: namespaces.a.contract: contract \"lease_bound\""), "{told}");
}

#[test]
fn an_issuer_in_the_wrong_form_is_told_the_right_one() {
    assert!(only_in("issuer = \"trusted\"").contains("write { external = \"trusted\" }"));
    assert!(only_in("issuer = \"other\"").contains("Allowed: \"gateway\" and"));
    assert!(only_in("issuer = 3").contains("Allowed: \"gateway\" and"));
}

#[test]
fn a_namespace_is_one_segment() {
    for name in ["\"a/b\"", "\"\"", "\" a\"", "\"..\"", "\"a%b\""] {
        let told = only(&format!("[namespaces.{name}]"));
        assert!(told.starts_with("etc/f.toml:1:13"), "{told}");
    }
}

#[test]
fn a_secret_does_not_stand_in_the_file() {
    let told = only("seal_key = \"00000000:AAAA\"");
    assert!(told.contains("FENCEGATE_SEAL_KEY"), "{told}");
    assert!(!told.contains("AAAA"), "{told}");
}
