//! Tokens of an issuer: who they speak of, what is wrong with forged ones, and keys that change.

use std::time::Duration;

use fencegate::limits::STRANGER_BURST;
use reqwest::Method;
use ring::hmac;
use serde_json::{Value, json};

use super::gateway;
use super::issuer::{AUDIENCE, Issuer, NAME, NOW, Signer, claims, encoded, message, with};
use crate::support::client::Answer;
use crate::support::gateway::Gateway;

/// Alice by her subject, writers and readers by their roles.
pub(super) fn configured(issuer: &Issuer, more: &str) -> String {
    format!(
        "jwt = {{ issuer = {NAME:?}, audience = [{AUDIENCE:?}, \"other\"], jwks_url = {:?}, leeway = \"30s\", \
         roles_claim = \"/realm/roles\"{more} }}\n\
         [principals.alice]\npermissions = {{ \"jobs\" = [\"read\", \"lease\"] }}\njwt_subjects = [\"user-1\"]\n\
         [principals.writers]\npermissions = {{ \"jobs\" = [\"write\"] }}\njwt_roles = [\"writer\"]\n\
         [principals.readers]\npermissions = {{ \"jobs\" = [\"read\"] }}\njwt_roles = [\"reader\"]\n",
        issuer.url
    )
}

pub(super) async fn whoami(gateway: &Gateway, token: &str) -> Answer {
    let request = gateway.client.request(Method::GET, "/v1/whoami");
    Answer::of(request.header("authorization", format!("Bearer {token}"))).await
}

pub(super) fn name(answer: &Answer) -> String {
    let json = answer.expect(200);
    assert_eq!(json["credential"], "jwt");
    json["principal"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_speaks_of_one_principal() {
    // Broken: of two principals that a token's roles name one is taken by chance, or a role gives more than the subject was
    // given. Must hold: the subject decides; without one, exactly one principal's roles.
    let (ec, ed) = (Signer::ec("one"), Signer::ed("two"));
    let issuer = Issuer::start(&[&ec, &ed]).await;
    let gateway = gateway(&configured(&issuer, "")).await;
    let of = |subject: &str, roles: Value| with(&claims(subject), &json!({"realm": {"roles": roles}}));
    for signer in [&ec, &ed] {
        let answer = whoami(&gateway, &signer.token(&of("user-1", json!(["writer", "reader"])))).await;
        assert_eq!(name(&answer), "alice");
        assert_eq!(answer.json()["expires_at"], "2026-09-13T08:10:00.000Z");
        assert_eq!(answer.json()["key"], Value::Null);
        for (roles, principal) in [(json!(["writer", "x"]), "writers"), (json!("x reader"), "readers")] {
            assert_eq!(name(&whoami(&gateway, &signer.token(&of("user-2", roles))).await), principal);
        }
        let without = with(&of("", json!(["writer"])), &json!({"sub": null}));
        assert_eq!(name(&whoami(&gateway, &signer.token(&without)).await), "writers");
        for roles in
            [json!(["writer", "reader"]), json!(["alice"]), json!([]), json!({"writer": true}), json!(7)]
        {
            let token = signer.token(&of("user-2", roles));
            whoami(&gateway, &token).await.refused(401, "unauthenticated", "none");
        }
        let elsewhere = with(&claims("user-2"), &json!({"roles": ["writer"], "/realm/roles": ["writer"]}));
        whoami(&gateway, &signer.token(&elsewhere)).await.refused(401, "unauthenticated", "none");
    }
    // Without a key's name the only key that fits is meant.
    let unnamed = ec.sign(&json!({"alg": "ES256"}), &claims("user-1"));
    assert_eq!(name(&whoami(&gateway, &unnamed).await), "alice");
    assert_eq!(issuer.fetches(), 1, "keys are not fetched with requests");
    gateway.stop().await;
}

#[tokio::test]
async fn a_forged_token_opens_nothing_and_learns_nothing() {
    // Broken: a token without a signature, signed with the public key as a shared secret, by somebody else, for somebody
    // else, or of yesterday opens something; or the answer tells which of it was wrong. Must hold: all are answered alike.
    let (ec, ed, other) = (Signer::ec("one"), Signer::ed("two"), Signer::ec("one"));
    let issuer = Issuer::start(&[&ec, &ed]).await;
    let gateway = gateway(&configured(&issuer, "")).await;
    let good = claims("user-1");
    assert_eq!(name(&whoami(&gateway, &ec.token(&good)).await), "alice");
    let head = |algorithm: &str, more: &Value| with(&json!({"alg": algorithm, "kid": "one"}), more);
    let mut forged: Vec<(&str, String)> = Vec::new();
    for changes in [
        json!({"exp": NOW - 31}),
        json!({"exp": null}),
        json!({"exp": "tomorrow"}),
        json!({"exp": (NOW + 600).to_string()}),
        json!({"exp": -1}),
        json!({"nbf": NOW + 31}),
        json!({"nbf": "soon"}),
        json!({"aud": "another"}),
        json!({"aud": ["another", "fencegate2"]}),
        json!({"aud": null}),
        json!({"aud": []}),
        json!({"iss": "https://issuer.example"}),
        json!({"iss": null}),
        json!({"iss": [NAME]}),
        json!({"sub": "user-2"}),
        json!({"sub": 1}),
    ] {
        forged.push(("claims", ec.token(&with(&good, &changes))));
    }
    forged.push(("another key of the same name", other.token(&good)));
    forged.push(("two keys could be meant", ec.sign(&json!({"alg": "HS256"}), &good)));
    forged.push((
        "what must be understood",
        ec.sign(&head("ES256", &json!({"crit": ["exp"], "exp": 1})), &good),
    ));
    forged.push(("another algorithm of the key", ec.sign(&head("ES384", &json!({})), &good)));
    forged.push(("the algorithm of another key", ed.sign(&head("EdDSA", &json!({})), &good)));
    for algorithm in ["none", "None", "", "HS256", "RS256", "dir"] {
        forged.push((algorithm, format!("{}.", message(&head(algorithm, &json!({})), &good))));
    }
    for secret in [ec.public(), ec.jwk().to_string().into_bytes(), Vec::from("one")] {
        let message = message(&head("HS256", &json!({})), &good);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
        forged.push(("the public key as a secret", format!("{message}.{}", encoded(tag.as_ref()))));
    }
    let whole = ec.token(&good);
    let (signed, signature) = whole.rsplit_once('.').unwrap();
    let admin = message(&head("ES256", &json!({})), &with(&good, &json!({"exp": NOW + 6_000})));
    forged.push(("other claims under the signature", format!("{admin}.{signature}")));
    forged.push(("no signature", format!("{signed}.")));
    forged.push(("half a signature", format!("{signed}.{}", &signature[..40])));
    forged.push(("a signature of zeros", format!("{signed}.{}", encoded(&[0; 64]))));
    forged.push(("one part more", format!("{whole}.x")));
    forged.push(("one part", "x".to_owned()));
    forged.push(("its own key", {
        let header = json!({"alg": "ES256", "jwk": other.jwk(), "jku": "http://127.0.0.1:1/", "kid": "one"});
        other.sign(&header, &good)
    }));
    let mut answers = std::collections::BTreeSet::new();
    for (what, token) in &forged {
        let answer = whoami(&gateway, token).await;
        assert_eq!(answer.status, 401, "{what}: {token}");
        answers.insert(answer.json()["detail"].as_str().unwrap().to_owned());
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    let long = ec.token(&with(&good, &json!({"more": "x".repeat(9_000)})));
    whoami(&gateway, &long).await.refused(401, "unauthenticated", "none");
    assert_eq!(name(&whoami(&gateway, &whole).await), "alice");
    gateway.stop().await;
}

#[tokio::test]
async fn a_token_ends_although_it_was_verified_before() {
    // Broken: a token that was found right once is taken for ever. Must hold: it ends when it says, and the leeway after; and
    // it begins as much before.
    let ec = Signer::ec("one");
    let issuer = Issuer::start(&[&ec]).await;
    let gateway = gateway(&configured(&issuer, "")).await;
    let token = ec.token(&claims("user-1"));
    assert_eq!(name(&whoami(&gateway, &token).await), "alice");
    gateway.clock.advance(629_999);
    assert_eq!(name(&whoami(&gateway, &token).await), "alice");
    gateway.clock.advance(1);
    whoami(&gateway, &token).await.refused(401, "unauthenticated", "none");
    let later = ec.token(&with(&claims("user-1"), &json!({"nbf": NOW + 660, "exp": NOW + 9_000})));
    assert_eq!(name(&whoami(&gateway, &later).await), "alice");
    let fraction = with(&claims("user-1"), &json!({"exp": 1_789_290_000.5}));
    assert_eq!(name(&whoami(&gateway, &ec.token(&fraction)).await), "alice");
    gateway.stop().await;
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_token_names_it_and_a_withdrawn_one_takes_its_tokens_along() {
    // Broken: after the issuer changed its keys callers are refused until a restart, or tokens of a key that was withdrawn
    // because it leaked go on to work, since they were verified before. Must hold: neither.
    let (old, new) = (Signer::ec("old"), Signer::ed("new"));
    let issuer = Issuer::start(&[&old]).await;
    let gateway = gateway(&configured(&issuer, "")).await;
    let (first, second) = (old.token(&claims("user-1")), new.token(&claims("user-1")));
    assert_eq!(name(&whoami(&gateway, &first).await), "alice");
    issuer.publish(&[&new]);
    gateway.clock.advance(10_000);
    assert_eq!(name(&whoami(&gateway, &second).await), "alice");
    assert_eq!(issuer.fetches(), 2);
    // The issuer is asked once more before it is called unknown.
    whoami(&gateway, &first).await.refused(503, "credentials_unavailable", "none");
    gateway.clock.advance(10_000);
    whoami(&gateway, &first).await.refused(401, "unauthenticated", "none");
    gateway.stop().await;
}

#[tokio::test]
async fn whoever_makes_key_names_up_costs_the_issuer_one_request() {
    // Broken: each token with a key name that nobody has makes the gateway ask the issuer, so that a flood of them takes both
    // down. Must hold: one request in ten seconds, whoever asks meanwhile is answered at once, and good tokens work on.
    let ec = Signer::ec("one");
    let issuer = Issuer::start(&[&ec]).await;
    let gateway = gateway(&configured(&issuer, "")).await;
    let good = ec.token(&claims("user-1"));
    assert_eq!(name(&whoami(&gateway, &good).await), "alice");
    for round in 1..=2_usize {
        gateway.clock.advance(10_000);
        let flood = (0..60).map(|number| {
            let token =
                ec.sign(&json!({"alg": "ES256", "kid": format!("{round}-{number}")}), &claims("user-1"));
            let gateway = &gateway;
            async move { whoami(gateway, &token).await.status }
        });
        let answered = futures_util::future::join_all(flood).await;
        let of = |status: u16| answered.iter().filter(|one| **one == status).count();
        // One may have asked for its name; the others are told to come again, until their address has made up too many.
        let burst = usize::try_from(STRANGER_BURST.get()).unwrap();
        assert!(of(401) <= 1 && of(401) + of(503) == burst && of(429) == 60 - burst, "{answered:?}");
        assert_eq!(issuer.fetches(), 1 + round);
        assert_eq!(name(&whoami(&gateway, &good).await), "alice");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_new_key_is_not_unknown_before_the_issuer_was_asked() {
    // Broken: somebody makes the gateway fetch the keys, the issuer signs with a new one some seconds later, and everybody is
    // told that its token is bad. Must hold: until the issuer can be asked again the token may be good, and the caller is told
    // when to come; only of what it was asked for in vain the gateway says that it is unknown.
    let (old, new, other) = (Signer::ec("old"), Signer::ed("new"), Signer::ec("other"));
    let issuer = Issuer::start(&[&old]).await;
    let gateway = gateway(&configured(&issuer, "")).await;
    assert_eq!(name(&whoami(&gateway, &old.token(&claims("user-1"))).await), "alice");
    issuer.publish(&[&old, &new]);
    gateway.clock.advance(3_500);
    let token = new.token(&claims("user-1"));
    let answer = whoami(&gateway, &token).await;
    let problem = answer.refused(503, "credentials_unavailable", "none");
    assert_eq!((&problem["retry_after_ms"], answer.header("retry-after")), (&json!(7_000), Some("7")));
    assert_eq!(issuer.fetches(), 1);
    gateway.clock.advance(6_500);
    assert_eq!(name(&whoami(&gateway, &token).await), "alice");
    assert_eq!(issuer.fetches(), 2);
    // Of a key that is there nothing need be asked.
    let forged = old.sign(&json!({"alg": "EdDSA", "kid": "old"}), &claims("user-1"));
    whoami(&gateway, &forged).await.refused(401, "unauthenticated", "none");
    let unknown = other.token(&claims("user-1"));
    whoami(&gateway, &unknown).await.refused(503, "credentials_unavailable", "none");
    gateway.clock.advance(10_000);
    whoami(&gateway, &unknown).await.refused(401, "unauthenticated", "none");
    assert_eq!(issuer.fetches(), 3);
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    // Broken: a token of minutes opens a stream for days. Must hold: with the token, its leeway included, the stream ends, and
    // nothing that is done then is told in it.
    let ec = Signer::ec("one");
    let issuer = Issuer::start(&[&ec]).await;
    let gateway = gateway(&configured(&issuer, "")).await;
    let request = |method, path: &str, ends: i64| {
        let token = ec.token(&with(&claims("user-1"), &json!({"exp": NOW + ends})));
        gateway.client.request(method, path).header("authorization", format!("Bearer {token}"))
    };
    let acquire = async |resource: &str| {
        let wanted = request(Method::POST, "/v1/leases", 600).json(&json!({"resource": resource}));
        Answer::of(wanted).await.expect(201);
    };
    let mut stream = request(Method::GET, "/v1/events", 60).send().await.unwrap();
    let mut heard = String::new();
    let mut hear = async |wanted: Option<&str>| {
        while wanted.is_none_or(|wanted| !heard.contains(wanted)) {
            match stream.chunk().await.unwrap() {
                Some(chunk) => heard.push_str(std::str::from_utf8(&chunk).unwrap()),
                None => break,
            }
        }
        heard.clone()
    };
    hear(Some("all is told")).await;
    gateway.clock.advance(89_999);
    acquire("jobs/before").await;
    assert!(hear(Some("jobs/before")).await.contains("jobs/before"));
    gateway.clock.advance(1);
    acquire("jobs/after").await;
    let whole = tokio::time::timeout(Duration::from_secs(45), hear(None)).await.expect("it goes on");
    assert!(!whole.contains("jobs/after") && whole.contains("hold no longer"), "{whole}");
    gateway.stop().await;
}
