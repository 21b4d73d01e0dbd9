//! A plain number is no position, no token and no epoch; it has to be parsed.

use fencegate::domain::counter::{Epoch, Token};
use fencegate::domain::position::Position;

fn fence(floor: Position) -> bool {
    floor < 108_u64
}

fn main() {
    let _: Position = 108_u64;
    let _ = Position::new(0_u64, 108_u64);
    let _ = Position { epoch: Epoch::ZERO, token: 108_u64 };
    let _ = Token(108);
}
