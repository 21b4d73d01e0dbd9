//! Requests that are due at a fixed rate.
//!
//! The timer of the runtime counts in milliseconds, which is longer than an answer takes. So a thread of its own, which
//! sleeps more finely, wakes each connection when its next request is due.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::Notify;

use crate::domain::time::Clock;
use crate::limits::BENCH_PACE;

/// The rate, and how to wake each connection.
#[derive(Clone)]
pub(super) struct Paced {
    begun: Duration,
    until: Duration,
    /// Seconds from one request to the next, over all connections.
    step: f64,
    bells: Vec<Arc<Notify>>,
}

/// The part of one connection.
pub(super) struct Pace {
    bell: Arc<Notify>,
    begun: Duration,
    until: Duration,
    next: f64,
    step: f64,
}

impl Paced {
    /// Starts the thread; it ends by itself.
    pub(super) fn start(
        rate: f64,
        connections: u64,
        begun: Duration,
        until: Duration,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let bells: Vec<Arc<Notify>> = (0..connections.max(1)).map(|_| Arc::default()).collect();
        let paced = Self { begun, until, step: 1.0 / rate.max(1.0), bells: bells.clone() };
        let (step, clock) = (paced.step, Arc::clone(clock));
        let body = move || {
            let mut turns = bells.iter().cycle();
            let mut due = 0.0;
            loop {
                let now = clock.monotonic();
                if now > until {
                    // Those that still wait see that the time is over.
                    for bell in &bells {
                        bell.notify_one();
                    }
                    return;
                }
                let passed = now.saturating_sub(begun).as_secs_f64();
                while due <= passed {
                    if let Some(bell) = turns.next() {
                        bell.notify_one();
                    }
                    due += step;
                }
                std::thread::sleep(BENCH_PACE);
            }
        };
        std::thread::Builder::new()
            .name("pace".to_owned())
            .spawn(body)
            .context("cannot start a thread for the pace")?;
        Ok(paced)
    }

    /// The part of one connection: every so many-th request.
    pub(super) fn of(&self, connection: u64) -> Option<Pace> {
        let place = usize::try_from(connection).ok()?;
        let bell = Arc::clone(self.bells.get(place)?);
        let count = u32::try_from(self.bells.len()).unwrap_or(u32::MAX);
        let next = f64::from(u32::try_from(connection).ok()?) * self.step;
        Some(Pace { bell, begun: self.begun, until: self.until, next, step: self.step * f64::from(count) })
    }
}

impl Pace {
    /// Waits until the next request is due, and gives when that was; at once where it is late. `None`: it is over.
    pub(super) async fn due(&mut self, clock: &dyn Clock) -> Option<Duration> {
        let due = self.begun.saturating_add(Duration::from_secs_f64(self.next));
        self.next += self.step;
        loop {
            let now = clock.monotonic();
            if now > self.until || due > self.until {
                return None;
            }
            if now >= due {
                return Some(due);
            }
            self.bell.notified().await;
        }
    }
}
