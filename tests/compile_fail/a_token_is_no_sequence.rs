//! A token orders generations, a sequence orders writes inside one.

use fencegate::domain::counter::{CommitNo, Epoch, Incarnation, Sequence, Token};

fn follow(token: Token) -> Sequence {
    token
}

fn is_newer(token: Token, sequence: Sequence) -> bool {
    token > sequence
}

fn in_epoch(incarnation: Incarnation) -> Epoch {
    incarnation
}

fn version(commit: CommitNo) -> Sequence {
    commit
}

fn main() {}
