//! Answers that are lost, late or wrong: what had an effect is found out, and nothing has it twice.

use serde_json::json;

use super::scene::{CLASSES, Scene, header};
use crate::support::client::Answer;
use crate::support::engines::{Kind as Engine, all_for};
use crate::support::upstream::Fault;

/// Patience that a test has with an attempt.
const SHORT: &str = "timeout_ms = 400\nconnect_timeout_ms = 400";

async fn put(scene: &Scene, token: &str, operation: &str, body: &str) -> Answer {
    scene.gateway.client.put("shop/a", token, operation, body, &[]).await
}

/// The store has acted and the answer is lost, in each way in which an answer can be lost. All classes but `serial`
/// find out by themselves, and no effect happens twice.
#[tokio::test]
async fn an_effect_whose_answer_was_lost_is_found_out() {
    let lost =
        [Fault::DropAnswer, Fault::ErrorAfterEffect, Fault::Truncated, Fault::NeverAnswer, Fault::Endless];
    for engine in all_for("upstreams::faults::an_effect_whose_answer_was_lost_is_found_out") {
        for class in ["conditional", "fence_aware", "idempotent"] {
            let scene = Scene::of(engine, class, SHORT, "policy = \"ordered\"").await;
            let owner = scene.gateway.client.acquire("shop/a", "alice").await;
            for (number, fault) in lost.iter().enumerate() {
                scene.upstream.fault(fault.clone());
                let (operation, sequence) = (format!("p{number}"), (number + 1).to_string());
                let sequence = [("fencing-sequence", sequence.as_str())];
                let sending =
                    scene.gateway.client.put("shop/a", &owner.token, &operation, &operation, &sequence);
                let deciding = scene.decided("shop/a", &operation);
                let (answer, decided) = tokio::join!(sending, deciding);
                let told = format!("{engine:?} {class} {fault:?}: {answer:?} {decided}");
                assert_eq!(decided["state"], "applied", "{told}");
                // An impatient caller is told that it is not known yet, and a patient one what became of it.
                assert!((200..300).contains(&answer.status) || answer.status == 504, "{told}");
                let effects = scene.effects();
                assert_eq!(effects.len(), number + 1, "once: {told} {effects:?}");
                let again =
                    scene.gateway.client.put("shop/a", &owner.token, &operation, &operation, &sequence);
                let again = again.await;
                assert!((200..300).contains(&again.status), "{told} {again:?}");
                assert_eq!(header(&again, "idempotent-replayed"), Some("true"), "{told}");
            }
            scene.gateway.stop().await;
        }
    }
}

/// `serial` cannot find out: the operation is uncertain, everybody else waits, and a person's verdict ends that.
#[tokio::test]
async fn a_serial_store_stops_at_a_doubt_until_a_person_says_what_happened() {
    for engine in
        all_for("upstreams::faults::a_serial_store_stops_at_a_doubt_until_a_person_says_what_happened")
    {
        for (verdict, applied) in [("applied", true), ("not_applied", false)] {
            let scene = Scene::of(engine, "serial", SHORT, "policy = \"ordered\"").await;
            let client = &scene.gateway.client;
            let owner = client.acquire("shop/a", "alice").await;
            scene.upstream.fault(Fault::DropAnswer);
            let sequence = |number| [("fencing-sequence", number)];
            let first = client.put("shop/a", &owner.token, "p1", "x", &sequence("1")).await;
            assert_eq!((first.status, header(&first, "fencing-effect")), (504, Some("unknown")));
            assert_eq!(first.json()["code"], "outcome_uncertain");
            let again = client.put("shop/a", &owner.token, "p1", "x", &sequence("1")).await;
            assert_eq!(again.json()["code"], "outcome_uncertain");
            let wait = [("fencing-sequence", "2"), ("prefer", "wait=0")];
            let second = client.put("shop/a", &owner.token, "p2", "y", &wait).await;
            assert_eq!((second.status, second.json()["code"].as_str()), (409, Some("lane_busy")));
            assert_eq!(scene.writes().len(), 1, "never a second request");
            let shown = client.get("/v1/resources/shop/a").await.json();
            assert_eq!(
                (shown["state"].as_str(), shown["lane"].as_str()),
                (Some("needs_attention"), Some("p1"))
            );
            let listed = client.get("/v1/operations?state=uncertain").await.json();
            assert_eq!(listed["items"][0]["operation_id"], "p1");
            let path = "/v1/operations/p1/resolve?resource=shop%2Fa";
            let body = json!({"verdict": verdict, "evidence": "looked at it", "reason": "test"});
            let resolved = client.post(path, &body).await.expect(200);
            assert_eq!(resolved["state"], format!("resolved_{verdict}"));
            let opposite = if applied { "not_applied" } else { "applied" };
            let body = json!({"verdict": opposite, "evidence": "changed my mind", "reason": "test"});
            let undone = client.post(path, &body).await;
            assert_eq!((undone.status, undone.json()["code"].as_str()), (409, Some("already_resolved")));
            let replay = client.put("shop/a", &owner.token, "p1", "x", &sequence("1")).await;
            if applied {
                assert_eq!(header(&replay, "fencing-effect"), Some("applied"), "{replay:?}");
            } else {
                assert_eq!(replay.json()["code"], "operation_not_applied");
            }
            let second = client.put("shop/a", &owner.token, "p2", "y", &sequence("2")).await;
            assert!((200..300).contains(&second.status), "{second:?}");
            scene.gateway.stop().await;
        }
    }
}

/// A refusal of the store is relayed as it came and bound to the operation; one that says nothing about the operation
/// is not, and the same operation may succeed later.
#[tokio::test]
async fn a_refusal_of_the_store_is_relayed_and_bound_unless_it_is_about_the_gateway() {
    for class in CLASSES {
        let scene = Scene::of(Engine::Sqlite, class, SHORT, "policy = \"ordered\"").await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let sequence = |number| [("fencing-sequence", number)];
        for status in [401, 403, 425, 429] {
            scene.upstream.fault(Fault::Status(status));
            let refused = client.put("shop/a", &owner.token, "p1", "x", &sequence("1")).await;
            assert_eq!(
                (refused.status, header(&refused, "fencing-effect")),
                (status, Some("none")),
                "{class}"
            );
            assert_eq!(header(&refused, "fencing-source"), Some("upstream"), "{class}");
            let shown = client.get("/v1/operations/p1?resource=shop%2Fa").await;
            assert_eq!(shown.status, 404, "{class} {status}: its id is free");
        }
        let done = client.put("shop/a", &owner.token, "p1", "x", &sequence("1")).await;
        assert!((200..300).contains(&done.status), "{class}: {done:?}");
        let before = scene.writes().len();
        scene.upstream.fault(Fault::Status(404));
        let refused = client.put("shop/a", &owner.token, "p2", "y", &sequence("2")).await;
        assert_eq!((refused.status, header(&refused, "fencing-effect")), (404, Some("none")), "{class}");
        let again = client.put("shop/a", &owner.token, "p2", "y", &sequence("2")).await;
        assert_eq!((again.status, &again.bytes), (404, &refused.bytes), "{class}");
        assert_eq!(header(&again, "idempotent-replayed"), Some("true"), "{class}");
        assert_eq!(scene.writes().len(), before + 1, "{class}: sent once");
        assert_eq!(scene.effects().len(), 1, "{class}");
        scene.gateway.stop().await;
    }
}

/// Not one byte was sent: nothing is announced for long, and the caller may come again with the same id.
#[tokio::test]
async fn a_store_that_is_away_costs_no_doubt() {
    for class in CLASSES {
        let scene = Scene::of(Engine::Sqlite, class, SHORT, "").await;
        let owner = scene.gateway.client.acquire("shop/a", "alice").await;
        let done = put(&scene, &owner.token, "p1", "x").await;
        assert!((200..300).contains(&done.status), "{class}: {done:?}");
        let Scene { gateway, upstream } = scene;
        drop(upstream);
        let next = gateway.client.acquire("shop/b", "alice").await;
        let refused = gateway.client.put("shop/b", &next.token, "p1", "x", &[]).await;
        assert_eq!(
            (refused.status, refused.json()["code"].as_str()),
            (503, Some("upstream_unreachable")),
            "{class}"
        );
        assert_eq!(header(&refused, "fencing-effect"), Some("none"), "{class}");
        let shown = gateway.client.get("/v1/operations/p1?resource=shop%2Fb").await;
        assert_eq!(shown.status, 404, "{class}: its id is free");
        let read = gateway.client.get("/fenced/shop/a").await;
        assert_eq!(
            (read.status, read.json()["code"].as_str()),
            (503, Some("upstream_unreachable")),
            "{class}"
        );
        gateway.stop().await;
    }
}
