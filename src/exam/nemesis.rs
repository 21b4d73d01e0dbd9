//! What goes wrong, and when: a seed decides. One task torments the processes, another one the network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::sleep;

use super::events::{Event, Fault};
use super::proxy::{Link, Mode, Passes};
use super::storm;
use super::world::World;
use crate::bench::Chance;
use crate::limits::{EXAM_HOLD, EXAM_KEEP, EXAM_STORM};

/// Faults that were delivered, by kind: how many, how many met a call that was under way, and how many calls.
pub(super) type Tally = BTreeMap<String, [u64; 3]>;

/// Torments a world.
pub(super) struct Nemesis {
    pub(super) world: Arc<World>,
    pub(super) chance: Chance,
    pub(super) enough: Arc<AtomicBool>,
    pub(super) tally: Arc<Mutex<Tally>>,
    /// Mean pause between two faults, in milliseconds.
    pub(super) pace_ms: u64,
}

/// What can be done to processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    Kill,
    Terminate,
    Stop,
    Clock,
    Storm,
    DiskFull,
    DatabaseRestart,
    DatabaseKill,
    DatabaseStop,
}

impl Blow {
    const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Terminate => "TERM",
            Self::Stop => "SIGSTOP and SIGCONT",
            Self::Clock => "clock shift",
            Self::Storm => "connection storm",
            Self::DiskFull => "disk full",
            Self::DatabaseRestart => "database restart",
            Self::DatabaseKill => "database kill -9",
            Self::DatabaseStop => "database SIGSTOP",
        }
    }
}

/// What can be done to the network.
const TROUBLES: [&str; 12] = [
    "cut",
    "delay",
    "hold and late release",
    "late answers",
    "reset",
    "lost answers",
    "half-close by who asks",
    "half-close by who answers",
    "slow read",
    "reset mid-body",
    "duplicate",
    "kept for up to 30 s",
];

/// What is drawn from in this world: what is there more than once comes more often.
fn blows(world: &World) -> Vec<Blow> {
    let mut blows = vec![Blow::Kill, Blow::Kill, Blow::Kill, Blow::Terminate, Blow::Stop, Blow::Stop];
    blows.push(Blow::Storm);
    if world.server.is_some() {
        blows.extend([Blow::DatabaseRestart, Blow::DatabaseKill, Blow::DatabaseStop]);
    } else {
        blows.push(Blow::DiskFull);
    }
    if world.replicas.iter().any(|replica| replica.recipe.clock.is_some()) {
        blows.push(Blow::Clock);
    }
    blows
}

/// All kinds of faults that may come in this world.
pub(super) fn kinds(world: &World) -> Vec<String> {
    let names: BTreeSet<&str> = blows(world).into_iter().map(Blow::name).chain(TROUBLES).collect();
    names.into_iter().map(str::to_owned).collect()
}

impl Nemesis {
    /// Torments the processes until it is enough. The first that cannot be started again is an error.
    pub(super) async fn torment_processes(mut self) -> anyhow::Result<()> {
        let blows = blows(&self.world);
        while self.rest().await {
            let index = usize::try_from(self.chance.below(u64::try_from(blows.len())?))?;
            let blow = blows.get(index).copied().unwrap_or(Blow::Kill);
            let replica = self.chance.below(u64::try_from(self.world.replicas.len())?);
            self.strike(blow, usize::try_from(replica)?).await?;
        }
        Ok(())
    }

    /// Torments the network until it is enough. Kinds and lengths follow from the seed alone, whatever proxies there are.
    pub(super) async fn torment_the_network(mut self) {
        let most = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        while self.rest().await {
            let links = self.world.links().len();
            let index = self.chance.below(u64::try_from(links).unwrap_or(1));
            let index = usize::try_from(index).unwrap_or_default();
            let ms = 50_u64.saturating_add(self.chance.below(1_500));
            let name = self.chance.below(u64::try_from(TROUBLES.len()).unwrap_or(1));
            let name = usize::try_from(name).ok().and_then(|index| TROUBLES.get(index)).copied();
            let name = name.unwrap_or("cut");
            let mode = match name {
                "delay" => Mode::Delay(1_u64.saturating_add(self.chance.below(150))),
                "hold and late release" => Mode::Hold,
                "late answers" | "lost answers" => Mode::Mute,
                "reset" => Mode::Open,
                "half-close by who asks" => Mode::HalfClose,
                "half-close by who answers" => Mode::Dumb,
                "slow read" => Mode::SlowRead(1_u64.saturating_add(self.chance.below(60))),
                "reset mid-body" => Mode::Tear,
                "duplicate" => Mode::Again(self.chance.below(most(EXAM_HOLD))),
                "kept for up to 30 s" => Mode::Keep(self.chance.below(most(EXAM_KEEP))),
                _ => Mode::Cut,
            };
            self.trouble(index, name, mode, ms).await;
        }
    }

    /// Pauses. False when it is enough.
    async fn rest(&mut self) -> bool {
        let ms = self.pace_ms.saturating_add(self.chance.below(self.pace_ms)).saturating_div(2);
        sleep(Duration::from_millis(ms)).await;
        !self.enough.load(Ordering::Relaxed)
    }

    fn note(&self, kind: &str, target: String, ms: u64, hit: u64) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let [delivered, mattered, calls] = tally.entry(kind.to_owned()).or_default();
        *delivered = delivered.saturating_add(1);
        *mattered = mattered.saturating_add(u64::from(hit > 0));
        *calls = calls.saturating_add(hit);
        drop(tally);
        self.world.recorder.note(Event::Fault(Fault { kind: kind.to_owned(), target, ms, hit }));
    }

    async fn trouble(&mut self, index: usize, name: &str, mode: Mode, ms: u64) {
        let world = self.world.clone();
        let links = world.links();
        // Where a fault cannot be, the next proxy has it: none is left out, so that the times are those of the seed.
        let fits = |link: &&&Link| match link.passes {
            Passes::CallsOfWorkers => true,
            Passes::Requests => !matches!(mode, Mode::Keep(_)),
            Passes::Bytes => !matches!(mode, Mode::Keep(_) | Mode::Again(_)),
        };
        let Some(link) = links.iter().cycle().skip(index).take(links.len()).find(fits) else { return };
        let before = link.touched();
        let mut hit = 0;
        match mode {
            Mode::Open => {
                hit = link.waiting();
                link.close(true);
            }
            Mode::Cut => {
                hit = link.waiting();
                link.set(mode);
                link.close(false);
                sleep(Duration::from_millis(ms)).await;
            }
            Mode::Delay(_)
            | Mode::Hold
            | Mode::Keep(_)
            | Mode::Mute
            | Mode::Again(_)
            | Mode::HalfClose
            | Mode::Dumb
            | Mode::SlowRead(_)
            | Mode::Tear => {
                link.set(mode);
                sleep(Duration::from_millis(ms)).await;
            }
        }
        if name == "lost answers" {
            // What has been kept back never comes.
            link.close(true);
        }
        link.set(Mode::Open);
        let hit = hit.saturating_add(link.touched().saturating_sub(before));
        self.note(name, link.name.clone(), ms, hit);
    }

    async fn strike(&mut self, blow: Blow, index: usize) -> anyhow::Result<()> {
        match blow {
            Blow::Kill | Blow::Terminate | Blow::Stop | Blow::Clock | Blow::Storm | Blow::DiskFull => {
                self.strike_gateway(blow, index).await
            }
            Blow::DatabaseRestart | Blow::DatabaseKill | Blow::DatabaseStop => {
                self.strike_database(blow).await
            }
        }
    }

    async fn strike_gateway(&mut self, blow: Blow, index: usize) -> anyhow::Result<()> {
        let world = self.world.clone();
        let Some(replica) = world.replicas.get(index) else { return Ok(()) };
        let (target, hit) = (format!("gateway {index}"), replica.door.waiting());
        let ms = self.chance.below(if blow == Blow::Stop { 2_500 } else { 600 });
        let down = Duration::from_millis(ms);
        let mut place = replica.gateway.lock().await;
        let Some(gateway) = place.as_mut() else { return Ok(()) };
        match blow {
            Blow::Stop => {
                gateway.signal(Signal::STOP)?;
                sleep(down).await;
                let hit = hit.max(replica.door.waiting());
                gateway.signal(Signal::CONT)?;
                self.note(blow.name(), target, ms, hit);
            }
            Blow::DiskFull => {
                let size =
                    std::fs::metadata(world.home.join("site/fencegate.db-wal")).map_or(0, |file| file.len());
                gateway.limit_files(Some(size))?;
                sleep(down).await;
                gateway.limit_files(None)?;
                self.note(blow.name(), target, ms, hit.max(replica.door.waiting()));
            }
            Blow::Storm => {
                let (count, port) = (self.chance.below(EXAM_STORM), gateway.port);
                let met = storm::blow(port, count, down.saturating_mul(2), || replica.door.waiting()).await;
                self.note(blow.name(), target, ms.saturating_mul(2), hit.max(met));
            }
            Blow::Clock => {
                let Some((_, shift)) = &replica.recipe.clock else { return Ok(()) };
                let seconds = self.chance.below(7_200);
                let sign = if self.chance.below(2) == 0 { '+' } else { '-' };
                std::fs::write(shift, format!("{sign}{seconds}"))?;
                sleep(down).await;
                std::fs::write(shift, "+0")?;
                self.note(blow.name(), target, ms, hit.max(replica.door.waiting()));
            }
            Blow::Kill
            | Blow::Terminate
            | Blow::DatabaseRestart
            | Blow::DatabaseKill
            | Blow::DatabaseStop => {
                let Some(gateway) = place.take() else { return Ok(()) };
                drop(place);
                if blow == Blow::Kill {
                    gateway.kill().await?;
                } else {
                    gateway.terminate().await?;
                }
                self.note(blow.name(), target, ms, hit);
                sleep(down).await;
                world.raise(index).await?;
            }
        }
        Ok(())
    }

    async fn strike_database(&mut self, blow: Blow) -> anyhow::Result<()> {
        let world = self.world.clone();
        let Some(server) = &world.server else { return Ok(()) };
        let mut server = server.lock().await;
        let (target, hit) = ("database".to_owned(), world.at_gateways());
        match blow {
            Blow::DatabaseRestart => {
                server.restart().await?;
                self.note(blow.name(), target, 0, hit);
            }
            Blow::DatabaseKill => {
                server.kill_and_start().await?;
                self.note(blow.name(), target, 0, hit);
            }
            Blow::Kill
            | Blow::Terminate
            | Blow::Stop
            | Blow::Clock
            | Blow::Storm
            | Blow::DiskFull
            | Blow::DatabaseStop => {
                let ms = self.chance.below(2_000);
                server.signal_all(Signal::STOP)?;
                sleep(Duration::from_millis(ms)).await;
                let hit = hit.max(world.at_gateways());
                server.signal_all(Signal::CONT)?;
                self.note(blow.name(), target, ms, hit);
            }
        }
        Ok(())
    }
}
