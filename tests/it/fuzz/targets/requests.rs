//! Whole requests: method, path, query, headers, body, one after another. No one of them is a fault, each refusal is a problem
//! with a known code, and what is refused or only read changes nothing.

use super::house::House;
use super::play::{Ask, play};
use super::{Met, Target, cut};

pub(super) const TARGET: Target = Target {
    name: "requests",
    run,
    longest: 2_000,
    words: &[
        "GET ",
        "HEAD ",
        "PUT ",
        "POST ",
        "PATCH ",
        "DELETE ",
        "OPTIONS ",
        "/fenced/pages/a",
        "/fenced/tree/a/b",
        "/fenced/ledger/a",
        "/fenced/drafts/a",
        "/fenced/jobs/a",
        "/fenced/elected/a",
        "/fenced/small/a",
        "/v1/leases",
        "/v1/leases/{id}",
        "/v1/leases/{id}/renew",
        "/v1/leases/{id}/events",
        "/v1/resources",
        "/v1/resources/pages/a",
        "/v1/timeline/pages/a",
        "/v1/operations",
        "/v1/operations/op-1",
        "?resource=pages/a",
        "&incarnation=1",
        "?wait_ms=1",
        "?cursor={cursor}",
        "&limit=1",
        "/v1/namespaces/pages",
        "/v1/events",
        "?prefix=",
        "/v1/audit",
        "?since=2026-09-13T08:00:00Z",
        "&verb=acquired",
        "/v1/whoami",
        "/v1/status",
        "/readyz?verbose=true",
        "/metrics",
        "/docs/errors/not_found",
        "%2F",
        "%00",
        "%25",
        "%c3%a9",
        "%FF",
        "//",
        "/..",
        "fencing-token: {token}",
        "x-fencing-token: ",
        "idempotency-key: op-1",
        "idempotency-key: \"op-1\"",
        "fencing-sequence: 1",
        "fencing-incarnation: 1",
        "if-match: {etag}",
        "if-none-match: *",
        "content-type: application/json",
        "content-encoding: gzip",
        "prefer: wait=1",
        "last-event-id: 0",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "transfer-encoding: chunked",
        "content-length: 5",
        "range: bytes=0-1",
        "host: example.org",
        "authorization: Bearer x",
        "{\"resource\":\"pages/a\"}",
        "\n---\n",
        "\n\n",
        ": ",
    ],
    meets: &[
        "200",
        "201",
        "304",
        "400 invalid_request",
        "400 invalid_resource",
        "400 invalid_token",
        "400 invalid_operation_id",
        "404 not_found",
        "404 unknown_namespace",
        "405 method_not_allowed",
        "applied",
        "replayed",
        "412 stale_token",
        "403 token_not_yours",
        "409 cancelled",
        "409 lease_held",
        "410 deleted",
        "410 lease_superseded",
        "412 generation_spent",
        "412 precondition_failed",
        "422 operation_mismatch",
        "428 precondition_required",
    ],
};

/// Most requests of one input.
const REQUESTS: usize = 6;

/// Requests with a line `---` between: a line with method and path, lines with headers, an empty line, the body.
fn run(data: &[u8], met: &mut Met) {
    let asks: Vec<Ask> = pieces(data).into_iter().take(REQUESTS).map(ask).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        play(&House::new(), &asks, met).await;
    });
}

fn pieces(data: &[u8]) -> Vec<&[u8]> {
    const BETWEEN: &[u8] = b"\n---\n";
    let (mut pieces, mut rest) = (Vec::new(), data);
    while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        pieces.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    pieces.push(rest);
    pieces
}

fn ask(piece: &[u8]) -> Ask {
    let (first, mut rest) = cut(piece, b'\n');
    let (method, path) = cut(first, b' ');
    let mut ask = Ask { method: method.to_vec(), path: path.to_vec(), ..Ask::default() };
    while !rest.is_empty() {
        let (line, behind) = cut(rest, b'\n');
        rest = behind;
        if line.is_empty() {
            break;
        }
        let (name, value) = cut(line, b':');
        ask.headers.push((name.to_vec(), value.trim_ascii().to_vec()));
    }
    ask.body = rest.to_vec();
    ask
}
