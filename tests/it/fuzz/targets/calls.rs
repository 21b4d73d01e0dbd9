//! The calls that take JSON: what is no object is refused as such, what is refused changes nothing, and nothing is a fault.

use super::house::House;
use super::play::{Ask, is_object, play};
use super::{Met, Target, cut, text};

pub(super) const TARGET: Target = Target {
    name: "calls",
    run,
    longest: 2_000,
    words: &[
        "leases\n",
        "renew\n",
        "transfer\n",
        "writes\n",
        "dry_run\n",
        "advance\n",
        "registered\n",
        "revoke\n",
        "cancel\n",
        "reopen\n",
        "epoch\n",
        "everywhere\n",
        "definition\n",
        "resolve\n",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "null",
        "true",
        "\"\"",
        "1e3",
        "1.0",
        "-1",
        "\"resource\":\"pages/a\"",
        "\"resources\":[\"pages/a\",\"pages/b\"]",
        "\"holder\":\"h\"",
        "\"ttl_ms\":1000",
        "\"wait_ms\":10",
        "\"request_id\":\"5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d\"",
        "\"fencing_token\":\"{token}\"",
        "\"reason\":\"r\"",
        "\"confirm\":\"pages\"",
        "\"leave_open\":true",
        "\"version\":1",
        "\"verdict\":\"applied\"",
        "\"evidence\":\"e\"",
        "\"writes\":[",
        "\"method\":\"PUT\"",
        "\"operation_id\":\"op-2\"",
        "\"sequence\":\"1\"",
        "\"incarnation\":\"1\"",
        "\"if_match\":\"{etag}\"",
        "\"if_none_match\":\"*\"",
        "\"content_type\":\"text/plain\"",
        "\"body\":\"x\"",
        "\"body_base64\":\"AAAA\"",
        "\\u0000",
        "\\ud800",
        "9223372036854775807",
        "18446744073709551616",
        "\"__proto__\"",
    ],
    meets: &[
        "200",
        "201",
        "400 invalid_body",
        "422 invalid_field",
        "200 leases",
        "200 writes",
        "200 dry_run",
        "200 renew",
        "200 transfer",
        "200 advance",
        "200 revoke",
        "200 cancel",
        "200 reopen",
        "200 epoch",
        "200 everywhere",
        "200 definition",
        "200 resolve",
    ],
};

/// The call in the first line, its body in the rest.
fn run(data: &[u8], met: &mut Met) {
    let (call, body) = cut(data, b'\n');
    let Some(call) = text(call) else { return met.note("no call") };
    let Some(path) = path_of(call) else { return met.note("no call") };
    let asked = Ask::json("POST", path, body);
    let asked = if matches!(
        call,
        "leases" | "transfer" | "renew" | "writes" | "dry_run" | "advance" | "registered"
    ) {
        asked
    } else {
        asked.with("idempotency-key", "call-1")
    };
    let asks = [
        Ask::json("POST", "/v1/leases", b"{\"resource\":\"pages/a\"}"),
        Ask::json("PUT", "/fenced/pages/a", b"{}")
            .with("fencing-token", "{token}")
            .with("idempotency-key", "op-1"),
        asked,
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut here = Met::default();
    runtime.block_on(async {
        let house = House::new();
        play(&house, &asks, &mut here).await;
    });
    // A renewal needs no body.
    let needs_none = call == "renew" && body.is_empty();
    let last = here.0.keys().any(|what| what == "400 invalid_body");
    assert!(
        is_object(body) || needs_none || last || body.contains(&b'{'),
        "{call}: what is no object was taken"
    );
    let refused = here.0.keys().any(|what| what.starts_with('4'));
    if !refused {
        met.note(format!("200 {call}"));
    }
    for (what, times) in here.0 {
        *met.0.entry(what).or_default() += times;
    }
}

fn path_of(call: &str) -> Option<&'static str> {
    Some(match call {
        "leases" => "/v1/leases",
        "renew" => "/v1/leases/{id}/renew",
        "transfer" => "/v1/leases/{id}/transfer",
        "writes" => "/v1/writes",
        "dry_run" => "/v1/writes?dry_run=true",
        "advance" => "/v1/advance/jobs/a",
        "registered" => "/v1/advance/elected/a",
        "revoke" => "/v1/revoke/pages/a",
        "cancel" => "/v1/cancel/pages/a",
        "reopen" => "/v1/reopen/pages/a",
        "epoch" => "/v1/namespaces/pages/epoch",
        "everywhere" => "/v1/namespaces/*/epoch",
        "definition" => "/v1/namespaces/pages/definition",
        "resolve" => "/v1/operations/op-1/resolve?resource=pages/a",
        _ => return None,
    })
}
