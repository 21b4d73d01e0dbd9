//! What is told of a wrong store: each mistake once, with its place, and never with a secret.

use super::stores::layered;

fn told(text: &str, pairs: &[(&str, &str)]) -> Vec<String> {
    layered(text, pairs).unwrap_err().iter().map(ToString::to_string).collect()
}

fn only(text: &str) -> String {
    let told = told(text, &[]);
    assert_eq!(told.len(), 1, "{told:#?}");
    told.concat()
}

/// The only mistake of a store with this class and these further keys, one a line.
fn only_in(class: &str, more: &str) -> String {
    only(&format!("[namespaces.a.store]\nhttp = \"https://h/\"\nclass = \"{class}\"\n{more}"))
}

#[test]
fn a_wrong_key_names_the_nearest_and_all_others() {
    assert_eq!(
        only_in("serial", "timout_ms = 5"),
        "etc/f.toml:4:1: namespaces.a.store.timout_ms: unknown key; the nearest is `timeout_ms`. Allowed here: `http`, \
         `class`, `stamp`, `protocol`, `timeout_ms`, `connect_timeout_ms`, `max_response_bytes`, `refused_statuses`, \
         `forward_headers`, `return_headers`, `key_header`, `status`, `key_retention`, `max_uncertain_ms`, `probe`, `version_header`, `ca_file`, \
         `credentials`"
    );
    assert!(only_in("serial", "scope = 1").contains("write it under [namespaces.NAME]"));
    assert!(only("[namespaces.a]\ntimeout_ms = 5").contains("write it in `store = { … }` of a namespace"));
    assert!(
        only_in("conditional", "stamp = { heder = \"x\", json = \"/a\" }").contains("nearest is `header`")
    );
    let told = told("", &[("FENCEGATE_NAMESPACES__A__STORE__TIMOUT_MS", "5")]).concat();
    assert!(told.contains("the nearest is `STORE__TIMEOUT_MS`"), "{told}");
}

#[test]
fn a_store_needs_an_address_and_a_class() {
    let told = told("[namespaces.a]\nstore = { timeout_ms = 5 }", &[]);
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(
        told.iter().all(|told| told.starts_with("etc/f.toml:2:9: namespaces.a.store: names no ")),
        "{told:#?}"
    );
    assert!(told.iter().any(|told| told.contains("Allowed: `conditional`, `fence_aware`")), "{told:#?}");
    assert!(only_in("fence_awre", "").contains("the nearest is `fence_aware`"));
    assert!(
        only("[namespaces.a]\nstore = \"http\"").contains("write store = { http = \"https://…/\", class")
    );
}

#[test]
fn an_address_is_refused_without_showing_a_password() {
    let address =
        |text: &str| only(&format!("[namespaces.a]\nstore = {{ http = \"{text}\", class = \"serial\" }}"));
    assert!(address("https://u:hush@h/").starts_with("etc/f.toml:2:18: namespaces.a.store.http: has a user"));
    for text in ["https://u:hush@h/", "hush", "ftp://hush/", "https://h/?hush", "https://h/../hush"] {
        assert!(!address(text).contains("hush"), "{text}");
    }
    assert!(!only("[namespaces.a]\nstore = \"https://u:hush@h/\"").contains("hush"));
}

#[test]
fn a_key_of_another_class_is_refused() {
    for (class, more, said) in [
        ("serial", "stamp = \"pointer\"", "stamp: stamp belongs to class \"conditional\""),
        (
            "conditional",
            "stamp = \"pointer\"\nstatus = \"{key}\"",
            "status: status belongs to class \"idempotent\"",
        ),
        ("serial", "key_header = \"x-key\"", "key_header: key_header belongs to class \"idempotent\""),
        (
            "fence_aware",
            "key_retention = \"1h\"",
            "key_retention: key_retention belongs to class \"idempotent\"",
        ),
        ("idempotent", "max_uncertain_ms = 60000", "max_uncertain_ms belongs to class \"serial\""),
        (
            "serial",
            "probe = true",
            "probe: there is nothing that a store of class \"serial\" could be tried for",
        ),
        ("conditional", "", "namespaces.a.store: class \"conditional\" needs a stamp"),
    ] {
        let told = only_in(class, more);
        assert!(told.contains(said), "{told}");
    }
    let cells = "[namespaces.a]\nscope = 1\nstore = { http = \"http://h/\", class = \"conditional\", stamp = \"pointer\" }";
    assert!(only(cells).starts_with("etc/f.toml:2:9: namespaces.a.scope: scope with class \"conditional\""));
    let document =
        told("[namespaces.a]\nstore = \"document\"", &[("FENCEGATE_NAMESPACES__A__STORE__TIMEOUT_MS", "5")]);
    assert!(document.concat().contains("timeout_ms: belongs to an upstream"), "{document:#?}");
}

#[test]
fn two_namespaces_do_not_share_what_lies_at_an_address() {
    let two = |one: &str, other: &str| {
        only(&format!(
            "[namespaces.a]\nstore = {{ http = \"{one}\", class = \"serial\" }}\n[namespaces.b]\nstore = {{ http = \
             \"{other}\", class = \"serial\" }}"
        ))
    };
    for (one, other) in
        [("https://h/x", "https://H/x/"), ("https://h/", "http://h"), ("https://h./", "https://h")]
    {
        let told = two(one, other);
        assert!(told.starts_with("etc/f.toml:4:18: namespaces.b.store.http: is the address of"), "{told}");
    }
    let told = two("https://h/x/y/z", "https://h/x");
    assert!(told.starts_with("etc/f.toml:2:18: namespaces.a.store.http: lies below"), "{told}");
    assert!(told.contains("namespace `b`"), "{told}");
    let star = only("[namespaces.\"*\"]\nstore = { http = \"https://h/\", class = \"serial\" }");
    assert!(star.contains("names of several namespaces would meet"), "{star}");
}

#[test]
fn headers_that_have_a_meaning_of_their_own_are_never_passed_on() {
    for name in [
        "Connection",
        "keep-alive",
        "TE",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
        "fencing-token",
        "x-fencing-token",
        "idempotency-key",
        "if-match",
        "if-range",
        "host",
        "content-length",
        "content-type",
        "authorization",
        "proxy-authorization",
        "x-forwarded-for",
        "forwarded",
        "prefer",
        "a b",
        "x:",
        "",
    ] {
        for list in ["forward_headers", "return_headers"] {
            let told = only_in("serial", &format!("{list} = [\"accept\", \"{name}\"]"));
            assert!(told.starts_with("etc/f.toml:4:"), "{told}");
        }
    }
    for name in ["etag", "x-request-id", "idempotent-replayed"] {
        assert!(layered(&format!("[namespaces.a.store]\nhttp = \"http://h/\"\nclass = \"serial\"\nforward_headers = [\"{name}\"]"), &[]).is_ok());
        only_in("serial", &format!("return_headers = [\"{name}\"]"));
    }
    assert!(only_in("serial", "forward_headers = [\"a\", \"A\"]").contains("\"a\" stands twice"));
    assert!(only_in("serial", "forward_headers = \"accept\"").contains("wants a list of names"));
    assert!(only_in("serial", "forward_headers = [1]").contains("wants text in quotes"));
}

#[test]
fn the_headers_of_the_store_itself_are_never_passed_on() {
    let told = only_in("idempotent", "key_header = \"X-Key\"\nreturn_headers = [\"x-key\"]");
    assert!(
        told.starts_with("etc/f.toml:5:19: namespaces.a.store.return_headers: \"x-key\" is the header"),
        "{told}"
    );
    let told = only_in("conditional", "stamp = { header = \"x-stamp\" }\nforward_headers = [\"x-stamp\"]");
    assert!(told.contains("is the header of `stamp`"), "{told}");
    let secret = "credentials = { header = \"x-key\", file = \"secret\" }";
    assert!(
        only_in("serial", &format!("{secret}\nforward_headers = [\"x-key\"]")).contains("of `credentials`")
    );
    assert!(
        only_in("idempotent", &format!("{secret}\nkey_header = \"x-key\"")).contains("they need one each")
    );
    assert!(only_in("conditional", "stamp = { header = \"content-type\" }").contains("always passed on"));
    assert!(only_in("idempotent", "key_header = \"fencing-key\"").contains("belongs to the gateway"));
}

#[test]
fn values_have_bounds() {
    for (more, said) in [
        ("timeout_ms = 0", "allowed is 1 to 600000"),
        ("connect_timeout_ms = 60001", "allowed is 1 to 60000"),
        ("max_response_bytes = 67108865", "allowed is 1 to 67108864"),
        ("protocol = \"http3\"", "Allowed: `auto`, `http1`, `http2`"),
        ("refused_statuses = [404, 408]", "408 says that the store gave up"),
        ("refused_statuses = [503]", "5xx says nothing of the effect"),
        ("refused_statuses = [200]", "is 200; allowed is 400 to 499"),
        ("refused_statuses = 404", "wants a list of statuses"),
        ("ca_file = \"none.pem\"", "etc/none.pem cannot be read: no such file"),
        ("ca_file = \"secret\"", "holds no certificate"),
        ("max_uncertain_ms = 6000", "must be longer than one attempt, which takes up to 6000 ms"),
    ] {
        let told = only_in("serial", more);
        assert!(told.contains(said), "{told}");
    }
    for (more, said) in [
        ("key_retention = \"1 fortnight\"", "is not a span of time; write one such as \"24h\""),
        ("key_retention = \"10ms\"", "allowed is 1s to 365d"),
        ("key_retention = \"24s\"", "is 24000 ms; after half of it"),
        ("key_retention = \"24s\"", "to ask and to send once, which take up to 12000 ms"),
        ("status = \"status\"", "name the place of the key once"),
        ("status = \"/s/{key}\"", "is a path below the address"),
        ("status = \"https://x/{key}\"", "is a path below the address"),
        ("status = \"../{key}\"", "`..`"),
        ("status = \"a?k={key}\"", "a sign other than"),
        ("status = \"%2e%2e/{key}\"", "a sign other than"),
    ] {
        let told = only_in("idempotent", more);
        assert!(told.contains(said), "{told}");
    }
    for stamp in
        ["\"\"", "\"header\"", "3", "{}", "{ json = \"a\" }", "{ json = \"/a~2\" }", "{ json = \"/\" }"]
    {
        only_in("conditional", &format!("stamp = {stamp}"));
    }
    let two = only_in("conditional", "stamp = { header = \"x-s\", json = \"/s\" }");
    assert!(two.contains("is a second place of the stamp"), "{two}");
    let roots =
        "[namespaces.a]\nstore = { http = \"http://h/\", class = \"serial\", ca_file = \"roots.pem\" }";
    assert!(only(roots).contains("goes with an https:// address alone"));
}

#[test]
fn whatever_stands_in_credentials_is_not_repeated() {
    for credentials in [
        "\"hush\"",
        "[\"hush\"]",
        "{ header = \"authorization: hush\", file = \"secret\" }",
        "{ header = \"authorization\", value = \"hush\", file = \"secret\" }",
        "{ header = \"authorization\", file = \"hush\" }",
        "{ header = \"authorization\", file = \"broken\" }",
        "{ header = \"authorization\", variable = \"hush hush\" }",
        "{ header = \"authorization\", variable = \"hush\" }",
        "{ header = \"authorization\", file = \"secret\", variable = \"hush\" }",
        "{ file = \"secret\" }",
        "{ header = \"authorization\" }",
        "{ header = \"host\", file = \"secret\" }",
        "{}",
    ] {
        let told = only_in("serial", &format!("credentials = {credentials}"));
        assert!(told.starts_with("etc/f.toml:4:"), "{told}");
        assert!(!told.contains("hush"), "{told}");
    }
    for name in ["STORE__CREDENTIALS", "STORE__CREDENTIALS__VARIABLE", "STORE__CREDENTIALS__FILE"] {
        let name = format!("FENCEGATE_NAMESPACES__A__{name}");
        let told = told("", &[(&name, "hush")]).concat();
        assert!(!told.contains("hush"), "{told}");
    }
}

#[test]
fn a_wrong_part_makes_no_second_mistake_out_of_its_default() {
    assert!(only_in("conditional", "stamp = \"pointr\"").contains("store.stamp"));
    assert!(only_in("serial", "timeout_ms = \"1s\"\nmax_uncertain_ms = 2000").contains("timeout_ms"));
    assert!(only_in("serial", "forward_headers = [\"host\"]").contains("forward_headers"));
    let contract =
        "[namespaces.a]\nstore = { http = \"hush\", class = \"serial\" }\ncontract = \"immediate\"";
    assert!(only(contract).contains("store.http"));
}
