//! `openapi.yaml` as a judge: status, headers, media type and body of an answer must be described there.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use axum::http::Method;
use fencegate::http::problem::Code;
use fencegate::http::{Route, routes};
use serde_json::{Value, json};

use super::house::Answer;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../openapi.yaml");
    serde_yaml_ng::from_str(text).unwrap()
});

static COMPILED: LazyLock<Mutex<BTreeMap<String, &'static jsonschema::Validator>>> =
    LazyLock::new(Mutex::default);

/// What a call of the contract is called: its method and its path.
pub(super) type Call = (String, String);

/// The route that a path leads to.
pub(super) fn route_of(path: &str) -> Option<&'static Route> {
    let path = path.split('?').next().unwrap_or_default();
    let fits = |pattern: &str| {
        if let Some((prefix, _)) = pattern.split_once("{*") {
            return path.starts_with(prefix) && path.len() > prefix.len();
        }
        let (wanted, given): (Vec<&str>, Vec<&str>) =
            (pattern.split('/').collect(), path.split('/').collect());
        let same = |(one, other): (&&str, &str)| one.starts_with('{') && !other.is_empty() || **one == *other;
        wanted.len() == given.len() && wanted.iter().zip(given).all(same)
    };
    routes().iter().find(|route| route.patterns.iter().any(|pattern| fits(pattern)))
}

/// The description of a call; a method that the path does not take is described by any other of the path.
fn described(method: &Method, path: &str) -> Option<&'static Value> {
    let route = route_of(path)?;
    let all = &DOCUMENT["paths"][route.path];
    let own = all.get(method.as_str().to_lowercase());
    let stand_in = || all.as_object().unwrap().values().find(|call| call.get("responses").is_some());
    own.or_else(|| if *method == Method::HEAD { all.get("get") } else { None }).or_else(stand_in)
}

/// Holds an answer against its description.
pub(super) fn hold(method: &Method, path: &str, answer: &Answer) {
    hold_in_common(path, answer);
    let Some(call) = described(method, path) else { return };
    let shown = format!("{method} {path} -> {} {}", answer.status, answer.text());
    // What an upstream answered is described whatever its status is.
    let status = if answer.is_relayed() { "default".to_owned() } else { answer.status.to_string() };
    let described = resolved(&call["responses"][status]);
    assert!(described.is_object(), "the status is not described: {shown}");
    if let Some(headers) = described["headers"].as_object() {
        for (name, header) in headers {
            let header = resolved(header);
            match answer.header(name) {
                Some(value) => hold_schema(&header["schema"], &parsed(&header["schema"], value), &shown),
                None => assert_ne!(header["required"], true, "{name} is missing: {shown}"),
            }
        }
    }
    if *method == Method::HEAD || answer.status == 304 {
        assert!(answer.bytes.is_empty(), "{shown}");
        return;
    }
    hold_content(&described["content"], answer, &shown);
}

fn hold_content(content: &Value, answer: &Answer, shown: &str) {
    let media = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    let content = content.get(media).or_else(|| content.get("*/*"));
    let content = content.unwrap_or_else(|| panic!("{media} is not described: {shown}"));
    if media.ends_with("json") && content.get("schema").is_some() {
        hold_schema(&content["schema"], &answer.json(), shown);
    }
}

fn hold_schema(schema: &Value, instance: &Value, shown: &str) {
    let validator = {
        let mut compiled = COMPILED.lock().unwrap();
        *compiled.entry(schema.to_string()).or_insert_with(|| {
            let whole = json!({"allOf": [schema], "components": DOCUMENT["components"]});
            Box::leak(Box::new(jsonschema::validator_for(&whole).unwrap()))
        })
    };
    if let Err(error) = validator.validate(instance) {
        panic!("{error} at {}: {shown}", error.instance_path());
    }
}

/// What every answer has, whatever it is.
fn hold_in_common(path: &str, answer: &Answer) {
    let shown = format!("{path} -> {} {:?} {}", answer.status, answer.headers, answer.text());
    let request_id = answer.header("x-request-id").unwrap_or_else(|| panic!("no request id: {shown}"));
    assert_eq!(uuid::Uuid::parse_str(request_id).unwrap().get_version_num(), 7, "{shown}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{shown}");
    assert_eq!(answer.header("content-security-policy"), Some("sandbox; default-src 'none'"), "{shown}");
    let control_plane = path.starts_with("/v1");
    let data_plane = route_of(path).is_some_and(|route| route.path.starts_with("/fenced/"));
    assert_eq!(answer.header("fencing-effect").is_some(), data_plane, "{shown}");
    assert!(data_plane || answer.header("fencing-guarantee").is_none(), "{shown}");
    if answer.is_relayed() {
        assert!(data_plane, "{shown}");
        return;
    }
    assert_eq!(answer.header("cache-control"), control_plane.then_some("no-store"), "{shown}");
    assert_eq!(answer.header("fencing-source"), data_plane.then_some("gateway"), "{shown}");
    if answer.header("content-type") == Some("application/problem+json") && !answer.bytes.is_empty() {
        hold_problem(path, answer, &shown);
    } else if answer.bytes.is_empty() {
        assert!(answer.header("content-length").is_some() || answer.status < 400, "{shown}");
    } else {
        assert!(answer.status < 400 || path.starts_with("/readyz"), "not a problem: {shown}");
    }
}

fn hold_problem(path: &str, answer: &Answer, shown: &str) {
    let problem = answer.json();
    let word = problem["code"].as_str().unwrap();
    let effect = problem["effect"].as_str().unwrap();
    let twin = |code: &&Code| {
        code.word() == word && code.status().as_u16() == answer.status && code.effect().word() == effect
    };
    let code = Code::ALL.iter().find(twin).unwrap_or_else(|| panic!("no such code: {shown}"));
    assert_eq!(problem["status"], answer.status, "{shown}");
    assert_eq!(problem["title"], code.title(), "{shown}");
    assert_eq!(problem["retryable"], code.retryable(), "{shown}");
    assert_eq!(problem["type"], format!("/docs/errors/{word}"), "{shown}");
    // An acquisition id in the path is a secret of its owner and is not repeated.
    let mut expected = path.split('?').next().unwrap().to_owned();
    if let Some(rest) = expected.strip_prefix("/v1/leases/") {
        expected = format!("/v1/leases/-{}", rest.find('/').map_or("", |at| &rest[at..]));
    }
    assert_eq!(problem["instance"], expected, "{shown}");
    assert_eq!(problem["request_id"].as_str(), answer.header("x-request-id"), "{shown}");
    assert!(!problem["detail"].as_str().unwrap().is_empty(), "{shown}");
    if let Some(header) = answer.header("fencing-effect") {
        assert_eq!(header, effect, "{shown}");
    }
    let wait = problem["retry_after_ms"].as_u64();
    let seconds = answer.header("retry-after").map(|text| text.parse::<u64>().unwrap());
    assert_eq!(seconds, wait.map(|ms| ms.div_ceil(1_000).max(1)), "{shown}");
    let waits = code.retryable() && *code != Code::RequestTimeout;
    assert_eq!(wait.is_some(), waits, "{shown}");
    assert_eq!(answer.header("allow").is_some(), word == "method_not_allowed", "{shown}");
    if let Some(location) = answer.header("location") {
        assert_eq!(problem["operation"].as_str(), Some(location), "{shown}");
    }
}

/// The codes that are described for each call, with their statuses.
pub(super) fn codes() -> BTreeMap<Call, Vec<(String, u16)>> {
    let mut found: BTreeMap<Call, Vec<(String, u16)>> = BTreeMap::new();
    for (path, calls) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, call) in calls.as_object().unwrap().iter().filter(|(method, _)| *method != "parameters")
        {
            let codes = found.entry((method.to_uppercase(), path.clone())).or_default();
            for (status, answer) in call["responses"].as_object().unwrap() {
                let Ok(status) = status.parse::<u16>() else { continue };
                let content = &resolved(answer)["content"]["application/problem+json"];
                for example in content["examples"].as_object().into_iter().flat_map(serde_json::Map::values) {
                    let word = resolved(example)["value"]["code"].as_str().unwrap().to_owned();
                    codes.push((word, status));
                }
            }
        }
    }
    found
}

fn resolved(value: &'static Value) -> &'static Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(pointer) => DOCUMENT.pointer(pointer.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// A header's text as its schema has it.
fn parsed(schema: &Value, text: &str) -> Value {
    match schema["type"].as_str() {
        Some("integer") => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
        _ => text.into(),
    }
}
