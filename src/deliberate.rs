//! Bugs that are built in on purpose, each behind a switch, so that every layer of proof can be seen to fail.
//!
//! The switches exist in builds for tests only, by the feature `deliberate-bugs`. Without it [`on`] is a constant `false`,
//! the compiler takes the bugs out, and nothing here reads the environment. With it one variable names the one bug of a
//! process; no other file may read that variable. `docs/VERIFICATION.md` has the table of which layer kills which bug.

/// Makes the list: the bug, its name in the variable, and what it does.
macro_rules! bugs {
    ($($(#[doc = $what:literal])+ $bug:ident = $name:literal,)+) => {
        /// A bug that can be switched on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug {
            $($(#[doc = $what])+ $bug,)+
        }

        #[cfg(feature = "deliberate-bugs")]
        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$bug,)+];

            /// What the variable calls it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)+
                }
            }

            /// What it does.
            #[must_use]
            pub const fn what(self) -> &'static str {
                match self {
                    $(Self::$bug => concat!($($what,)+).trim_ascii(),)+
                }
            }
        }
    };
}

bugs! {
    /// `<=` for `<`: the owner at the floor is refused.
    FloorItselfIsStale = "floor-itself-is-stale",
    /// `>=` for `>`: what is at a mark counts as above it.
    MarkItselfIsAbove = "mark-itself-is-above",
    /// `<` for `<=`: the revoked position itself passes.
    RevokedItselfPasses = "revoked-itself-passes",
    /// `<` for `<=`: the same sequence passes twice.
    SameSequencePasses = "same-sequence-passes",
    /// `>=` for `>`: the next sequence is called a gap.
    NextSequenceIsAGap = "next-sequence-is-a-gap",
    /// `>=` for `>`: the current epoch counts as ahead.
    CurrentEpochIsAhead = "current-epoch-is-ahead",
    /// `>=` for `>`: the furthest jump that is allowed is refused.
    FurthestJumpIsRefused = "furthest-jump-is-refused",
    /// `>` for `>=`: a lease lives a millisecond too long.
    LeaseOutlivesItsEnd = "lease-outlives-its-end",
    /// `<=` for `<`: a lock delay holds others up a millisecond too long.
    LockDelayOutlivesItsEnd = "lock-delay-outlives-its-end",
    /// `<` for `<=`: the last position that was pruned is not called pruned.
    PrunedItselfIsKnown = "pruned-itself-is-known",
    /// An admission does not store the floor.
    FloorNotStored = "floor-not-stored",
    /// The record is looked up before the permission to write: whoever may read is let in, and gets the answer.
    ReplayBeforeAuthorisation = "replay-before-authorisation",
    /// A replay raises the floor to the position that it presents.
    ReplayRaisesTheFloor = "replay-raises-the-floor",
    /// The fingerprint leaves the target out.
    FingerprintWithoutTarget = "fingerprint-without-target",
    /// The effect is committed, and then the record of its operation is written.
    RecordAfterTheEffect = "record-after-the-effect",
    /// A refused operation is bound to its id.
    RefusedOperationIsBound = "refused-operation-is-bound",
    /// The counter lives with the lease: where that has ended it begins anew.
    CounterOnTheLease = "counter-on-the-lease",
    /// Compaction removes a tombstone, and the base of its namespace stays where it was.
    TombstoneRemoved = "tombstone-removed",
    /// A new generation has to go on where the sequence of the one before ended.
    SequenceNotReset = "sequence-not-reset",
    /// A new generation's effect keeps the higher sequence of the old one.
    SequenceKept = "sequence-kept",
    /// A renewal goes to whoever owns the resource, whatever acquisition it names.
    RenewWithoutComparing = "renew-without-comparing",
    /// A renewal brings an ended lease back.
    RenewReCreates = "renew-re-creates",
    /// The sweeper ends what it found expired, without looking again.
    SweeperWithoutItsCondition = "sweeper-without-its-condition",
    /// PostgreSQL: the time at which the transaction began, for the time after the wait for its rows.
    TimeOfTheTransaction = "time-of-the-transaction",
    /// A waiter is granted the lease after its client has left.
    GrantedAfterItLeft = "granted-after-it-left",
    /// A batch makes the members that pass, and refuses the others.
    BatchMemberByMember = "batch-member-by-member",
    /// Answers are given whatever becomes of the commit.
    AnswerBeforeTheCommit = "answer-before-the-commit",
    /// SQLite: a commit returns before the log is synced (`synchronous = NORMAL`).
    SynchronousNormal = "synchronous-normal",
    /// The client to stores sends again what may have been sent.
    UpstreamRetries = "upstream-retries",
    /// What a store says it does not know is given up.
    AbandonOnNotFound = "abandon-on-not-found",
    /// The older undecided operation is called without effect when a newer one is admitted.
    RefuseTheOlder = "refuse-the-older",
    /// A send rests on the validator that was read, before the operation that left it is recorded.
    SendOnTheUnrecorded = "send-on-the-unrecorded",
    /// The probe takes a store whose validators come back with the content.
    ContentHashAccepted = "content-hash-accepted",
    /// A cancel or revoke is called complete while an effect is under way in the lane.
    LaneIgnoredOnCancel = "lane-ignored-on-cancel",
    /// One mutating route has no fence: an advance may come from below the floor.
    RouteWithoutTheFence = "route-without-the-fence",
    /// The handler awaits the database itself: when its client leaves, the transaction is left half way.
    HandlerAwaitsTheDatabase = "handler-awaits-the-database",
    /// A tripped breaker lets acquires through.
    BreakerLetsIssuingGoOn = "breaker-lets-issuing-go-on",
    /// A new epoch begins with token 1.
    EpochResetsTheCounter = "epoch-resets-the-counter",
    /// Records are pruned as soon as they are old, whether their generation lives or not.
    PruneOfTheLive = "prune-of-the-live",
}

pub use switch::{carried, chosen, on};

#[cfg(not(feature = "deliberate-bugs"))]
mod switch {
    use super::Bug;

    /// Whether this bug is switched on: never, in a build that people run.
    #[must_use]
    #[inline]
    pub const fn on(_: Bug) -> bool {
        false
    }

    /// The bug of this process with what it does: there is none.
    #[must_use]
    pub const fn chosen() -> Option<(&'static str, &'static str)> {
        None
    }

    /// The variable that names it: there is none.
    #[must_use]
    pub const fn carried() -> Option<(&'static str, &'static str)> {
        None
    }
}

#[cfg(feature = "deliberate-bugs")]
mod switch {
    use std::io::Write as _;
    use std::sync::LazyLock;

    use super::Bug;

    /// Names the bug of this process.
    const VARIABLE: &str = "FENCEGATE_DELIBERATE_BUG";

    static CHOSEN: LazyLock<Option<Bug>> = LazyLock::new(named);

    /// Whether this bug is switched on.
    #[must_use]
    pub fn on(bug: Bug) -> bool {
        *CHOSEN == Some(bug)
    }

    /// The bug of this process with what it does.
    #[must_use]
    pub fn chosen() -> Option<(&'static str, &'static str)> {
        CHOSEN.map(|bug| (bug.name(), bug.what()))
    }

    /// The variable that names it, for a gateway that is started without the variables of this process.
    #[must_use]
    pub fn carried() -> Option<(&'static str, &'static str)> {
        CHOSEN.map(|bug| (VARIABLE, bug.name()))
    }

    fn named() -> Option<Bug> {
        let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty())?;
        let found = Bug::ALL.iter().find(|bug| name == bug.name());
        if found.is_none() {
            unknown(&name.to_string_lossy());
        }
        found.copied()
    }

    /// A name with a slip in it would switch on nothing, and every test would pass.
    fn unknown(name: &str) -> ! {
        let known: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        let text =
            format!("{VARIABLE}: there is no deliberate bug {name:?}; there are {}\n", known.join(", "));
        // Not by a macro: in a test these keep their text to themselves until the test ends, which it does not.
        drop(std::io::stderr().write_all(text.as_bytes()));
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "it is asked for in the middle of anything, and only in builds for tests"
        )]
        std::process::exit(2)
    }
}
