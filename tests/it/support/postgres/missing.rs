//! Which tests need PostgreSQL, and what is said where there is none. No test is skipped in silence.

use std::env;

/// Allows that the tests below do not run.
pub(crate) const ALLOWED_BY: &str = "FENCEGATE_TEST_WITHOUT_POSTGRES";

/// What to do about it.
pub(crate) const REMEDY: &str = "PostgreSQL is missing, and could not be fetched: install it (Debian: apt-get install \
    postgresql) or name its folder of binaries in FENCEGATE_POSTGRES_BIN. FENCEGATE_TEST_WITHOUT_POSTGRES=1 lets the tests \
    that need it pass without having run; `postgres::what_could_not_run` then names and counts them";

/// Every test that needs PostgreSQL. A test that is not listed here fails; an entry that no test asks for, too.
pub(crate) const NEED_POSTGRES: &[&str] = &["postgres::cluster::a_server_of_our_own_obeys"];

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
