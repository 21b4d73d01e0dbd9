//! A flood: requests that are due at a fixed rate far above what a gateway can answer, on more connections than its queue
//! has places. A refusal is an answer; what is due while a connection still waits for one is shed by the client.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::sleep;

use super::load::{SEQUENCE_BASE, Wire};
use super::request::{Workload, Writer};
use crate::domain::time::Clock;
use crate::limits::{BENCH_CELL_PATIENCE, BENCH_LOAD_THREADS};

/// Who is flooded, and how.
#[derive(Clone)]
pub(super) struct Flood {
    /// The gateway.
    pub(super) address: SocketAddr,
    /// Connections, each with one request under way at a time.
    pub(super) connections: u64,
    /// Requests a second over all of them.
    pub(super) rate: f64,
    /// Resources that are written.
    pub(super) resources: u64,
    /// How long.
    pub(super) lasts: Duration,
    /// Makes the operation ids of this flood its own.
    pub(super) seed: u64,
}

/// What became of the requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Washed {
    /// Written.
    pub(super) written: u64,
    /// Refused with 429 or 503, and told when to come back.
    pub(super) refused: u64,
    /// Due while their connection waited for an earlier answer.
    pub(super) shed: u64,
    /// An answer that is neither, or a broken connection.
    pub(super) fault: Option<String>,
}

impl Washed {
    fn add(&mut self, other: Self) {
        self.written = self.written.saturating_add(other.written);
        self.refused = self.refused.saturating_add(other.refused);
        self.shed = self.shed.saturating_add(other.shed);
        self.fault = self.fault.take().or(other.fault);
    }
}

impl Flood {
    /// Runs to its end, on threads of its own.
    pub(super) async fn run(&self, clock: &Arc<dyn Clock>) -> anyhow::Result<Washed> {
        let until = clock.monotonic().saturating_add(self.lasts);
        let mut threads = Vec::new();
        for thread in 0..BENCH_LOAD_THREADS {
            let (flood, clock) = (self.clone(), Arc::clone(clock));
            let (tell, washed) = oneshot::channel();
            let body = move || {
                // Nobody waits any more for a bench that was interrupted.
                drop(tell.send(flood.run_thread(thread, until, &clock)));
            };
            std::thread::Builder::new().name(format!("flood-{thread}")).spawn(body)?;
            threads.push(washed);
        }
        let mut all = Washed::default();
        for thread in threads {
            all.add(thread.await.context("a thread of the flood ended early")?);
        }
        Ok(all)
    }

    fn run_thread(&self, thread: u64, until: Duration, clock: &Arc<dyn Clock>) -> Washed {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return Washed { fault: Some(error.to_string()), ..Washed::default() },
        };
        let (all, local) = (Rc::new(RefCell::new(Washed::default())), LocalSet::new());
        let apart = usize::try_from(BENCH_LOAD_THREADS).unwrap_or(1);
        for number in (thread..self.connections).step_by(apart) {
            let (flood, clock, all) = (self.clone(), Arc::clone(clock), Rc::clone(&all));
            local.spawn_local(async move {
                let mut washed = Washed::default();
                if let Err(fault) = flood.connection(number, until, clock.as_ref(), &mut washed).await {
                    washed.fault = Some(format!("connection {number}: {fault}"));
                }
                all.borrow_mut().add(washed);
            });
        }
        let patience = until.saturating_sub(clock.monotonic()).saturating_add(BENCH_CELL_PATIENCE);
        let late = runtime.block_on(async { tokio::time::timeout(patience, local).await.is_err() });
        let mut washed = all.take();
        if late {
            washed.fault = Some(format!("no answer within {} s", BENCH_CELL_PATIENCE.as_secs()));
        }
        washed
    }

    async fn connection(
        &self,
        number: u64,
        until: Duration,
        clock: &dyn Clock,
        washed: &mut Washed,
    ) -> Result<(), String> {
        let mut wire = Wire::to(self.address).await?;
        let begun = u64::try_from(clock.monotonic().as_micros()).unwrap_or(u64::MAX);
        let chance = self.seed.wrapping_add(number.wrapping_mul(0x1_0000_0001));
        let workload = Workload::Distinct { resources: self.resources };
        let (host, share) = (self.address.to_string(), (number, self.connections));
        let mut writer = Writer::new(workload, &host, share, SEQUENCE_BASE.saturating_add(begun), chance);
        let every = Duration::from_secs_f64(super::cells::float(self.connections) / self.rate.max(1.0));
        // The connections' turns lie side by side.
        let turn = every.mul_f64(super::cells::float(number) / super::cells::float(self.connections.max(1)));
        let (mut due, mut request) = (clock.monotonic().saturating_add(turn), Vec::new());
        loop {
            let now = clock.monotonic();
            if now >= until {
                return Ok(());
            }
            if now < due {
                sleep(due.saturating_sub(now)).await;
            }
            writer.compose(&mut request);
            let answer = wire.exchange(&request).await?;
            match answer.status {
                200..=299 => washed.written = washed.written.saturating_add(1),
                429 | 503 if wire.has_header(&answer, b"retry-after:") => {
                    washed.refused = washed.refused.saturating_add(1);
                }
                status => return Err(format!("{status}: {}", wire.shown(answer.body))),
            }
            wire.forget(&answer);
            due = due.saturating_add(every);
            let behind = clock.monotonic().saturating_sub(due);
            let missed = behind.as_nanos().checked_div(every.as_nanos().max(1)).unwrap_or_default();
            let missed = u32::try_from(missed).unwrap_or(u32::MAX);
            washed.shed = washed.shed.saturating_add(u64::from(missed));
            due = due.saturating_add(every.saturating_mul(missed));
        }
    }
}
