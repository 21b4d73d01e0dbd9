-- Leases in full: several resources in one acquisition, queues, how and when a lease ended, and control calls.

-- The bucket of the lease's row where it is not that of the resource: a lease over several resources lies with the first
-- of them. `queue` has 40 bytes for each place, from the head to the end: its number, the first 16 bytes of the request's
-- key, until when it is kept in milliseconds since 1970, and the delivery that waits in it (0 for none), numbers big-endian. `reason` says why it does not live.
ALTER TABLE resources
    ADD COLUMN lease_bucket bigint,
    ADD COLUMN queue bytea,
    ADD COLUMN reason text;

-- `others` has a line for each further resource: its position, a space, its name.
ALTER TABLE leases
    ADD COLUMN others text,
    ADD COLUMN ended_ms bigint,
    ADD COLUMN cause text COLLATE "C";

-- Expired leases that are not known to have expired are found without walking past all others.
CREATE INDEX leases_held ON leases (expires_ms) WHERE state = 'held';

-- Control calls that were carried out, with their answers.
CREATE TABLE controls (
    bucket      smallint NOT NULL,
    resource    text     COLLATE "C" NOT NULL,
    verb        text     COLLATE "C" NOT NULL,
    key         text     COLLATE "C" NOT NULL,
    fingerprint bytea    NOT NULL,
    body        bytea    NOT NULL,
    at_ms       bigint   NOT NULL,
    PRIMARY KEY (bucket, resource, verb, key),
    CHECK (length(fingerprint) = 32)
);

-- The shapes that have grown, beside those of the version before.
CREATE TYPE new_resource_v2 AS (
    bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint, lease_bucket bigint, queue bytea, reason text
);
CREATE TYPE changed_resource_v2 AS (
    bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint, lease_bucket bigint, queue bytea, reason text,
    seen_incarnation bigint, seen_life text, seen_issued_epoch bigint, seen_issued_token bigint,
    seen_floor_epoch bigint, seen_floor_token bigint, seen_revoked_epoch bigint, seen_revoked_token bigint,
    seen_applied_epoch bigint, seen_applied_token bigint, seen_applied_sequence bigint, seen_commit_no bigint,
    seen_lease bytea
);
CREATE TYPE placed_resource_v2 AS (
    place tid, bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint, lease_bucket bigint, queue bytea, reason text
);
CREATE TYPE new_lease_v2 AS (
    bucket smallint, acquisition bytea, nonce bytea, key_id bytea, resource text, position_epoch bigint,
    position_token bigint, holder text, ttl_ms bigint, asked_ttl_ms bigint, request_id bytea, request_key bytea,
    granted_ms bigint, expires_ms bigint, state text, others text, ended_ms bigint, cause text
);
CREATE TYPE changed_lease_v2 AS (
    bucket smallint, acquisition bytea, ttl_ms bigint, expires_ms bigint, state text, ended_ms bigint, cause text,
    seen_expires_ms bigint, seen_state text
);
CREATE TYPE new_control_v1 AS (
    bucket smallint, resource text, verb text, key text, fingerprint bytea, body bytea, at_ms bigint
);
CREATE TYPE key_control_v1 AS (ordinal integer, bucket smallint, resource text, verb text, key text);
CREATE TYPE forgotten_lease_v1 AS (bucket smallint, acquisition bytea, ended_ms bigint);
