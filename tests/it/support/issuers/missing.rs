//! Which tests need etcd or Redis, and what is said where there is none. No test is skipped in silence.

use std::env;

use super::programs::Programs;

/// Allows that the tests below do not run.
pub(crate) const ALLOWED_BY: &str = "FENCEGATE_TEST_WITHOUT_ISSUERS";

/// What to do about it.
pub(crate) const REMEDY: &str = "etcd or Redis is missing, and could not be fetched: install it (Debian: apt-get install \
    etcd-server etcd-client redis-server) or name its folder of binaries in FENCEGATE_ETCD_BIN or FENCEGATE_REDIS_BIN. \
    FENCEGATE_TEST_WITHOUT_ISSUERS=1 lets the tests that need it pass without having run; `issuers::what_could_not_run` \
    then names and counts them";

/// Every test that needs etcd. A test that is not listed here fails; an entry that no test asks for, too.
pub(crate) const NEED_ETCD: &[&str] = &[
    "issuers::losses::a_new_epoch_is_the_way_out_of_an_etcd_that_was_restored",
    "issuers::losses::an_etcd_of_three_whose_leader_is_killed_goes_on_above",
    "issuers::losses::an_etcd_restored_from_an_older_snapshot_is_refused_until_it_has_caught_up",
    "issuers::recipes::the_recipe_for_etcd_does_what_it_says",
    "receiver::contract::etcd::a_lower_position_is_refused_and_told_what_is_held",
    "receiver::contract::etcd::positions_are_compared_as_numbers_and_the_epoch_first",
    "receiver::contract::etcd::a_known_operation_gets_its_answer_whatever_the_position",
    "receiver::contract::etcd::a_known_operation_with_another_content_is_refused_and_changes_nothing",
    "receiver::contract::etcd::a_refused_operation_is_not_bound_to_its_id",
    "receiver::contract::etcd::one_owner_writes_many_times_at_one_position",
    "receiver::contract::etcd::an_advance_raises_without_an_effect",
    "receiver::contract::etcd::a_refusal_of_its_own_raises_and_is_saved",
    "receiver::contract::etcd::the_resource_is_named_by_its_header_and_not_by_the_path",
    "receiver::contract::etcd::a_new_life_inherits_no_answers_and_no_lower_position",
    "receiver::contract::etcd::the_sequence_is_not_compared",
    "receiver::contract::etcd::reads_change_nothing",
    "receiver::edges::etcd::what_is_missing_or_malformed_changes_nothing",
    "receiver::edges::etcd::a_body_that_was_cut_off_is_not_applied",
    "receiver::edges::etcd::a_refusal_leaves_no_body_behind_to_be_read_as_a_request",
    "receiver::edges::etcd::what_is_too_large_is_refused_and_the_refusal_of_an_append_is_saved",
    "receiver::load::etcd::sixteen_writers_race_and_the_log_never_goes_back",
    "receiver::load::etcd::what_was_acknowledged_is_there_after_kills_under_load",
    "upstreams::real::receivers::etcd::a_receiver_behind_the_gateway_takes_each_operation_once_and_nothing_old",
    "upstreams::real::receivers::etcd::kills_of_the_receiver_in_the_middle_of_writes_lose_and_double_nothing",
];

/// Every test that needs Redis.
pub(crate) const NEED_REDIS: &[&str] = &[
    "issuers::losses::a_redis_that_forgot_is_refused_until_its_counter_is_above_the_floor",
    "issuers::losses::a_redis_that_writes_down_everything_goes_on_above",
    "issuers::recipes::the_recipe_for_redis_does_what_it_says",
];

/// The programs of etcd. None, and the test must return at once, where there are none and that is allowed; without it
/// the test fails. `test` is its name as it stands in [`NEED_ETCD`].
pub(crate) fn etcd(test: &str) -> Option<&'static Programs> {
    or_missing(test, NEED_ETCD, Programs::etcd())
}

/// The programs of Redis; the same rule.
pub(crate) fn redis(test: &str) -> Option<&'static Programs> {
    or_missing(test, NEED_REDIS, Programs::redis())
}

fn or_missing<T>(test: &str, listed: &[&str], found: Result<T, &str>) -> Option<T> {
    assert!(listed.contains(&test), "{test} must stand in the list of the tests that need it");
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
