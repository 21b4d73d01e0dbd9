//! `fencegate demo`: the problem, played with real processes against a gateway of its own.
//!
//! Worker A owns the resource and is stopped with SIGSTOP in the middle of its work; its lease ends; worker B takes
//! over and publishes; A is resumed and writes what it believes to be right. The demonstration succeeds only if the
//! newer result stands. Every process that it starts is waited for, and killed first where it does not end itself.

mod player;
mod stage;
mod story;
mod worker;

use tokio::signal::unix::{SignalKind, signal};

use super::failure::Failure;
use super::output::Output;
use crate::app::SystemClock;
use crate::domain::time::Clock as _;
use stage::Stage;

pub(super) use worker::Worker;

/// The word that makes this program a worker of the demonstration.
pub(super) const WORKER: &str = "demo-worker";

/// Plays the story.
pub(super) async fn run(output: &Output) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| Failure::Start(error.into()))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| Failure::Start(error.into()))?;
    let narrator = Narrator { output, clock: SystemClock::started() };
    let mut stage = Stage::set()?;
    let stopped = || Failure::Story("stopped before the end".to_owned());
    let ended = tokio::select! {
        ended = story::play(&mut stage, &narrator) => ended,
        _ = terminate.recv() => Err(stopped()),
        _ = interrupt.recv() => Err(stopped()),
    };
    let cleared = stage.clear().await;
    ended.and(cleared).map_err(|failure| match failure {
        // Whoever stops listening has not seen the end; that is no success here.
        Failure::Output(error) => Failure::Story(format!("cannot tell what happens: {error}")),
        other @ (Failure::Usage(_)
        | Failure::Mistakes(_)
        | Failure::Start(_)
        | Failure::Refused(_)
        | Failure::Unreachable(_)
        | Failure::Relayed(_)
        | Failure::Lost(_)
        | Failure::Pending(_)
        | Failure::Story(_)
        | Failure::NeverOwned(_)
        | Failure::OwnershipLost(_)) => other,
    })
}

/// Says what happens, one line a step.
struct Narrator<'a> {
    output: &'a Output,
    clock: SystemClock,
}

impl Narrator<'_> {
    fn tell(&self, step: &str) -> Result<(), Failure> {
        let elapsed = self.clock.monotonic();
        if self.output.asked_for_json() {
            let at_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            return self.output.line(&serde_json::json!({ "at_ms": at_ms, "step": step }).to_string());
        }
        self.output.line(&format!("{:>6.2} s  {step}", elapsed.as_secs_f64()))
    }
}
