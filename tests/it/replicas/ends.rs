//! Replicas that are killed and replicas that are replaced, one by one, under load.

use super::Three;
use crate::support::postgres::load::{Addresses, Load, RULES};

/// kill -9 of one replica after the other: what it answered stands, what it did not answer is asked of another, and
/// nothing happens twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_replicas_lose_and_double_nothing() {
    let Some(mut three) =
        Three::start("replicas::ends::kills_of_replicas_lose_and_double_nothing", RULES).await
    else {
        return;
    };
    let addresses = Addresses::of(&three.bases());
    let mut load = Load::start(12, &addresses, &["database_unavailable"]);
    for kill in 0..6 {
        load.proceed(80, 30).await;
        let index = kill % 3;
        let killed = std::mem::replace(&mut three.replicas[index], three.site.start());
        killed.kill();
        load.proceed(20, 30).await;
        addresses.replace(index, &three.replicas[index].base);
    }
    load.proceed(80, 30).await;
    load.finish_and_check(&three.replicas[0].client()).await;
    three.end();
}

/// A rolling restart is nobody's trouble: a writer sees success, a refusal that says "draining, again", or a closed
/// port; never a 503 that speaks of the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_is_nobodys_trouble() {
    let Some(mut three) = Three::start("replicas::ends::a_rolling_restart_is_nobodys_trouble", RULES).await
    else {
        return;
    };
    let addresses = Addresses::of(&three.bases());
    let mut load = Load::start(12, &addresses, &["draining"]);
    for index in 0..3 {
        load.proceed(100, 30).await;
        let old = std::mem::replace(&mut three.replicas[index], three.site.start());
        // Nobody is told before: some requests still go to the old one.
        let ended = tokio::task::spawn_blocking(move || old.terminate());
        load.proceed(30, 30).await;
        addresses.replace(index, &three.replicas[index].base);
        assert_eq!(ended.await.unwrap(), Some(0));
    }
    load.proceed(100, 30).await;
    load.finish_and_check(&three.replicas[0].client()).await;
    three.end();
}
