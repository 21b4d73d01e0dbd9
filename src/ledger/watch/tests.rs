//! Who is woken when somebody comes, is woken or goes.

use std::time::Duration;

use futures_util::FutureExt;

use super::*;

fn resource() -> ResourceName {
    ResourceName::parse("jobs/a").expect("a name")
}

fn woken(waiter: &Waiter) -> Option<Woken> {
    waiter.woken(instant() + Duration::from_secs(30), &CancellationToken::new()).now_or_never()
}

fn freed(watch: &Watch) {
    watch.slots().slot(&resource()).free();
}

#[tokio::test]
async fn a_wake_up_of_a_waiter_that_goes_is_the_next_ones() {
    let watch = Arc::new(Watch::default());
    let [first, second, third] = [(); 3].map(|()| watch.enter(&[resource()], RequestKey([0; 32])));
    assert_eq!((woken(&first), woken(&second)), (None, None));
    freed(&watch);
    // Woken, and gone before it asked.
    drop(first);
    assert_eq!((woken(&second), woken(&third)), (Some(Woken::ToAsk), None));
    // It asks, and goes before it is answered.
    drop(second);
    assert_eq!(woken(&third), Some(Woken::ToAsk));
}

#[tokio::test]
async fn a_wake_up_before_the_wait_is_not_missed() {
    let watch = Arc::new(Watch::default());
    let waiter = watch.enter(&[resource()], RequestKey([0; 32]));
    freed(&watch);
    assert_eq!(woken(&waiter), Some(Woken::ToAsk));
    assert_eq!(woken(&waiter), None);
}

#[tokio::test]
async fn a_wait_that_is_over_ends_however_often_it_is_woken() {
    let watch = Arc::new(Watch::default());
    let waiter = watch.enter(&[resource()], RequestKey([0; 32]));
    freed(&watch);
    let ended = waiter.woken(instant(), &CancellationToken::new()).await;
    assert_eq!(ended, Woken::TooLate);
}

#[tokio::test]
async fn one_that_is_granted_wakes_nobody_and_leaves_nothing() {
    let watch = Arc::new(Watch::default());
    let (mut first, second) =
        (watch.enter(&[resource()], RequestKey([0; 32])), watch.enter(&[resource()], RequestKey([0; 32])));
    first.granted();
    drop(first);
    assert_eq!(woken(&second), None);
    drop(second);
    assert!(!watch.is_watching() && watch.slots().by_name.is_empty());
}
