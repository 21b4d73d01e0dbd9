//! `[limits]`, rates of principals and quotas of namespaces.

use std::num::NonZeroU32;

use super::{parse, rules, rules_of};
use crate::access::pace::Rate;
use crate::config::{Config, Flags, Limits, Nowhere, Sources, Variables};
use crate::domain::quota::Quota;

fn rate(per_second: u32, burst: u32) -> Rate {
    let number = |number| NonZeroU32::new(number).unwrap();
    Rate { per_second: number(per_second), burst: number(burst) }
}

fn mistakes(text: &str) -> Vec<String> {
    parse(text).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_rate_for_all_and_one_of_ones_own() {
    let config = parse(
        "[limits]\nrequests_per_second = 100\nconnections_per_address = 7\nratelimit_headers = true\n\
         [principals.a]\npermissions = { \"*\" = [\"read\"] }\nrate = { requests_per_second = 5, burst = 9 }\n\
         [principals.b]\npermissions = { \"*\" = [\"read\"] }\n",
    )
    .unwrap();
    let limits =
        Limits { rate: Some(rate(100, 100)), connections_per_address: Some(7), ratelimit_headers: true };
    assert_eq!(config.limits, limits);
    let rates: Vec<_> = config.principals.iter().map(|principal| principal.rate).collect();
    assert_eq!(rates, [Some(rate(5, 9)), None]);
}

#[test]
fn a_quota_is_that_of_its_namespace_and_may_name_one_bound_alone() {
    let whole = rules_of("quota = { resources = 3, operations = 5, bytes = 7 }").quota;
    assert_eq!(whole, Quota { resources: Some(3), operations: Some(5), bytes: Some(7) });
    let config = parse("[namespaces.\"*\"]\nquota = { bytes = 0 }").unwrap();
    assert_eq!(rules(&config, "any").quota, Quota { bytes: Some(0), ..Quota::default() });
}

#[test]
fn variables_say_the_same() {
    let pairs = [
        ("FENCEGATE_LIMITS__REQUESTS_PER_SECOND", "10"),
        ("FENCEGATE_LIMITS__BURST", "20"),
        ("FENCEGATE_NAMESPACES__A__QUOTA__OPERATIONS", "5"),
    ];
    let variables: Variables =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
    let sources = Sources { file: None, variables: &variables, flags: &Flags::default(), outside: &Nowhere };
    let config = Config::parse(&sources).unwrap();
    assert_eq!(config.limits.rate, Some(rate(10, 20)));
    assert_eq!(rules(&config, "a").quota.operations, Some(5));
}

#[test]
fn slips_are_told_with_their_places() {
    let told = mistakes("[limits]\nburst = 5\n");
    assert!(told.len() == 1 && told[0].contains("requests_per_second"), "{told:#?}");
    let told = mistakes("[limits]\nrequests_per_second = 0\nquota = 1\n");
    assert_eq!(told.len(), 2, "{told:#?}");
    let told = mistakes("requests_per_second = 5\n");
    assert!(told[0].contains("under [limits]"), "{told:#?}");
    let told = mistakes("[namespaces.a]\nquota = { byte = 5 }\n");
    assert!(told[0].contains("the nearest is `bytes`"), "{told:#?}");
    let told = mistakes("[principals.a]\npermissions = { \"*\" = [\"read\"] }\nrate = {}\n");
    assert!(told[0].contains("says nothing"), "{told:#?}");
}
