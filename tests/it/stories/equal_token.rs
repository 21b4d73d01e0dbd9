//! A second write under the same token, under each policy.

use std::collections::BTreeMap;

use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::policy::{Definition, Policy};
use fencegate::domain::resource::Namespace;

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [under_single_a_generation_is_one_publication, under_ordered_sequences_rise_and_start_anew_with_each_generation, gapless_says_which_sequence_comes_next, under_session_every_edit_after_the_first_names_what_it_edits]);

fn namespaces() -> Namespaces {
    let policies = [
        ("single", Policy::Single),
        ("ordered", Policy::Ordered { gapless: false }),
        ("gapless", Policy::Ordered { gapless: true }),
        ("session", Policy::Session),
    ];
    let named: BTreeMap<_, _> = policies
        .into_iter()
        .map(|(name, policy)| {
            let definition = Definition { policy, ..Definition::default() };
            (Namespace::parse(name).unwrap(), NamespaceRules { definition, ..NamespaceRules::default() })
        })
        .collect();
    Namespaces::new(named, None)
}

async fn under_single_a_generation_is_one_publication(kind: Kind) {
    let gateway = Gateway::with(kind, namespaces()).await;
    let client = &gateway.client;
    let alice = client.acquire("single/a", "alice").await;
    client.put("single/a", &alice.token, "op-1", "one", &[]).await.expect(201);
    client.put("single/a", &alice.token, "op-2", "two", &[]).await.refused(412, "generation_spent", "none");
    client.put("single/a", &alice.token, "op-3", "x", &[("fencing-sequence", "1")]).await.refused(
        400,
        "invalid_sequence",
        "none",
    );
    assert_eq!(client.get("/fenced/single/a").await.text(), "one");
    gateway.stop().await;
}

async fn under_ordered_sequences_rise_and_start_anew_with_each_generation(kind: Kind) {
    let gateway = Gateway::with(kind, namespaces()).await;
    let client = &gateway.client;
    let alice = client.acquire("ordered/a", "alice").await;
    client.put("ordered/a", &alice.token, "op-0", "x", &[]).await.refused(428, "sequence_required", "none");
    client.put("ordered/a", &alice.token, "op-1", "five", &[("fencing-sequence", "5")]).await.expect(201);
    for sequence in ["5", "4", "1"] {
        let late =
            client.put("ordered/a", &alice.token, "op-2", "late", &[("fencing-sequence", sequence)]).await;
        late.refused(412, "sequence_regressed", "none");
    }
    client.put("ordered/a", &alice.token, "op-3", "nine", &[("fencing-sequence", "9")]).await.expect(200);
    client.release(&alice).await.expect(200);
    let bob = client.acquire("ordered/a", "bob").await;
    client
        .put("ordered/a", &bob.token, "op-4", "bob's first", &[("fencing-sequence", "1")])
        .await
        .expect(200);
    let late = client.put("ordered/a", &alice.token, "op-5", "late", &[("fencing-sequence", "10")]).await;
    late.refused(412, "stale_token", "none");
    gateway.stop().await;
}

async fn gapless_says_which_sequence_comes_next(kind: Kind) {
    let gateway = Gateway::with(kind, namespaces()).await;
    let client = &gateway.client;
    let alice = client.acquire("gapless/a", "alice").await;
    let gap = client.put("gapless/a", &alice.token, "op-2", "two", &[("fencing-sequence", "2")]).await;
    let problem = gap.refused(409, "sequence_gap", "none");
    assert_eq!(problem["retryable"], true);
    assert!(gap.header("retry-after").is_some());
    client.put("gapless/a", &alice.token, "op-1", "one", &[("fencing-sequence", "1")]).await.expect(201);
    client.put("gapless/a", &alice.token, "op-2", "two", &[("fencing-sequence", "2")]).await.expect(200);
    gateway.stop().await;
}

async fn under_session_every_edit_after_the_first_names_what_it_edits(kind: Kind) {
    let gateway = Gateway::with(kind, namespaces()).await;
    let client = &gateway.client;
    let alice = client.acquire("session/a", "alice").await;
    let first = client.put("session/a", &alice.token, "op-1", "one", &[]).await;
    first.expect(201);
    client.put("session/a", &alice.token, "op-2", "two", &[]).await.refused(
        428,
        "precondition_required",
        "none",
    );
    client.put("session/a", &alice.token, "op-2", "two", &[("if-match", "*")]).await.refused(
        428,
        "precondition_required",
        "none",
    );
    let etag = first.header("etag").unwrap();
    let second = client.put("session/a", &alice.token, "op-2", "two", &[("if-match", etag)]).await;
    second.expect(200);
    client.put("session/a", &alice.token, "op-3", "three", &[("if-match", etag)]).await.refused(
        412,
        "precondition_failed",
        "none",
    );
    let etag = second.header("etag").unwrap();
    client.put("session/a", &alice.token, "op-3", "three", &[("if-match", etag)]).await.expect(200);
    gateway.stop().await;
}
