//! Positions: the order that fences.
//!
//! This is the only file that compares positions; everybody else calls the named questions below, so that "< or <="
//! is decided once (invariant 4 of the architecture).

use std::fmt;

use super::counter::{DecimalError, Epoch, Token};
use crate::deliberate::{self, Bug};

/// (epoch, token), compared lexicographically: the order of the fields *is* the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Order above tokens.
    pub epoch: Epoch,
    /// Ownership generation inside the epoch; zero only in bounds, never in a presented position.
    pub token: Token,
}

impl Position {
    /// Below every position that can be presented.
    pub const ZERO: Self = Self { epoch: Epoch::ZERO, token: Token::ZERO };

    /// A position.
    #[must_use]
    pub const fn new(epoch: Epoch, token: Token) -> Self {
        Self { epoch, token }
    }

    /// Reads `epoch.token`, as it is shown; never a bare token.
    ///
    /// # Errors
    /// [`TokenError`] names the part, the character and the reason.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let (epoch, token) = text.split_once('.').unwrap_or((text, ""));
        let epoch = Epoch::parse(epoch).map_err(TokenError::Epoch)?;
        let token = Token::parse(token).map_err(TokenError::Token)?;
        Ok(Self { epoch, token })
    }

    /// The lowest bound of an epoch: nothing of an older epoch reaches it.
    #[must_use]
    pub const fn start_of(epoch: Epoch) -> Self {
        Self { epoch, token: Token::ZERO }
    }

    /// Whether this position is older than `floor`: what is at the floor is admissible, what is below is not.
    #[must_use]
    pub fn is_below(self, floor: Self) -> bool {
        if deliberate::on(Bug::FloorItselfIsStale) {
            return self <= floor;
        }
        self < floor
    }

    /// Whether this position is newer than `mark`.
    #[must_use]
    pub fn is_above(self, mark: Self) -> bool {
        if deliberate::on(Bug::MarkItselfIsAbove) {
            return self >= mark;
        }
        self > mark
    }

    /// Whether this position falls under a revocation that reaches through `mark`, `mark` included.
    #[must_use]
    pub fn is_revoked_through(self, mark: Self) -> bool {
        if deliberate::on(Bug::RevokedItselfPasses) {
            return self < mark;
        }
        self <= mark
    }

    /// The higher of two positions.
    #[must_use]
    pub fn or_higher(self, other: Self) -> Self {
        self.max(other)
    }

    /// The position that follows this one when the gateway issues in `epoch`: the token goes on across epochs, so a
    /// token never restarts and a position belongs to one incarnation. `None` when tokens are used up.
    #[must_use]
    pub fn following_in(self, epoch: Epoch) -> Option<Self> {
        if deliberate::on(Bug::EpochResetsTheCounter) && epoch > self.epoch {
            return Some(Self { epoch, token: Token::ZERO.next()? });
        }
        self.token.next().map(|token| Self { epoch: epoch.max(self.epoch), token })
    }

    /// How far this position's token lies above `mark`'s inside one epoch; `None` across epochs or when not above.
    #[must_use]
    pub fn jump_from(self, mark: Self) -> Option<u64> {
        if self.epoch == mark.epoch { self.token.get().checked_sub(mark.token.get()) } else { None }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.token)
    }
}

/// A fencing token as a caller presented it: `epoch.token.seal`, `epoch.token`, or a bare `token` of epoch 0.
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedToken {
    /// The position that it names.
    pub position: Position,
    /// What stands behind the second dot. It may be wrong in any way: only [`super::seal`] judges it.
    pub seal: Option<String>,
    /// Whether the epoch was left out, which means epoch 0 for ever.
    pub bare: bool,
}

impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seal = if self.seal.is_some() { "sealed" } else { "unsealed" };
        write!(f, "PresentedToken({}, {seal})", self.position)
    }
}

/// Why a text is not a fencing token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The part before the first dot.
    #[error("the epoch is not a number: {0}")]
    Epoch(DecimalError),
    /// The counter.
    #[error("the token is not a number from 1 to 9223372036854775807: {0}")]
    Token(DecimalError),
}

impl PresentedToken {
    /// Reads `[epoch.]token[.seal]`. The seal is not looked at here: whether it is right is a question of the
    /// decision table, because a replay is answered without one.
    ///
    /// # Errors
    /// [`TokenError`] names the part, the character and the reason.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let mut parts = text.splitn(3, '.');
        let first = parts.next().unwrap_or_default();
        let Some(second) = parts.next() else {
            let token = Token::parse(first).map_err(TokenError::Token)?;
            return Ok(Self { position: Position::new(Epoch::ZERO, token), seal: None, bare: true });
        };
        let epoch = Epoch::parse(first).map_err(TokenError::Epoch)?;
        let token = Token::parse(second).map_err(TokenError::Token)?;
        let seal = parts.next().map(str::to_owned);
        Ok(Self { position: Position::new(epoch, token), seal, bare: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64, token: u64) -> Position {
        Position::new(Epoch::new(epoch).unwrap_or_default(), Token::new(token).unwrap_or_default())
    }

    #[test]
    fn the_epoch_outranks_the_token() {
        assert!(at(0, 900).is_below(at(1, 1)));
        assert!(at(1, 1).is_above(Position::start_of(Epoch::ONE)));
        assert!(!at(1, 1).is_below(at(1, 1)));
        assert!(at(1, 1).is_revoked_through(at(1, 1)));
        assert!(!at(1, 2).is_revoked_through(at(1, 1)));
    }

    #[test]
    fn an_epoch_advance_never_restarts_the_token() {
        assert_eq!(at(0, 108).following_in(Epoch::ONE), Some(at(1, 109)));
        assert_eq!(at(2, 108).following_in(Epoch::ONE), Some(at(2, 109)));
        assert_eq!(at(0, super::super::counter::MAX).following_in(Epoch::ZERO), None);
    }

    #[test]
    fn jumps_are_judged_inside_one_epoch() {
        assert_eq!(at(0, 12).jump_from(at(0, 10)), Some(2));
        assert_eq!(at(1, 12).jump_from(at(0, 10)), None);
    }

    #[test]
    fn a_bare_token_is_epoch_zero_and_a_seal_is_kept_as_it_came() {
        let bare = PresentedToken::parse("107");
        assert_eq!(bare, Ok(PresentedToken { position: at(0, 107), seal: None, bare: true }));
        let sealed = PresentedToken::parse("3.107.a.b c");
        assert_eq!(
            sealed,
            Ok(PresentedToken { position: at(3, 107), seal: Some("a.b c".into()), bare: false })
        );
        assert_eq!(PresentedToken::parse("0.0"), Err(TokenError::Token(DecimalError::Zero)));
        assert_eq!(PresentedToken::parse(".1"), Err(TokenError::Epoch(DecimalError::Empty)));
        assert_eq!(PresentedToken::parse("01.1"), Err(TokenError::Epoch(DecimalError::LeadingZero)));
    }
}
