//! An issuer that cannot be asked: what goes on, for how long, and what callers are told.

use fencegate::access::key::ApiKey;
use serde_json::json;

use super::gateway;
use super::issuer::{Issuer, NOW, Signer, claims, with};
use super::tokens::{configured, name, whoami};
use crate::support::gateway::Gateway;

pub(super) fn keyed(text: &str, key: &ApiKey) -> String {
    format!(
        "{text}[principals.keyed]\npermissions = {{ \"*\" = [\"read\"] }}\nkeys = [{{ id = \"{}\", sha256 = \"{}\" }}]\n",
        key.id(),
        key.digest()
    )
}

async fn works(gateway: &Gateway, key: &ApiKey) {
    assert_eq!(whoami(gateway, &key.reveal()).await.expect(200)["principal"], "keyed");
}

#[tokio::test]
async fn an_outage_locks_nobody_out_and_keys_are_not_believed_for_ever() {
    // Broken: while the issuer is down everybody is refused, or a caller is told that its good token is bad and gives up; or
    // keys of last month are believed still. Must hold: known keys work on up to a bound; what cannot be known is 503.
    let (ec, key) = (Signer::ec("one"), ApiKey::of([1; 6], [2; 32]));
    let issuer = Issuer::start(&[&ec]).await;
    let gateway = gateway(&keyed(&configured(&issuer, ", max_stale = \"1h\""), &key)).await;
    let token = ec.token(&with(&claims("user-1"), &json!({"exp": NOW + 90_000})));
    assert_eq!(name(&whoami(&gateway, &token).await), "alice");
    let new = Signer::ed("new").token(&claims("user-1"));
    let large = format!("{{\"keys\": [{}], \"more\": \"{}\"}}", ec.jwk(), "x".repeat(300_000));
    let moved = json!({"keys": [ec.jwk()]}).to_string();
    for (status, body) in [
        (500, "{}".to_owned()),
        (200, "{}".to_owned()),
        (200, "<html>".to_owned()),
        (200, large),
        (302, moved),
    ] {
        let before = issuer.fetches();
        issuer.answer(status, body);
        gateway.clock.advance(10_000);
        let problem = whoami(&gateway, &new).await.refused(503, "credentials_unavailable", "none");
        assert_eq!(problem["retry_after_ms"], 10_000);
        assert!(issuer.fetches() > before, "{status}");
        assert_eq!(name(&whoami(&gateway, &token).await), "alice");
    }
    gateway.clock.advance(3_550_000);
    assert_eq!(name(&whoami(&gateway, &token).await), "alice");
    gateway.clock.advance(1);
    whoami(&gateway, &token).await.refused(503, "credentials_unavailable", "none");
    works(&gateway, &key).await;
    issuer.publish(&[&ec]);
    gateway.clock.advance(10_000);
    assert_eq!(name(&whoami(&gateway, &token).await), "alice");
    gateway.stop().await;
}

#[tokio::test]
async fn a_gateway_starts_while_the_issuer_is_silent() {
    // Broken: the gateway does not start, or a request hangs as long as the issuer does. Must hold: keys work, tokens are
    // answered within their patience, and work as soon as the issuer does.
    let (ec, key) = (Signer::ec("one"), ApiKey::of([1; 6], [2; 32]));
    let issuer = Issuer::start(&[&ec]).await;
    issuer.fall_silent();
    let gateway = gateway(&keyed(&configured(&issuer, ""), &key)).await;
    works(&gateway, &key).await;
    let token = ec.token(&claims("user-1"));
    whoami(&gateway, &token).await.refused(503, "credentials_unavailable", "none");
    assert_eq!(issuer.fetches(), 1);
    gateway.stop().await;
}
