//! Protocols that look right and are not: the search finds how each of them fails.

use fencegate::domain::policy::{Contract, Policy};
use fencegate::domain::upstream::Class;

use super::bounds::Bounds;
use super::bugs::Bug;
use super::search::search;
use super::worlds;

const ORDERED: Policy = Policy::Ordered { gapless: false };

/// The first story that breaks one of these rules.
fn fails(bounds: Bounds, bug: Bug, rules: &[&str]) {
    let bounds = bounds.with(bug);
    let met = search(&bounds);
    let (violation, steps) =
        met.failure.unwrap_or_else(|| panic!("{bug:?} is not found out in {} states", met.states));
    let story = format!("{bug:?} ({}): {}: {}", bounds.class.word(), violation.rule, violation.what);
    println!("{story}, after {steps:?}");
    assert!(rules.contains(&violation.rule), "{rules:?} were to be broken; {story}, after {steps:?}");
}

fn observed(class: Class) -> Bounds {
    Bounds::new(class, Policy::Single, Contract::Observed)
}

fn race(class: Class) -> Bounds {
    observed(class).put('a', 1, 1).put('b', 2, 2)
}

#[test]
fn check_then_send_lets_an_old_write_land_late() {
    fails(race(Class::Serial), Bug::Naive, &["I1"]);
}

#[test]
fn content_hashes_come_back_with_the_content() {
    let world = Bounds { before: Some(1), ..Bounds::new(Class::Conditional, ORDERED, Contract::Observed) };
    let world = world.ordered('a', 1, 3, 1).ordered('b', 2, 2, 1).ordered('c', 2, 1, 2);
    fails(Bounds { tasks: 3, attempts: 3, ..world }, Bug::ContentHash, &["I1"]);
}

#[test]
fn an_older_operation_may_still_come_when_a_newer_one_is_admitted() {
    for class in [Class::Conditional, Class::FenceAware] {
        fails(race(class), Bug::RefuseOlder, &["I4"]);
    }
}

#[test]
fn what_was_read_is_not_what_is_recorded() {
    fails(Bounds { attempts: 3, ..race(Class::Conditional) }, Bug::Unrecorded, &["I1"]);
}

#[test]
fn without_a_lane_an_old_write_lands_late() {
    for class in [Class::Idempotent, Class::Serial] {
        fails(race(class), Bug::NoLane, &["I1"]);
    }
    // At one position two effects of a fence-aware store come in any order.
    let world = Bounds::new(Class::FenceAware, Policy::Single, Contract::Observed);
    fails(world.put('a', 1, 1).put('b', 1, 2), Bug::NoLane, &["I14"]);
}

#[test]
fn not_found_is_not_the_end() {
    fails(race(Class::Idempotent), Bug::AbandonOnNotFound, &["I4"]);
}

#[test]
fn a_store_with_nothing_is_not_sent_to_again() {
    fails(race(Class::Serial), Bug::SerialResend, &["I2"]);
}

#[test]
fn a_store_with_nothing_is_not_given_up() {
    fails(race(Class::Serial), Bug::SerialGiveUp, &["I1"]);
}

#[test]
fn comparing_positions_alone_applies_twice() {
    fails(race(Class::FenceAware), Bug::NoDeduplication, &["I2"]);
}

#[test]
fn whoever_was_stopped_settles_only_its_own_attempt() {
    let world = Bounds { attempts: 3, not_sent: 1, tasks: 3, ..race(Class::Conditional).put('a', 2, 1) };
    fails(world, Bug::NoCompareAndSet, &["I3", "I4"]);
}

#[test]
fn an_announcement_that_is_made_again_is_another_one() {
    let world = observed(Class::FenceAware).put('a', 1, 1).put('a', 3, 1);
    let world = Bounds { attempts: 2, tasks: 3, refused: Some(422), not_sent: 1, ..world };
    fails(world.put('b', 2, 2), Bug::AnyAnnouncement, &["I4"]);
}

#[test]
fn a_refusal_says_nothing_of_an_earlier_attempt() {
    for class in [Class::FenceAware, Class::Idempotent] {
        let world = Bounds { refused: Some(422), ..race(class) };
        fails(world, Bug::RefusalAfterDoubt, &["I4"]);
    }
}

#[test]
fn an_owner_waits_for_its_barrier() {
    for class in Class::ALL {
        let world = Bounds::new(class, Policy::Single, Contract::Immediate);
        fails(Bounds { acquires: 2, ..world }.put('a', 1, 1), Bug::NoBarrier, &["I10"]);
    }
}

#[test]
fn a_cell_that_was_read_too_early_is_no_contradiction() {
    fails(Bounds { tasks: 3, ..race(Class::Conditional) }, Bug::StaleRead, &["quarantine"]);
}

#[test]
fn a_tripped_breaker_holds_everybody_up() {
    for class in Class::ALL {
        fails(worlds::restored(class), Bug::BreakerAdmits, &["breaker"]);
    }
}

#[test]
fn what_was_under_way_is_not_over_when_the_breaker_trips_or_an_epoch_begins() {
    for class in Class::ALL {
        for bug in [Bug::BreakerForgets, Bug::EpochForgets] {
            fails(worlds::restored(class), bug, &["I4"]);
        }
    }
}

#[test]
fn an_epoch_that_begins_nothing_lets_the_old_one_in() {
    for class in Class::ALL {
        // Somebody of the old epoch comes late.
        fails(worlds::restored(class).put('c', 2, 3), Bug::EpochNotRaised, &["I9"]);
    }
}

#[test]
fn a_record_that_goes_too_early_is_a_second_effect() {
    for class in [Class::Conditional, Class::Serial] {
        fails(worlds::forgetful(class), Bug::LivePruned, &["I2", "I4"]);
    }
}

#[test]
fn a_key_that_the_store_has_forgotten_is_not_sent_again() {
    fails(worlds::aged(Class::Idempotent), Bug::AgeUnknown, &["I2"]);
}

#[test]
fn whoever_was_told_in_time_does_not_send_when_the_key_is_forgotten() {
    fails(worlds::aged(Class::Idempotent), Bug::NoDeadline, &["I2"]);
}
