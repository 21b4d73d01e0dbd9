//! A store that remembers more than the database: the database was restored from before, and everybody is told.

use serde_json::{Value, json};

use super::scene::Scene;
use crate::support::client::{Answer, Client};
use crate::support::engines::all_for;

const STORE: &str = "probe = false";
const RULES: &str = "policy = \"ordered\"\ncontract = \"observed\"\nissuer = { external = \"trusted\" }";

async fn put(client: &Client, name: &str, token: &str, operation: &str) -> Answer {
    client.put(name, token, operation, "x", &[("fencing-sequence", "1"), ("prefer", "wait=2")]).await
}

async fn written(client: &Client, name: &str, token: &str, operation: &str) {
    let answer = put(client, name, token, operation).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
}

async fn keyed(client: &Client, path: &str, body: &Value) -> Value {
    let request = client.request(reqwest::Method::POST, path).header("idempotency-key", "a");
    let answer = Answer::of(request.json(body)).await;
    assert!([200, 202].contains(&answer.status), "{}", answer.text());
    answer.json()
}

/// Broken: a gateway over a restored database writes over what the store has taken since. Must hold: the first answer of
/// the store stops the whole namespace; reads go on with a warning; a new epoch is the way out, in which old tokens stay
/// refused; and the resource itself waits for whoever looks into it.
#[tokio::test]
async fn a_store_that_is_ahead_of_the_record_stops_its_namespace() {
    for engine in all_for("upstreams::ahead::a_store_that_is_ahead_of_the_record_stops_its_namespace") {
        for class in ["conditional", "fence_aware"] {
            let Scene { gateway, upstream } = Scene::of(engine, class, STORE, RULES).await;
            written(&gateway.client, "shop/a", "7", "seven").await;
            written(&gateway.client, "shop/a", "8", "eight").await;
            written(&gateway.client, "shop/c", "8", "eight").await;
            gateway.stop().await;
            // The same store, and a database that knows nothing of it.
            let scene = Scene::before(engine, upstream, class, STORE, RULES).await;
            let (client, effects) = (&scene.gateway.client, scene.effects().len());
            let first = put(client, "shop/a", "3", "three").await;
            assert!(first.status >= 400, "{class}: {}", first.text());
            let other = put(client, "shop/b", "3", "three").await.refused(503, "quarantined", "none");
            let detail = other["detail"].as_str().unwrap();
            assert!(detail.contains("(detector store") && !detail.contains("shop/a"), "{detail}");
            let shown = client.get("/v1/namespaces/shop").await.expect(200)["breaker"]["found"].clone();
            let found = shown.as_str().unwrap();
            assert!(found.contains("the store of shop/a is ahead of the record"), "{found}");
            assert_eq!(scene.effects().len(), effects, "{class}");
            assert_eq!(client.get("/readyz").await.status, 503);
            assert_eq!(client.get("/fenced/shop/a").await.header("fencing-warning"), Some("quarantined"));

            let confirmed = json!({"reason": "restored", "confirm": "shop", "leave_open": true});
            let begun = keyed(client, "/v1/namespaces/shop/epoch", &confirmed).await;
            assert_eq!((&begun["epoch"], &begun["breaker"]), (&json!("1"), &Value::Null));
            client.get("/readyz").await.expect(200);
            for stale in ["3", "8", "900", "0.900"] {
                put(client, "shop/b", stale, "late").await.refused(412, "stale_token", "none");
            }
            written(client, "shop/b", "1.1", "next").await;
            put(client, "shop/a", "1.1", "next").await.refused(503, "quarantined", "none");
            keyed(client, "/v1/reopen/shop/a", &json!({"reason": "looked into it"})).await;
            written(client, "shop/a", "1.1", "next").await;
            put(client, "shop/a", "8", "late").await.refused(412, "stale_token", "none");
            // What else was lost there is looked into cell by cell: an operator has said that what stands here counts.
            if class == "conditional" {
                let cell = put(client, "shop/c", "1.1", "over").await;
                assert!(cell.status >= 400, "{}", cell.text());
                written(client, "shop/b", "1.2", "meanwhile").await;
                client.get("/readyz").await.expect(200);
                keyed(client, "/v1/reopen/shop/c", &json!({"reason": "looked into it"})).await;
            }
            scene.gateway.stop().await;
        }
    }
}
