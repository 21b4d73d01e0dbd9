//! A replica is stopped with an operation in its hands, and another takes that over. When the first one wakes it records
//! nothing, and sends nothing that changes what was decided meanwhile.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use super::fleet::{Fleet, PATIENCE, Stand};
use super::scene::kind_of;
use super::struck::Story;
use crate::support::client::Answer;
use crate::support::engines::{Kind, is_here};
use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::proxy::Proxy;
use crate::support::postgres::replica::Site;
use crate::support::postgres::{self, patience};
use crate::support::upstream::{Applied, Arrival, Fault, Upstream};

/// What must not change any more: the record, and what arrived at the store and had an effect there.
#[derive(Debug, PartialEq)]
struct Seen {
    records: Vec<Value>,
    writes: Vec<Arrival>,
    effects: Vec<Applied>,
    content: Option<String>,
}

impl Seen {
    async fn at(story: &Story, stand: &Stand) -> Self {
        let client = story.fleet.last();
        let records = client.operations(&stand.name()).await.into_values().collect();
        let (writes, effects) = (stand.writes(), stand.effects());
        Self { records, writes, effects, content: stand.content() }
    }

    async fn everywhere(story: &Story) -> Vec<Self> {
        let mut all = Vec::new();
        for stand in &story.fleet.stands {
            all.push(Self::at(story, stand).await);
        }
        all
    }
}

/// Stopped while the store had the request: the answer waits in the socket when the replica wakes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_wakes_to_an_answer_records_nothing_of_it() {
    let test = "upstreams::paused::a_replica_that_wakes_to_an_answer_records_nothing_of_it";
    if !is_here(Kind::Postgres, test) {
        return;
    }
    let story = Story::begin(Kind::Postgres, "timeout_ms = 1000\nconnect_timeout_ms = 1000").await;
    story.fleet.stands.iter().for_each(|stand| stand.store.fault(Fault::Hold));
    let asked = story.ask();
    story.until("it is at the store", |stand| stand.writes().len() == 2).await;
    story.fleet.gateways[0].signal(Signal::STOP);
    story.decided("applied").await;
    for stand in story.fleet.stands.iter().filter(|stand| stand.class != "serial") {
        stand.store.release();
        stand.until_nothing_is_under_way().await;
    }
    let before = Seen::everywhere(&story).await;
    story.fleet.gateways[0].signal(Signal::CONT);
    for (answer, stand) in answers(asked).await.iter().zip(&story.fleet.stands) {
        // All answers of one operation agree.
        assert!((200..300).contains(&answer.status), "{}: {answer:?}", stand.class);
        assert_eq!(answer.header("fencing-effect"), Some("applied"), "{}", stand.class);
    }
    assert_eq!(Seen::everywhere(&story).await, before);
    story.judged(|_| 1).await;
    story.fleet.end();
}

/// Stopped while its connection was coming to stand, so not a byte was sent: it never is, since others have decided and
/// gone on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_wakes_before_it_has_sent_sends_nothing() {
    let test = "upstreams::paused::a_replica_that_wakes_before_it_has_sent_sends_nothing";
    if !is_here(Kind::Postgres, test) {
        return;
    }
    let mut story = Story::begin(Kind::Postgres, "timeout_ms = 1000\nconnect_timeout_ms = 5000").await;
    for stand in &mut story.fleet.stands {
        stand.gate.shut().await;
    }
    let asked = story.ask();
    for stand in &story.fleet.stands {
        stand.operation(&story.fleet.first(), "p1", &["intent"]).await;
    }
    story.fleet.gateways[0].signal(Signal::STOP);
    story.fleet.stands.iter_mut().for_each(|stand| stand.gate.open());
    story.decided("not_applied").await;
    // Others have gone on by now.
    story.judged_at_the_last(|class| usize::from(class != "serial")).await;
    let before = Seen::everywhere(&story).await;
    story.fleet.gateways[0].signal(Signal::CONT);
    for (answer, stand) in answers(asked).await.iter().zip(&story.fleet.stands) {
        let effect = if stand.class == "serial" { "none" } else { "applied" };
        assert_eq!(answer.header("fencing-effect"), Some(effect), "{}: {answer:?}", stand.class);
    }
    assert_eq!(Seen::everywhere(&story).await, before);
    story.fleet.end();
}

/// The database has taken the announcement, and says so late: by then somebody else has decided and gone on. Whoever
/// comes back from such a wait looks again before it sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_hears_late_of_its_announcement_sends_nothing() {
    let test = "upstreams::paused::a_replica_that_hears_late_of_its_announcement_sends_nothing";
    let Some(database) = postgres::needed(test).await else { return };
    let store = Upstream::start(kind_of("serial"));
    let rules = format!(
        "max_connections = 6\n[namespaces.shop]\n[namespaces.shop.store]\nhttp = \"{}\"\nclass = \"serial\"\n\
         timeout_ms = 200\nconnect_timeout_ms = 200\n",
        store.url()
    );
    let port = database.url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap();
    let proxy = Proxy::before(port.parse().unwrap()).await;
    let site = Site::new(&database.url.replace(port, &proxy.port.to_string()), &rules);
    let slow = site.start();
    site.configure(&database.url, &rules);
    let other = site.start();
    let client = other.client();
    let owner = client.acquire("shop/a", "alice").await;
    proxy.delay_commits_after("INSERT INTO intents");
    let (late, token) = (slow.client(), owner.token.clone());
    let late = tokio::spawn(async move { late.put("shop/a", &token, "p1", "late", &[]).await });
    let path = "/v1/operations/p1";
    patience::until("the other one has given it up", PATIENCE, async || {
        let answer = client.get(&format!("{path}?resource=shop%2Fa")).await;
        (answer.status == 200 && answer.json()["state"] == "uncertain").then_some(())
    })
    .await;
    let verdict = json!({"verdict": "not_applied", "evidence": "the log of the store", "reason": "a test"});
    client.post(&format!("{path}/resolve?resource=shop%2Fa"), &verdict).await.expect(200);
    let newer = client.put("shop/a", &owner.token, "p2", "newer", &[]).await;
    assert_eq!(newer.status, 201, "{newer:?}");
    (0..8).for_each(|_| proxy.free());
    let answer = late.await.unwrap();
    assert_eq!(answer.json()["code"], "operation_not_applied", "{answer:?}");
    assert_eq!(store.log().iter().filter(|one| !one.reads()).count(), 1, "{:?}", store.log());
    assert_eq!(store.content("/base/a").as_deref(), Some(b"newer".as_slice()));
    assert_eq!((slow.terminate(), other.terminate()), (Some(0), Some(0)));
}

/// Broken: the database has taken the announcement and goes away before anything is sent. The gateway asked the rules again,
/// could not, and answered that there is no effect; when the database was back the write was carried out. Must hold:
/// unknown, and the same again is told the outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_announcement_whose_database_goes_away_is_not_without_effect() {
    let test = "upstreams::paused::an_announcement_whose_database_goes_away_is_not_without_effect";
    let Some(binaries) = postgres::needed_binaries(test) else { return };
    let cluster = Cluster::start(binaries, &[]);
    let database = postgres::fresh(&cluster).await;
    let store = Upstream::start(kind_of("idempotent"));
    let rules = format!(
        "max_connections = 6\n[namespaces.shop]\n[namespaces.shop.store]\nhttp = \"{}\"\nclass = \"idempotent\"\n\
         timeout_ms = 200\nconnect_timeout_ms = 200\n",
        store.url()
    );
    let proxy = Proxy::before(cluster.port()).await;
    let through = database.url.replace(&cluster.port().to_string(), &proxy.port.to_string());
    let site = Site::new(&through, &rules);
    let gateway = site.start();
    let client = gateway.client();
    let owner = client.acquire("shop/a", "alice").await;
    proxy.delay_commits_after("INSERT INTO intents");
    let (asking, token) = (client.clone(), owner.token.clone());
    let asking = tokio::spawn(async move { asking.put("shop/a", &token, "p1", "there", &[]).await });
    patience::until("it is announced", PATIENCE, async || {
        let mut look = PgConnection::connect(&database.admin).await.unwrap();
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM intents").fetch_one(&mut look).await.unwrap();
        (count == 1).then_some(())
    })
    .await;
    // Long enough for whoever comes back to look again before it sends.
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster.kill();
    (0..8).for_each(|_| proxy.free());
    let answer = asking.await.unwrap();
    assert_eq!(answer.json()["effect"], "unknown", "{answer:?}");
    assert!(store.effects().is_empty(), "nothing was sent yet");
    cluster.begin();
    patience::until("it is carried out", 30, async || {
        let again = client.put("shop/a", &owner.token, "p1", "there", &[]).await;
        (again.status == 201).then_some(())
    })
    .await;
    assert_eq!(store.effects().len(), 1);
    assert_eq!(gateway.terminate(), Some(0));
}

/// Stopped while the store was told of a new owner: his request, sent again through another replica, makes him the owner,
/// and what lay at the store changes nothing afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_replica_is_stopped_becomes_one_through_another() {
    let test = "upstreams::paused::an_owner_whose_replica_is_stopped_becomes_one_through_another";
    if !is_here(Kind::Postgres, test) {
        return;
    }
    let times = "timeout_ms = 1000\nconnect_timeout_ms = 1000";
    let fleet = Fleet::start(Kind::Postgres, times, "contract = \"immediate\"").await;
    let told: Vec<&Stand> = ["conditional", "fence_aware"].map(|class| fleet.stand(class)).into();
    for stand in told {
        let request = json!({
            "resource": stand.name(), "holder": "alice", "wait_ms": 100,
            "request_id": "0b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d",
        });
        // Something older is on its way and has to be shut out. It is held at the store, and what shuts it out, too: that of
        // the first replica, and that of the second one, which helps.
        let zoe = fleet.first().acquire(&stand.name(), "zoe").await;
        (0..3).for_each(|_| stand.store.fault(Fault::Hold));
        let (hers, name) = (fleet.first(), stand.name());
        let (token, lease) = (zoe.token.clone(), zoe);
        let hers = tokio::spawn(async move { hers.put(&name, &token, "p0", "hers", &[]).await });
        patience::until("hers is at the store", PATIENCE, async || {
            (stand.store.under_way() == 1).then_some(())
        })
        .await;
        fleet.first().release(&lease).await.expect(200);
        let (asking, body) = (fleet.first(), request.clone());
        let asking = tokio::spawn(async move { asking.post("/v1/leases", &body).await });
        patience::until("the store is told of him", PATIENCE, async || {
            (stand.store.under_way() >= 2).then_some(())
        })
        .await;
        fleet.gateways[0].signal(Signal::STOP);
        let lease = patience::until("the other replica makes him the owner", PATIENCE, async || {
            let answer = fleet.last().post("/v1/leases", &request).await;
            assert!(matches!(answer.status, 200..=202), "{answer:?}");
            (answer.status != 202).then(|| answer.json())
        })
        .await;
        let token = lease["fencing_token"].as_str().unwrap();
        let written = fleet.last().put(&stand.name(), token, "p1", "his", &[]).await;
        assert!((200..300).contains(&written.status), "{}: {written:?}", stand.class);
        let before = (stand.effects(), stand.content());
        (0..3).for_each(|_| stand.store.release());
        stand.until_nothing_is_under_way().await;
        fleet.gateways[0].signal(Signal::CONT);
        let asked = asking.await.unwrap();
        assert!(matches!(asked.status, 200..=202), "{}: {asked:?}", stand.class);
        for told in [asked.json(), fleet.first().post("/v1/leases", &request).await.expect(200)] {
            assert_eq!(told["fencing_token"], lease["fencing_token"], "{}", stand.class);
        }
        assert_eq!((stand.effects(), stand.content()), before, "{}", stand.class);
        let hers = hers.await.unwrap();
        assert_eq!(
            (200..300).contains(&hers.status),
            stand.effects_of("p0", "hers") == 1,
            "{}: {hers:?}",
            stand.class
        );
    }
    fleet.end();
}

/// What the clients of the stopped replica are told when it has woken.
async fn answers(asked: Vec<tokio::task::JoinHandle<Option<Answer>>>) -> Vec<Answer> {
    let mut all = Vec::new();
    for asked in asked {
        let answer = tokio::time::timeout(Duration::from_secs(30), asked).await;
        all.push(answer.expect("it is answered in the end").unwrap().expect("nobody was killed"));
    }
    all
}
