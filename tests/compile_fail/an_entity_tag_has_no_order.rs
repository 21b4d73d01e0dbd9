//! Validators are compared for equality; which content is newer, the commit number says.

use fencegate::domain::precondition::EntityTag;

fn newer(one: EntityTag, other: EntityTag) -> bool {
    one > other
}

fn main() {}
