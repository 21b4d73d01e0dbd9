//! Latencies, counted in buckets that grow with the value: 32 per power of two, so a quantile is off by at most 1.6 %.
//!
//! The longest latency is kept exactly, because a bound on stalls is about that single one.

use std::time::Duration;

/// Bits of a value that a bucket keeps.
const KEPT_BITS: u32 = 5;

/// Buckets per power of two.
const STEPS: u64 = 1 << KEPT_BITS;

/// The last power of two that has buckets of its own: 137 seconds in nanoseconds. Longer ones count there.
const LAST_POWER: u32 = 36;

/// A count per bucket.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u32>,
    total: u64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        let last = bucket_of(u64::MAX);
        Self { counts: vec![0; last.saturating_add(1)], total: 0, longest: Duration::ZERO }
    }
}

impl Histogram {
    /// Counts one.
    pub(super) fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket_of(ns)) {
            *count = count.saturating_add(1);
        }
        self.total = self.total.saturating_add(1);
        self.longest = self.longest.max(latency);
    }

    /// Adds all that another counted.
    pub(super) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.total = self.total.saturating_add(other.total);
        self.longest = self.longest.max(other.longest);
    }

    /// How many were counted.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// The longest, exactly.
    pub(super) const fn longest(&self) -> Duration {
        self.longest
    }

    /// The latency that so many of a thousand do not exceed.
    pub(super) fn quantile(&self, permille: u64) -> Duration {
        let rank = self.total.saturating_mul(permille).div_ceil(1_000).max(1);
        let mut seen = 0_u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(u64::from(*count));
            if seen >= rank {
                return Duration::from_nanos(middle_of(bucket)).min(self.longest);
            }
        }
        self.longest
    }
}

fn bucket_of(ns: u64) -> usize {
    let Some(power) = ns.checked_ilog2().filter(|power| *power >= KEPT_BITS) else {
        return usize::try_from(ns).unwrap_or_default();
    };
    let power = power.min(LAST_POWER);
    let shift = power.saturating_sub(KEPT_BITS);
    let step = (ns >> shift).min(STEPS.saturating_mul(2).saturating_sub(1));
    let bucket = u64::from(shift).saturating_mul(STEPS).saturating_add(step);
    usize::try_from(bucket).unwrap_or(usize::MAX)
}

/// The middle of the values that a bucket counts, in nanoseconds.
fn middle_of(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);
    if bucket < STEPS.saturating_mul(2) {
        return bucket;
    }
    let shift = (bucket / STEPS).saturating_sub(1);
    let step = (bucket % STEPS).saturating_add(STEPS);
    let width = 1_u64 << shift.min(63);
    step.saturating_mul(width).saturating_add(width / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_off_by_less_than_two_percent() {
        for value in [0_u64, 1, 31, 32, 63, 64, 65, 1_000, 123_456, 1_000_000, 987_654_321, 60_000_000_000] {
            let mut histogram = Histogram::default();
            histogram.record(Duration::from_nanos(value));
            histogram.record(Duration::from_secs(100));
            let found = u64::try_from(histogram.quantile(500).as_nanos()).unwrap();
            assert!(found.abs_diff(value) * 1_000 <= value * 16, "{value}: {found}");
        }
    }

    #[test]
    fn quantiles_and_the_longest_of_a_thousand() {
        let mut histogram = Histogram::default();
        for ms in 1..=1_000 {
            histogram.record(Duration::from_millis(ms));
        }
        assert_eq!((histogram.total(), histogram.longest()), (1_000, Duration::from_secs(1)));
        for (permille, ms) in [(500, 500.0), (900, 900.0), (990, 990.0)] {
            let found = histogram.quantile(permille).as_secs_f64() * 1_000.0;
            assert!((found - ms).abs() < ms * 0.02, "{permille}: {found}");
        }
    }

    #[test]
    fn two_together_are_as_one_that_saw_all() {
        let (mut one, mut other, mut all) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for us in 0..5_000 {
            let latency = Duration::from_micros(us * 7);
            all.record(latency);
            if us % 3 == 0 { &mut one } else { &mut other }.record(latency);
        }
        one.add(&other);
        assert_eq!(one.counts, all.counts);
        assert_eq!((one.total(), one.longest()), (all.total(), all.longest()));
    }

    #[test]
    fn nothing_is_lost_at_the_ends() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::from_secs(1_000_000));
        assert_eq!(histogram.counts.iter().sum::<u32>(), 2);
        assert_eq!(Histogram::default().quantile(500), Duration::ZERO);
    }
}
