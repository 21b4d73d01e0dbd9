//! Numbers and positions: one spelling each, and an order that no spelling changes.

use fencegate::domain::counter::{
    CommitNo, Epoch, Incarnation, LedgerSeq, MAX, Sequence, Token, parse_decimal,
};
use fencegate::domain::position::{Position, PresentedToken};

use super::{Met, Target, cut, text};

pub(super) const TARGET: Target = Target {
    name: "positions",
    run,
    longest: 128,
    words: &[
        "0",
        "1",
        "9",
        ".",
        "..",
        "00",
        "+",
        "-",
        " ",
        "_",
        "e",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "\u{0663}",
        "\u{ff11}",
        "\0",
        "0.1",
        "1.107",
        ".seal",
    ],
    meets: &[
        "number read",
        "number refused",
        "token read",
        "token refused",
        "sealed",
        "bare",
        "position read",
        "two positions",
    ],
};

/// One text, or two with a line break between.
fn run(data: &[u8], met: &mut Met) {
    let (one, other) = cut(data, b'\n');
    let (Some(one), Some(other)) = (text(one), text(other)) else { return met.note("no text") };
    numbers(one, met);
    let (one, other) = (position(one, met), position(other, met));
    if let (Some(one), Some(other)) = (one, other) {
        met.note("two positions");
        in_order(one, other);
    }
}

fn numbers(text: &str, met: &mut Met) {
    let number = parse_decimal(text);
    met.read("number", &number);
    if let Ok(number) = number {
        assert!(number <= MAX && number.to_string() == text, "one number has one spelling");
    }
    let value = number.ok();
    assert_eq!(Epoch::parse(text).ok().map(Epoch::get), value);
    assert_eq!(CommitNo::parse(text).ok().map(CommitNo::get), value);
    assert_eq!(LedgerSeq::parse(text).ok().map(LedgerSeq::get), value);
    let counted = value.filter(|number| *number > 0);
    assert_eq!(Token::parse(text).ok().map(Token::get), counted);
    assert_eq!(Sequence::parse(text).ok().map(Sequence::get), counted);
    assert_eq!(Incarnation::parse(text).ok().map(Incarnation::get), counted);
}

fn position(text: &str, met: &mut Met) -> Option<Position> {
    let token = PresentedToken::parse(text);
    met.read("token", &token);
    if let Ok(token) = &token {
        let spelt = match &token.seal {
            Some(seal) => format!("{}.{seal}", token.position),
            None if token.bare => token.position.token.to_string(),
            None => token.position.to_string(),
        };
        assert_eq!(spelt, text, "a token is read as it was meant");
        assert!(!token.bare || token.position.epoch == Epoch::ZERO, "a bare token is one of epoch 0");
        assert_eq!(PresentedToken::parse(&spelt).as_ref(), Ok(token));
        met.note(if token.seal.is_some() {
            "sealed"
        } else if token.bare {
            "bare"
        } else {
            "unsealed"
        });
    }
    let position = Position::parse(text);
    met.read("position", &position);
    let plain = token.ok().filter(|token| !token.bare && token.seal.is_none()).map(|token| token.position);
    assert_eq!(
        position.clone().ok(),
        plain,
        "a position is a token with nothing left out and nothing behind"
    );
    let position = position.ok()?;
    assert_eq!(position.to_string(), text);
    Some(position)
}

/// The order that fences is that of (epoch, token), whatever the texts look like.
fn in_order(one: Position, other: Position) {
    let key = |position: Position| (position.epoch.get(), position.token.get());
    let (a, b) = (key(one), key(other));
    assert_eq!(one.is_below(other), a < b);
    assert_eq!(one.is_above(other), a > b);
    assert_eq!(one.is_revoked_through(other), a <= b);
    assert_eq!(key(one.or_higher(other)), a.max(b));
    assert_eq!(one.jump_from(other), (a.0 == b.0).then(|| a.1.checked_sub(b.1)).flatten());
    if let Some(next) = one.following_in(other.epoch) {
        assert!(next.is_above(one) && next.epoch >= other.epoch, "what is issued next is above");
    } else {
        assert_eq!(one.token.get(), MAX);
    }
}
