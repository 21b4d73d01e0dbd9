//! An operation id is parsed, and is not an acquisition.

use fencegate::domain::lease::AcquisitionId;
use fencegate::domain::operation::OperationId;

fn apply(_: &OperationId) {}

fn take(id: &AcquisitionId) {
    apply(id);
}

fn main() {
    apply("publish-1");
}
