//! Gateways that are built wrongly: each must be found out within a number of seeds.

use fencegate::domain::policy::{Contract, Issuer, Policy};
use fencegate::domain::upstream::Class;

use super::events::Setup;

/// What is done wrongly. None of it is in the rules: it is in how they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Bug {
    /// After a loss the operator's act ends the breaker and begins no epoch.
    EpochNotRaised,
    /// An epoch is begun above the rows alone, whatever else is known of it.
    EpochForgotten,
    /// A recorded answer is given to whoever asks for it.
    ReplayBeforeAuthorisation,
    /// What was learnt settles whatever is under way by now.
    SettleWithoutCompare,
    /// An owner is told so before its barrier stands.
    BarrierSkipped,
    /// A new generation has to go on where the sequence of the one before ended.
    SequenceNotReset,
    /// A tripped breaker lets acquires through.
    BreakerLetsIssuing,
    /// Records go as soon as they are old, whether their generation lives or not.
    LivePruned,
    /// A commit without an outcome is answered as one that failed.
    UnknownIsFailed,
    /// The answer is given, and then the commit is made.
    AnswerBeforeCommit,
    /// Nobody notices that the database has gone back.
    LossUnnoticed,
    /// A busy lane holds nobody up.
    NoLane,
    /// What a store says it does not know is given up.
    AbandonOnNotFound,
    /// A doubt is answered as if nothing had happened.
    DoubtIsRefused,
    /// An acquire forgets to raise the floor.
    FloorNotRaised,
    /// Tombstones are folded, and nothing is kept of their counters.
    FoldForgetsBase,
    /// A store proves that the database has forgotten something, and nobody heeds it.
    StoreProofIgnored,
}

impl Bug {
    pub(super) const ALL: [Self; 17] = [
        Self::EpochNotRaised,
        Self::EpochForgotten,
        Self::ReplayBeforeAuthorisation,
        Self::SettleWithoutCompare,
        Self::BarrierSkipped,
        Self::SequenceNotReset,
        Self::BreakerLetsIssuing,
        Self::LivePruned,
        Self::UnknownIsFailed,
        Self::AnswerBeforeCommit,
        Self::LossUnnoticed,
        Self::NoLane,
        Self::AbandonOnNotFound,
        Self::DoubtIsRefused,
        Self::FloorNotRaised,
        Self::FoldForgetsBase,
        Self::StoreProofIgnored,
    ];

    /// Makes a world one in which this matters; the rest stays as it was drawn.
    pub(super) fn suits(self, setup: &mut Setup) {
        let gateway = |setup: &mut Setup| {
            setup.issuer = Issuer::Gateway;
            if setup.contract == Contract::Observed {
                setup.contract = Contract::Immediate;
            }
        };
        match self {
            Self::EpochNotRaised | Self::EpochForgotten | Self::LossUnnoticed | Self::BreakerLetsIssuing => {
                gateway(setup);
                setup.witness = true;
            }
            Self::FloorNotRaised | Self::FoldForgetsBase => {
                gateway(setup);
                setup.class = None;
            }
            Self::SequenceNotReset => setup.policy = Policy::Ordered { gapless: false },
            Self::BarrierSkipped => {
                gateway(setup);
                setup.class = setup.class.or(Some(Class::Conditional));
            }
            Self::LivePruned | Self::UnknownIsFailed | Self::AnswerBeforeCommit => setup.class = None,
            Self::NoLane => setup.class = Some(Class::Serial),
            Self::AbandonOnNotFound => setup.class = Some(Class::Idempotent),
            Self::SettleWithoutCompare => setup.class = Some(Class::Conditional),
            Self::DoubtIsRefused => {
                setup.class = setup.class.or(Some(Class::FenceAware));
            }
            Self::StoreProofIgnored => {
                setup.class = Some(Class::FenceAware);
                setup.witness = false;
            }
            Self::ReplayBeforeAuthorisation => {}
        }
    }
}
