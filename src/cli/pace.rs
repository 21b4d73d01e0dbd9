//! Waiting: until an instant of the clock that counts sleep, and for a moment that differs from caller to caller.

use std::time::Duration;

use tokio::time::sleep;

use crate::app::{OsEntropy, WakefulClock};
use crate::domain::entropy::Entropy as _;
use crate::limits::{RUN_PAUSE_LEAST, RUN_PULSE};

/// Waits until the clock shows `instant`. A timer alone would oversleep by as long as the machine slept.
pub(super) async fn reaches(clock: &WakefulClock, instant: Duration) {
    loop {
        let left = instant.saturating_sub(clock.elapsed());
        if left.is_zero() {
            return;
        }
        sleep(left.min(RUN_PULSE)).await;
    }
}

/// A moment of at most `most`, drawn anew each time, so that those who failed together do not come back together.
pub(super) fn jittered(most: Duration) -> Duration {
    let drawn = OsEntropy.draw().unwrap_or_default();
    let (first, _) = drawn.split_at(8);
    between(RUN_PAUSE_LEAST, most, u64::from_be_bytes(first.try_into().unwrap_or_default()))
}

fn between(least: Duration, most: Duration, chance: u64) -> Duration {
    let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
    let more = chance.checked_rem(span.saturating_add(1)).unwrap_or_default();
    least.saturating_add(Duration::from_millis(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lies_between_its_bounds() {
        let (least, most) = (Duration::from_millis(50), Duration::from_secs(1));
        assert_eq!(between(least, most, 0), least);
        assert_eq!(between(least, most, 950), most);
        assert_eq!(between(least, most, 951), least);
        assert_eq!(between(least, Duration::ZERO, 7), least);
    }
}
