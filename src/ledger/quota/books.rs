//! What is committed, beside what batches under way add; and how a count of the database comes together with what is committed
//! while it goes on.
//!
//! The database is counted part by part. Of a change it is known whether the read of its part has seen it, unless its batch
//! and that read were under way at the same time. Such a change counts where it adds and does not where it takes away: so it
//! may count twice until the next count, and never not at all.

use std::collections::BTreeMap;

use crate::domain::quota::Usage;
use crate::domain::resource::{Namespace, ResourceName};

/// How many parts the database is counted in.
const PARTS: u64 = 256;

pub(super) type Sums = BTreeMap<Namespace, Usage>;

pub(super) fn add(sums: &mut Sums, namespace: &Namespace, change: Usage) {
    let sum = sums.entry(namespace.clone()).or_default();
    *sum = sum.and(change);
}

pub(super) fn sum_of(sums: &Sums, namespace: &Namespace) -> Usage {
    sums.get(namespace).copied().unwrap_or_default()
}

/// What one change adds to its namespace or takes away.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) namespace: Namespace,
    part: u8,
    pub(super) usage: Usage,
    /// Whether it is held against the quota.
    pub(super) counts: bool,
}

impl Step {
    pub(super) fn of(resource: &ResourceName, usage: Usage, counts: bool) -> Self {
        Self { namespace: resource.namespace(), part: resource.bucket().0, usage, counts }
    }
}

/// A moment between reads of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

#[derive(Debug)]
pub(super) struct Books {
    /// What is committed.
    pub(super) used: Sums,
    /// What batches that are under way add. A count of the database does not find it.
    pub(super) promised: Sums,
    /// Reads of parts, those of all counts one after the other: how many have begun, and how many have ended.
    begun: u64,
    ended: u64,
    /// The first read of the count that `used` comes from.
    counted_from: u64,
    counting: Option<Counting>,
}

/// A count under way: its first read, what it has found, and what was committed meanwhile and it may not have found.
#[derive(Debug)]
struct Counting {
    from: u64,
    sums: Sums,
}

impl Default for Books {
    /// As after the count of an empty database.
    fn default() -> Self {
        Self {
            used: Sums::new(),
            promised: Sums::new(),
            begun: PARTS,
            ended: PARTS,
            counted_from: 0,
            counting: None,
        }
    }
}

impl Books {
    /// Now: what a batch does that begins now no read has seen that has ended.
    pub(super) const fn now(&self) -> Moment {
        Moment(self.ended)
    }

    /// Takes in what a batch did that began at `since` and is committed.
    pub(super) fn take_in(&mut self, steps: &[Step], since: Moment) {
        for step in steps {
            let unseen = self.unseen(step, self.counted_from, since);
            add(&mut self.used, &step.namespace, unseen);
            let Some(from) = self.counting.as_ref().map(|counting| counting.from) else { continue };
            let unseen = self.unseen(step, from, since);
            if let Some(counting) = &mut self.counting {
                add(&mut counting.sums, &step.namespace, unseen);
            }
        }
    }

    /// What of a change a count does not find, or may not. Records of operations may be read with their own part or with the
    /// first one, as a database has them.
    fn unseen(&self, step: &Step, from: u64, since: Moment) -> Usage {
        let own = from.saturating_add(u64::from(step.part));
        let between = |first: u64| {
            if first >= self.begun {
                // It is still to be read.
                Usage::default()
            } else if own < since.0 {
                step.usage
            } else {
                step.usage.growth()
            }
        };
        Usage { operations: between(from).operations, ..between(own) }
    }

    /// A count begins. One that broke off is forgotten.
    pub(super) fn begin(&mut self) {
        self.ended = self.begun;
        self.counting = Some(Counting { from: self.begun, sums: Sums::new() });
    }

    /// The read of the next part begins.
    pub(super) const fn begin_part(&mut self) {
        self.begun = self.begun.saturating_add(1);
    }

    /// It has ended, and found this.
    pub(super) fn end_part(&mut self, found: &[(Namespace, Usage)]) {
        self.ended = self.begun;
        if let Some(counting) = &mut self.counting {
            for (namespace, usage) in found {
                add(&mut counting.sums, namespace, *usage);
            }
        }
    }

    /// All parts are read.
    pub(super) fn end(&mut self) {
        if let Some(Counting { from, sums }) = self.counting.take() {
            self.used = sums;
            self.counted_from = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When something happens, beside a count that reads the part in question in its middle.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum When {
        Before,
        Begun,
        ReadBegun,
        Seen,
        ReadEnded,
        LastRead,
        After,
    }

    const ALL: [When; 7] = [
        When::Before,
        When::Begun,
        When::ReadBegun,
        When::Seen,
        When::ReadEnded,
        When::LastRead,
        When::After,
    ];

    /// A batch that changes one thing: when it begins, when the database has it, and when the books hear of it.
    struct Batch {
        step: Step,
        begins: When,
        commits: When,
        is_heard_of: When,
        since: Option<Moment>,
        is_in_the_database: bool,
    }

    impl Batch {
        fn happens(&mut self, books: &mut Books, now: When) {
            if now == self.begins {
                self.since = Some(books.now());
            }
            self.is_in_the_database |= now == self.commits;
            if now == self.is_heard_of {
                books.take_in(std::slice::from_ref(&self.step), self.since.unwrap());
            }
        }
    }

    fn of(what: u8, number: i64) -> Usage {
        match what {
            0 => Usage { resources: number, ..Usage::default() },
            1 => Usage { operations: number, ..Usage::default() },
            _ => Usage { bytes: number, ..Usage::default() },
        }
    }

    /// Counts once. `all_at_first` is a database that reads everything with the first part.
    fn count(books: &mut Books, batch: &mut Batch, before: Usage, all_at_first: bool) {
        let namespace = batch.step.namespace.clone();
        batch.happens(books, When::Before);
        books.begin();
        batch.happens(books, When::Begun);
        for part in 0..=u8::MAX {
            books.begin_part();
            let is_own = part == batch.step.part;
            if is_own {
                batch.happens(books, When::ReadBegun);
            }
            let mut found = Vec::new();
            if if all_at_first { part == 0 } else { is_own } {
                let change = if batch.is_in_the_database { batch.step.usage } else { Usage::default() };
                found.push((namespace.clone(), before.and(change)));
            }
            if is_own {
                batch.happens(books, When::Seen);
            }
            if part == u8::MAX {
                batch.happens(books, When::LastRead);
            }
            books.end_part(&found);
            if is_own {
                batch.happens(books, When::ReadEnded);
            }
        }
        books.end();
        batch.happens(books, When::After);
    }

    fn times() -> impl Iterator<Item = (When, When, When)> {
        let from = |first: When| ALL.into_iter().filter(move |when| *when >= first);
        let rest = move |begins| {
            from(begins).flat_map(move |commits| from(commits).map(move |heard| (begins, commits, heard)))
        };
        ALL.into_iter().flat_map(rest)
    }

    /// Broken: what was removed while the database was counted is taken off twice, once by the count that has seen it and once
    /// by the books, so that a namespace at its quota may have as much again. Must hold: whenever a batch begins, commits and is
    /// heard of, there never counts less than there is; where no read overlaps with it, exactly that; and after the next
    /// count nothing counts twice any more.
    #[test]
    fn a_count_and_what_is_committed_meanwhile_never_make_less_than_there_is() {
        let resource = ResourceName::parse("jobs/a").unwrap();
        let jobs = resource.namespace();
        let here = |what: u8, number: i64, all_at_first: bool, (begins, commits, is_heard_of)| {
            let step = Step::of(&resource, of(what, number), true);
            assert!((1..u8::MAX).contains(&step.part), "a part in the middle");
            let mut batch =
                Batch { step, begins, commits, is_heard_of, since: None, is_in_the_database: false };
            let (mut books, before) = (Books::default(), of(what, 10));
            add(&mut books.used, &jobs, before);
            count(&mut books, &mut batch, before, all_at_first);
            let there = before.and(of(what, number));
            let more = sum_of(&books.used, &jobs).less(there);
            let text =
                format!("{what} {number} {all_at_first} {begins:?} {commits:?} {is_heard_of:?}: {more:?}");
            assert_eq!(more.growth(), more, "{text}");
            let is_apart = is_heard_of <= When::Begun || begins >= When::ReadEnded;
            if is_apart && what != 1 {
                assert_eq!(more, Usage::default(), "{text}");
            }
            let mut none =
                Batch { begins: When::Before, commits: When::Before, is_heard_of: When::Before, ..batch };
            none.step.usage = Usage::default();
            count(&mut books, &mut none, there, all_at_first);
            assert_eq!(sum_of(&books.used, &jobs), there, "{text}");
        };
        for times in times() {
            for number in [-10, 10] {
                for what in 0..=2 {
                    here(what, number, false, times);
                }
                here(1, number, true, times);
            }
        }
    }

    /// Broken: a count that could not be ended leaves its beginning behind, and the next one adds to it. Must hold: it is as if
    /// it had never begun.
    #[test]
    fn a_count_that_breaks_off_changes_nothing() {
        let resource = ResourceName::parse("jobs/a").unwrap();
        let mut books = Books::default();
        let since = books.now();
        books.begin();
        books.begin_part();
        books.end_part(&[(resource.namespace(), of(0, 7))]);
        books.begin_part();
        books.take_in(&[Step::of(&resource, of(0, 1), true)], since);
        assert_eq!(sum_of(&books.used, &resource.namespace()), of(0, 1));
        books.begin();
        for _ in 0..PARTS {
            books.begin_part();
            books.end_part(&[]);
        }
        books.end();
        assert_eq!(sum_of(&books.used, &resource.namespace()), Usage::default());
    }
}
