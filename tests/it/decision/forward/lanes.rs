//! Row 18: who may be sent while another operation is undecided.

use fencegate::domain::policy::{Contract, Policy};
use fencegate::domain::upstream::Class;
use fencegate::protocol::forward::UNDECIDED_MOST;
use fencegate::protocol::{Outcome, Refusal};

use super::{Far, PAGE, far, success, word, write};
use crate::support::code::{self, Code};
use crate::support::draft::delete;

fn code(outcome: &Outcome) -> Code {
    code::word(outcome)
}

#[test]
fn one_lane_holds_one_operation() {
    // Broken: two effects are under way in a store that cannot tell old from new, and come in any order (I1, I11).
    // Must hold: the second one is told which operation it waits for, and passes once that is decided.
    for class in [Class::Idempotent, Class::Serial] {
        let mut far = far(class);
        let first = far.announce(&write("first", 1));
        for position in [1, 2] {
            let outcome = far.write(&write("second", position).sequence(2));
            match outcome.refusal() {
                Some(Refusal::LaneBusy { operation }) => assert_eq!(operation.as_str(), "first"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(far.row().floor.token.get(), 1, "a refusal raises nothing");
        far.settle(&first, success("v1"));
        far.announce(&write("second", 2));
    }
}

#[test]
fn an_uncertain_operation_keeps_the_lane() {
    let mut far = far(Class::Serial);
    let first = far.announce(&write("first", 1));
    assert_eq!(word(&far.settle(&first, fencegate::protocol::command::Finding::Doubt)), "uncertain");
    assert_eq!(code(&far.write(&write("second", 2))), Code::LaneBusy);
}

#[test]
fn a_conditional_store_takes_several_sends_on_one_state() {
    let mut far = far(Class::Conditional);
    for (sequence, operation) in ["a", "b", "c"].into_iter().enumerate() {
        let sequence = u64::try_from(sequence).unwrap() + 1;
        far.announce(&write(operation, 1).sequence(sequence));
    }
    far.announce(&write("d", 2));
    assert_eq!(far.undecided(), 4);
}

#[test]
fn only_a_higher_position_passes_in_a_fence_aware_store() {
    // Broken: two operations of one position overtake each other, or a write is judged against what the one before it
    // may have changed. Must hold: a higher position passes, unless it has a condition or a life hangs on the other.
    let undecided = |policy| {
        let mut far = Far::new(Class::FenceAware, policy, Contract::Observed);
        let mut draft = write("first", 1);
        if policy != (Policy::Ordered { gapless: false }) {
            draft.sequence = None;
        }
        far.announce(&draft);
        far
    };
    let ordered = Policy::Ordered { gapless: false };
    assert_eq!(code(&undecided(ordered).write(&write("same", 1).sequence(2))), Code::LaneBusy);
    assert_eq!(code(&undecided(ordered).write(&write("higher", 2))), Code::Announced);
    assert_eq!(code(&undecided(ordered).write(&delete(PAGE, "end", "2").sequence(1))), Code::Announced);
    let conditioned = write("none", 2).if_none_match("*");
    assert_eq!(code(&undecided(ordered).write(&conditioned)), Code::LaneBusy);
    let session = write("edit", 2);
    let session = crate::support::draft::Draft { sequence: None, ..session };
    assert_eq!(code(&undecided(Policy::Session).write(&session)), Code::LaneBusy);
    assert_eq!(code(&undecided(Policy::Single).write(&session)), Code::Announced);
}

#[test]
fn nobody_passes_a_removal_or_a_re_creation() {
    let mut ending = far(Class::FenceAware);
    let removal = ending.announce(&delete(PAGE, "end", "1").sequence(1));
    assert_eq!(code(&ending.write(&write("after", 2))), Code::LaneBusy);
    assert_eq!(word(&ending.settle(&removal, success("v1"))), "applied");
    ending.announce(&write("born", 2));
    assert_eq!(code(&ending.write(&write("next", 3))), Code::LaneBusy, "its life is not decided");
}

#[test]
fn a_resource_has_so_many_undecided_operations_and_no_more() {
    // Broken: while a store is away its resource costs more and more. Must hold: a bound, in the classes without a lane.
    for class in [Class::Conditional, Class::FenceAware] {
        let mut far = far(class);
        for position in 1..=u64::try_from(UNDECIDED_MOST).unwrap() {
            far.announce(&write(&format!("op-{position}"), position));
        }
        assert_eq!(code(&far.write(&write("more", 99))), Code::LaneBusy, "{class:?}");
    }
}
