//! A store is replaced by another version of itself behind the same address.

use super::scene::Scene;
use crate::support::engines::Kind as Engine;
use crate::support::upstream::{Kind, Tags};

fn store(status: &serde_json::Value) -> serde_json::Value {
    status["stores"][0].clone()
}

/// Broken: the new version looks at no condition, and it is written to for a day. Must hold: the first answer that names
/// it has it probed, and from then on nothing is written; a version that keeps the promise is written to again.
#[tokio::test]
async fn a_store_that_is_upgraded_earns_its_class_anew() {
    let upstream = crate::support::upstream::Upstream::start(Kind::Conditional(Tags::Counter));
    upstream.call_itself(&["cells/1"]);
    let scene = Scene::before(Engine::Sqlite, upstream, "conditional", "", "").await;
    let client = &scene.gateway.client;
    let status = async || store(&client.get("/v1/status").await.json());
    let owner = client.acquire("shop/a", "alice").await;
    assert_eq!(
        (&status().await["probe"], &status().await["versions"][0]),
        (&"passed".into(), &"cells/1".into())
    );
    scene.upstream.become_another(Kind::Conditional(Tags::Ignoring));
    scene.upstream.call_itself(&["cells/2"]);
    // A read is enough to learn of it.
    client.get("/fenced/shop/a").await;
    crate::support::postgres::patience::until("it was probed", 10, async || {
        (status().await["probe"] == "failed").then_some(())
    })
    .await;
    assert!(status().await["detail"].as_str().unwrap().contains("If-Match"));
    let before = scene.writes().len();
    let refused = client.put("shop/a", &owner.token, "p1", "x", &[]).await;
    refused.refused(503, "quarantined", "none");
    assert_eq!(scene.writes().len(), before);
    scene.upstream.become_another(Kind::Conditional(Tags::Counter));
    scene.upstream.call_itself(&["cells/3"]);
    crate::support::postgres::patience::until("it passes again", 10, async || {
        (status().await["probe"] == "passed").then_some(())
    })
    .await;
    assert_eq!(status().await["versions"], serde_json::json!(["cells/3"]));
    let written = client.put("shop/a", &owner.token, "p1", "x", &[]).await;
    assert!((200..300).contains(&written.status), "its id was never bound: {written:?}");
    scene.gateway.stop().await;
}
