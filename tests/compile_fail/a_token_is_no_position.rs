//! A token without its epoch is not compared with a floor.

use fencegate::domain::counter::Token;
use fencegate::domain::position::Position;

fn is_stale(token: Token, floor: Position) -> bool {
    token < floor
}

fn main() {}
