//! Acts on one namespace and on all of them: each reaches what it names and nothing else.

use fencegate::domain::breaker::{Breaker, Detector};
use fencegate::domain::counter::Epoch;
use fencegate::domain::operation::OperationId;
use fencegate::domain::position::Position;
use fencegate::domain::subject::Subject;
use fencegate::domain::upstream::Class;
use fencegate::protocol::rows::AuditVerb;
use fencegate::protocol::whole::{Deed, WholeAct};
use fencegate::protocol::{Change, Command, Outcome, Refusal};

use super::{Far, far, write};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::World;

fn act(subject: &str, deed: Deed) -> Command {
    Command::Whole(WholeAct { subject: Subject::parse(subject).unwrap(), deed })
}

fn trip(subject: &str, world: &World) -> Command {
    let breaker = Breaker { detector: Detector::Witness, at: world.now, found: "lost".to_owned() };
    act(subject, Deed::Trip(breaker))
}

fn advance(subject: &str, key: &str, leave_open: bool) -> Command {
    let key = OperationId::parse(key).unwrap();
    let reason = "a test".to_owned();
    act(subject, Deed::AdvanceEpoch { key, reason, leave_open })
}

/// Two namespaces that were used, behind one upstream.
fn two() -> Far {
    let mut far = far(Class::FenceAware);
    far.world.rule_of("v", |_| {});
    far.world.advance("w/page", "1");
    far.world.advance("v/page", "1");
    far
}

/// Epoch and breaker of each namespace, and of those that were never used.
fn standing(world: &World) -> Vec<(String, u64, bool)> {
    let used = world
        .snapshot
        .namespaces()
        .map(|row| (row.namespace.to_string(), row.epoch.get(), row.breaker.is_some()));
    let everywhere = world.snapshot.everywhere();
    let unused = ("*".to_owned(), everywhere.epoch.get(), everywhere.breaker.is_some());
    used.chain([unused]).collect()
}

fn expected(rows: [(&str, u64, bool); 3]) -> Vec<(String, u64, bool)> {
    rows.map(|(name, epoch, stopped)| (name.to_owned(), epoch, stopped)).to_vec()
}

#[test]
fn an_act_on_one_namespace_leaves_the_others_alone() {
    // Broken: a stop or an epoch of one tenant is everybody's, or of those that come later. Must hold: of the named one.
    let mut far = two();
    let stop = trip("w", &far.world);
    assert_eq!(far.world.tell(&stop), Outcome::Tidied);
    assert_eq!(standing(&far.world), expected([("v", 0, false), ("w", 0, true), ("*", 0, false)]));
    assert_eq!(word(&far.write(&put("v/page", "op", "1").sequence(1))), Code::Announced);
    far.world.tell(&advance("w", "a", false));
    assert_eq!(standing(&far.world), expected([("v", 0, false), ("w", 1, false), ("*", 0, false)]));
}

#[test]
fn an_act_on_all_namespaces_reaches_those_too_that_come_later() {
    // Broken: a namespace that is used for the first time after a loss is not stopped, or begins in an epoch that ended.
    // Must hold: all stop, and all begin one epoch above all that there were.
    let mut world = two().world;
    world.tell(&advance("w", "a", false));
    world.tell(&trip("*", &world.clone()));
    assert_eq!(standing(&world), expected([("v", 0, true), ("w", 1, true), ("*", 0, true)]));
    let decision = world.decide(&trip("*", &world));
    assert_eq!(decision.changes, [], "what has stopped stays as it is");
    world.rule_of("u", |_| {});
    assert_eq!(word(&world.advance("u/page", "1")), Code::Stopped);
    world.tell(&advance("*", "b", false));
    assert_eq!(standing(&world), expected([("v", 2, false), ("w", 2, false), ("*", 2, false)]));
    assert_eq!(word(&world.advance("u/page", "1")), Code::StaleToken);
    assert_eq!(word(&world.advance("u/page", "2.1")), Code::Advanced);
    world.tell(&trip("*", &world.clone()));
    assert_eq!(world.snapshot.everywhere().epoch.get(), 2, "a stop begins no epoch");
    world.tell(&advance("*", "c", false));
    assert!(world.snapshot.namespaces().all(|row| row.epoch.get() == 3 && row.breaker.is_none()));
}

#[test]
fn the_line_of_a_change_of_policy_has_the_epoch_that_it_came_in() {
    // Broken: the audit shows the change in an epoch that had ended, or that another namespace has. Must hold: the highest of
    // what it is about.
    let mut world = two().world;
    world.tell(&advance("w", "a", false));
    let line = |world: &World, subject: &str| {
        let decision = world.decide(&act(subject, Deed::NotePolicy { what: "key a".to_owned() }));
        match decision.changes.as_slice() {
            [Change::Audited(row)] => (row.verb, row.position, row.reason.clone()),
            other => panic!("{other:?}"),
        }
    };
    let expected = |epoch: u64| {
        let position = Position::start_of(Epoch::new(epoch).unwrap());
        (AuditVerb::PolicyChanged, position, Some("key a".to_owned()))
    };
    assert_eq!(
        (line(&world, "*"), line(&world, "w"), line(&world, "v")),
        (expected(1), expected(1), expected(0))
    );
    world.tell(&advance("*", "b", false));
    let mut unused = World::new(*world.definition());
    unused.snapshot.set_everywhere(world.snapshot.everywhere().clone());
    assert_eq!(line(&unused, "*"), expected(2), "where nothing was ever used");
}

#[test]
fn an_epoch_does_not_end_under_what_is_under_way_unless_somebody_says_so() {
    // Broken: an operator begins an epoch and learns of no effect that may still come. Must hold: those of the subject are
    // named, and those of others hold nothing up.
    let mut far = two();
    far.announce(&write("op", 2));
    let open = vec![far.intent("op").key()];
    for subject in ["w", "*"] {
        let outcome = far.world.tell(&advance(subject, "a", false));
        assert_eq!(outcome.refusal(), Some(&Refusal::OperationsOpen { open: open.clone() }), "{subject}");
    }
    assert!(matches!(far.world.tell(&advance("v", "a", false)), Outcome::Acted(_)));
    let Outcome::Acted(acted) = far.world.tell(&advance("w", "a", true)) else { panic!("it is left open") };
    let told = String::from_utf8_lossy(&acted.body).into_owned();
    assert!(told.starts_with("w 1 ") && told.contains("\"op\""), "{told}");
}
