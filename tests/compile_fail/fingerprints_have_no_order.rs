//! Two fingerprints are the same or they are not.

use fencegate::domain::operation::Fingerprint;

fn greater(one: Fingerprint, other: Fingerprint) -> bool {
    one > other
}

fn main() {}
