//! Time as an argument.
//!
//! The core never reads a clock: an engine reads one after the row locks are held and passes `now` in. [`Clock`] is
//! what the shell must supply; the system's stands in `app`, a hand-moved one in the tests.

use std::time::Duration;

/// Milliseconds since 1970-01-01T00:00:00Z, by the database's effective clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant that many milliseconds after 1970 began.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970 began.
    #[must_use]
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// This instant plus a length of time; stops at the end of the range.
    #[must_use]
    pub const fn plus(self, length: Millis) -> Self {
        Self(self.0.saturating_add_unsigned(length.0))
    }

    /// This instant less a length of time; stops at the beginning of the range.
    #[must_use]
    pub const fn less(self, length: Millis) -> Self {
        Self(self.0.saturating_sub_unsigned(length.0))
    }

    /// What is left until `later`; zero when it has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Millis {
        Millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or_default())
    }
}

/// A length of time in integer milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(u64);

impl Millis {
    /// That many milliseconds.
    #[must_use]
    pub const fn new(ms: u64) -> Self {
        Self(ms)
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// A standard duration in whole milliseconds; what is below one is left out.
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// This length less another; zero where that is longer.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// So many times this length; stops at the end of the range.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// The same as a standard duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// Where time comes from. Only an engine asks, and only after it holds the rows.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, in milliseconds since 1970 began. It may jump.
    fn wall(&self) -> Timestamp;

    /// Time since some fixed instant of this process. It never goes back.
    fn monotonic(&self) -> Duration;
}

/// The wall clock held monotone: it never goes back, it goes on at least as fast as the monotonic clock, and it
/// follows the wall clock forward. A lease can so end early after a forward jump, which is the safe side, and is never
/// stretched by a backward one.
#[derive(Debug, Clone, Copy)]
pub struct EffectiveTime {
    last: Timestamp,
    seen: Duration,
}

impl EffectiveTime {
    /// Starts no earlier than `recorded`, the last effective time that the database remembers.
    #[must_use]
    pub fn starting_at(recorded: Timestamp, clock: &dyn Clock) -> Self {
        Self { last: recorded.max(clock.wall()), seen: clock.monotonic() }
    }

    /// The effective time now.
    pub fn read(&mut self, clock: &dyn Clock) -> Timestamp {
        let monotonic = clock.monotonic();
        let gone = monotonic.saturating_sub(self.seen);
        let gone_ms = u64::try_from(gone.as_millis()).unwrap_or(u64::MAX);
        // The part below a millisecond stays in `seen`, so that frequent readings do not slow the clock down.
        self.seen = self.seen.saturating_add(Duration::from_millis(gone_ms));
        self.last = self.last.plus(Millis::new(gone_ms)).max(clock.wall());
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Hands(Mutex<(i64, u64)>);

    impl Hands {
        fn set(&self, wall: i64, monotonic_us: u64) {
            if let Ok(mut hands) = self.0.lock() {
                *hands = (wall, monotonic_us);
            }
        }
    }

    impl Clock for Hands {
        fn wall(&self) -> Timestamp {
            Timestamp::from_ms(self.0.lock().map(|hands| hands.0).unwrap_or_default())
        }
        fn monotonic(&self) -> Duration {
            Duration::from_micros(self.0.lock().map(|hands| hands.1).unwrap_or_default())
        }
    }

    #[test]
    fn lengths_and_instants_stop_at_their_ends() {
        // Broken: a sum wraps, and what should be kept for ever is forgotten at once. Must hold: plain sums, and the end of
        // the range where they would leave it.
        let (at, ms) = (Timestamp::from_ms, Millis::new);
        assert_eq!((at(1_000).plus(ms(5)), at(1_000).less(ms(5))), (at(1_005), at(995)));
        assert_eq!((at(i64::MAX).plus(ms(1)), at(i64::MIN).less(ms(1))), (at(i64::MAX), at(i64::MIN)));
        assert_eq!((at(3).until(at(10)), at(10).until(at(3))), (ms(7), ms(0)));
        assert_eq!((ms(7).less(ms(3)), ms(3).less(ms(7)), ms(7).times(3)), (ms(4), ms(0), ms(21)));
        assert_eq!(ms(u64::MAX).times(2), ms(u64::MAX));
        assert_eq!(Millis::of(Duration::from_micros(7_999)), ms(7));
        assert_eq!((ms(7).duration(), at(-5).ms()), (Duration::from_millis(7), -5));
    }

    #[test]
    fn a_backward_jump_of_the_wall_clock_does_not_stretch_a_lease() {
        let hands = Hands(Mutex::new((10_000, 0)));
        let mut time = EffectiveTime::starting_at(Timestamp::from_ms(0), &hands);
        hands.set(4_000, 500_000);
        assert_eq!(time.read(&hands), Timestamp::from_ms(10_500));
        hands.set(20_000, 600_000);
        assert_eq!(time.read(&hands), Timestamp::from_ms(20_000));
        hands.set(5_000, 700_000);
        assert_eq!(time.read(&hands), Timestamp::from_ms(20_100));
    }

    #[test]
    fn a_restart_under_an_older_wall_clock_goes_on_from_the_recorded_time() {
        let hands = Hands(Mutex::new((1_000, 0)));
        let mut time = EffectiveTime::starting_at(Timestamp::from_ms(90_000), &hands);
        hands.set(1_500, 250_000);
        assert_eq!(time.read(&hands), Timestamp::from_ms(90_250));
    }

    #[test]
    fn many_readings_within_a_millisecond_lose_no_time() {
        let hands = Hands(Mutex::new((0, 0)));
        let mut time = EffectiveTime::starting_at(Timestamp::from_ms(0), &hands);
        for step in 1..=10_000_u64 {
            hands.set(0, step * 100);
            time.read(&hands);
        }
        assert_eq!(time.read(&hands), Timestamp::from_ms(1_000));
    }
}
