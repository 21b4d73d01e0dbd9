//! `openapi.yaml`, the router, the error codes and `docs/errors/` say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fencegate::http::problem::Code;
use fencegate::http::routes;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client::Answer;
use crate::support::gateway::Gateway;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn document() -> Value {
    serde_yaml_ng::from_str(&read("openapi.yaml")).unwrap()
}

const METHODS: [&str; 7] = ["get", "head", "put", "post", "patch", "delete", "options"];

/// Path -> methods, as the document declares them.
fn declared(document: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let paths = document["paths"].as_object().unwrap();
    let methods = |calls: &Value| {
        METHODS.iter().filter(|word| calls.get(**word).is_some()).map(|word| word.to_uppercase()).collect()
    };
    paths.iter().map(|(path, calls)| (path.clone(), methods(calls))).collect()
}

/// Follows a local reference.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

#[test]
fn the_document_and_the_router_have_the_same_calls() {
    let document = document();
    let routed: BTreeMap<String, BTreeSet<String>> = routes()
        .iter()
        .map(|route| (route.path.to_owned(), route.calls.iter().map(|call| call.method.to_owned()).collect()))
        .collect();
    assert_eq!(declared(&document), routed);
    for route in routes() {
        for call in route.calls {
            let declared = &document["paths"][route.path][call.method.to_lowercase()];
            let shared = document["paths"][route.path]["parameters"].as_array().cloned().unwrap_or_default();
            let own = declared["parameters"].as_array().cloned().unwrap_or_default();
            let named: BTreeSet<String> = shared
                .iter()
                .chain(&own)
                .map(|parameter| resolved(&document, parameter))
                .filter(|parameter| parameter["in"] == "query")
                .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
                .collect();
            let taken: BTreeSet<String> = call.query.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(named, taken, "query of {} {}", call.method, route.path);
        }
    }
}

/// A method that is not declared is a 405 problem whose Allow lists those that are.
#[tokio::test]
async fn the_running_router_answers_the_declared_methods_and_no_others() {
    let gateway = Gateway::start().await;
    for (path, methods) in declared(&document()) {
        let path = path.replace("{namespace}", "jobs").replace("{name}", "a").replace("{code}", "not_found");
        // A stream that begins has no end.
        let path = path.replace("/v1/events", "/v1/events?namespace=a%2Fb");
        let path =
            path.replace("{acquisition_id}", "00AAAAAAAAAAAAAAAAAAAAAA").replace("{operation_id}", "op");
        for word in METHODS {
            let method = Method::from_bytes(word.to_uppercase().as_bytes()).unwrap();
            let answer = Answer::of(gateway.client.request(method.clone(), &path)).await;
            // `jobs` keeps documents, which are replaced as a whole.
            let patched = method == Method::PATCH;
            let known = !patched
                && (methods.contains(method.as_str()) || (method == Method::HEAD && methods.contains("GET")));
            assert_eq!(answer.status == 405, !known, "{method} {path}: {}", answer.status);
            if !known {
                let allowed: BTreeSet<&str> = answer.header("allow").unwrap().split(", ").collect();
                assert!(
                    methods.iter().all(|method| method == "PATCH" || allowed.contains(method.as_str())),
                    "{path}: {allowed:?}"
                );
                if method != Method::HEAD {
                    answer.refused(405, "method_not_allowed", "none");
                }
            }
        }
    }
    gateway.client.get("/nowhere").await.refused(404, "not_found", "none");
    gateway.stop().await;
}

#[test]
fn every_code_has_a_page_and_stands_in_the_document() {
    let words: BTreeSet<String> = Code::ALL.iter().map(|code| code.word().to_owned()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors");
    let pages: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name != "README.md")
        .map(|name| name.trim_end_matches(".md").to_owned())
        .collect();
    assert_eq!(pages, words);
    let document = document();
    let listed = document["components"]["schemas"]["ProblemCode"]["enum"].as_array().unwrap();
    let listed: BTreeSet<String> = listed.iter().map(|code| code.as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, words);
    let table = read("docs/errors/README.md");
    for code in Code::ALL {
        let page = read(&format!("docs/errors/{}.md", code.word()));
        assert!(page.contains(code.title()), "{}: the page has another title", code.word());
        assert!(
            page.contains(&code.status().as_u16().to_string()),
            "{}: the page has another status",
            code.word()
        );
        assert!(table.contains(code.word()), "{} is not in the table", code.word());
    }
}

/// Every example of the document is what its schema says; a problem's example agrees with the code's own answers.
#[test]
fn every_example_fits_its_schema() {
    let document = document();
    let (mut examples, mut codes) = (0, BTreeSet::new());
    for calls in document["paths"].as_object().unwrap().values() {
        for call in METHODS.iter().filter_map(|word| calls.get(*word)) {
            for (status, answer) in call["responses"].as_object().unwrap() {
                let answer = resolved(&document, answer);
                let contents = answer["content"].as_object().into_iter().flatten();
                for (_, media) in contents.filter(|(kind, _)| kind.ends_with("json")) {
                    for example in media["examples"].as_object().into_iter().flat_map(|all| all.values()) {
                        let value = &resolved(&document, example)["value"];
                        check(&document, &media["schema"], value);
                        if let Some(code) = value["code"].as_str() {
                            problem_agrees(value, status);
                            codes.insert(code.to_owned());
                        }
                        examples += 1;
                    }
                }
            }
        }
    }
    assert!(examples > 100, "only {examples} examples");
    let words: BTreeSet<String> = Code::ALL.iter().map(|code| code.word().to_owned()).collect();
    assert_eq!(codes, words, "codes without an example");
}

fn check(document: &Value, schema: &Value, value: &Value) {
    let whole = json!({"allOf": [schema], "components": document["components"]});
    let validator = jsonschema::draft202012::new(&whole).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{error} at {}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{value:#}\n{errors:?}");
}

fn problem_agrees(value: &Value, status: &str) {
    let fits = |code: &&Code| {
        code.word() == value["code"]
            && code.status().as_str() == status
            && code.effect().word() == value["effect"]
    };
    let code = Code::ALL.iter().find(fits).unwrap_or_else(|| panic!("no code answers so: {value:#}"));
    assert_eq!(value["retryable"], code.retryable(), "{value:#}");
    assert_eq!(value["title"], code.title(), "{value:#}");
    assert_eq!(value["status"].to_string(), status, "{value:#}");
}

/// What the gateway really answers is what the document says, for one of each shape.
#[tokio::test]
async fn real_answers_fit_the_document() {
    let document = document();
    let gateway = Gateway::start().await;
    let client = &gateway.client;
    let shape = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let lease = client.acquire("jobs/a", "alice").await;
    let receipt = client.put("jobs/a", &lease.token, "op-1", "body", &[]).await.expect(201);
    let refused = client.put("jobs/a", &lease.token, "op-2", "body", &[]).await.expect(412);
    check(&document, &shape("Receipt"), &receipt);
    check(&document, &shape("Problem"), &refused);
    for (path, name) in [
        (format!("/v1/leases/{}", lease.id).as_str(), "LeaseView"),
        ("/v1/resources/jobs/a", "Resource"),
        ("/v1/resources", "ResourcePage"),
        ("/v1/operations?resource=jobs/a", "OperationPage"),
        ("/v1/operations/op-1?resource=jobs/a", "Operation"),
        ("/v1/namespaces", "NamespaceList"),
        ("/v1/namespaces/jobs", "Namespace"),
        ("/v1/status", "Status"),
        ("/livez", "Liveness"),
        ("/readyz?verbose", "Readiness"),
    ] {
        check(&document, &shape(name), &client.get(path).await.expect(200));
    }
    let page = client.get("/docs/errors/stale_token").await;
    assert_eq!(page.text(), read("docs/errors/stale_token.md"));
    assert_eq!(client.get("/openapi.yaml").await.text(), read("openapi.yaml"));
    gateway.stop().await;
}
