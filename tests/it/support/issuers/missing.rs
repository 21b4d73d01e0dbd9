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
    "issuers::losses::an_etcd_restored_from_an_older_snapshot_is_refused_until_it_has_caught_up",
    "issuers::recipes::the_recipe_for_etcd_does_what_it_says",
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
