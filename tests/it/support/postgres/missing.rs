//! Which tests need PostgreSQL, and what is said where there is none. No test is skipped in silence.

use std::env;

/// Allows that the tests below do not run.
pub(crate) const ALLOWED_BY: &str = "FENCEGATE_TEST_WITHOUT_POSTGRES";

/// What to do about it.
pub(crate) const REMEDY: &str = "PostgreSQL is missing, and could not be fetched: install it (Debian: apt-get install \
    postgresql) or name its folder of binaries in FENCEGATE_POSTGRES_BIN. FENCEGATE_TEST_WITHOUT_POSTGRES=1 lets the tests \
    that need it pass without having run; `postgres::what_could_not_run` then names and counts them";

/// Every test that needs PostgreSQL. A test that is not listed here fails; an entry that no test asks for, too.
pub(crate) const NEED_POSTGRES: &[&str] = &[
    "bench::every_cell_on_the_server_is_measured",
    "conformance::histories::postgres::gives_the_outcomes_of_the_reference",
    "conformance::races::sixty_four_tasks_race_on_every_engine",
    "conformance::restart::postgres::a_position_that_was_issued_again_belongs_to_its_new_owner",
    "conformance::restart::postgres::a_restart_does_not_stretch_a_lease",
    "conformance::restart::postgres::an_expiry_that_was_seen_stays_seen_after_a_restart",
    "conformance::restart::postgres::everything_that_fences_survives_a_restart",
    "issuers::exact::postgres::numbers_come_back_as_they_were_sent",
    "issuers::exact::postgres::what_is_no_number_of_the_range_gets_in_nowhere",
    "issuers::recipes::the_recipe_for_postgresql_does_what_it_says",
    "leases::fifo::postgres::a_ghost_delays_the_next_by_no_more_than_its_turn",
    "leases::fifo::postgres::a_greedy_client_starves_nobody",
    "leases::fifo::postgres::the_order_survives_a_kill_of_the_gateways",
    "leases::fifo::postgres::whoever_came_first_is_served_first",
    "leases::fifo::replicas::a_ghost_delays_the_next_by_no_more_than_its_turn",
    "leases::fifo::replicas::a_greedy_client_starves_nobody",
    "leases::fifo::replicas::the_order_survives_a_kill_of_the_gateways",
    "leases::fifo::replicas::whoever_came_first_is_served_first",
    "leases::gone_clients::postgres::a_client_that_closed_its_connection_is_never_granted",
    "leases::gone_clients::postgres::a_killed_client_is_never_granted",
    "leases::gone_clients::postgres::a_place_in_the_queue_is_given_up_with_the_connection",
    "leases::gone_clients::postgres::no_hang_up_at_any_moment_leaves_a_place_behind",
    "leases::gone_clients::replicas::a_client_that_closed_its_connection_is_never_granted",
    "leases::gone_clients::replicas::a_killed_client_is_never_granted",
    "leases::gone_clients::replicas::a_place_in_the_queue_is_given_up_with_the_connection",
    "leases::gone_clients::replicas::no_hang_up_at_any_moment_leaves_a_place_behind",
    "leases::repeats::postgres::a_repeat_after_a_hang_up_finds_what_was_granted",
    "leases::repeats::postgres::a_repeat_after_a_kill_finds_what_was_granted",
    "leases::repeats::postgres::a_repeat_through_any_gateway_is_the_same_acquisition",
    "leases::repeats::replicas::a_repeat_after_a_hang_up_finds_what_was_granted",
    "leases::repeats::replicas::a_repeat_after_a_kill_finds_what_was_granted",
    "leases::repeats::replicas::a_repeat_through_any_gateway_is_the_same_acquisition",
    "leases::waiting::postgres::a_release_reaches_a_waiter_in_time",
    "leases::waiting::postgres::a_wait_ends_with_its_budget",
    "leases::waiting::postgres::a_wait_has_bounds",
    "leases::waiting::postgres::an_expiry_reaches_a_waiter_in_time",
    "leases::waiting::replicas::a_release_reaches_a_waiter_in_time",
    "leases::waiting::replicas::a_wait_ends_with_its_budget",
    "leases::waiting::replicas::a_wait_has_bounds",
    "leases::waiting::replicas::an_expiry_reaches_a_waiter_in_time",
    "leases::wake_ups::postgres::in_a_race_nobody_sleeps_beside_a_free_lease",
    "leases::wake_ups::postgres::in_order_nobody_sleeps_beside_a_free_lease",
    "leases::wake_ups::replicas::in_a_race_nobody_sleeps_beside_a_free_lease",
    "leases::wake_ups::replicas::in_order_nobody_sleeps_beside_a_free_lease",
    "postgres::cluster::a_server_of_our_own_obeys",
    "postgres::commits::a_commit_in_doubt_is_unknown_and_the_retry_gets_the_truth",
    "postgres::commits::a_commit_that_hangs_on_a_new_resource_is_not_called_without_effect",
    "postgres::commits::a_commit_that_is_never_answered_is_looked_up_and_found",
    "postgres::commits::a_commit_that_never_arrived_is_made_anew",
    "postgres::commits::a_commit_whose_answer_was_cut_off_is_looked_up_and_found",
    "postgres::connections::a_pooler_that_never_gives_the_same_session_twice_changes_nothing",
    "postgres::connections::hang_ups_with_two_connections_leave_nothing_open",
    "postgres::connections::pgbouncer_in_transaction_mode_changes_nothing",
    "postgres::failover::a_failover_to_a_synchronous_standby_loses_nothing",
    "postgres::failover::without_its_standby_a_strict_primary_acknowledges_nothing",
    "postgres::faults::a_frozen_database_is_waited_for_no_longer_than_the_budget",
    "postgres::faults::a_full_disk_fails_closed",
    "postgres::faults::a_read_only_database_fails_closed",
    "postgres::faults::a_stopped_database_fails_closed_and_comes_back",
    "postgres::faults::restarts_and_kills_under_load_lose_and_double_nothing",
    "postgres::faults::without_connections_it_fails_closed",
    "postgres::locks::a_row_that_is_held_for_long_is_unavailable_and_no_more",
    "postgres::locks::a_write_that_waited_past_a_higher_floor_is_refused",
    "postgres::locks::a_write_that_waited_past_a_release_is_refused",
    "postgres::locks::a_write_that_waited_past_its_lease_is_refused",
    "postgres::locks::prepared_transactions_of_others_are_left_alone",
    "postgres::opening::a_database_of_the_release_before_is_brought_forward_by_migrate",
    "postgres::opening::a_replica_without_the_recorded_key_does_not_start",
    "postgres::opening::a_schema_of_another_version_is_refused_with_what_to_do",
    "postgres::opening::a_server_that_takes_or_keeps_nothing_is_refused",
    "postgres::opening::a_standby_listed_first_is_passed_over",
    "postgres::opening::an_empty_database_is_made_ready_by_the_first_start",
    "postgres::opening::migrate_tells_first_and_does_then",
    "replicas::ends::a_rolling_restart_is_nobodys_trouble",
    "replicas::ends::kills_of_replicas_lose_and_double_nothing",
    "replicas::pauses::a_replica_that_is_stopped_in_the_middle_of_its_work_holds_nobody_up_for_ever",
    "replicas::pauses::a_replica_that_is_stopped_with_a_row_in_its_hands_loses_it",
    "replicas::pauses::a_replica_that_wakes_after_a_take_over_changes_nothing",
    "replicas::races::no_edit_is_lost_between_replicas",
    "replicas::races::one_owner_per_generation_whichever_replica_was_asked",
    "stories::changed_payload::postgres::a_refused_id_is_not_bound",
    "stories::changed_payload::postgres::the_same_id_with_another_payload_is_a_conflict_and_the_first_stands",
    "stories::delayed_request::postgres::a_copy_of_an_applied_request_arrives_after_newer_writes",
    "stories::delayed_request::postgres::the_first_delivery_arrives_after_the_second_generation_wrote",
    "stories::deletion_and_recreation::postgres::a_tombstone_keeps_its_counters_and_an_old_write_stays_out",
    "stories::deletion_and_recreation::postgres::an_honest_late_retry_finds_its_own_life",
    "stories::deletion_and_recreation::postgres::deleting_what_never_was_changes_nothing",
    "stories::equal_token::postgres::gapless_says_which_sequence_comes_next",
    "stories::equal_token::postgres::under_ordered_sequences_rise_and_start_anew_with_each_generation",
    "stories::equal_token::postgres::under_session_every_edit_after_the_first_names_what_it_edits",
    "stories::equal_token::postgres::under_single_a_generation_is_one_publication",
    "stories::late_renewal::postgres::a_late_release_does_not_end_the_others_lease",
    "stories::late_renewal::postgres::a_late_renewal_never_extends_the_others_lease",
    "stories::late_renewal::postgres::a_late_renewal_says_how_the_lease_ended_and_never_brings_it_back",
    "stories::lost_answer::postgres::the_outcome_can_be_asked_for_without_sending_the_payload_again",
    "stories::lost_answer::postgres::the_owner_asks_again_and_gets_the_first_answer",
    "stories::lost_answer::postgres::the_owner_learns_it_although_superseded_a_millisecond_later",
    "stories::paused_worker::postgres::alice_resumes_after_bob_acquired_and_before_he_wrote",
    "stories::paused_worker::postgres::alice_resumes_after_bob_published",
    "stories::paused_worker::postgres::alice_resumes_and_nobody_came_after_her",
    "stories::recovery::postgres::the_replacement_repeats_the_operation_and_no_second_commit_happens",
    "stories::restart::postgres::leases_tokens_floors_and_answers_survive",
];

/// What was found; where nothing was, None if that is allowed.
pub(crate) fn or_missing<T>(test: &str, found: Result<T, &str>) -> Option<T> {
    assert!(NEED_POSTGRES.contains(&test), "{test} must stand in NEED_POSTGRES");
    match found {
        Ok(found) => Some(found),
        Err(_) if allowed() => None,
        Err(reason) => panic!("{test}: {REMEDY}\n({reason})"),
    }
}

/// Whether the tests may pass without having run.
pub(crate) fn allowed() -> bool {
    env::var_os(ALLOWED_BY).is_some_and(|value| value == "1")
}
