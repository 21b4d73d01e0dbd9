//! Which tests need nginx or moto, and what is said where there is none. No test is skipped in silence.

use std::env;

use super::{moto, nginx};

/// Allows that the tests below do not run.
const ALLOWED_BY: &str = "FENCEGATE_TEST_WITHOUT_STORES";

/// What to do about it.
pub(crate) const REMEDY: &str = "nginx is missing, or moto is and could not be fetched: install it (Debian: apt-get install \
    nginx; pip install 'moto[s3]' flask flask-cors). FENCEGATE_TEST_WITHOUT_STORES=1 lets the tests that need it pass \
    without having run; `stores::what_could_not_run` then names and counts them";

/// Every test that needs nginx. A test that is not listed here fails; an entry that no test asks for, too.
pub(crate) const NEED_NGINX: &[&str] = &[
    "stores::nginx_keeps_what_it_is_given",
    "upstreams::real::files::an_nginx_gets_exactly_one_request_for_each_operation",
    "upstreams::real::files::an_nginx_is_refused_as_a_store_that_compares",
];

/// Every test that needs moto.
pub(crate) const NEED_MOTO: &[&str] = &[
    "stores::moto_obeys_conditions_and_its_validators_are_hashes_of_the_content",
    "upstreams::real::objects::an_s3_is_a_fence_with_the_stamp_inside_the_bytes",
    "upstreams::real::objects::of_sixteen_at_once_the_one_that_won_is_in_the_bucket",
    "upstreams::real::objects::with_the_stamp_beside_the_bytes_an_s3_is_refused",
];

/// Where nginx is. None, and the test must return at once, where there is none and that is allowed; without it the test
/// fails. `test` is its name as it stands in [`NEED_NGINX`].
pub(crate) fn nginx(test: &str) -> Option<&'static nginx::Program> {
    or_missing(test, NEED_NGINX, nginx::Program::found(), may_lack_nginx())
}

/// Where moto is; the same rule.
pub(crate) fn moto(test: &str) -> Option<&'static moto::Package> {
    or_missing(test, NEED_MOTO, moto::Package::found(), allowed())
}

fn or_missing<T>(test: &str, listed: &[&str], found: Result<T, &str>, allowed: bool) -> Option<T> {
    assert!(listed.contains(&test), "{test} must stand in the list of the tests that need it");
    match found {
        Ok(found) => Some(found),
        Err(_) if allowed => None,
        Err(reason) => panic!("{test}: {REMEDY}\n({reason})"),
    }
}

/// No package registry but Debian's has an nginx that would do, and a user's machine need not be Debian: there the tests
/// say that they could not run. CI installs it, and fails without it.
pub(crate) fn may_lack_nginx() -> bool {
    allowed() || env::var_os("CI").is_none_or(|value| value.is_empty())
}

/// Whether the tests may pass without having run.
pub(crate) fn allowed() -> bool {
    env::var_os(ALLOWED_BY).is_some_and(|value| value == "1")
}
