//! The secret of a key leaves it only as a whole line for a key file.

use fencegate::domain::seal::SealKey;

fn leak(key: &SealKey) -> u8 {
    key.secret[0]
}

fn main() {}
