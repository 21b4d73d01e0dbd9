//! Keeping leases by callers that may not do everything: looked up once, and not one reload too long.

use std::sync::atomic::Ordering;

use fencegate::access::Roster;
use fencegate::domain::permission::Permission;
use serde_json::json;

use super::house::{Answer, House, Plan, ask};
use super::permissions::principal;

async fn renewed(house: &House, who: &str, id: &str) -> Answer {
    let renew = ask("POST", &format!("/v1/leases/{id}/renew")).with("authorization", who);
    house.call(renew).await
}

/// Broken: each renewal of a caller with rules costs a read beside its decision; or what was looked up once lets somebody else in,
/// or the same one after its rule was taken away. Must hold: it is looked up once, for each principal, and anew after a reload.
#[tokio::test]
async fn a_keeper_is_looked_up_once_and_anew_after_a_reload() {
    let (worker, by_worker) = principal("worker", 1, &[("pages/own", &[Permission::Lease])]);
    let (stranger, by_stranger) = principal("stranger", 2, &[("pages/other", &[Permission::Lease])]);
    let (helper, by_helper) = principal("helper", 3, &[("pages", &[Permission::Lease])]);
    let (reader, _) = principal("worker", 1, &[("pages/own", &[Permission::Read])]);
    let principals = vec![worker.clone(), stranger.clone(), helper.clone()];
    let house = House::built(Plan { principals: principals.clone(), ..Plan::default() }).await;
    let wanted = ask("POST", "/v1/leases").json(&json!({"resource": "pages/own/a"}));
    let lease = house.call(wanted.with("authorization", &by_worker)).await.expect(201);
    let id = lease["acquisition_id"].as_str().unwrap();
    let reads = |work: bool| house.script.reads_fail.store(!work, Ordering::SeqCst);

    reads(false);
    renewed(&house, &by_worker, id).await.expect(200);
    renewed(&house, &by_helper, id).await.refused(503, "database_unavailable");
    reads(true);
    renewed(&house, &by_stranger, id).await.refused(404, "not_found");
    renewed(&house, &by_helper, id).await.expect(200);
    reads(false);
    renewed(&house, &by_helper, id).await.expect(200);
    renewed(&house, &by_stranger, id).await.refused(503, "database_unavailable");

    reads(true);
    renewed(&house, &by_worker, id).await.expect(200);
    house.access.replace(Roster::of([reader, stranger.clone(), helper.clone()]));
    renewed(&house, &by_worker, id).await.refused(404, "not_found");
    // The same rules again: nothing is believed of before.
    house.access.replace(Roster::of(principals.clone()));
    renewed(&house, &by_worker, id).await.expect(200);
    house.access.replace(Roster::of(principals));
    reads(false);
    renewed(&house, &by_worker, id).await.refused(503, "database_unavailable");
    reads(true);
    renewed(&house, &by_worker, id).await.expect(200);
    let release = ask("DELETE", &format!("/v1/leases/{id}")).with("authorization", &by_worker);
    reads(false);
    house.call(release).await.expect(200);
}
