//! When a caller is answered, and what is said when the database does not play along.

use fencegate::domain::counter::CommitNo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use fencegate::domain::operation::Effect;
use fencegate::domain::time::Timestamp;
use fencegate::ledger::changeset::ChangeSet;
use fencegate::ledger::engine::{CommitOutcome, Engine, EngineError, Loaded};
use fencegate::ledger::memory::{self, MemoryEngine};
use fencegate::ledger::{Committers, Ledger, Setting, Unserved};
use fencegate::limits::{BATCH_COMMANDS, BATCH_URGENT, QUEUE_COMMANDS, QUEUE_RESERVED};
use fencegate::protocol::outcome::Outcome;
use fencegate::protocol::{Command, Wanted};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::support::clock::ManualClock;
use crate::support::commands::{Draft, acquire, granted, refused, release, renew, written};
use crate::support::engines::{DATABASE, keyring, namespaces};

const WORK: u8 = 0;
const LOSE_THE_OUTCOME: u8 = 1;
const FAIL: u8 = 2;
const CONFLICT_ONCE: u8 = 3;
const REJECT_THE_BODY_BAD: u8 = 4;
const LOSE_THE_DATABASE: u8 = 5;
const LOSE_AND_FORGET: u8 = 6;
const CONFIRM_NOTHING: u8 = 7;

/// The memory engine behind a gate: each commit waits for a permit, and can be told to go wrong.
struct Gated {
    inner: MemoryEngine,
    gate: Arc<Semaphore>,
    fault: Arc<AtomicU8>,
    lost: bool,
    confirmed: Arc<AtomicU32>,
    gathered: Arc<AtomicU32>,
}

impl Engine for Gated {
    async fn load(&mut self, wanted: &Wanted) -> Result<Loaded, EngineError> {
        if self.lost && self.fault.load(Ordering::SeqCst) == LOSE_THE_DATABASE {
            return Err(EngineError::Unavailable("the connection broke".to_owned()));
        }
        self.inner.load(wanted).await
    }

    async fn apply(&mut self, changes: &ChangeSet, now: Timestamp) -> Result<(), EngineError> {
        let bad = changes.operations.iter().any(|record| record.operation_id.as_str() == "bad");
        if self.fault.load(Ordering::SeqCst) == REJECT_THE_BODY_BAD && bad {
            return Err(EngineError::Inconsistent("a predicate disagreed".to_owned()));
        }
        self.inner.apply(changes, now).await
    }

    async fn commit(&mut self) -> CommitOutcome {
        self.gate.acquire().await.unwrap().forget();
        match self.fault.load(Ordering::SeqCst) {
            LOSE_AND_FORGET => {
                self.inner.rollback().await;
                CommitOutcome::Unknown("the connection broke".to_owned())
            }
            LOSE_THE_OUTCOME | LOSE_THE_DATABASE => {
                self.lost = true;
                self.inner.commit().await;
                CommitOutcome::Unknown("the connection broke".to_owned())
            }
            FAIL => {
                self.inner.rollback().await;
                CommitOutcome::Failed("the disk is full".to_owned())
            }
            CONFLICT_ONCE => {
                self.fault.store(WORK, Ordering::SeqCst);
                self.inner.rollback().await;
                CommitOutcome::Conflict("somebody else was first".to_owned())
            }
            _ => self.inner.commit().await,
        }
    }

    async fn gather(&mut self) {
        self.gathered.fetch_add(1, Ordering::SeqCst);
    }

    async fn confirm(&mut self) -> CommitOutcome {
        self.confirmed.fetch_add(1, Ordering::SeqCst);
        if self.fault.load(Ordering::SeqCst) == CONFIRM_NOTHING {
            return CommitOutcome::Unknown("no standby answered".to_owned());
        }
        self.inner.confirm().await
    }

    async fn rollback(&mut self) {
        self.inner.rollback().await;
    }

    async fn close(self) {}
}

struct Bench {
    ledger: Ledger,
    gate: Arc<Semaphore>,
    fault: Arc<AtomicU8>,
    confirmed: Arc<AtomicU32>,
    gathered: Arc<AtomicU32>,
    committer: Committers,
}

fn bench(permits: usize) -> Bench {
    let (inner, reader, identity) = memory::open(DATABASE, Arc::new(ManualClock::new()));
    let (gate, fault) = (Arc::new(Semaphore::new(permits)), Arc::new(AtomicU8::new(WORK)));
    let (confirmed, gathered) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let engine = Gated {
        inner,
        gate: gate.clone(),
        fault: fault.clone(),
        lost: false,
        confirmed: confirmed.clone(),
        gathered: gathered.clone(),
    };
    let setting = Setting {
        namespaces: namespaces(),
        keyring: keyring(),
        identity,
        render: |_| Vec::new(),
        render_control: |_| Vec::new(),
        render_whole: |_| Vec::new(),
    };
    let (ledger, committer) = Ledger::start(vec![engine], Arc::new(reader), setting);
    Bench { ledger, gate, fault, confirmed, gathered, committer }
}

/// An answer before the commit would acknowledge what a crash can still take away.
#[tokio::test]
async fn nobody_is_answered_before_the_commit() {
    let bench = bench(0);
    let ledger = bench.ledger.clone();
    let mut answer = tokio::spawn(async move { granted(&ledger, acquire("single/a", "alice", 1)).await });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!answer.is_finished(), "it was answered while the commit was still under way");
    assert!(futures_util::future::poll_immediate(&mut answer).await.is_none());
    bench.gate.add_permits(1);
    assert_eq!(answer.await.unwrap().view.lease.position.token.get(), 1);
}

/// A client that hangs up cancels nothing: its command is decided and committed all the same, whether the committer has
/// taken it already (the first) or it still waits in the queue (the second).
#[tokio::test]
async fn a_client_that_hangs_up_cancels_nothing() {
    let bench = bench(0);
    let mut callers = Vec::new();
    for (name, request) in [("single/a", 1), ("single/b", 2)] {
        let ledger = bench.ledger.clone();
        callers.push(tokio::spawn(async move { ledger.submit(acquire(name, "alice", request)).await }));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    for caller in callers {
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
    }
    bench.gate.add_permits(4);
    for (name, request) in [("single/a", 1), ("single/b", 2)] {
        let again = granted(&bench.ledger, acquire(name, "alice", request)).await;
        assert!(again.repeated, "the first delivery was lost with its client");
    }
}

/// A queue without a bound is a memory leak with a delay: full means 503, at once, and nothing happened.
#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let bench = bench(0);
    let mut waiting = Vec::new();
    for request in 0..u128::try_from(QUEUE_COMMANDS * 2).unwrap() {
        let ledger = bench.ledger.clone();
        waiting.push(tokio::spawn(async move {
            ledger.submit(acquire(&format!("single/{request}"), "w", request + 1)).await
        }));
        tokio::task::yield_now().await;
    }
    let refused = bench.ledger.submit(acquire("single/late", "w", 9)).await;
    assert_eq!(refused.unwrap_err(), Unserved::Overloaded);
    bench.gate.add_permits(QUEUE_COMMANDS * 2);
    let (mut granted, mut overloaded) = (0, 0);
    for task in waiting {
        match task.await.unwrap() {
            Ok(Outcome::Granted(_)) => granted += 1,
            Err(Unserved::Overloaded) => overloaded += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(granted >= QUEUE_COMMANDS, "{granted}");
    assert_eq!(granted + overloaded, QUEUE_COMMANDS * 2);
}

/// Puts a command before the committer, behind its gate.
async fn waiting(bench: &Bench, command: Command) -> JoinHandle<Result<Outcome, Unserved>> {
    let ledger = bench.ledger.clone();
    let waits = tokio::spawn(async move { ledger.submit(command).await });
    tokio::task::yield_now().await;
    waits
}

/// Broken: a renewal waits behind a thousand writes, and the lease is over when it is its turn. Must hold: it is decided with
/// the next batch, whatever waits before it.
#[tokio::test]
async fn a_renewal_goes_past_what_waits() {
    let bench = bench(1);
    let grant = granted(&bench.ledger, acquire("single/kept", "alice", 1)).await;
    let mut others = Vec::new();
    for request in 2..u128::try_from(BATCH_COMMANDS * 3).unwrap() {
        others.push(waiting(&bench, acquire(&format!("single/{request}"), "w", request)).await);
    }
    let renewal = waiting(&bench, renew(&grant)).await;
    // The batch that stands before the gate, and the next one.
    bench.gate.add_permits(2);
    renewal.await.unwrap().unwrap();
    let decided = others.iter().filter(|other| other.is_finished()).count();
    assert!(decided <= 2 * BATCH_COMMANDS, "{decided} were decided before it");
    bench.gate.add_permits(BATCH_COMMANDS);
    for other in others {
        other.await.unwrap().unwrap();
    }
}

/// Broken: releases without an end hold up every write. Must hold: half of each batch is for the others.
#[tokio::test]
async fn a_flood_of_releases_leaves_room_for_the_others() {
    let bench = bench(QUEUE_RESERVED);
    let mut grants = Vec::new();
    for request in 1..=u128::try_from(QUEUE_RESERVED).unwrap() {
        grants.push(granted(&bench.ledger, acquire(&format!("single/{request}"), "w", request)).await);
    }
    assert_eq!(bench.gate.available_permits(), 0);
    let before_the_gate = waiting(&bench, acquire("single/first", "w", 1_001)).await;
    let mut releases = Vec::new();
    for grant in &grants {
        releases.push(waiting(&bench, release(grant)).await);
    }
    let other = waiting(&bench, acquire("single/other", "w", 1_002)).await;
    bench.gate.add_permits(2);
    other.await.unwrap().unwrap();
    before_the_gate.await.unwrap().unwrap();
    let decided = releases.iter().filter(|release| release.is_finished()).count();
    assert_eq!(decided, BATCH_URGENT);
    bench.gate.add_permits(2);
    for release in releases {
        release.await.unwrap().unwrap();
    }
}

/// Broken: a batch waits for more to share its flush though nothing more fits into it, just when most is waited for. Must hold:
/// only one with room waits.
#[tokio::test]
async fn a_full_batch_does_not_wait_for_more() {
    let bench = bench(0);
    let mut others = vec![waiting(&bench, acquire("single/first", "w", 1)).await];
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    for request in 2..u128::try_from(BATCH_COMMANDS * 2 + 2).unwrap() {
        others.push(waiting(&bench, acquire(&format!("single/{request}"), "w", request)).await);
    }
    // The first one by itself, and two full batches.
    bench.gate.add_permits(4);
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(bench.gathered.load(Ordering::SeqCst), 0);
    granted(&bench.ledger, acquire("single/last", "w", 9_999)).await;
    assert_eq!(bench.gathered.load(Ordering::SeqCst), 1, "one with room does");
}

/// A commit whose outcome was lost is looked up: what is found is applied, once, and nobody is told "unknown".
#[tokio::test]
async fn a_lost_commit_outcome_is_looked_up_and_found() {
    let bench = bench(64);
    let grant = granted(&bench.ledger, acquire("single/a", "alice", 1)).await;
    let draft = Draft::put("single/a", &grant.fencing_tokens[0].0, "publish", "body");
    bench.fault.store(LOSE_THE_OUTCOME, Ordering::SeqCst);
    let found = written(&bench.ledger, &draft).await;
    assert!(found.replayed);
    assert_eq!(found.response.commit.map_or(0, CommitNo::get), 1);
}

/// What is absent afterwards had no effect, and that is said: "unknown" would send an operator looking.
#[tokio::test]
async fn a_lost_commit_that_left_nothing_behind_had_no_effect() {
    let bench = bench(64);
    let grant = granted(&bench.ledger, acquire("single/a", "alice", 1)).await;
    let draft = Draft::put("single/a", &grant.fencing_tokens[0].0, "publish", "body");
    bench.fault.store(LOSE_AND_FORGET, Ordering::SeqCst);
    let lost = bench.ledger.submit(draft.command(&bench.ledger)).await;
    assert_eq!(lost.unwrap_err(), Unserved::Unavailable(Effect::None));
    bench.fault.store(WORK, Ordering::SeqCst);
    assert!(!written(&bench.ledger, &draft).await.replayed);
}

/// When nobody can know, "unknown" is said; the retry finds the truth.
#[tokio::test]
async fn a_lost_commit_that_cannot_be_looked_up_is_unknown_and_the_retry_finds_it() {
    let bench = bench(64);
    let grant = granted(&bench.ledger, acquire("single/a", "alice", 1)).await;
    let draft = Draft::put("single/a", &grant.fencing_tokens[0].0, "publish", "body");
    bench.fault.store(LOSE_THE_DATABASE, Ordering::SeqCst);
    let lost = bench.ledger.submit(draft.command(&bench.ledger)).await;
    assert_eq!(lost.unwrap_err(), Unserved::Unavailable(Effect::Unknown));
    bench.fault.store(WORK, Ordering::SeqCst);
    assert!(written(&bench.ledger, &draft).await.replayed);
}

/// A commit that definitely failed had no effect, and says so; nothing of it is visible afterwards.
#[tokio::test]
async fn a_failed_commit_has_no_effect() {
    let bench = bench(64);
    let grant = granted(&bench.ledger, acquire("single/a", "alice", 1)).await;
    let draft = Draft::put("single/a", &grant.fencing_tokens[0].0, "publish", "body");
    bench.fault.store(FAIL, Ordering::SeqCst);
    let failed = bench.ledger.submit(draft.command(&bench.ledger)).await;
    assert_eq!(failed.unwrap_err(), Unserved::Unavailable(Effect::None));
    bench.fault.store(WORK, Ordering::SeqCst);
    assert!(!written(&bench.ledger, &draft).await.replayed);
}

/// A conflict is decided anew from a fresh snapshot, and the caller never learns of it.
#[tokio::test]
async fn a_conflict_is_decided_anew() {
    let bench = bench(64);
    bench.fault.store(CONFLICT_ONCE, Ordering::SeqCst);
    let grant = granted(&bench.ledger, acquire("single/a", "alice", 1)).await;
    assert_eq!(grant.view.lease.position.token.get(), 1);
}

/// One bad request must not fail the batch that it stands in.
#[tokio::test]
async fn a_request_that_contradicts_the_rows_stops_alone() {
    let bench = bench(0);
    bench.gate.add_permits(2);
    let a = granted(&bench.ledger, acquire("single/a", "alice", 1)).await;
    let b = granted(&bench.ledger, acquire("single/b", "bob", 2)).await;
    bench.fault.store(REJECT_THE_BODY_BAD, Ordering::SeqCst);
    let (ledger, other) = (bench.ledger.clone(), bench.ledger.clone());
    let good = Draft::put("single/a", &a.fencing_tokens[0].0, "good", "body");
    let bad = Draft::put("single/b", &b.fencing_tokens[0].0, "bad", "body");
    let (good, bad) = tokio::join!(ledger.submit(good.command(&ledger)), async {
        bench.gate.add_permits(8);
        other.submit(bad.command(&other)).await
    });
    assert!(matches!(good, Ok(Outcome::Written(_))), "{good:?}");
    assert_eq!(bad.unwrap_err(), Unserved::Inconsistent);
}

/// A stopping gateway answers everything that it took, and takes nothing more.
#[tokio::test]
async fn a_stop_answers_everything_that_was_taken() {
    let bench = bench(0);
    let ledger = bench.ledger.clone();
    let taken = tokio::spawn(async move { ledger.submit(acquire("single/a", "alice", 1)).await });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(bench.ledger);
    bench.gate.add_permits(1);
    assert!(matches!(taken.await.unwrap(), Ok(Outcome::Granted(_))));
    bench.committer.await.unwrap().unwrap();
}

/// A refusal is an answer about rows that are durable already; it needs no commit of its own.
#[tokio::test]
async fn a_refusal_costs_no_commit() {
    let bench = bench(1);
    granted(&bench.ledger, acquire("single/a", "alice", 1)).await;
    refused(&bench.ledger, acquire("single/a", "bob", 2)).await;
    assert_eq!(bench.gate.available_permits(), 0);
}

/// A replay tells of a commit that another process may have made. Must hold: it is told only after a confirmation, and
/// one that cannot be confirmed is "unknown", not a promise. Fresh writes and refusals need none.
#[tokio::test]
async fn a_replay_is_told_only_once_it_is_confirmed() {
    let bench = bench(64);
    let grant = granted(&bench.ledger, acquire("single/a", "alice", 1)).await;
    let draft = Draft::put("single/a", &grant.fencing_tokens[0].0, "publish", "body");
    assert!(!written(&bench.ledger, &draft).await.replayed);
    refused(&bench.ledger, acquire("single/a", "bob", 2)).await;
    assert_eq!(bench.confirmed.load(Ordering::SeqCst), 0);
    assert!(written(&bench.ledger, &draft).await.replayed);
    assert_eq!(bench.confirmed.load(Ordering::SeqCst), 1);
    bench.fault.store(CONFIRM_NOTHING, Ordering::SeqCst);
    let unsure = bench.ledger.submit(draft.command(&bench.ledger)).await;
    assert_eq!(unsure.unwrap_err(), Unserved::Unavailable(Effect::Unknown));
    bench.fault.store(WORK, Ordering::SeqCst);
    assert!(written(&bench.ledger, &draft).await.replayed);
}
