//! Attempts in the trace of the request that announced them.
//!
//! The span of that request stands among the headers that are forwarded, so whoever takes an operation up later, another
//! replica too, goes on in the same trace.

use std::time::Duration;

use crate::backing::{Order, Sent};
use crate::domain::trace::Trace;
use crate::protocol::rows::IntentRow;
use crate::telemetry::spans::{Side, Span};

use super::Shop;
use super::meter::Told as _;

/// W3C Trace Context.
const HEADER: &str = "traceparent";

/// Gives an attempt a span of its own, which the store is told. The span above it, where there is a trace.
pub(super) fn enter(order: &mut Order, attempt: u32) -> Option<(Trace, [u8; 8])> {
    let (_, value) = order.headers.iter_mut().find(|(name, _)| name == HEADER)?;
    let above = Trace::parse(value)?;
    let own = above.below(u64::from(attempt));
    *value = own.header();
    Some((own, above.span()))
}

/// Tells the span of an attempt.
pub(super) fn leave(
    shop: &Shop,
    span: Option<(Trace, [u8; 8])>,
    intent: &IntentRow,
    sent: &Sent,
    took: Duration,
) {
    let (Some((trace, above)), Some(spans)) = (span, shop.ledger.metrics().spans()) else { return };
    let record = &intent.record;
    spans.tell(&trace, || Span {
        trace,
        parent: Some(above),
        side: Side::Calls,
        name: format!("{} to the store", record.method.word()),
        took,
        known: vec![
            ("fencegate.resource", record.resource.to_string()),
            ("fencegate.operation", record.operation_id.to_string()),
            ("fencegate.token", record.position.to_string()),
            ("fencegate.result", sent.word().to_owned()),
        ],
        failed: matches!(sent, Sent::Doubt(_) | Sent::NotSent(_)),
    });
}
