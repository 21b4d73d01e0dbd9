//! The release before this one and this one on one database: what it sends is still taken, and once an upgrade is finished
//! it is refused with its next batch.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::opening::BACK_TO_THE_THIRD_STEP;
use crate::support::postgres::replica::Site;
use crate::support::postgres::{needed, patience};

/// Every shape that the release before asks for when it connects.
const SHAPES: [&str; 23] = [
    "key_named_v1",
    "key_hashed_v1",
    "key_target_v1",
    "key_operation_v1",
    "key_position_v1",
    "key_control_v1",
    "new_namespace_v1",
    "new_resource_v3",
    "changed_resource_v3",
    "placed_resource_v3",
    "new_era_v1",
    "new_target_v1",
    "placed_target_v1",
    "new_operation_v2",
    "new_intent_v1",
    "changed_intent_v1",
    "closed_intent_v1",
    "new_piece_v1",
    "new_lease_v2",
    "changed_lease_v2",
    "forgotten_lease_v1",
    "new_control_v1",
    "new_audit_v1",
];

/// What it sends where this release has added columns, as it has it, with rows of its shapes.
const SENT: [&str; 2] = [
    "INSERT INTO namespaces (bucket, namespace, epoch, base_epoch, base_token, base_incarnation, definition, version) \
     SELECT b.bucket::smallint, v.namespace, v.epoch, v.base_epoch, v.base_token, v.base_incarnation, v.definition, \
     v.version FROM unnest(ARRAY[ROW('older', 0, 0, 0, 0, \
     'store=document policy=single contract=immediate issuer=gateway scope=0', 1)::new_namespace_v1]) AS v \
     CROSS JOIN generate_series(0, 255) AS b (bucket) ORDER BY b.bucket, v.namespace COLLATE \"C\" \
     ON CONFLICT DO NOTHING RETURNING 1",
    "INSERT INTO audit (bucket, resource, at_ms, transaction_id, ordinal, verb, position_epoch, \
     position_token, reason) SELECT v.bucket, v.resource, v.at_ms, pg_current_xact_id()::text::bigint, v.ordinal, v.verb, \
     v.position_epoch, v.position_token, v.reason \
     FROM unnest(ARRAY[ROW(0, 'older', (extract(epoch FROM now()) * 1000)::bigint, 0, 'acquired', 0, 1, NULL)::new_audit_v1]) AS v RETURNING 1",
];

#[tokio::test]
async fn what_the_release_before_sends_is_taken_after_the_migration() {
    let Some(database) =
        needed("postgres::upgrade::what_the_release_before_sends_is_taken_after_the_migration").await
    else {
        return;
    };
    let site = Site::new(&database.url, "max_connections = 4\n");
    let first = site.start();
    let alice = first.client().acquire("jobs/a", "alice").await;
    assert_eq!(first.terminate(), Some(0));
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    for text in BACK_TO_THE_THIRD_STEP {
        connection.execute(text).await.unwrap();
    }
    let (_, said) = site.run(&["migrate", "--status", "--json"]);
    assert!(said.contains("\"least\":null"), "{said}");
    let (migrated, said) = site.run(&["migrate", "--json"]);
    assert!(migrated && said.contains("\"least\":1"), "{said}");
    for shape in SHAPES {
        let there: bool = sqlx::query_scalar("SELECT to_regtype($1) IS NOT NULL")
            .bind(shape)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert!(there, "{shape} is gone");
    }
    for text in SENT {
        let rows = connection.fetch_all(text).await.unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(rows.len() == 256 || rows.len() == 1, "{text}");
    }
    let second = site.start();
    let client = second.client();
    client.put("jobs/a", &alice.token, "op-1", "body", &[]).await.expect(201);
    client.acquire("older/a", "bob").await;
    let told = client.get("/v1/timeline/older/a").await.expect(200);
    assert!(told["items"].as_array().unwrap().iter().any(|item| item["about"] == "older"), "{told}");
    assert_eq!(second.terminate(), Some(0));
}

/// A release that runs on after an upgrade was finished writes rows in a meaning of before. It must be stopped by the database
/// itself: nobody knows all the processes that there are.
#[tokio::test]
async fn a_release_of_before_is_refused_with_its_next_batch() {
    let Some(database) =
        needed("postgres::upgrade::a_release_of_before_is_refused_with_its_next_batch").await
    else {
        return;
    };
    let site = Site::new(&database.url, "max_connections = 4\n");
    let gateway = site.start();
    let client = gateway.client();
    let alice = client.acquire("jobs/a", "alice").await;
    let (finished, said) = site.run(&["migrate", "--finish"]);
    assert!(finished && said.contains("\"protocol\":{\"least\":3,\"this\":3}"), "{said}");
    client.renew(&alice).await.expect(200);
    // A later release finishes its own upgrade: what runs here is the earlier one now.
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let later = "UPDATE ledger SET least_protocol = least_protocol + 1";
    connection.execute(AssertSqlSafe(later.to_owned())).await.unwrap();
    client.put("jobs/a", &alice.token, "op-1", "body", &[]).await.refused(
        503,
        "database_unavailable",
        "none",
    );
    client.renew(&alice).await.refused(503, "database_unavailable", "none");
    patience::until("it says what to do", 10, async || {
        gateway.warnings().iter().any(|line| line.contains("the upgrade was finished")).then_some(())
    })
    .await;
    let checks = client.get("/readyz?verbose").await;
    assert!(checks.status == 503 && checks.text().contains("the upgrade was finished"), "{}", checks.text());
    let refused = site.refused();
    assert!(refused.contains("run that release or a later one"), "{refused}");
    let (_, said) = site.run(&["migrate", "--finish"]);
    assert!(said.contains("\"least\":4"), "it was lowered: {said}");
    assert_eq!(gateway.terminate(), Some(0));
}
