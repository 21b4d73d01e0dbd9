//! Names are promises: those that a document, a dashboard or an alert uses are there, and those that are there are
//! documented.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{read, scrape};
use crate::secure::figures::of_a_guarded_gateway;
use crate::support::client::Answer;
use crate::support::engines::Kind;
use crate::support::postgres::binaries::say;
use crate::support::programs::is_program;
use crate::upstreams::scene::Scene;

/// What a gateway tells that was used in most ways that there are.
async fn used() -> String {
    let scene = Scene::of(Kind::Sqlite, "conditional", "", "").await;
    let client = &scene.gateway.client;
    let lease = client.acquire("shop/a", "alice").await;
    client.put("shop/a", &lease.token, "one", "x", &[]).await;
    client.put("shop/a", &lease.token, "one", "x", &[]).await;
    client.put("shop/a", &lease.token, "one", "y", &[]).await;
    client.get("/fenced/shop/a").await;
    client.renew(&lease).await.expect(200);
    client.release(&lease).await.expect(200);
    client.renew(&lease).await.refused(410, "lease_released", "none");
    let bob = client.acquire("shop/a", "bob").await;
    client.put("shop/a", &bob.token, "three", "x", &[]).await;
    client.put("shop/a", &lease.token, "two", "x", &[]).await.refused(412, "stale_token", "none");
    let waiting = json!({"resource": "shop/a", "wait_ms": 1});
    Answer::of(client.request(reqwest::Method::POST, "/v1/leases").json(&waiting)).await;
    let text = scrape(&scene.gateway).await;
    scene.gateway.stop().await;
    text
}

/// The words of a text that begin with `fencegate_`.
fn named(text: &str) -> BTreeSet<String> {
    text.match_indices("fencegate_")
        .filter(|(at, _)| {
            !text[..*at].ends_with(|before: char| before.is_alphanumeric() || "_.-/".contains(before))
        })
        .map(|(at, _)| text[at..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect())
        .collect()
}

/// The series of a scrape, by name.
fn series(scrape: &str) -> BTreeSet<String> {
    let lines = scrape.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

/// The same as families: a histogram is one.
fn families(scrape: &str) -> BTreeSet<String> {
    let types = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

fn with_series(family: &str, series: &BTreeSet<String>) -> bool {
    series.contains(family) || series.contains(&format!("{family}_bucket"))
}

/// Broken: a name is documented that does not exist, or exists and is documented nowhere; a panel or an alert waits for a
/// name that nobody counts any more, and stays silent for ever. Must hold: the same names everywhere, each with its help.
#[tokio::test]
async fn the_names_are_the_same_everywhere() {
    // What is not configured has no series: one of them speaks TLS and takes tokens.
    let texts = [used().await, of_a_guarded_gateway().await];
    let text = texts.concat();
    let (series, families) = (series(&text), families(&text));
    assert!(families.len() > 35, "{families:?}");
    for family in &families {
        assert!(with_series(family, &series), "{family} has no series in a gateway that was used:\n{text}");
        assert!(text.contains(&format!("# HELP {family} ")), "{family} has no help");
    }
    let metrics = read("docs/METRICS.md");
    let rows: String = metrics.lines().filter(|line| line.starts_with("| `fencegate_")).collect();
    assert_eq!(named(&rows), families, "docs/METRICS.md and the scrape");
    let mut used = 0;
    for path in
        ["ops/grafana/fencegate.json", "ops/prometheus/alerts.yml", "docs/RUNBOOK.md", "docs/METRICS.md"]
    {
        for name in named(&read(path)) {
            let known = series.contains(&name) || families.contains(&name);
            assert!(known, "{path} names {name}, which no gateway tells");
            used += 1;
        }
    }
    assert!(used > 100, "only {used} names were found");
    // What nobody looks at need not be counted.
    let dashboard = named(&read("ops/grafana/fencegate.json"));
    for family in &families {
        assert!(
            dashboard.iter().any(|name| name.trim_end_matches("_bucket") == family),
            "{family} is in no panel"
        );
    }
    for text in texts {
        promtool(&["check", "metrics"], Some(&text));
    }
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
}

/// Broken: an alert wakes somebody and leads nowhere. Must hold: each says in one line what is wrong, and leads to a heading
/// that exists; and each is tried by a test of its own.
#[test]
fn every_alert_leads_to_what_to_do() {
    let rules: serde_json::Value = serde_yaml_ng::from_str(&read("ops/prometheus/alerts.yml")).unwrap();
    let runbook = read("docs/RUNBOOK.md");
    let anchors: BTreeSet<String> =
        runbook.lines().filter_map(|line| line.strip_prefix("## ")).map(anchor).collect();
    let tests = read("ops/prometheus/alerts_test.yml");
    let (mut count, mut led) = (0, BTreeSet::new());
    for rule in
        rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap())
    {
        let name = rule["alert"].as_str().unwrap();
        let to = rule["annotations"]["runbook"].as_str().unwrap_or_else(|| panic!("{name} leads nowhere"));
        let to = to.strip_prefix("docs/RUNBOOK.md#").unwrap_or_else(|| panic!("{name} leads to {to}"));
        assert!(anchors.contains(to), "{name} leads to {to}; there is {anchors:?}");
        assert!(
            rule["annotations"]["summary"].is_string() && rule["labels"]["severity"].is_string(),
            "{name}"
        );
        assert!(runbook.contains(&format!("`{name}`")), "the runbook does not name {name}");
        let fires = tests
            .split(&format!("alertname: {name}\n"))
            .skip(1)
            .any(|after| after.lines().nth(1).is_some_and(|line| line.trim() == "exp_alerts:"));
        assert!(fires, "no test makes {name} fire");
        led.insert(to.to_owned());
        count += 1;
    }
    assert!(count > 10, "{count} alerts");
    assert_eq!(led, anchors, "headings of the runbook that no alert leads to");
}

/// Broken: an expression that Prometheus does not take, or an alert that does not fire. Must hold: promtool takes the rules,
/// and their tests pass.
#[test]
fn promtool_takes_the_rules_and_their_tests_pass() {
    promtool(&["check", "rules", "alerts.yml"], None);
    promtool(&["test", "rules", "alerts_test.yml"], None);
}

/// Every series of the dashboard is asked for with the labels of its variables.
#[test]
fn the_dashboard_is_one_that_grafana_takes() {
    let board: serde_json::Value = serde_json::from_str(&read("ops/grafana/fencegate.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "two panels have one id");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            assert!(expression.contains("$instance"), "{expression}");
        }
    }
    assert!(panels.len() > 20);
}

/// Runs promtool beside the rules. Without one nothing is checked, which is said; in CI that is a failure.
fn promtool(arguments: &[&str], input: Option<&str>) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found: Option<PathBuf> = std::env::split_paths(&path)
        .map(|folder| folder.join("promtool"))
        .find(|program| is_program(program));
    let Some(program) = found else {
        let needed = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        let allowed = std::env::var_os("FENCEGATE_TEST_WITHOUT_STORES").is_some_and(|value| value == "1");
        assert!(!needed || allowed, "promtool is missing (Debian: it is in the package prometheus)");
        say(&format!("not run, promtool is missing: promtool {}", arguments.join(" ")));
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/prometheus");
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.unwrap_or_default().as_bytes()).unwrap();
    let said = child.wait_with_output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "promtool {arguments:?}: {told}");
}
