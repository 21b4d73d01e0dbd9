-- Stores behind HTTP: operations that are announced and not decided yet, what upstreams answered, cells and barriers.

-- `quarantined` says what was found that contradicts the row. `cell` is the validator of the cell's last recorded state.
-- `barrier_...` is the position up to which nothing older can become authoritative in the store. NULL stands for none, so
-- that the row of a document stays as short as it was.
ALTER TABLE resources
    ADD COLUMN quarantined text,
    ADD COLUMN cell text,
    ADD COLUMN barrier_epoch bigint,
    ADD COLUMN barrier_token bigint;

-- What an upstream answered beside the body that stands in `response`: its status, its headers (name and value in turn,
-- each with its length before it in 4 bytes, big-endian), its ETag as it came, and length and SHA-256 of a body that was
-- too large to be kept. All are NULL where the gateway composed the answer.
--
-- An answer without an effect has a `commit_no` of 0; no commit has that number. `resolution` says how a doubt was ended:
-- "said" or "assumed", a space, the length of the evidence in bytes, a line break, the evidence, and the reason.
ALTER TABLE operations
    ADD COLUMN relayed_status bigint,
    ADD COLUMN relayed_headers bytea,
    ADD COLUMN relayed_etag text,
    ADD COLUMN omitted_length bigint,
    ADD COLUMN omitted_digest bytea,
    ADD COLUMN resolution text;

-- Operations that are announced and not decided: few rows, each with all that is needed to send it again. A decided one
-- is deleted here and added to `operations`, or, when it was withdrawn, deleted alone. So a resource's rows here are its
-- lane.
--
-- `named_incarnation` is the one that the caller named. `headers` are packed as in `operations`. `base` is what the last
-- conditional send rests on: "unread", "absent", or a validator with its quotes. `claim` has 8 bytes. `body` is the first
-- piece of the body, up to 1 MiB. Bodies are not compressed: most rows live no longer than one request to an upstream.
-- Rows come and go all the time, and the table stays fast only if what is gone is cleared away early.
CREATE TABLE intents (
    bucket            smallint NOT NULL,
    resource          text     COLLATE "C" NOT NULL,
    incarnation       bigint   NOT NULL,
    operation_id      text     COLLATE "C" NOT NULL,
    target            text     COLLATE "C" NOT NULL,
    method            text     COLLATE "C" NOT NULL,
    fingerprint       bytea    NOT NULL,
    position_epoch    bigint   NOT NULL,
    position_token    bigint   NOT NULL,
    sequence          bigint,
    acquisition       bytea,
    state             text     COLLATE "C" NOT NULL,
    attempt           bigint   NOT NULL,
    created_ms        bigint   NOT NULL,
    named_incarnation bigint,
    if_match          text,
    if_none_match     text,
    query             text,
    headers           bytea    NOT NULL,
    content_type      text,
    length            bigint   NOT NULL,
    digest            bytea    NOT NULL,
    base              text     NOT NULL,
    doubt             bigint   NOT NULL,
    due_ms            bigint   NOT NULL,
    claim             bytea    NOT NULL,
    body              bytea    NOT NULL,
    PRIMARY KEY (bucket, resource, incarnation, operation_id),
    CHECK (
        state IN ('intent', 'uncertain') AND bucket BETWEEN 0 AND 255 AND length(fingerprint) = 32
        AND length(digest) = 32 AND length(claim) = 8 AND doubt IN (0, 1) AND length(body) <= 1048576
    )
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE intents ALTER COLUMN body SET STORAGE EXTERNAL;

-- Whose next step is due.
CREATE INDEX intents_due ON intents (due_ms);

-- What a body has beyond its first piece, 1 MiB in each row but the last, counted from 1.
CREATE TABLE intent_pieces (
    bucket       smallint NOT NULL,
    resource     text     COLLATE "C" NOT NULL,
    incarnation  bigint   NOT NULL,
    operation_id text     COLLATE "C" NOT NULL,
    piece        bigint   NOT NULL,
    bytes        bytea    NOT NULL,
    PRIMARY KEY (bucket, resource, incarnation, operation_id, piece),
    CHECK (piece >= 1)
);

ALTER TABLE intent_pieces ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Leases that wait for a barrier: they are looked at until it stands, and they expire like those that are held.
CREATE INDEX leases_pending ON leases (expires_ms) WHERE state = 'pending_barrier';

-- The shapes that have grown, beside those of the version before.
CREATE TYPE new_resource_v3 AS (
    bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint, lease_bucket bigint, queue bytea, reason text, quarantined text, cell text,
    barrier_epoch bigint, barrier_token bigint
);
CREATE TYPE changed_resource_v3 AS (
    bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint, lease_bucket bigint, queue bytea, reason text, quarantined text, cell text,
    barrier_epoch bigint, barrier_token bigint,
    seen_incarnation bigint, seen_life text, seen_issued_epoch bigint, seen_issued_token bigint,
    seen_floor_epoch bigint, seen_floor_token bigint, seen_revoked_epoch bigint, seen_revoked_token bigint,
    seen_applied_epoch bigint, seen_applied_token bigint, seen_applied_sequence bigint, seen_commit_no bigint,
    seen_lease bytea
);
CREATE TYPE placed_resource_v3 AS (
    place tid, bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint, lease_bucket bigint, queue bytea, reason text, quarantined text, cell text,
    barrier_epoch bigint, barrier_token bigint
);
CREATE TYPE new_operation_v2 AS (
    bucket smallint, resource text, incarnation bigint, operation_id text, target text, method text,
    fingerprint bytea, position_epoch bigint, position_token bigint, sequence bigint, acquisition bytea, state text,
    attempt bigint, created_ms bigint, decided_ms bigint, done text, commit_no bigint, etag_incarnation bigint,
    etag_commit bigint, response bytea, relayed_status bigint, relayed_headers bytea, relayed_etag text,
    omitted_length bigint, omitted_digest bytea, resolution text
);
CREATE TYPE new_intent_v1 AS (
    bucket smallint, resource text, incarnation bigint, operation_id text, target text, method text,
    fingerprint bytea, position_epoch bigint, position_token bigint, sequence bigint, acquisition bytea, state text,
    attempt bigint, created_ms bigint, named_incarnation bigint, if_match text, if_none_match text, query text,
    headers bytea, content_type text, length bigint, digest bytea, base text, doubt bigint, due_ms bigint, claim bytea,
    body bytea
);
-- What a step changes, and what the decision saw of that.
CREATE TYPE changed_intent_v1 AS (
    bucket smallint, resource text, incarnation bigint, operation_id text, state text, attempt bigint, base text,
    doubt bigint, due_ms bigint, seen_state text, seen_attempt bigint, seen_due_ms bigint
);
CREATE TYPE closed_intent_v1 AS (
    bucket smallint, resource text, incarnation bigint, operation_id text, seen_state text, seen_attempt bigint,
    seen_due_ms bigint
);
CREATE TYPE new_piece_v1 AS (
    bucket smallint, resource text, incarnation bigint, operation_id text, piece bigint, bytes bytea
);
