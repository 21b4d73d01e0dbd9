//! What a batch changes in leases, and the control calls that end them.

use super::super::tuples::Shape;
use super::parts::{Expects, Part};

pub(super) const LEASES_INSERT: Part = Part {
    table: "leases",
    shape: Shape::NewLease,
    text: "INSERT INTO leases (bucket, acquisition, nonce, key_id, resource, position_epoch, position_token, holder, \
           ttl_ms, asked_ttl_ms, request_id, request_key, granted_ms, expires_ms, state, others, \
           ended_ms, cause) \
           SELECT v.* FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

pub(super) const LEASES_UPDATE: Part = Part {
    table: "leases",
    shape: Shape::ChangedLease,
    text: "UPDATE leases AS l SET ttl_ms = v.ttl_ms, expires_ms = v.expires_ms, state = v.state, \
           ended_ms = v.ended_ms, cause = v.cause \
           FROM unnest({}) AS v WHERE l.bucket = v.bucket AND l.acquisition = v.acquisition \
           AND l.expires_ms = v.seen_expires_ms AND l.state = v.seen_state RETURNING 1",
    expects: Expects::Each,
};

/// Only those that have ended, when the decision saw them end.
pub(super) const LEASES_FORGET: Part = Part {
    table: "leases",
    shape: Shape::ForgottenLease,
    text: "DELETE FROM leases AS l USING unnest({}) AS v WHERE l.bucket = v.bucket AND l.acquisition = v.acquisition \
           AND l.state <> 'held' AND l.ended_ms = v.ended_ms RETURNING 1",
    expects: Expects::Each,
};

pub(super) const CONTROLS_INSERT: Part = Part {
    table: "controls",
    shape: Shape::NewControl,
    text: "INSERT INTO controls (bucket, resource, verb, key, fingerprint, body, at_ms) \
           SELECT v.* FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};
