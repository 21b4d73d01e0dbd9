//! What nobody should ask, at any time: each is refused in its own words, and changes nothing.

use fencegate::domain::lease::AcquisitionHash;
use fencegate::domain::resource::Bucket;
use fencegate::protocol::command::Renew;
use fencegate::protocol::{Change, Command, Outcome, Refusal};

use super::bounds::Bounds;
use super::history::History;
use crate::support::world::{TTL_MS, acquire_by};

/// One such question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Odd {
    /// A request that was granted, told again by somebody else.
    OtherHolder { page: usize, request: u64 },
    /// A renewal of what was never granted.
    NobodysLease,
    /// An acquire for no time at all.
    NoTime,
    /// An acquire in a namespace that is not configured.
    Elsewhere,
}

impl Odd {
    /// Those that can come now.
    pub(super) fn all(history: &History) -> impl Iterator<Item = Self> {
        let granted = history.grants.iter().filter(|grant| grant.source.is_none());
        let other = granted.map(|grant| Self::OtherHolder { page: grant.page, request: grant.request });
        other.chain([Self::NobodysLease, Self::NoTime, Self::Elsewhere])
    }

    pub(super) fn command(self, bounds: &Bounds) -> Command {
        match self {
            Self::OtherHolder { page, request } => {
                acquire_by(bounds.pages[page], u128::from(request), "somebody", Some(TTL_MS))
            }
            Self::NobodysLease => {
                let acquisition = AcquisitionHash::from_bytes([0xEE; 32]);
                Command::Renew(Renew { bucket: Bucket(0), acquisition, ttl_ms: None })
            }
            Self::NoTime => acquire_by(bounds.pages[0], 1_000, "", Some(0)),
            Self::Elsewhere => acquire_by("elsewhere/a", 1_000, "", Some(TTL_MS)),
        }
    }

    pub(super) fn judge(self, outcome: &Outcome, changes: &[Change]) {
        let Some(refusal) = outcome.refusal() else { panic!("{self:?}: {outcome:?}") };
        let fits = match self {
            Self::OtherHolder { .. } => matches!(refusal, Refusal::RequestMismatch),
            Self::NobodysLease => matches!(refusal, Refusal::NoSuchLease),
            Self::NoTime => matches!(refusal, Refusal::TtlOutOfBounds(_)),
            Self::Elsewhere => matches!(refusal, Refusal::UnknownNamespace(_)),
        };
        assert!(fits, "{self:?}: {refusal:?}");
        assert_eq!(changes, [], "I19");
    }
}
