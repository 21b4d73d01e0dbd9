//! Words that stand in rows, answers, configuration files and log lines. They are there for ever: a row that was written
//! under one word is not read under another, and a client compares them.

use std::fmt::Debug;

use fencegate::domain::breaker::Detector;
use fencegate::domain::lease::{EndCause, LeaseState, WaitOrder};
use fencegate::domain::operation::{Effect, Method, OperationState};
use fencegate::domain::permission::{Permission, Permissions};
use fencegate::domain::policy::{Contract, Issuer, Policy, Store};
use fencegate::domain::quota::Metered;
use fencegate::domain::store::Protocol;
use fencegate::domain::upstream::Class;
use fencegate::protocol::command::ResolveVerdict;
use fencegate::protocol::control::{ControlVerb, RecordedVerb};
use fencegate::protocol::rows::{AuditVerb, Done, Life};

/// Each word names its value, and nothing else names any.
fn read_again<T: Debug + Copy + PartialEq>(
    pairs: &[(&str, T)],
    word: impl Fn(T) -> &'static str,
    read: impl Fn(&str) -> Option<T>,
) {
    for (text, value) in pairs {
        assert_eq!((word(*value), read(text)), (*text, Some(*value)));
    }
    for other in ["", "xyzzy", " ", "Applied"] {
        assert_eq!(read(other), None, "{other:?}");
    }
}

#[test]
fn words_in_rows_are_read_again() {
    // Broken: a word is changed on both sides, and the rows of yesterday cannot be read; or two things share one. Must hold:
    // these are the words.
    use OperationState::{Applied, Intent, Refused, ResolvedApplied, ResolvedNotApplied, Uncertain};
    read_again(
        &[
            ("intent", Intent),
            ("applied", Applied),
            ("refused", Refused),
            ("uncertain", Uncertain),
            ("resolved_applied", ResolvedApplied),
            ("resolved_not_applied", ResolvedNotApplied),
        ],
        OperationState::word,
        OperationState::from_word,
    );
    read_again(
        &[
            ("pending_barrier", LeaseState::PendingBarrier),
            ("held", LeaseState::Held),
            ("released", LeaseState::Released),
            ("expired", LeaseState::Expired),
            ("superseded", LeaseState::Superseded),
        ],
        LeaseState::word,
        LeaseState::from_word,
    );
    let methods =
        [("PUT", Method::Put), ("POST", Method::Post), ("PATCH", Method::Patch), ("DELETE", Method::Delete)];
    read_again(&methods, Method::word, Method::from_word);
    let causes = [
        ("revoked", EndCause::Revoked),
        ("cancelled", EndCause::Cancelled),
        ("transferred", EndCause::Transferred),
    ];
    read_again(&causes, EndCause::word, EndCause::from_word);
    let lives = [("active", Life::Active), ("deleted", Life::Deleted), ("cancelled", Life::Cancelled)];
    read_again(&lives, Life::word, Life::from_word);
    let done = [
        ("created", Done::Created),
        ("replaced", Done::Replaced),
        ("removed", Done::Removed),
        ("nothing", Done::Nothing),
    ];
    read_again(&done, Done::word, Done::from_word);
    let detectors = [
        ("seal", Detector::Seal),
        ("store", Detector::Store),
        ("acks", Detector::Acks),
        ("witness", Detector::Witness),
        ("identity", Detector::Identity),
    ];
    read_again(&detectors, Detector::word, Detector::from_word);
}

#[test]
fn words_of_calls_and_of_the_audit_are_read_again() {
    // Broken: a line of the audit is read as another act, or signed with the name of whoever happened to ask. Must hold:
    // these are the verbs, and what the gateway found by itself is nobody's.
    let controls =
        [("revoke", ControlVerb::Revoke), ("cancel", ControlVerb::Cancel), ("reopen", ControlVerb::Reopen)];
    read_again(&controls, ControlVerb::word, ControlVerb::from_word);
    assert_eq!(controls.map(|(_, verb)| verb.done()), ["revoked", "cancelled", "reopened"]);
    let recorded = [("epoch", RecordedVerb::AdvanceEpoch), ("definition", RecordedVerb::ChangeDefinition)];
    read_again(&recorded, RecordedVerb::word, RecordedVerb::from_word);
    read_again(
        &[("applied", ResolveVerdict::Applied), ("not_applied", ResolveVerdict::NotApplied)],
        ResolveVerdict::word,
        ResolveVerdict::from_word,
    );
    let verbs = [
        "acquired",
        "advanced",
        "transferred",
        "released",
        "expired",
        "superseded",
        "revoked",
        "cancelled",
        "reopened",
        "resolved",
        "quarantined",
        "tripped",
        "epoch_advanced",
        "definition_changed",
        "uncertain",
        "policy_changed",
    ];
    assert_eq!(AuditVerb::ALL.map(AuditVerb::word), verbs);
    let found: Vec<&str> = AuditVerb::ALL
        .into_iter()
        .filter(|verb| AuditVerb::from_word(verb.word()) == Some(*verb) && !verb.is_asked_for())
        .map(AuditVerb::word)
        .collect();
    assert_eq!(found, ["expired", "quarantined", "tripped", "uncertain"]);
    assert_eq!(AuditVerb::from_word("xyzzy"), None);
}

#[test]
fn words_of_the_configuration_and_of_answers_are_these() {
    // Broken: a document, a configuration or a dashboard names what is called otherwise by now. Must hold: these words.
    let permissions = ["read", "lease", "write", "advance", "operate", "admin"];
    let pairs: Vec<_> = permissions.into_iter().zip(Permission::ALL).collect();
    read_again(&pairs, Permission::word, Permission::from_word);
    assert_eq!(Permissions::all().words(), permissions);
    assert_eq!(Permissions::NONE.words(), Vec::<&str>::new());
    let classes = [
        ("conditional", Class::Conditional),
        ("fence_aware", Class::FenceAware),
        ("idempotent", Class::Idempotent),
        ("serial", Class::Serial),
    ];
    read_again(&classes, Class::word, Class::from_word);
    assert_eq!(classes.map(|(_, class)| class.guarantee()), ["G3", "G3", "G2", "G1"]);
    assert_eq!(classes.map(|(_, class)| class.is_probed_by_default()), [true, true, false, false]);
    assert_eq!(classes.map(|(_, class)| Store::Http(class).guarantee()), ["G3", "G3", "G2", "G1"]);
    assert_eq!((Store::Document.guarantee(), Store::Document.word()), ("G4", "document"));
    assert_eq!(Store::Http(Class::Serial).word(), "http");
    assert_eq!(Protocol::WORDS.map(|(_, protocol)| protocol.word()), Protocol::WORDS.map(|(word, _)| word));
    assert_eq!(Protocol::WORDS.map(|(word, _)| word), ["auto", "http1", "http2"]);
    assert_eq!([WaitOrder::Race, WaitOrder::Fifo].map(WaitOrder::word), ["race", "fifo"]);
    assert_eq!(
        [Effect::None, Effect::Applied, Effect::Unknown].map(Effect::word),
        ["none", "applied", "unknown"]
    );
    let policies = [Policy::Single, Policy::Ordered { gapless: true }, Policy::Session];
    assert_eq!(policies.map(Policy::word), ["single", "ordered", "session"]);
    let contracts = [Contract::Observed, Contract::Immediate, Contract::LeaseBound];
    assert_eq!(contracts.map(Contract::word), ["observed", "immediate", "lease_bound"]);
    let issuers = [Issuer::Gateway, Issuer::Trusted { max_jump: None }, Issuer::Registered];
    assert_eq!(issuers.map(Issuer::word), ["gateway", "trusted", "registered"]);
    let metered = [Metered::Resources, Metered::Operations, Metered::Bytes];
    assert_eq!(metered.map(Metered::word), ["resources", "operations", "bytes"]);
}
