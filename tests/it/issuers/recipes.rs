//! The recipes of docs/ISSUERS.md, run as they stand there: an owner is paused, its lock goes, the next one gets a higher
//! number, and what the first one then writes is refused.

use std::fs;
use std::path::PathBuf;

use crate::support::gateway::Process;
use crate::support::issuers::etcd::Etcd;
use crate::support::issuers::missing;
use crate::support::issuers::redis::{Keeps, Redis};
use crate::support::pages::{Block, Surroundings, blocks, configuration, hold, page};
use crate::support::postgres;

const PAGE: &str = "docs/ISSUERS.md";

/// A section of the page, without the sections beside it.
fn section(page: &str, title: &str) -> String {
    let rest = page.split(&format!("\n## {title}\n")).nth(1).unwrap_or_else(|| panic!("no section {title}"));
    rest.split("\n## ").next().unwrap_or_default().to_owned()
}

/// What runs for one recipe: what all of them begin with, its own section, and what a test adds.
fn recipe(title: &str, further: &[(&str, &str)]) -> Vec<Block> {
    let page = page(PAGE);
    let mut all = blocks(&section(&page, "Before you begin"));
    let own = blocks(&section(&page, title));
    let told = own.iter().filter_map(|block| block.expected.as_deref()).collect::<String>();
    for word in ["412 Precondition Failed", "stale_token", "idempotent-replayed: true", "201 Created"] {
        assert!(told.contains(word), "{title} does not show {word}");
    }
    all.extend(own);
    all.extend(further.iter().map(|(script, expected)| Block {
        script: (*script).to_owned(),
        expected: Some((*expected).to_owned()),
    }));
    all
}

/// Runs a recipe against a gateway of its own, over this database.
fn follow(blocks: &[Block], database: &str, variable: (&'static str, String), programs: PathBuf) {
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let configuration = format!("database = \"{database}\"\n{}", configuration(&page(PAGE)));
    fs::write(home.path().join("fencegate.toml"), configuration).unwrap();
    let gateway = Process::start(home.path());
    let surroundings = Surroundings { variables: vec![variable], programs: vec![programs] };
    hold(blocks, &gateway.base, work.path(), &surroundings);
    assert_eq!(gateway.terminate(), Some(0));
}

#[test]
fn the_recipe_for_etcd_does_what_it_says() {
    let Some(programs) = missing::etcd("issuers::recipes::the_recipe_for_etcd_does_what_it_says") else {
        return;
    };
    let etcd = Etcd::start(programs);
    let variable = ("ETCDCTL_ENDPOINTS", etcd.endpoint());
    follow(&recipe("etcd", &[]), "sqlite://fencegate.db", variable, programs.folder().into());
}

#[test]
fn the_recipe_for_redis_does_what_it_says() {
    let Some(programs) = missing::redis("issuers::recipes::the_recipe_for_redis_does_what_it_says") else {
        return;
    };
    let redis = Redis::start(programs, Keeps::Everything);
    // A counter that is above what a Lua number can tell apart.
    let far = "redis SET 'token:{transfers/far}' 9007199254740992 > /dev/null\n\
               redis_lock transfers/far 10000; ./register transfers/far \"$token\"\n\
               ./write transfers/far \"$token\" 1 far-1 x | tail -n 1";
    let exact = "…\"floor\":\"0.9007199254740993\"……\"position\":\"0.9007199254740993\"…";
    let variable = ("REDIS_URL", redis.url());
    follow(&recipe("Redis", &[(far, exact)]), "sqlite://fencegate.db", variable, programs.folder().into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recipe_for_postgresql_does_what_it_says() {
    let test = "issuers::recipes::the_recipe_for_postgresql_does_what_it_says";
    let Some(fresh) = postgres::needed(test).await else { return };
    let issuer = postgres::one_more().await;
    let far = "psql \"$DATABASE_URL\" -qc 'ALTER SEQUENCE payouts_token RESTART 9007199254740993'\n\
               echo './write payouts/far \"$TOKEN\" 1 far-1 x' > far; JOB=far psql \"$DATABASE_URL\" -qX -f job.sql";
    let exact = "…\"position\":\"0.9007199254740993\"…";
    let binaries = postgres::needed_binaries(test).unwrap();
    let programs = binaries.path_of("psql").parent().unwrap().to_owned();
    let variable = ("DATABASE_URL", issuer.url);
    follow(&recipe("PostgreSQL", &[(far, exact)]), &fresh.url, variable, programs);
}
