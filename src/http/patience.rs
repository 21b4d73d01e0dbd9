//! Refusals at a pace. Whoever finds the queue full is told so at once, as long as these are few. When they are many, and come
//! back without the pause that they were told, each refusal waits for its turn: otherwise it takes its time from those who
//! are served. Whoever finds room by then is served after all.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use crate::domain::time::Clock;
use crate::ledger::Ledger;
use crate::limits::{REFUSAL_PAUSE, REFUSALS_A_SECOND, REFUSED_AT_ONCE};

/// When the next refusal would be due if all came evenly.
#[derive(Default)]
pub(super) struct Refusing {
    due: Mutex<Duration>,
}

impl Refusing {
    /// Whether there is room for an ordinary command, now or after a pause.
    pub(super) async fn has_room(&self, ledger: &Ledger, clock: &dyn Clock) -> bool {
        if !ledger.is_full() {
            return true;
        }
        let pause = self.pause(clock.monotonic());
        if pause.is_zero() {
            return false;
        }
        sleep(pause).await;
        !ledger.is_full()
    }

    /// Takes a turn, and says how long it is until then.
    fn pause(&self, now: Duration) -> Duration {
        let each = Duration::from_secs(1).checked_div(REFUSALS_A_SECOND).unwrap_or_default();
        let at_once = each.saturating_mul(REFUSED_AT_ONCE);
        let latest = now.saturating_add(at_once).saturating_add(REFUSAL_PAUSE);
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*due).max(now).min(latest);
        *due = turn.saturating_add(each);
        turn.saturating_sub(now).saturating_sub(at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::{REFUSAL_PAUSE, REFUSALS_A_SECOND, REFUSED_AT_ONCE, Refusing};
    use std::time::Duration;

    #[test]
    fn few_are_refused_at_once_and_many_at_a_pace() {
        // Broken: refusing a flood takes the processor from those who are served; or a single refusal is late. Must hold: no
        // more than so many a second are told, none waits longer than the bound, and a pause later all is as before.
        let refusing = Refusing::default();
        let now = Duration::from_secs(1_000);
        for _ in 0..=REFUSED_AT_ONCE {
            assert_eq!(refusing.pause(now), Duration::ZERO);
        }
        let second: Vec<Duration> = (0..REFUSALS_A_SECOND).map(|_| refusing.pause(now)).collect();
        assert!(second.is_sorted() && second[0] > Duration::ZERO);
        assert_eq!(*second.last().unwrap(), Duration::from_secs(1));
        let most = (0..100_000).map(|_| refusing.pause(now)).max();
        assert_eq!(most, Some(REFUSAL_PAUSE));
        assert_eq!(refusing.pause(now + 2 * REFUSAL_PAUSE), Duration::ZERO);
    }
}
