//! An acquisition says whose a lease is; which of two is newer, only their positions say.

use fencegate::domain::lease::AcquisitionId;

fn newer(one: &AcquisitionId, other: &AcquisitionId) -> bool {
    one < other
}

fn main() {}
