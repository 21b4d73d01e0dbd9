//! Which test kills which bug.

use std::time::Duration;

use fencegate::deliberate::Bug;

use super::child::run;
use crate::support::postgres::missing::NEED_POSTGRES;
use crate::support::postgres::needed_binaries;

/// So long has the one test; on a busy machine most take less than a second.
const MOST: Duration = Duration::from_mins(1);

/// A test for each bug, and the list of them.
macro_rules! killed {
    ($($name:ident: $bug:ident by $test:literal;)+) => {
        pub(super) const KILLS: &[(Bug, &str)] = &[$((Bug::$bug, $test),)+];

        $(
            #[test]
            fn $name() {
                kills(concat!("deliberate::kills::", stringify!($name)), Bug::$bug, $test);
            }
        )+
    };
}

/// Broken: a check that cannot fail. Must hold: with the bug switched on this test fails.
fn kills(own: &str, bug: Bug, test: &str) {
    if NEED_POSTGRES.contains(&test) && needed_binaries(own).is_none() {
        return;
    }
    let verdict = run(bug.name(), &["--exact", test], MOST).is_killed_by(test);
    verdict.unwrap_or_else(|why| panic!("{} ({}): {why}", bug.name(), bug.what()));
}

/// The test that kills a bug.
pub(super) fn killer_of(bug: Bug) -> &'static str {
    KILLS.iter().find(|(one, _)| *one == bug).map_or("nobody", |(_, test)| test)
}

killed! {
    floor_itself_is_stale: FloorItselfIsStale by "decision::rows::at_the_edge_of_every_bound_a_write_passes";
    mark_itself_is_above: MarkItselfIsAbove by "decision::rows::row_19_a_write_that_nothing_stands_against_is_admitted_once";
    revoked_itself_passes: RevokedItselfPasses by "decision::rows::row_12_a_stale_or_revoked_position_is_refused";
    same_sequence_passes: SameSequencePasses by "decision::rows::row_15_a_sequence_goes_up_and_gapless_means_by_one";
    next_sequence_is_a_gap: NextSequenceIsAGap by "decision::rows::row_19_a_write_that_nothing_stands_against_is_admitted_once";
    current_epoch_is_ahead: CurrentEpochIsAhead by "decision::rows::row_19_a_write_that_nothing_stands_against_is_admitted_once";
    furthest_jump_is_refused: FurthestJumpIsRefused by "decision::rows::at_the_edge_of_every_bound_a_write_passes";
    lease_outlives_its_end: LeaseOutlivesItsEnd by "decision::lease::a_second_acquire_waits_for_the_first_ones_end";
    lock_delay_outlives_its_end: LockDelayOutlivesItsEnd by "decision::delays::after_an_expiry_nobody_acquires_until_the_delay_is_over";
    pruned_itself_is_known: PrunedItselfIsKnown by "decision::pruned::what_is_refused_for_good_may_have_been_applied_once";
    floor_not_stored: FloorNotStored by "simulation::every_seed_keeps_the_promises";
    replay_before_authorisation: ReplayBeforeAuthorisation by "http::permissions::a_recorded_answer_is_given_to_those_only_who_may_write";
    replay_raises_the_floor: ReplayRaisesTheFloor by "decision::replay::a_replacement_finds_the_work_done_and_the_floor_stays";
    fingerprint_without_target: FingerprintWithoutTarget by "decision::fingerprint::one_operation_id_on_two_targets_is_two_payloads";
    record_after_the_effect: RecordAfterTheEffect by "sqlite::batches::where_the_record_fails_there_is_no_effect";
    refused_operation_is_bound: RefusedOperationIsBound by "stories::changed_payload::sqlite::a_refused_id_is_not_bound";
    counter_on_the_lease: CounterOnTheLease by "naive::random_histories_have_the_same_verdicts_in_code_and_reference";
    tombstone_removed: TombstoneRemoved by "decision::folding::a_fold_changes_no_verdict";
    sequence_not_reset: SequenceNotReset by "naive::random_histories_have_the_same_verdicts_in_code_and_reference";
    sequence_kept: SequenceKept by "decision::rows::a_sequence_begins_anew_in_each_generation";
    renew_without_comparing: RenewWithoutComparing by "stories::late_renewal::sqlite::a_late_renewal_never_extends_the_others_lease";
    renew_re_creates: RenewReCreates by "decision::lease_ends::a_late_renewal_does_not_bring_an_expired_lease_back";
    sweeper_without_its_condition: SweeperWithoutItsCondition by "decision::sweep::a_lease_that_was_renewed_meanwhile_is_left";
    time_of_the_transaction: TimeOfTheTransaction by "postgres::locks::the_time_of_a_load_is_that_of_after_the_wait";
    granted_after_it_left: GrantedAfterItLeft by "leases::gone_clients::a_client_that_went_while_its_row_was_held_is_not_granted";
    batch_member_by_member: BatchMemberByMember by "decision::batch::one_refused_member_stops_all_the_new_ones";
    answer_before_the_commit: AnswerBeforeTheCommit by "conformance::answers::a_failed_commit_has_no_effect";
    synchronous_normal: SynchronousNormal by "power::what_was_acknowledged_survives_a_power_failure";
    upstream_retries: UpstreamRetries by "backing::faults::nothing_is_sent_twice_whatever_goes_wrong";
    abandon_on_not_found: AbandonOnNotFound by "decision::forward::findings::what_teaches_nothing_changes_nothing";
    refuse_the_older: RefuseTheOlder by "model::forward::worlds::two_owners_race";
    send_on_the_unrecorded: SendOnTheUnrecorded by "simulation::every_seed_keeps_the_promises";
    content_hash_accepted: ContentHashAccepted by "backing::probes::a_validator_that_is_a_hash_of_the_content_is_found";
    lane_ignored_on_cancel: LaneIgnoredOnCancel by "model::forward::worlds::a_cancel_is_complete_when_nothing_can_come_any_more";
    route_without_the_fence: RouteWithoutTheFence by "decision::advance::an_advance_fences_everything_below_it";
    handler_awaits_the_database: HandlerAwaitsTheDatabase by "conformance::answers::a_client_that_hangs_up_cancels_nothing";
    breaker_lets_issuing_go_on: BreakerLetsIssuingGoOn by "model::breakers_that_trip_at_any_time";
    epoch_resets_the_counter: EpochResetsTheCounter by "decision::epoch::leases_of_an_older_epoch_are_superseded_and_tokens_go_on";
    prune_of_the_live: PruneOfTheLive by "model::records_are_forgotten_at_any_time";
}
