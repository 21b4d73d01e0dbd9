//! The real stores that stand behind the gateway in other tests, by themselves: that they are what they are taken for.

use std::process::Command;

use reqwest::Method;

use crate::support::client::{Answer, Client};
use crate::support::postgres::binaries::say;
use crate::support::postgres::patience;
use crate::support::stores::missing::{self, NEED_MOTO, NEED_NGINX, REMEDY, allowed, may_lack_nginx};
use crate::support::stores::moto::{Moto, Package};
use crate::support::stores::nginx::{Nginx, Program};

async fn send(
    base: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &'static str,
) -> Answer {
    let client = Client::to(base.trim_end_matches('/').to_owned());
    let mut request = client.request(method, path).header("content-type", "text/plain");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(request.body(body)).await
}

#[tokio::test]
async fn nginx_keeps_what_it_is_given() {
    let Some(program) = missing::nginx("stores::nginx_keeps_what_it_is_given") else { return };
    let nginx = Nginx::start(program);
    let base = nginx.base();
    assert_eq!(send(&base, Method::PUT, "/a/b", &[], "one").await.status, 201);
    assert_eq!(send(&base, Method::PUT, "/a/b", &[("if-none-match", "*")], "two").await.status, 204);
    let read = send(&base, Method::GET, "/a/b", &[], "").await;
    // It looks at no condition: whoever comes last is what is there.
    assert_eq!((read.status, read.text().as_str()), (200, "two"));
    assert_eq!(send(&base, Method::DELETE, "/a/b", &[], "").await.status, 204);
    assert_eq!(send(&base, Method::GET, "/a/b", &[], "").await.status, 404);
    let arrivals = ["PUT /a/b 201", "PUT /a/b 204", "GET /a/b 200", "DELETE /a/b 204", "GET /a/b 404"];
    let logged = patience::until("all were logged", 10, async || {
        Some(nginx.arrivals()).filter(|logged| logged.len() >= arrivals.len())
    });
    assert_eq!(logged.await, arrivals);
}

#[tokio::test]
async fn moto_obeys_conditions_and_its_validators_are_hashes_of_the_content() {
    let test = "stores::moto_obeys_conditions_and_its_validators_are_hashes_of_the_content";
    let Some(package) = missing::moto(test) else { return };
    let moto = Moto::start(package, "cells");
    let base = moto.base();
    let tag = |answer: &Answer| answer.header("etag").unwrap().to_owned();
    let created = send(&base, Method::PUT, "/cells/a", &[("if-none-match", "*")], "x").await;
    let first = tag(&created);
    assert_eq!(created.status, 200, "{}", created.text());
    assert_eq!(send(&base, Method::PUT, "/cells/a", &[("if-none-match", "*")], "y").await.status, 412);
    assert_eq!(send(&base, Method::PUT, "/cells/a", &[("if-match", "\"other\"")], "y").await.status, 412);
    let replaced = send(&base, Method::PUT, "/cells/a", &[("if-match", &first)], "y").await;
    assert_eq!(replaced.status, 200);
    assert_ne!(tag(&replaced), first);
    assert_eq!(send(&base, Method::PUT, "/cells/a", &[("if-match", &first)], "z").await.status, 412);
    // The old bytes bring the old validator back: a write that rests on it would pass although others came between.
    let back = send(&base, Method::PUT, "/cells/a", &[("if-match", &tag(&replaced))], "x").await;
    assert_eq!((back.status, tag(&back)), (200, first.clone()));
    let stamped = [("if-match", first.as_str()), ("x-amz-meta-fencing-stamp", "fg1")];
    assert_eq!(send(&base, Method::PUT, "/cells/a", &stamped, "x").await.status, 200);
    let read = send(&base, Method::GET, "/cells/a", &[], "").await;
    assert_eq!((read.text().as_str(), read.header("x-amz-meta-fencing-stamp")), ("x", Some("fg1")));
}

/// A test that was not run must not look like one that passed: where a store is missing this names and counts the tests
/// that need it, and fails unless that is allowed.
#[test]
fn what_could_not_run() {
    let (nginx, moto) = (Program::found().err(), Package::found().err());
    let mut count = 0;
    let mut reasons = String::new();
    let needs = [("nginx", NEED_NGINX, nginx, may_lack_nginx()), ("moto", NEED_MOTO, moto, allowed())];
    for (name, tests, reason, allowed) in needs {
        let Some(reason) = reason else { continue };
        assert!(allowed, "{REMEDY}");
        for test in tests {
            say(&format!("not run, {name} is missing: {test}"));
        }
        count += tests.len();
        reasons = format!("{reasons} ({reason})");
    }
    say(&format!("{count} tests could not run for want of a store{reasons}"));
}

/// The lists are worth something only if they are true.
#[test]
fn the_lists_of_tests_that_need_a_store_are_true() {
    let listed = Command::new(std::env::current_exe().unwrap())
        .args(["--list", "--format", "terse"])
        .output()
        .unwrap();
    let tests = String::from_utf8(listed.stdout).unwrap();
    for name in NEED_NGINX.iter().chain(NEED_MOTO) {
        assert!(tests.lines().any(|line| line.strip_suffix(": test") == Some(name)), "{name} is no test");
    }
}
