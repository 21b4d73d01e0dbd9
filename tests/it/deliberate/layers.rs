//! All layers against each bug, by command: who sees what.
//!
//! `FENCEGATE_TEST_DELIBERATE=all` (or names of bugs, with commas between them) asks for it,
//! `FENCEGATE_TEST_DELIBERATE_LAYERS` names some of the layers, and `FENCEGATE_TEST_DELIBERATE_SECONDS` says how long one
//! may take: the model would search for an hour where it sees nothing.

use std::time::Duration;

use fencegate::deliberate::Bug;

use super::child::run;
use super::kills::killer_of;

/// Asks for the table.
pub(super) const ASKED_BY: &str = "FENCEGATE_TEST_DELIBERATE";

/// A layer: the beginnings of its tests' names, and what is left out, since it takes long or shows nothing of the gateway.
struct Layer {
    name: &'static str,
    tests: &'static [&'static str],
    without: &'static [&'static str],
    threads: &'static str,
}

const fn layer(
    name: &'static str,
    tests: &'static [&'static str],
    without: &'static [&'static str],
) -> Layer {
    Layer { name, tests, without, threads: "2" }
}

const LAYERS: [Layer; 20] = [
    layer(
        "decision",
        &["decision::"],
        &["a_fold_changes_no_verdict", "pruning::what_is_forgotten", "pruning::the_deliveries"],
    ),
    layer("reference", &["naive::"], &[]),
    // All at once: those that see something end soon, and need not wait for the others.
    Layer { threads: "48", ..layer("model", &["model::"], &["model::forward::wrong"]) },
    layer("simulation", &["simulation::every_seed"], &[]),
    layer("conformance", &["conformance::"], &["postgres", "flat"]),
    layer("SQLite", &["sqlite::batches", "sqlite::faults", "sqlite::fencing", "sqlite::keeping"], &[]),
    layer("power", &["power::what"], &[]),
    layer("PostgreSQL", &["postgres::locks", "postgres::commits", "gone_clients::a_client_that_went"], &[]),
    layer("stores", &["backing::"], &[]),
    layer("upstreams", &["upstreams::"], &["postgres", "upstreams::real", "upstreams::storm"]),
    layer("stories", &["stories::"], &["postgres", "hang_ups", "conformance"]),
    layer("leases", &["leases::"], &["postgres", "replicas"]),
    layer("HTTP", &["http::permissions", "http::codes", "http::epochs", "http::upstreams"], &[]),
    layer("contract", &["contract::"], &[]),
    layer("hang-ups", &["stories::hang_ups", "postgres::connections::hang_ups"], &[]),
    layer("restore", &["recovery::"], &[]),
    layer("failover", &["postgres::failover", "postgres::regress"], &[]),
    layer("overload", &["limits::overload"], &[]),
    layer("fuzz", &["fuzz::"], &["fuzz::child", "fuzz::folders", "fuzz::every_harness"]),
    layer("exam", &["exam::an_exam_on_sqlite"], &[]),
];

fn asked(variable: &str) -> Option<Vec<String>> {
    let text = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.split(',').map(|one| one.trim().to_owned()).collect())
}

#[test]
fn the_table_of_who_sees_what() {
    let Some(names) = asked(ASKED_BY) else { return };
    let some = asked("FENCEGATE_TEST_DELIBERATE_LAYERS");
    let seconds =
        asked("FENCEGATE_TEST_DELIBERATE_SECONDS").map_or(300, |seconds| seconds[0].parse().unwrap());
    let layers = LAYERS
        .iter()
        .filter(|layer| some.as_ref().is_none_or(|some| some.iter().any(|one| one == layer.name)));
    let layers: Vec<&Layer> = layers.collect();
    let is_asked = |bug: &&Bug| names.iter().any(|name| name == "all" || name == bug.name());
    println!("| bug | what it does | killed by | seen by |\n| --- | --- | --- | --- |");
    for bug in Bug::ALL.iter().filter(is_asked) {
        let seen = layers.iter().filter_map(|layer| seen_by(*bug, layer, Duration::from_secs(seconds)));
        let seen = seen.collect::<Vec<_>>().join(", ");
        println!("| `{}` | {} | `{}` | {seen} |", bug.name(), bug.what(), killer_of(*bug));
    }
}

/// How many tests of a layer see a bug; at least so many, where its time was over before all had ended. On a busy machine a
/// test may come too late for something: what fails has to fail twice, and to pass where there is no bug.
fn seen_by(bug: Bug, layer: &Layer, most: Duration) -> Option<String> {
    let skipped = layer.without.iter().flat_map(|one| ["--skip", one]);
    let arguments: Vec<&str> =
        layer.tests.iter().copied().chain(skipped).chain(["--test-threads", layer.threads]).collect();
    let ran = run(bug.name(), &arguments, most);
    let named: Vec<&str> = ["--exact"].into_iter().chain(ran.failed.iter().map(String::as_str)).collect();
    let mut seen = ran.failed.clone();
    if !seen.is_empty() {
        let again = run(bug.name(), &named, most).failed;
        let anyway = run("", &named, most).failed;
        seen.retain(|test| again.contains(test) && !anyway.contains(test));
    }
    eprintln!("{} {}: {} pass, {seen:#?} fail of {:#?}", bug.name(), layer.name, ran.passed, ran.failed);
    let more = if ran.ended.is_none() { "+" } else { "" };
    (!seen.is_empty()).then(|| format!("{} {}{more}", layer.name, seen.len()))
}
