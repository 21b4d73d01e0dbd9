//! A length of time is not a point in time, and a bare number is neither.

use fencegate::domain::lease::Ttl;
use fencegate::domain::time::{Millis, Timestamp};

fn ends(now: Timestamp, ttl: Ttl) -> Timestamp {
    now.plus(ttl)
}

fn is_over(now: Timestamp, left: Millis) -> bool {
    now > left
}

fn main() {
    let _: Ttl = 30_000_u64;
}
