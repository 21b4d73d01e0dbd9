//! Nor has what the database knows of an acquisition an order.

use fencegate::domain::lease::{AcquisitionHash, AcquisitionTag};

fn newer(one: AcquisitionHash, other: AcquisitionHash) -> bool {
    one < other
}

fn newer_tag(one: AcquisitionTag, other: AcquisitionTag) -> bool {
    one > other
}

fn main() {}
