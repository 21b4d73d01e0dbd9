//! The worlds that are searched, per class. In each, deliveries come in any order or not at all; every operation may be
//! taken up by a second process at any time, while the first one is stopped or dead.

use fencegate::domain::policy::{Contract, Policy};
use fencegate::domain::upstream::Class;

use super::super::verdicts;
use super::bounds::{Bounds, EPOCH};
use super::search::search;
use super::store::OF_THE_REQUEST;

const ORDERED: Policy = Policy::Ordered { gapless: false };

/// Searches a world and asserts that no rule is broken in it.
fn holds(name: &str, bounds: &Bounds) {
    let met = search(bounds);
    let (states, transitions, depth, healed) = (met.states, met.transitions, met.depth, met.healed);
    println!(
        "{}: {name}: {states} states, {transitions} transitions, depth {depth}, healed from {healed}",
        bounds.class.word()
    );
    let words = bounds.met.borrow().clone();
    verdicts::met(&format!("stores: {name}"), states, transitions, words.into_iter());
    if let Some((violation, steps)) = met.failure {
        let (class, what) = (bounds.class.word(), violation.what);
        panic!("{class}: {name}: {}: {what} after {steps:#?}", violation.rule);
    }
}

/// Two owners without barriers; the second one also repeats what the first one may have done.
fn race(class: Class, policy: Policy) -> Bounds {
    Bounds::new(class, policy, Contract::Observed).put('a', 1, 1).put('a', 2, 1).put('b', 2, 2)
}

/// A cell is read before the first attempt that sends, so it takes one more until the second one sends.
fn longer(world: Bounds) -> Bounds {
    Bounds { attempts: world.attempts + 1, ..world }
}

/// The first owner is followed by a second one that has to wait for its barrier.
fn hand_over(class: Class) -> Bounds {
    let world = Bounds::new(class, ORDERED, Contract::Immediate);
    Bounds { acquires: 2, ..world }.ordered('a', 1, 1, 1).ordered('a', 2, 1, 1).ordered('b', 2, 2, 2)
}

/// An owner's job is called off.
fn called_off(class: Class) -> Bounds {
    let world = Bounds::new(class, ORDERED, Contract::Immediate);
    Bounds { acquires: 1, cancels: true, ..world }.ordered('a', 1, 1, 1).ordered('b', 1, 2, 2)
}

/// A removal and a re-creation.
fn reborn(class: Class) -> Bounds {
    Bounds::new(class, Policy::Single, Contract::Observed).put('a', 1, 1).delete('d', 2).put('c', 3, 3)
}

/// A re-creation that may be refused or not sent, and comes again.
fn reborn_again(class: Class) -> Bounds {
    let world = Bounds::new(class, Policy::Single, Contract::Observed).delete('d', 2).put('c', 3, 3);
    Bounds { refused: Some(422), not_sent: 1, ..world.put('c', 4, 3) }
}

/// Three at once, under two positions.
fn crowd(class: Class) -> Bounds {
    let world = Bounds::new(class, ORDERED, Contract::Observed);
    world.ordered('a', 1, 1, 1).ordered('c', 1, 3, 2).ordered('b', 2, 2, 1)
}

/// The breaker trips and an epoch begins at any time, whatever is under way; the second owner is of that epoch.
pub(super) fn restored(class: Class) -> Bounds {
    let world = Bounds::new(class, Policy::Single, Contract::Observed).put('a', 1, 1);
    let world = world.put('a', EPOCH + 2, 1).put('b', EPOCH + 2, 2);
    Bounds { trips: true, epochs: true, ..world }
}

/// Records are forgotten at any time, and every operation may come again.
pub(super) fn forgetful(class: Class) -> Bounds {
    let world = Bounds::new(class, ORDERED, Contract::Observed);
    let world = world.ordered('a', 1, 1, 1).ordered('b', 2, 2, 1).ordered('a', 1, 1, 1);
    Bounds { prunes: true, epochs: true, ..world }
}

/// Time passes beyond the time for which the store remembers what it has done.
pub(super) fn aged(class: Class) -> Bounds {
    Bounds { ages: true, ..race(class, Policy::Single) }
}

#[test]
fn the_breaker_trips_and_an_epoch_begins_at_any_time() {
    // Broken: what was under way when it tripped is lost, sent or admitted past it, or an old epoch comes back.
    // Must hold: nothing is admitted until the epoch begins, what was under way ends, and the old epoch is over.
    for class in Class::ALL {
        holds("restored", &restored(class));
    }
    verdicts::ended("the_breaker_trips_and_an_epoch_begins_at_any_time");
}

#[test]
fn records_of_forwarded_operations_are_forgotten_at_any_time() {
    // Broken: a record goes while its request would be sent again, or whose stamp the store still shows (I15).
    for class in Class::ALL {
        holds("forgetful", &forgetful(class));
    }
    verdicts::ended("records_of_forwarded_operations_are_forgotten_at_any_time");
}

#[test]
fn a_store_forgets_its_keys() {
    // Broken: what the store has forgotten is sent again (I2). Must hold: past half of the retention it is uncertain.
    holds("aged", &aged(Class::Idempotent));
    verdicts::ended("a_store_forgets_its_keys");
}

#[test]
fn two_owners_race() {
    for class in Class::ALL {
        holds("race", &longer(race(class, Policy::Single)));
    }
    verdicts::ended("two_owners_race");
}

#[test]
fn three_operations_at_once() {
    for class in Class::ALL {
        holds("crowd", &crowd(class));
    }
    verdicts::ended("three_operations_at_once");
}

#[test]
fn a_cell_from_before_the_gateways_time() {
    let world = Bounds { before: Some(9), ..race(Class::Conditional, Policy::Single) };
    holds("before", &longer(world));
    verdicts::ended("a_cell_from_before_the_gateways_time");
}

#[test]
fn requests_arrive_twice() {
    // Nothing can be done where the store has nothing: `serial` promises to stop, not to survive this.
    for class in [Class::Conditional, Class::FenceAware, Class::Idempotent] {
        holds("twice", &longer(Bounds { twice: 1, ..race(class, Policy::Single) }));
    }
    verdicts::ended("requests_arrive_twice");
}

#[test]
fn stores_refuse_and_connections_fail() {
    for class in Class::ALL {
        for status in [403, 409, OF_THE_REQUEST, 422] {
            let world = Bounds { refused: Some(status), not_sent: 1, ..race(class, Policy::Single) };
            holds("refused", &world);
        }
    }
    verdicts::ended("stores_refuse_and_connections_fail");
}

#[test]
fn a_second_owner_waits_for_its_barrier() {
    for class in Class::ALL {
        holds("hand over", &hand_over(class));
    }
    verdicts::ended("a_second_owner_waits_for_its_barrier");
}

#[test]
fn a_cancel_is_complete_when_nothing_can_come_any_more() {
    for class in Class::ALL {
        holds("called off", &called_off(class));
    }
    verdicts::ended("a_cancel_is_complete_when_nothing_can_come_any_more");
}

#[test]
fn a_removal_and_a_re_creation() {
    for class in Class::ALL {
        holds("reborn", &reborn(class));
        holds("reborn again", &reborn_again(class));
    }
    verdicts::ended("a_removal_and_a_re_creation");
}
