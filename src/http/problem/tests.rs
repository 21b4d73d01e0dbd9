//! Problems by themselves.

use super::*;

#[test]
fn a_wait_is_rounded_up_to_whole_seconds_and_never_to_none() {
    assert_eq!(whole_seconds(Duration::from_millis(50)), 1);
    assert_eq!(whole_seconds(Duration::from_secs(1)), 1);
    assert_eq!(whole_seconds(Duration::from_millis(20_001)), 21);
    assert_eq!(whole_seconds(Duration::ZERO), 1);
}

#[test]
fn who_is_refused_in_one_moment_comes_back_in_several() {
    let wait =
        |number: u64| spread(limits::RETRY_AFTER, Uuid::from_u64_pair(7, 0x9000_0000_0000_0000 + number));
    let mut counts = [0_u32; 6];
    for number in 0..3_000 {
        counts[usize::try_from(whole_seconds(wait(number))).unwrap()] += 1;
    }
    assert!(counts[2] > 900 && counts[3] > 900 && counts[4] > 900, "{counts:?}");
    assert_eq!((counts[0], counts[5]), (0, 0));
}

#[test]
fn a_fault_of_a_read_changed_nothing() {
    let path = "/fenced/s/a".to_owned();
    let instance =
        Instance { path, found: true, request_id: Uuid::nil(), trace_id: None, safe: true, data_plane: true };
    let answer = Problem::fault().render(&instance);
    assert_eq!(answer.headers().get("fencing-effect"), Some(&HeaderValue::from_static("none")));
}

#[test]
fn what_a_retry_can_help_says_when() {
    for code in Code::ALL {
        let problem = Problem::new(*code, "a reason");
        let wanted = code.retryable() && *code != Code::RequestTimeout;
        assert_eq!(problem.more.retry_after.is_some(), wanted, "{code:?}");
    }
}
