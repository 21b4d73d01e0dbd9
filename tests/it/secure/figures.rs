//! That operators see in time when a certificate ends and when the keys of an issuer become old.

use fencegate::app::reload_tls;

use super::issuer::{Issuer, Signer, claims};
use super::tokens::{configured, name, whoami};
use super::{Authority, gateway, parsed, secure};
use crate::support::client::{Answer, Client};

const ENDS: &str = "fencegate_certificate_not_after_seconds";

async fn scrape(client: &Client) -> String {
    let answer = client.get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

fn value(scrape: &str, name: &str) -> Option<u64> {
    let line = scrape.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.trim_end_matches(".0").parse().unwrap_or_else(|_| panic!("{line}")))
}

/// What a gateway tells that speaks TLS and takes tokens; those who are asked for nothing may look.
pub(crate) async fn of_a_guarded_gateway() -> String {
    let authority = Authority::new();
    authority.issue_gateway("gate");
    let issuer = Issuer::start(&[&Signer::ec("one")]).await;
    let text = format!(
        "{}[principals.operator]\npermissions = {{ \"*\" = [\"read\"] }}\njwt_subjects = [\"operator\"]\n",
        configured(&issuer, "")
    );
    let signer = Signer::ec("one");
    issuer.publish(&[&signer]);
    let gateway = gateway(&format!("{}{text}", authority.table("gate", ""))).await;
    let client = secure(&gateway, &authority.trust(None));
    let request = client.request(reqwest::Method::GET, "/metrics");
    let token = signer.token(&claims("operator"));
    let told = request.header("authorization", format!("Bearer {token}")).send().await.unwrap();
    assert_eq!(told.status(), 200);
    let text = told.text().await.unwrap();
    gateway.stop().await;
    text
}

/// Broken: a certificate ends in the night of a holiday, and the figure that an alert looks at is that of the one before it, or
/// there is none. Must hold: the end of the certificate in use is told, after a reload that of the new one; without TLS nothing.
#[tokio::test]
async fn the_end_of_the_certificate_in_use_is_told() {
    let authority = Authority::new();
    authority.issue_gateway("gate");
    let text = authority.table("gate", "");
    let guarded = gateway(&text).await;
    let client = secure(&guarded, &authority.trust(None));
    // The first of January 2035.
    assert_eq!(value(&scrape(&client).await, ENDS), Some(2_051_222_400));
    authority.issue_gateway_until("gate", (2036, 1, 1));
    reload_tls(guarded.tls.as_ref().unwrap(), &parsed(&text).tls.unwrap()).unwrap();
    assert_eq!(value(&scrape(&client).await, ENDS), Some(2_082_758_400));
    guarded.stop().await;
    let plain = gateway("").await;
    let told = scrape(&plain.client).await;
    assert!(!told.contains(ENDS) && !told.contains("fencegate_jwks"), "{told}");
    plain.stop().await;
}

/// Broken: an issuer has been away for a day, every token is refused, and nobody was told while it could be mended; or an age is
/// told of keys that were never there. Must hold: the age of the keys in use grows until they are fetched again, beside its limit.
#[tokio::test]
async fn the_age_of_the_issuers_keys_is_told() {
    let ec = Signer::ec("one");
    let issuer = Issuer::start(&[&ec]).await;
    issuer.answer(500, String::new());
    let text = configured(&issuer, ", max_stale = \"1h\"").replace("[\"read\", \"lease\"]", "[\"read\"]");
    let gateway = gateway(&text.replace("\"jobs\" = [\"read\"]", "\"*\" = [\"read\"]")).await;
    let token = ec.token(&claims("user-1"));
    whoami(&gateway, &token).await.refused(503, "credentials_unavailable", "none");
    let told = async || {
        let request = gateway.client.request(reqwest::Method::GET, "/metrics");
        let request = request.header("authorization", format!("Bearer {token}"));
        let answer = Answer::of(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let of = |name: &str| value(&answer.text(), &format!("fencegate_jwks_{name}"));
        (of("keys"), of("age_seconds"), of("age_limit_seconds"))
    };
    issuer.publish(&[&ec]);
    gateway.clock.advance(10_000);
    assert_eq!(name(&whoami(&gateway, &token).await), "alice");
    assert_eq!(told().await, (Some(1), Some(0), Some(3_600)));
    issuer.answer(500, String::new());
    gateway.clock.advance(120_000);
    assert_eq!(told().await, (Some(1), Some(120), Some(3_600)));
    gateway.stop().await;
}

/// The same before the first fetch, for a caller with a key.
#[tokio::test]
async fn keys_that_were_never_there_have_no_age() {
    let issuer = Issuer::start(&[&Signer::ec("one")]).await;
    issuer.answer(500, String::new());
    let key = fencegate::access::key::ApiKey::of([1; 6], [2; 32]);
    let text = super::outage::keyed(&configured(&issuer, ""), &key);
    let gateway = gateway(&text).await;
    let request = gateway.client.request(reqwest::Method::GET, "/metrics");
    let request = request.header("authorization", format!("Bearer {}", key.reveal().as_str()));
    let told = Answer::of(request).await.text();
    assert_eq!(value(&told, "fencegate_jwks_keys"), Some(0));
    assert_eq!(value(&told, "fencegate_jwks_age_seconds"), None);
    assert_eq!(value(&told, "fencegate_jwks_age_limit_seconds"), Some(86_400));
    gateway.stop().await;
}
