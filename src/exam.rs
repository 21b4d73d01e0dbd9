//! The exam: real gateways, workers that pause for longer than their leases, stores of every class, a network and a machine
//! that fail by a seeded schedule, a written history of all that happened, and a judge of it.
//!
//! It looks from outside and shares no rule with the gateway: what it knows of one stands in `judge`, in its own words. The
//! schedule of faults and the choices of the workers follow from the seed; which of them meet is up to the machine, so
//! the history, not the seed, is the evidence: `judge` gives the same verdict of it for ever. docs/VERIFICATION.md tells
//! what is asked, and what cannot be seen from here.

mod caller;
mod closer;
mod command;
mod database;
mod events;
mod gateways;
mod handing;
mod history;
mod judge;
mod nemesis;
mod operator;
mod pairs;
mod payload;
mod proxy;
mod report;
mod slot;
mod stores;
mod storm;
mod wire;
mod worker;
mod world;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::bench::{Chance, programs};
use crate::domain::time::Clock;
use crate::limits::{EXAM_CLOSING, EXAM_LOOK, EXAM_OPERATORS, EXAM_RETIRED, EXAM_START};

use caller::Caller;
use events::{Ended, Event, Planned};
use gateways::clock_library;
use history::Recorder;
use nemesis::{Nemesis, Tally};
use operator::Operator;
use proxy::Mode;
use slot::Slot;
use worker::Worker;
use world::World;

pub use command::run as main;

/// Resources of each namespace that are fought for at once, and workers that fight for each.
const SLOTS: usize = 2;
const WORKERS: u64 = 3;

/// How often whoever waits is told how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What is to be done.
#[derive(Debug, Clone)]
struct Plan {
    seed: u64,
    length: Duration,
    /// Calls after which it ends earlier.
    operations: u64,
    replicas: usize,
    postgres: bool,
    fenced: bool,
    /// The program of the gateway.
    gateway: PathBuf,
    /// Where the history goes; absolute.
    out: PathBuf,
    /// Mean pause between two faults of a kind, in milliseconds.
    pace_ms: u64,
}

/// Plays an exam, and leaves its history in the folder: with its end, and what went wrong beside the judged.
async fn play(plan: &Plan, clock: &Arc<dyn Clock>, tell: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
    // What is not there is told before anything is made.
    gateways::greet(&plan.gateway).await?;
    if plan.postgres {
        programs()?;
    }
    // A PostgreSQL server of another user has its data below it.
    let made = DirBuilder::new().mode(0o711).recursive(true).create(&plan.out);
    made.with_context(|| format!("cannot make {}", plan.out.display()))?;
    if std::fs::read_dir(&plan.out)?.next().is_some() {
        let out = plan.out.display();
        bail!("{out} is not empty, and an exam begins in a folder of its own: name another one with --out");
    }
    let recorder = Arc::new(Recorder::create(&plan.out, clock.clone())?);
    let world = match gather(plan, &recorder).await {
        Ok(world) => world,
        Err(error) => {
            // Nothing has happened yet: the next try shall not find a folder in its way.
            std::fs::remove_dir_all(&plan.out).unwrap_or_default();
            return Err(error);
        }
    };
    tell("everybody is there");
    let played = Exam::begin(plan, clock, world.clone()).under_way(plan, tell).await;
    let stopped = world.stop().await;
    let mut ended = Ended { ms: u64::try_from(clock.monotonic().as_millis())?, ..Ended::default() };
    for remarks in [&played, &stopped] {
        match remarks {
            Ok(remarks) => ended.remarks.extend(remarks.iter().cloned()),
            Err(error) => ended.remarks.push(format!("it could not be held to its end: {error:#}")),
        }
    }
    ended.absent = absent(plan);
    recorder.note(Event::Ended(ended));
    recorder.finish()?;
    played.and(stopped).map(drop)
}

/// Everybody, for the first time.
async fn gather(plan: &Plan, recorder: &Arc<Recorder>) -> anyhow::Result<Arc<World>> {
    let world = Arc::new(World::start(plan, recorder.clone()).await?);
    recorder.note(Event::Planned(planned(plan, &world)));
    for index in 0..world.replicas.len() {
        if let Err(error) = world.begin(index).await {
            // What is wrong with the gateway matters, and not what follows from it.
            drop(world.stop().await);
            return Err(error);
        }
    }
    Ok(world)
}

fn planned(plan: &Plan, world: &World) -> Planned {
    Planned {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: plan.seed,
        engine: if plan.postgres { "postgres" } else { "sqlite" }.to_owned(),
        replicas: u64::try_from(plan.replicas).unwrap_or_default(),
        fenced: plan.fenced,
        namespaces: world.rules.clone(),
        faults: nemesis::kinds(world),
    }
}

/// What could not be done here, and why.
fn absent(plan: &Plan) -> Vec<String> {
    let mut absent = Vec::new();
    if !plan.postgres {
        absent
            .push("clock shift: absent (of PostgreSQL only, where no gateway's clock may matter)".to_owned());
    } else if clock_library().is_none() {
        absent.push("clock shift: absent (no libfaketime.so.1 is installed)".to_owned());
    }
    if plan.postgres {
        absent.push("disk full: absent (of SQLite only, by a limit on the size of files)".to_owned());
    }
    absent
}

/// An exam under way.
struct Exam {
    world: Arc<World>,
    slots: Vec<Arc<Slot>>,
    workers: JoinSet<()>,
    network: JoinHandle<()>,
    processes: JoinHandle<anyhow::Result<()>>,
    closer: JoinHandle<()>,
    retired: mpsc::Sender<Arc<str>>,
    clock: Arc<dyn Clock>,
    enough: Arc<AtomicBool>,
    peace: Arc<AtomicBool>,
    healed: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
}

impl Exam {
    fn begin(plan: &Plan, clock: &Arc<dyn Clock>, world: Arc<World>) -> Self {
        let (enough, peace) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let healed = Arc::new(AtomicBool::new(false));
        let tally = Arc::new(Mutex::new(Tally::new()));
        let (retired, receiver) = mpsc::channel(EXAM_RETIRED);
        let closer = tokio::spawn(closer::run(world.clone(), receiver, healed.clone()));
        let slots: Vec<Arc<Slot>> = world
            .rules
            .iter()
            .flat_map(|rules| (0..SLOTS).map(|index| Arc::new(Slot::new(rules.clone(), index))))
            .collect();
        let mut workers = JoinSet::new();
        let mut client = 0_u64;
        for slot in &slots {
            for _ in 0..WORKERS {
                client = client.saturating_add(1);
                let worker = Worker {
                    world: world.clone(),
                    slot: slot.clone(),
                    caller: Caller { recorder: world.recorder.clone(), client },
                    chance: Chance::of(plan.seed.wrapping_mul(1_000_003).wrapping_add(client)),
                    clock: clock.clone(),
                    enough: enough.clone(),
                    retired: retired.clone(),
                    past: None,
                };
                workers.spawn(worker.run());
            }
        }
        operators(plan, &world, &slots, &enough, &mut workers);
        let nemesis = |number: u64| Nemesis {
            world: world.clone(),
            chance: Chance::of(plan.seed.wrapping_mul(7_919).wrapping_add(number)),
            enough: peace.clone(),
            tally: tally.clone(),
            pace_ms: plan.pace_ms,
        };
        let network = tokio::spawn(nemesis(1).torment_the_network());
        let processes = tokio::spawn(nemesis(2).torment_processes());
        Self {
            world,
            slots,
            workers,
            network,
            processes,
            closer,
            retired,
            clock: clock.clone(),
            enough,
            peace,
            healed,
            tally,
        }
    }

    async fn under_way(mut self, plan: &Plan, tell: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Vec<String>> {
        let clock = self.clock.clone();
        let mut remarks = Vec::new();
        let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
        tokio::select! {
            () = long_enough(plan, &clock, tell, &self.world.recorder, &self.tally) => {}
            ended = &mut self.processes => {
                // It ends by itself only when something cannot be started again.
                ended.context("the nemesis failed")??;
            }
            _ = terminate.recv() => remarks.push("it was ended early by TERM".to_owned()),
            _ = interrupt.recv() => remarks.push("it was ended early by INT".to_owned()),
        }
        self.peace.store(true, Ordering::Relaxed);
        if !self.processes.is_finished() {
            (&mut self.processes).await.context("the nemesis failed")??;
        }
        self.network.await.context("the nemesis failed")?;
        for link in self.world.links() {
            link.set(Mode::Open);
        }
        for index in 0..self.world.replicas.len() {
            self.world.raise(index).await?;
        }
        for link in self.world.links() {
            link.release();
        }
        self.enough.store(true, Ordering::Relaxed);
        tell("all faults are over; the last answers are waited for");
        if timeout(EXAM_START, async { while self.workers.join_next().await.is_some() {} }).await.is_err() {
            remarks.push("a worker did not come to an end".to_owned());
        }
        self.healed.store(true, Ordering::Relaxed);
        for slot in &self.slots {
            self.retired.send(slot.last()).await.context("nobody closes resources any more")?;
        }
        drop(self.retired);
        tell("the books are looked into");
        let patience = EXAM_CLOSING.saturating_mul(3);
        timeout(patience, self.closer).await.context("the resources are not closed in time")??;
        Ok(remarks)
    }
}

/// Those who look after resources, each after its own, and the one who begins epochs.
fn operators(
    plan: &Plan,
    world: &Arc<World>,
    slots: &[Arc<Slot>],
    enough: &Arc<AtomicBool>,
    all: &mut JoinSet<()>,
) {
    for index in 0..=EXAM_OPERATORS {
        let number = u64::try_from(index).unwrap_or_default();
        let operator = Operator {
            world: world.clone(),
            slots: slots.iter().skip(index).step_by(EXAM_OPERATORS).cloned().collect(),
            caller: Caller { recorder: world.recorder.clone(), client: 1_000_u64.saturating_add(number) },
            chance: Chance::of(plan.seed.wrapping_mul(15_485_863).wrapping_add(number)),
            enough: enough.clone(),
            pace_ms: plan.pace_ms,
        };
        if index < EXAM_OPERATORS {
            all.spawn(operator.run());
        } else {
            all.spawn(operator.begin_epochs());
        }
    }
}

async fn long_enough(
    plan: &Plan,
    clock: &Arc<dyn Clock>,
    tell: &(dyn Fn(&str) + Sync),
    recorder: &Recorder,
    tally: &Mutex<Tally>,
) {
    let until = clock.monotonic().saturating_add(plan.length);
    let mut next = clock.monotonic().saturating_add(TELL_EVERY);
    while clock.monotonic() < until && recorder.calls() < plan.operations {
        sleep(EXAM_LOOK).await;
        if clock.monotonic() >= next {
            next = next.saturating_add(TELL_EVERY);
            let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            let faults: u64 = tally.values().map(|[delivered, ..]| *delivered).sum();
            tell(&format!("{} calls, {faults} faults", recorder.calls()));
        }
    }
}
