//! Quotas: how much of the records one namespace may make.

/// How much a namespace may have; none for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Resources that were heard of, tombstones included.
    pub resources: Option<u64>,
    /// Records of operations, announced ones included.
    pub operations: Option<u64>,
    /// Bytes of documents as they stand.
    pub bytes: Option<u64>,
}

/// How much a namespace has, or how much something adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Resources.
    pub resources: i64,
    /// Records of operations.
    pub operations: i64,
    /// Bytes of documents.
    pub bytes: i64,
}

/// What a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metered {
    /// Resources.
    Resources,
    /// Records of operations.
    Operations,
    /// Bytes of documents.
    Bytes,
}

impl Metered {
    /// What is counted, for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Operations => "operations",
            Self::Bytes => "bytes",
        }
    }
}

impl Usage {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            resources: self.resources.saturating_add(other.resources),
            operations: self.operations.saturating_add(other.operations),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// What of it adds.
    #[must_use]
    pub fn growth(self) -> Self {
        Self {
            resources: self.resources.max(0),
            operations: self.operations.max(0),
            bytes: self.bytes.max(0),
        }
    }

    /// What is left of this without the other.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self {
            resources: self.resources.saturating_sub(other.resources),
            operations: self.operations.saturating_sub(other.operations),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

impl Quota {
    /// The first bound that `added` would pass where so much is used already. What adds nothing passes no bound, however
    /// far above it a namespace stands: a quota that was lowered takes nothing away.
    #[must_use]
    pub fn passed(&self, used: Usage, added: Usage) -> Option<(Metered, u64)> {
        let bounds = [
            (Metered::Resources, self.resources, used.resources, added.resources),
            (Metered::Operations, self.operations, used.operations, added.operations),
            (Metered::Bytes, self.bytes, used.bytes, added.bytes),
        ];
        bounds.into_iter().find_map(|(what, bound, used, added)| {
            let bound = bound?;
            let most = i64::try_from(bound).unwrap_or(i64::MAX);
            (added > 0 && used.saturating_add(added) > most).then_some((what, bound))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(resources: i64, operations: i64, bytes: i64) -> Usage {
        Usage { resources, operations, bytes }
    }

    #[test]
    fn the_last_one_fits_and_the_next_does_not() {
        let quota = Quota { resources: Some(2), operations: None, bytes: Some(10) };
        assert_eq!(quota.passed(usage(1, 9, 5), usage(1, 1, 5)), None);
        assert_eq!(quota.passed(usage(2, 9, 5), usage(1, 1, 0)), Some((Metered::Resources, 2)));
        assert_eq!(quota.passed(usage(0, 9, 5), usage(0, 1, 6)), Some((Metered::Bytes, 10)));
    }

    #[test]
    fn what_goes_away_is_no_growth() {
        assert_eq!(usage(1, -2, 3).growth(), usage(1, 0, 3));
        assert_eq!(usage(-1, 2, -3).growth(), usage(0, 2, 0));
    }

    #[test]
    fn what_is_used_is_added_up_each_by_itself() {
        // Broken: bytes of one request count as operations of the next. Must hold: each with its like, to the end of the range.
        let both = usage(1, 20, 300).and(usage(4, 50, 600));
        assert_eq!(both, usage(5, 70, 900));
        assert_eq!(both.less(usage(4, 50, 600)), usage(1, 20, 300));
        assert_eq!(usage(i64::MAX, 0, 0).and(usage(1, 0, 0)), usage(i64::MAX, 0, 0));
    }

    #[test]
    fn what_adds_nothing_is_let_through_above_the_bound() {
        let quota = Quota { resources: Some(2), operations: Some(0), bytes: Some(10) };
        assert_eq!(quota.passed(usage(7, 7, 70), usage(0, 0, -3)), None);
    }
}
