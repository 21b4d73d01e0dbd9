//! A store over HTTP/2 that breaks off its streams, through a whole gateway: what each class makes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fencegate::ledger::wakeup::instant;
use tokio::time::{Duration, sleep};

use super::scene::{config, header};
use crate::support::engines::Kind as Engine;
use crate::support::frames::{Play, Store, answer, goaway, reset};
use crate::support::gateway::Gateway;

async fn before(port: u16, class: &str) -> Gateway {
    let text = format!(
        "[namespaces.shop]\ncontract = \"observed\"\n[namespaces.shop.store]\nhttp = \"http://127.0.0.1:{port}/\"\n\
         class = \"{class}\"\nprotocol = \"http2\"\ntimeout_ms = 500\nconnect_timeout_ms = 500\nprobe = false\n"
    );
    let text = if class == "serial" { text.replace("probe = false\n", "") } else { text };
    Gateway::configured(Engine::Sqlite, &config(&text)).await
}

/// `RST_STREAM` and GOAWAY after the request: `serial` stops, whatever the store says of what it has not done, and nothing
/// is sent again.
#[tokio::test]
async fn a_serial_store_that_breaks_off_a_stream_leaves_a_doubt() {
    for code in [0, 2, 7, 8] {
        for away in [false, true] {
            let act = move |_, stream| vec![if away { goaway(0, code) } else { reset(stream, code) }];
            let store = Store::start(Play::frames(act)).await;
            let gateway = before(store.port, "serial").await;
            let owner = gateway.client.acquire("shop/a", "alice").await;
            let first = gateway.client.put("shop/a", &owner.token, "p1", "x", &[]).await;
            assert_eq!((first.status, header(&first, "fencing-effect")), (504, Some("unknown")), "{first:?}");
            let shown = gateway.client.get("/v1/operations/p1?resource=shop%2Fa").await.json();
            assert_eq!(shown["state"], "uncertain", "{code} {away}");
            assert_eq!(store.arrived().len(), 1, "{code} {away}");
            gateway.stop().await;
        }
    }
}

/// Nobody took the connection: no byte was sent, and the id is free.
#[tokio::test]
async fn a_store_that_is_away_costs_no_doubt_over_http2() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let gateway = before(port, "serial").await;
    let owner = gateway.client.acquire("shop/a", "alice").await;
    let refused = gateway.client.put("shop/a", &owner.token, "p1", "x", &[]).await;
    assert_eq!((refused.status, header(&refused, "fencing-effect")), (503, Some("none")), "{refused:?}");
    assert_eq!(refused.json()["code"], "upstream_unreachable");
    assert_eq!(gateway.client.get("/v1/operations/p1?resource=shop%2Fa").await.status, 404);
    gateway.stop().await;
}

/// A class that may send again does so, until the store answers.
#[tokio::test]
async fn what_may_be_sent_again_is_decided_when_the_store_answers() {
    for class in ["fence_aware", "idempotent"] {
        let tries = Arc::new(AtomicUsize::new(0));
        let count = tries.clone();
        let act = move |_, stream| match count.fetch_add(1, Ordering::SeqCst) {
            0 => vec![reset(stream, 7)],
            1 => vec![goaway(0, 0)],
            _ => answer(stream),
        };
        let store = Store::start(Play::frames(act)).await;
        let gateway = before(store.port, class).await;
        let owner = gateway.client.acquire("shop/a", "alice").await;
        gateway.client.put("shop/a", &owner.token, "p1", "x", &[("prefer", "wait=0")]).await;
        let patience = instant() + Duration::from_secs(20);
        loop {
            let shown = gateway.client.get("/v1/operations/p1?resource=shop%2Fa").await.json();
            if shown["state"] == "applied" {
                break;
            }
            assert!(shown["state"] == "intent" && instant() < patience, "{class}: {shown}");
            gateway.advance(500).await;
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(tries.load(Ordering::SeqCst), 3, "{class}");
        gateway.stop().await;
    }
}
