//! An acquire is repeated because its answer was lost: the same acquisition, and no second token.

use std::time::Duration;

use fencegate::ledger::wakeup::instant;
use serde_json::json;
use tokio::task::JoinSet;

use super::raw::Call;
use super::scene::{Dice, RACE, Scene, Shape, acquire, id_of, release, told_on, wanted};
use crate::support::postgres::patience;

told_on!([sqlite Sqlite, postgres Postgres, replicas Replicas], [
    a_repeat_through_any_gateway_is_the_same_acquisition,
    a_repeat_after_a_hang_up_finds_what_was_granted,
    a_repeat_after_a_kill_finds_what_was_granted,
    a_repeat_that_waits_is_told_of_its_own_lease,
]);

/// Broken: the answer to an acquire is lost, and the repeat burns a second token or waits for its own lease. Must hold:
/// every copy, at whichever gateway and at whatever time, is the one acquisition while it lives.
async fn a_repeat_through_any_gateway_is_the_same_acquisition(shape: Shape) {
    let scene = Scene::start(shape, RACE).await;
    for round in 1..=8 {
        let wanted = wanted("jobs/a", 20_000, if round % 2 == 0 { 5_000 } else { 0 });
        let mut copies = JoinSet::new();
        for client in scene.clients(9) {
            let wanted = wanted.clone();
            copies.spawn(async move { acquire(&client, &wanted).await });
        }
        let answers = copies.join_all().await;
        let made = answers.iter().filter(|answer| answer.status == 201).count();
        assert_eq!(made, 1, "{:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
        let lease = answers.iter().find(|answer| answer.status == 201).unwrap().json();
        assert_eq!(lease["position"], format!("0.{round}"), "a token was burnt");
        for answer in &answers {
            let copy = if answer.status == 201 { answer.json() } else { answer.expect(200) };
            assert_eq!((id_of(&copy), &copy["fencing_token"]), (id_of(&lease), &lease["fencing_token"]));
        }
        let mut other = wanted.clone();
        other["ttl_ms"] = json!(21_000);
        acquire(&scene.client(round), &other).await.refused(422, "request_mismatch", "none");
        scene
            .client(round)
            .post(&format!("/v1/leases/{}/renew", id_of(&lease)), &json!({}))
            .await
            .expect(200);
        let late = acquire(&scene.client(round + 1), &wanted).await.expect(200);
        assert_eq!(id_of(&late), id_of(&lease));
        release(&scene.client(round + 2), &lease).await;
        acquire(&scene.client(round), &wanted).await.refused(410, "lease_released", "none");
    }
    scene.end();
}

/// Broken: a client that hangs up at some moment of its acquire leaves a lease that it cannot find again. Must hold: the
/// repeat is that lease, or the first was never granted; the token goes up by one in any case.
async fn a_repeat_after_a_hang_up_finds_what_was_granted(shape: Shape) {
    let scene = Scene::start(shape, RACE).await;
    let (mut dice, mut found) = (Dice(7), 0);
    for round in 1..=90_usize {
        let wanted = wanted("jobs/a", 20_000, if round % 3 == 0 { 5_000 } else { 0 });
        let call = Call::acquire(&scene.client(round), &wanted).await;
        dice.pause(6_000).await;
        drop(call);
        let answer = acquire(&scene.client(round + 1), &wanted).await;
        let lease = if answer.status == 200 { answer.json() } else { answer.expect(201) };
        assert_eq!(lease["position"], format!("0.{round}"), "a token was burnt");
        found += usize::from(answer.status == 200);
        release(&scene.client(round), &lease).await;
    }
    assert!(found > 0, "no hang-up came after a grant: the test tries nothing");
    scene.end();
}

/// Broken: the gateway dies by kill -9 between the commit and the answer. Must hold: the repeat at another gateway, or at
/// the next life of this one, is the acquisition that was committed.
async fn a_repeat_after_a_kill_finds_what_was_granted(shape: Shape) {
    let mut scene = Scene::start(shape, RACE).await;
    let (mut dice, mut round, mut found) = (Dice(11), 0_u64, 0);
    // A busy machine may take several rounds until one kill comes between the commit and the answer.
    while round < 8 || (found == 0 && round < 64) {
        round += 1;
        let wanted = wanted("jobs/a", 30_000, if round % 2 == 0 { 5_000 } else { 0 });
        let call = Call::acquire(&scene.client(0), &wanted).await;
        dice.pause(9_000).await;
        scene.replace(0);
        let answered = call.answer().await;
        let client = scene.client(usize::try_from(round).unwrap());
        let again = patience::until("a gateway answers", 10, async || {
            let answer = acquire(&client, &wanted).await;
            (answer.status != 503).then_some(answer)
        })
        .await;
        let lease = if again.status == 200 { again.json() } else { again.expect(201) };
        assert_eq!(lease["position"], format!("0.{round}"), "a token was burnt");
        found += u64::from(again.status == 200);
        if let Some((status, first)) = answered {
            assert_eq!((status, id_of(&first)), (201, id_of(&lease)), "an acknowledged lease was lost");
        }
        release(&scene.client(0), &lease).await;
        // What the killed gateway had begun at the database may end a moment later; it must not appear then.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(found > 0, "no kill came after a commit: the test tries nothing");
    scene.end();
}

/// Broken: two deliveries of one request wait, one is granted, and the other one waits for its own lease until it times out.
/// Must hold: the other one gets the same acquisition shortly after, and one with another holder is told of the mismatch.
async fn a_repeat_that_waits_is_told_of_its_own_lease(shape: Shape) {
    let scene = Scene::start(shape, RACE).await;
    let owner = acquire(&scene.client(0), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    let wanted = wanted("jobs/a", 20_000, 15_000);
    let mut another = wanted.clone();
    another["holder"] = json!("somebody else");
    let mut calls = Vec::new();
    for (number, body) in [&wanted, &wanted, &wanted, &another].into_iter().enumerate() {
        calls.push(Call::acquire(&scene.client(number), body).await);
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let began = instant();
    release(&scene.client(1), &owner).await;
    let mut told = Vec::new();
    for call in calls {
        told.push(call.answer().await.unwrap());
    }
    assert!(began.elapsed() < Duration::from_secs(10), "somebody waited for its own lease");
    let statuses: Vec<u16> = told.iter().map(|(status, _)| *status).collect();
    let mut same = statuses[..3].to_vec();
    same.sort_unstable();
    assert_eq!((same, statuses[3]), (vec![200, 200, 201], 422), "{told:?}");
    let first = id_of(&told[0].1);
    assert!(told[..3].iter().all(|(_, lease)| id_of(lease) == first));
    scene.end();
}
