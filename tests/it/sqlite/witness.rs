//! An older copy of the file is put back while no gateway runs: what the witness sees of it, and what it cannot see.

use std::fs;

use fencegate::domain::breaker::Detector;
use fencegate::domain::operation::{Effect, OperationId};
use fencegate::domain::subject::Subject;
use fencegate::ledger::{Unserved, WitnessError, WitnessFile};
use fencegate::protocol::whole::{Deed, WholeAct};
use fencegate::protocol::{Command, Outcome};

use crate::support::postgres::load::{Addresses, Load, RULES};
use crate::support::postgres::patience;
use crate::support::postgres::replica::Site;

use super::place::{Place, Running, content, meddle, put};

/// So many commits, one after the other.
async fn write(running: &Running, from: u64, count: u64) {
    for sequence in from..from + count {
        running.put(&put("free/a", &format!("op-{sequence}"), "7", sequence)).await;
    }
}

/// The operator's way out.
async fn advance_the_epoch(running: &Running) {
    let key = OperationId::parse("way-out").unwrap();
    let deed = Deed::AdvanceEpoch { key, reason: "restored".to_owned(), leave_open: true };
    let act = WholeAct { subject: Subject::Everywhere, deed };
    let outcome = running.ledger.submit(Command::Whole(act)).await.unwrap();
    assert!(matches!(outcome, Outcome::Acted(_)), "{outcome:?}");
}

/// Broken: a copy that lacks one commit was put back after a stop in good order. Must hold: the stop wrote the exact place
/// down, so even that is seen, and everything is stopped before anything is decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_stop_in_good_order_one_lost_commit_is_seen() {
    let place = Place::new();
    let running = place.run_watched(4_096).await;
    write(&running, 1, 3).await;
    let copy = place.back_up("older").await;
    write(&running, 4, 1).await;
    running.close().await;
    let running = place.run_watched(4_096).await;
    running.is_whole(&place).await;
    running.close().await;

    place.restore(&copy);
    let running = place.run_watched(4_096).await;
    let tripped = running.tripped(&place).await;
    assert_eq!(tripped.detector, Detector::Witness);
    assert!(tripped.found.contains("was reached"), "{}", tripped.found);
    running.close().await;

    // It stays so however often it is started, until an epoch is advanced; then the witness begins anew.
    let running = place.run_watched(4_096).await;
    assert_eq!(running.tripped(&place).await, tripped);
    advance_the_epoch(&running).await;
    running.is_whole(&place).await;
    running.close().await;
    let running = place.run_watched(4_096).await;
    running.is_whole(&place).await;
    running.close().await;
    place.restore(&copy);
    let running = place.run_watched(4_096).await;
    assert_eq!(running.tripped(&place).await.detector, Detector::Witness, "the copy lacks the epoch");
    running.close().await;
}

/// Broken: the gateway crashed, and a copy was put back. Must hold: a loss of more than a block is seen by the witness; a
/// smaller one is not, and the documentation says so (seals and replicas that live on may see it).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_a_loss_of_more_than_a_block_is_seen_and_a_smaller_one_is_not() {
    let place = Place::new();
    let running = place.run_watched(64).await;
    write(&running, 1, 2).await;
    let early = place.back_up("early").await;
    write(&running, 3, 100).await;
    let late = place.back_up("late").await;
    write(&running, 103, 3).await;
    // As a crash leaves it: what was reserved, and not what a stop would write.
    let witness = fs::read(place.witness()).unwrap();
    running.close().await;

    place.restore(&late);
    fs::write(place.witness(), &witness).unwrap();
    let running = place.run_watched(64).await;
    running.is_whole(&place).await;
    running.close().await;

    place.restore(&early);
    fs::write(place.witness(), &witness).unwrap();
    let running = place.run_watched(64).await;
    assert_eq!(running.tripped(&place).await.detector, Detector::Witness);
    running.close().await;
}

/// Broken: the disk of the witness fails while the gateway runs. Must hold: what lies beyond the block is refused, and
/// nothing of it is in the database; nothing goes on in silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_the_block_nothing_is_acknowledged_while_the_witness_cannot_be_written() {
    let place = Place::new();
    let running = place.run_watched(16).await;
    write(&running, 1, 1).await;
    // It may be written anew in the background meanwhile.
    patience::blocking("the witness is gone", 10, || {
        fs::remove_file(place.witness()).unwrap_or_default();
        fs::create_dir(place.witness()).ok()
    });
    let mut refused = None;
    for sequence in 2..60 {
        let draft = put("free/a", &format!("op-{sequence}"), "7", sequence);
        if let Err(unserved) = running.ledger.submit(draft.command(&running.ledger)).await {
            refused = Some((sequence, unserved));
            break;
        }
    }
    let (sequence, unserved) = refused.expect("the block ends");
    assert_eq!(unserved, Unserved::Unavailable(Effect::None));
    let last = content(&running.ledger, "free/a").await.unwrap();
    assert_eq!(last, format!("op-{} of free/a", sequence - 1));
    assert!(running.put(&put("free/a", "op-1", "7", 1)).await.replayed, "what is told already is told again");

    fs::remove_dir(place.witness()).unwrap();
    write(&running, sequence, 3).await;
    running.close().await;
}

/// Garbage, a torn text, and the witness of somebody else: each is refused with what to do, and left as it is.
#[tokio::test]
async fn a_witness_that_cannot_be_trusted_is_refused_with_what_to_do() {
    let place = Place::new();
    place.run_watched(4_096).await.close().await;
    let whole = fs::read(place.witness()).unwrap();
    for damaged in [&b"\0\0\0\0"[..], &whole[..whole.len() / 2], b""] {
        fs::write(place.witness(), damaged).unwrap();
        let refused = WitnessFile::open(&place.witness()).unwrap_err();
        assert!(matches!(refused, WitnessError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("move it away and start again"), "{refused}");
        assert_eq!(fs::read(place.witness()).unwrap(), damaged);
    }
    let other = Place::new();
    other.run_watched(4_096).await.close().await;
    meddle(&other.path(), "UPDATE ledger SET database_id = '00000000-0000-0000-0000-000000000001'").await;
    let file = WitnessFile::open(&other.witness()).unwrap();
    let refused = other.database().await.unwrap().watched_by(file).await;
    let Err(WitnessError::Foreign { .. }) = &refused else { panic!("it is served all the same") };
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("give it a `witness` of its own"), "{refused}");
}

/// How many flushes of the witness thousands of commits cost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_commits_cost_a_handful_of_flushes_of_the_witness() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    let running = place.run_watched(1_000).await;
    // Each write gives the file another inode, as long as nobody holds the old one.
    let mut seen = std::collections::BTreeSet::new();
    let mut flushes = 0_u32;
    for sequence in 1..=3_000 {
        running.put(&put("free/a", &format!("op-{sequence}"), "7", sequence)).await;
        let text = fs::read(place.witness()).unwrap_or_default();
        flushes += u32::from(seen.insert((fs::metadata(place.witness()).unwrap().ino(), text)));
    }
    assert!((4..=12).contains(&flushes), "{flushes}");
    running.close().await;
}

/// Broken: the gateway is killed at any moment, between a block that is reserved and its use too. Must hold: no kill trips
/// anything, and a witness that was torn by something else stops the start with what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_any_moment_trip_nothing() {
    let site = Site::new("sqlite://f.db", RULES);
    for round in 0..6 {
        let gateway = site.start();
        let addresses = Addresses::of(&[&gateway.base]);
        let mut load = Load::start(4, &addresses, &[]);
        load.proceed(round * 7 + 1, 30).await;
        gateway.kill();
        drop(load);
    }
    let gateway = site.start();
    let namespaces = gateway.client().get("/v1/namespaces").await.expect(200);
    assert!(
        namespaces["items"].as_array().unwrap().iter().all(|item| item["breaker"].is_null()),
        "{namespaces}"
    );
    assert_eq!(gateway.terminate(), Some(0));

    let (_, told) = site.run(&["check"]);
    assert!(told.contains("witness") && told.contains("f.witness"), "{told}");
    fs::write(site.path().join("f.witness"), "fencegate witness 1\ndatabase").unwrap();
    let refused = site.refused();
    assert!(refused.contains("Put its last good copy back"), "{refused}");
}
