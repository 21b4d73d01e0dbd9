//! The operating system refuses to write, at the worst moment: while the commit goes into the log.

use std::path::Path;
use std::process::Command;

use fencegate::domain::operation::Effect;
use fencegate::ledger::Unserved;
use fencegate::protocol::Outcome;

use super::place::{Place, Running, content, put};

/// Names the folder to the test that runs under a limit.
const CHILD: &str = "FENCEGATE_TEST_LIMITED_FOLDER";

/// A process that may not make files larger than a megabyte or two meets an error of the disk inside COMMIT. What
/// became of that batch is unknown, and is answered so; what came before and what comes after is in order.
#[tokio::test]
async fn a_commit_that_the_disk_refuses_is_unknown_and_the_next_one_works() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/before", "one", "7", 1)).await;
    running.close().await;
    let child = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 2048; exec \"$0\" --exact sqlite::faults::under_a_limit --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, place.folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(std::fs::read_to_string(place.folder.path().join("report")).unwrap(), "came through");

    let running = place.run().await;
    for there in ["free/before", "free/after"] {
        assert!(content(&running.ledger, there).await.is_some(), "{there} was acknowledged");
    }
    assert!(!running.put(&put("free/large", "one", "7", 1).body(vec![1; 6_000_000])).await.replayed);
    running.close().await;
    place.check().await;
}

/// The limited process of the test above; alone it has nothing to do.
#[tokio::test]
async fn under_a_limit() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let running = Running::in_folder(Path::new(&folder)).await;
    let large = put("free/large", "one", "7", 1).body(vec![1; 6_000_000]);
    let stale = put("free/before", "two", "6", 1);
    for _ in 0..2 {
        let answers =
            running.answers(vec![large.command(&running.ledger), stale.command(&running.ledger)]).await;
        // The commits were in doubt, and looking it up shows that they left nothing.
        assert_eq!(answers[0], Err(Unserved::Unavailable(Effect::None)));
        // A refusal is answered whatever became of the batch.
        assert!(matches!(answers[1], Ok(Outcome::NotWritten(_))), "{:?}", answers[1]);
        assert_eq!(content(&running.ledger, "free/large").await, None);
    }
    assert!(running.put(&put("free/before", "one", "7", 1)).await.replayed);
    let after = running.ledger.submit(put("free/after", "one", "7", 1).command(&running.ledger)).await;
    assert!(matches!(after, Ok(Outcome::Written(_))), "{after:?}");
    running.close().await;
    std::fs::write(Path::new(&folder).join("report"), "came through").unwrap();
}
