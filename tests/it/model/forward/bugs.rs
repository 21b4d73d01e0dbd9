//! Steps done wrongly, as one might build them: each must be found out. They are wrong in the driver or in the store, on
//! top of what the rules say.

/// One wrong step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// Check, then send: nothing is announced.
    Naive,
    /// Old bytes bring their old validator back.
    ContentHash,
    /// The older operation is refused when a newer one is admitted.
    RefuseOlder,
    /// A send rests on what was read, not on what is recorded.
    Unrecorded,
    /// A busy lane holds nobody up.
    NoLane,
    /// What the store does not know of is given up.
    AbandonOnNotFound,
    /// What has nothing against a second effect is sent again.
    SerialResend,
    /// A doubt is answered, and the lane is free.
    SerialGiveUp,
    /// A fence-aware store that compares positions and forgets operations.
    NoDeduplication,
    /// Whoever learns something settles whatever is under way by now.
    NoCompareAndSet,
    /// The attempt is compared, but not whose announcement it is.
    AnyAnnouncement,
    /// A refusal ends an operation that was in doubt.
    RefusalAfterDoubt,
    /// An owner is told so before the barrier stands.
    NoBarrier,
    /// A tripped breaker holds nobody up.
    BreakerAdmits,
    /// What is under way when the breaker trips is thrown away.
    BreakerForgets,
    /// A new epoch ends the breaker, and begins nothing.
    EpochNotRaised,
    /// A new epoch drops what was under way in the old one.
    EpochForgets,
    /// Records go, whether their generation lives or not.
    LivePruned,
    /// Doubts are as young as ever, however long ago they came up.
    AgeUnknown,
    /// Whoever was told to send does so however late it is.
    NoDeadline,
    /// A cell that was read before the record moved on is judged by the record as it is now.
    StaleRead,
}
