//! Overload: what a gateway answers under ten times what it can do, and how soon it is well again.
//!
//! The peak is measured first, by callers that each wait for their answer. Then a flood comes at ten times that rate, while
//! one worker renews its lease and an operator revokes others. The load and the gateway share one machine, so that what the
//! load takes of its processors is missing in the gateway's figure: the ratio is what can be said at least.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::cells::float;
use super::flood::Flood;
use super::histogram::Histogram;
use super::load::{Known, Load, Wire};
use super::request::Workload;
use super::stage::Server;
use super::{Plan, templates};
use crate::bench::cells::Results;
use crate::bench::stage::Folder;
use crate::domain::time::Clock;
use crate::limits::{
    BENCH_FLOOD_CONNECTIONS, BENCH_FLOOD_TIMES, BENCH_OPERATOR_PAUSE, BENCH_PEAK_CONNECTIONS,
    BENCH_RECOVERIES, BENCH_RECOVERY, BENCH_RENEW_PAUSE,
};

/// Runs the scenario, and notes what was seen.
pub(super) async fn run(
    plan: &Plan,
    folder: &Folder,
    clock: &Arc<dyn Clock>,
    results: &mut Results,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let server = templates::overloaded(&folder.fresh("overload")?, plan.log.as_deref()).await?;
    tell("measuring the peak");
    let peak_lasts = if plan.quick { Duration::from_secs(1) } else { BENCH_RECOVERY };
    let peak = peak(&server, plan, clock, peak_lasts, 1).await?;
    results.note("overload: peak, writes/s", 0, peak);
    let calm = server.usage().context("the gateway's memory cannot be seen")?.resident_kib;
    results.note("overload: memory before, MiB", 0, float(calm) / 1_024.0);
    let lasts = if plan.quick { Duration::from_secs(4) } else { plan.measured };
    tell(&format!("flooding at {:.0}/s for {:.0} s", peak * BENCH_FLOOD_TIMES, lasts.as_secs_f64()));
    let lanes = Lanes::begin(server.address, lasts, clock).await?;
    let flood = Flood {
        address: server.address,
        connections: BENCH_FLOOD_CONNECTIONS,
        rate: peak * BENCH_FLOOD_TIMES,
        resources: plan.resources.max(BENCH_FLOOD_CONNECTIONS),
        lasts,
        seed: 2,
    };
    let began = clock.monotonic();
    let washed = flood.run(clock).await?;
    let took = clock.monotonic().saturating_sub(began).as_secs_f64();
    let (renewals, revoked) = lanes.end().await?;
    if let Some(fault) = washed.fault {
        return Err(anyhow!("under the flood: {fault}"));
    }
    let goodput = float(washed.written) / took;
    for (name, figure) in [
        ("overload: due, requests/s", flood.rate),
        ("overload: sent, requests/s", float(washed.written.saturating_add(washed.refused)) / took),
        ("overload: due while their connection waited, requests/s", float(washed.shed) / took),
        ("overload: refused with Retry-After, requests/s", float(washed.refused) / took),
        ("overload: goodput, writes/s", goodput),
        ("overload: goodput over peak", goodput / peak),
        ("overload: renewals answered", float(renewals.total())),
        ("overload: renewal p50, ms", renewals.quantile(500).as_secs_f64() * 1_000.0),
        ("overload: renewal p99, ms", renewals.quantile(990).as_secs_f64() * 1_000.0),
        ("overload: renewal longest, ms", renewals.longest().as_secs_f64() * 1_000.0),
        ("overload: revocations answered", float(revoked)),
    ] {
        results.note(name, 0, figure);
    }
    recovery(&server, plan, clock, results, peak).await?;
    let most = server.usage().context("the gateway's memory cannot be seen")?.peak_kib;
    results.note("overload: memory at most, MiB", 0, float(most) / 1_024.0);
    server.stop().await
}

/// Writes a second of callers that each wait for their answer.
async fn peak(
    server: &Server,
    plan: &Plan,
    clock: &Arc<dyn Clock>,
    lasts: Duration,
    seed: u64,
) -> anyhow::Result<f64> {
    let load = Load {
        address: server.address,
        workload: Workload::Distinct { resources: plan.resources.max(BENCH_FLOOD_CONNECTIONS) },
        connections: BENCH_PEAK_CONNECTIONS,
        rate: None,
        warm_up: lasts.mul_f64(0.1),
        measured: lasts,
        seed,
        known: Known::default(),
    };
    let loaded = load.start(clock)?.seen().await?;
    match loaded.fault {
        Some(fault) => Err(anyhow!("{fault}")),
        None => Ok(float(loaded.latencies.total()) / lasts.as_secs_f64()),
    }
}

/// How long it takes after the flood until the gateway writes at least four fifths of its peak again.
async fn recovery(
    server: &Server,
    plan: &Plan,
    clock: &Arc<dyn Clock>,
    results: &mut Results,
    before: f64,
) -> anyhow::Result<()> {
    let began = clock.monotonic();
    let mut last = 0.0;
    for seed in 3..BENCH_RECOVERIES {
        let at = clock.monotonic().saturating_sub(began);
        last = peak(server, plan, clock, Duration::from_millis(500), seed).await?;
        if last >= 0.8 * before {
            results.note("overload: well again after, s", 0, at.as_secs_f64());
            results.note("overload: writes/s then", 0, last);
            return Ok(());
        }
    }
    Err(anyhow!("after the flood the gateway makes {last:.0} writes/s, before it made {before:.0}"))
}

/// What has to go on meanwhile.
struct Lanes {
    stop: oneshot::Sender<()>,
    renewing: tokio::task::JoinHandle<Result<(Histogram, u64), String>>,
}

impl Lanes {
    /// Acquires what is renewed and revoked, before the flood.
    async fn begin(address: SocketAddr, lasts: Duration, clock: &Arc<dyn Clock>) -> anyhow::Result<Self> {
        let mut wire = Wire::to(address).await.map_err(anyhow::Error::msg)?;
        let lease = acquire(&mut wire, "worker").await.map_err(anyhow::Error::msg)?;
        let revocations = lasts.as_millis().checked_div(BENCH_OPERATOR_PAUSE.as_millis()).unwrap_or_default();
        let mut names = Vec::new();
        for number in 0..revocations.max(1) {
            let name = format!("revoked-{number}");
            acquire(&mut wire, &name).await.map_err(anyhow::Error::msg)?;
            names.push(name);
        }
        let (stop, stopped) = oneshot::channel();
        let clock = Arc::clone(clock);
        let renewing = tokio::spawn(go_on(wire, lease, names, clock, stopped));
        Ok(Self { stop, renewing })
    }

    async fn end(self) -> anyhow::Result<(Histogram, u64)> {
        // It may have ended by itself, with a fault that it tells.
        self.stop.send(()).unwrap_or_default();
        let ended = self.renewing.await.context("the worker that renews ended early")?;
        ended.map_err(|fault| anyhow!("a renewal or a revocation was not answered: {fault}"))
    }
}

/// Renews again and again, and revokes now and then. Each has to succeed.
async fn go_on(
    mut wire: Wire,
    lease: String,
    names: Vec<String>,
    clock: Arc<dyn Clock>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<(Histogram, u64), String> {
    let (mut latencies, mut revoked, mut names) = (Histogram::default(), 0_u64, names.into_iter());
    let mut next = clock.monotonic().saturating_add(BENCH_OPERATOR_PAUSE);
    while stopped.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty) {
        let began = clock.monotonic();
        let answer = wire.ask(post(&format!("/v1/leases/{lease}/renew"), "{}").as_bytes()).await?;
        wire.forget(&answer);
        latencies.record(clock.monotonic().saturating_sub(began));
        if clock.monotonic() >= next
            && let Some(name) = names.next()
        {
            let call = post(&format!("/v1/revoke/kept/{name}"), "{\"reason\":\"overload\"}");
            let answer = wire.ask(call.as_bytes()).await?;
            wire.forget(&answer);
            revoked = revoked.saturating_add(1);
            next = next.saturating_add(BENCH_OPERATOR_PAUSE);
        }
        sleep(BENCH_RENEW_PAUSE).await;
    }
    Ok((latencies, revoked))
}

async fn acquire(wire: &mut Wire, name: &str) -> Result<String, String> {
    let body = format!("{{\"resource\":\"kept/{name}\",\"ttl_ms\":3600000}}");
    let answer = wire.ask(post("/v1/leases", &body).as_bytes()).await?;
    let lease: Value = serde_json::from_slice(wire.body(&answer)).map_err(|error| error.to_string())?;
    wire.forget(&answer);
    let id = lease.get("acquisition_id").and_then(Value::as_str);
    id.map(str::to_owned).ok_or_else(|| "a lease without an id".to_owned())
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
