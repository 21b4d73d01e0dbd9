//! What is counted in: atomics alone. Nothing here takes a lock or allocates once it is made, so that a request may count
//! wherever it is.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Something that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many so far.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Something that rises and falls.
#[derive(Debug, Default)]
pub struct Level(AtomicI64);

impl Level {
    /// One more, until what this gives back is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(self)
    }

    /// So many now.
    pub fn set(&self, now: usize) {
        self.0.store(i64::try_from(now).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// This figure now.
    pub fn put(&self, now: i64) {
        self.0.store(now, Ordering::Relaxed);
    }

    /// How many now.
    #[must_use]
    pub fn read(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One of those that a [`Level`] counts.
#[derive(Debug)]
pub struct Held<'l>(&'l Level);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a histogram counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Lengths of time; bounds and sum are in nanoseconds.
    Time,
    /// Plain numbers.
    Things,
}

/// How often a figure was how large.
#[derive(Debug)]
pub struct Histogram {
    of: Of,
    bounds: &'static [u64],
    /// One for each bound, and one for what is above the last.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Of lengths of time, with bounds in nanoseconds.
    #[must_use]
    pub fn of_time(bounds: &'static [u64]) -> Self {
        Self::new(Of::Time, bounds)
    }

    /// Of plain numbers.
    #[must_use]
    pub fn of_things(bounds: &'static [u64]) -> Self {
        Self::new(Of::Things, bounds)
    }

    fn new(of: Of, bounds: &'static [u64]) -> Self {
        let counts =
            std::iter::repeat_with(AtomicU64::default).take(bounds.len().saturating_add(1)).collect();
        Self { of, bounds, counts, sum: AtomicU64::default() }
    }

    /// Adds a length of time.
    pub fn took(&self, length: Duration) {
        self.add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds a number.
    pub fn saw(&self, number: usize) {
        self.add(u64::try_from(number).unwrap_or(u64::MAX));
    }

    fn add(&self, figure: u64) {
        let at = self.bounds.partition_point(|bound| *bound < figure);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(figure, Ordering::Relaxed);
    }

    /// The sum, the number of figures, and how many lie between each bound and the one before it.
    #[must_use]
    pub fn read(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let ends = self.bounds.iter().map(|bound| self.shown(*bound)).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = ends.zip(counts).collect();
        // From the buckets, so that the two never contradict each other.
        let number = buckets.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        (self.shown(self.sum.load(Ordering::Relaxed)), number, buckets)
    }

    fn shown(&self, figure: u64) -> f64 {
        match self.of {
            Of::Time => Duration::from_nanos(figure).as_secs_f64(),
            // The exact way from a u64 to the nearest f64 that needs no cast.
            Of::Things => Duration::from_secs(figure).as_secs_f64(),
        }
    }
}

/// A count for each of a few words. Which words there are the program knows and no request: each gets its place when it is
/// first counted, and beyond the places they share one.
#[derive(Debug)]
pub struct Tally<K> {
    places: Box<[(OnceLock<K>, Count)]>,
    rest: Count,
}

impl<K: Copy + Eq> Tally<K> {
    /// With places for so many words.
    #[must_use]
    pub fn with(places: usize) -> Self {
        let places = std::iter::repeat_with(|| (OnceLock::new(), Count::default())).take(places).collect();
        Self { places, rest: Count::default() }
    }

    /// With these words from the beginning, and no place for others: nobody can be warned of the first one of something in
    /// a series that is not there before.
    #[must_use]
    pub fn beginning_with(words: &[K]) -> Self {
        let tally = Self::with(words.len());
        for word in words {
            let _there = tally.of(*word);
        }
        tally
    }

    /// The count of a word.
    pub fn of(&self, word: K) -> &Count {
        let found = self.places.iter().find(|(key, _)| *key.get_or_init(|| word) == word);
        found.map_or(&self.rest, |(_, count)| count)
    }

    /// The words that were counted, and how often.
    pub fn each(&self) -> impl Iterator<Item = (K, u64)> {
        self.places.iter().filter_map(|(key, count)| Some((*key.get()?, count.read())))
    }

    /// How often words were counted that found no place.
    #[must_use]
    pub fn rest(&self) -> u64 {
        self.rest.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broken: a figure on a bound that counts above it, or a sum that forgets. Must hold: `le` means "less or equal", and
    /// what is above every bound stands in the last bucket alone.
    #[test]
    fn a_figure_on_a_bound_counts_below_it() {
        let sizes = Histogram::of_things(&[1, 4]);
        for size in [1, 2, 4, 5] {
            sizes.saw(size);
        }
        let (sum, number, buckets) = sizes.read();
        assert_eq!((sum, number), (12.0, 4));
        assert_eq!(buckets, [(1.0, 1), (4.0, 2), (f64::INFINITY, 1)]);
        let times = Histogram::of_time(&[1_000_000]);
        times.took(Duration::from_millis(1));
        assert_eq!(times.read(), (0.001, 1, vec![(0.001, 1), (f64::INFINITY, 0)]));
    }

    /// Broken: a word more than there are places makes the list grow, or is counted as another. Must hold: it is counted
    /// with the rest.
    #[test]
    fn words_beyond_the_places_share_one() {
        let tally = Tally::with(2);
        for word in ["a", "b", "a", "c", "d"] {
            tally.of(word).one();
        }
        assert_eq!(tally.each().collect::<Vec<_>>(), [("a", 2), ("b", 1)]);
        assert_eq!(tally.rest(), 2);
    }
}
