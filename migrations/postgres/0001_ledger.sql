-- The ledger on PostgreSQL.
--
-- `bucket` (the first byte of SHA-256 of the resource) is the first column of every table and of every key, and nothing
-- refers across resources, so that the same tables can be spread over several servers. Two tables have no bucket,
-- because they tell of the database as a whole and hold a handful of rows that no write touches: `ledger` and
-- `seal_keys`. There are no sequences and no counters that every write would wait for.
--
-- A position is two integers, `..._epoch` and `..._token`; a time is milliseconds since 1970 (`..._ms`). Names compare
-- byte by byte (COLLATE "C"), as they do in the gateway. The words that a CHECK lists are all those of the protocol,
-- also those that only later versions write. Each table has one CHECK: PostgreSQL prepares every one of them for each
-- batch.

-- The database's own id.
CREATE TABLE ledger (
    one         smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    database_id uuid     NOT NULL
);

-- Name and fingerprint of each seal key that was ever active here; never a key.
CREATE TABLE seal_keys (
    key_id      bytea  NOT NULL PRIMARY KEY CHECK (length(key_id) = 4),
    fingerprint bytea  NOT NULL CHECK (length(fingerprint) = 32),
    recorded_ms bigint NOT NULL
);

-- One copy per bucket; all copies change in one transaction. A batch locks one copy and leaves its mark on the row
-- with every lock, so the pages keep room for that.
CREATE TABLE namespaces (
    bucket           smallint NOT NULL,
    namespace        text     COLLATE "C" NOT NULL,
    epoch            bigint   NOT NULL,
    base_epoch       bigint   NOT NULL,
    base_token       bigint   NOT NULL,
    base_incarnation bigint   NOT NULL,
    definition       text     NOT NULL,
    version          bigint   NOT NULL,
    PRIMARY KEY (bucket, namespace),
    CHECK (
        bucket BETWEEN 0 AND 255 AND epoch >= 0 AND base_epoch >= 0 AND base_token >= 0 AND base_incarnation >= 0
        AND version >= 1
    )
);

-- Room in each page keeps an update beside the row that it replaces, where no index has to hear of it.
CREATE TABLE resources (
    bucket           smallint NOT NULL,
    resource         text     COLLATE "C" NOT NULL,
    incarnation      bigint   NOT NULL,
    born_epoch       bigint   NOT NULL,
    born_token       bigint   NOT NULL,
    life             text     COLLATE "C" NOT NULL,
    issued_epoch     bigint   NOT NULL,
    issued_token     bigint   NOT NULL,
    floor_epoch      bigint   NOT NULL,
    floor_token      bigint   NOT NULL,
    revoked_epoch    bigint,
    revoked_token    bigint,
    applied_epoch    bigint,
    applied_token    bigint,
    applied_sequence bigint,
    commit_no        bigint   NOT NULL,
    pruned_epoch     bigint,
    pruned_token     bigint,
    pruned_sequence  bigint,
    lease            bytea,
    last_operation   text     COLLATE "C",
    changed_ms       bigint   NOT NULL,
    PRIMARY KEY (bucket, resource),
    CHECK (
        life IN ('active', 'deleted', 'cancelled', 'quarantined')
        AND bucket BETWEEN 0 AND 255
        AND (life <> 'deleted' OR revoked_epoch IS NOT NULL)
        AND (revoked_epoch IS NULL) = (revoked_token IS NULL)
        AND (applied_epoch IS NULL) = (applied_token IS NULL)
        AND (applied_epoch IS NULL OR (applied_epoch, applied_token) <= (floor_epoch, floor_token))
    )
) WITH (fillfactor = 75);

-- For listing in order of name, over all buckets.
CREATE INDEX resources_by_name ON resources (resource);

-- The few that do not live are found without walking past all that do.
CREATE INDEX resources_not_active ON resources (resource, life) WHERE life <> 'active';

-- Incarnations that ended: which positions belonged to them.
CREATE TABLE incarnations (
    bucket      smallint NOT NULL,
    resource    text     COLLATE "C" NOT NULL,
    born_epoch  bigint   NOT NULL,
    born_token  bigint   NOT NULL,
    incarnation bigint   NOT NULL,
    PRIMARY KEY (bucket, resource, born_epoch, born_token),
    CHECK (incarnation >= 1)
);

-- `target` is '' for the resource itself; no name is empty.
CREATE TABLE targets (
    bucket       smallint NOT NULL,
    resource     text     COLLATE "C" NOT NULL,
    target       text     COLLATE "C" NOT NULL,
    incarnation  bigint   NOT NULL,
    commit_no    bigint   NOT NULL,
    content_type text,
    size         bigint   NOT NULL,
    digest       bytea    NOT NULL,
    body         bytea    NOT NULL,
    PRIMARY KEY (bucket, resource, target),
    CHECK (length(digest) = 32 AND commit_no >= 1)
) WITH (fillfactor = 75);

CREATE TABLE operations (
    bucket           smallint NOT NULL,
    resource         text     COLLATE "C" NOT NULL,
    incarnation      bigint   NOT NULL,
    operation_id     text     COLLATE "C" NOT NULL,
    target           text     COLLATE "C" NOT NULL,
    method           text     COLLATE "C" NOT NULL,
    fingerprint      bytea    NOT NULL,
    position_epoch   bigint   NOT NULL,
    position_token   bigint   NOT NULL,
    sequence         bigint,
    acquisition      bytea,
    state            text     COLLATE "C" NOT NULL,
    attempt          bigint   NOT NULL,
    created_ms       bigint   NOT NULL,
    decided_ms       bigint,
    done             text     COLLATE "C",
    commit_no        bigint,
    etag_incarnation bigint,
    etag_commit      bigint,
    response         bytea,
    PRIMARY KEY (bucket, resource, incarnation, operation_id),
    CHECK (
        state IN ('intent', 'applied', 'refused', 'uncertain', 'resolved_applied', 'resolved_not_applied')
        AND length(fingerprint) = 32
        AND (response IS NULL) = (done IS NULL)
    )
);

-- For the newest operations of a resource. By a hash of it, which is shorter; and so that nothing but a list can go by
-- this index: with the name itself it would look as good as the key to a planner that does not know how many
-- operations a resource has.
CREATE INDEX operations_by_time ON operations (bucket, hashtextextended(resource, 0), created_ms);

-- The few that are not plainly applied are found without walking past all that are.
CREATE INDEX operations_not_applied ON operations (bucket, hashtextextended(resource, 0), created_ms)
    WHERE state <> 'applied';

CREATE TABLE leases (
    bucket         smallint NOT NULL,
    acquisition    bytea    NOT NULL,
    nonce          bytea    NOT NULL,
    key_id         bytea    NOT NULL,
    resource       text     COLLATE "C" NOT NULL,
    position_epoch bigint   NOT NULL,
    position_token bigint   NOT NULL,
    holder         text,
    ttl_ms         bigint   NOT NULL,
    asked_ttl_ms   bigint,
    request_id     bytea    NOT NULL,
    request_key    bytea    NOT NULL,
    granted_ms     bigint   NOT NULL,
    expires_ms     bigint   NOT NULL,
    state          text     COLLATE "C" NOT NULL,
    PRIMARY KEY (bucket, acquisition),
    CHECK (
        state IN ('pending_barrier', 'held', 'released', 'expired', 'superseded')
        AND length(acquisition) = 32 AND length(request_key) = 32
    )
) WITH (fillfactor = 85);

-- Where a repeated acquire finds its lease.
CREATE UNIQUE INDEX leases_by_request ON leases (bucket, request_key);

-- What was done to a resource outside its content, for those who read the record: in the order of time, and inside one
-- transaction in the order of decisions. The resource's row lock keeps two transactions from writing here at once.
CREATE TABLE audit (
    bucket         smallint NOT NULL,
    resource       text     COLLATE "C" NOT NULL,
    at_ms          bigint   NOT NULL,
    transaction_id bigint   NOT NULL,
    ordinal        bigint   NOT NULL,
    verb           text     COLLATE "C" NOT NULL,
    position_epoch bigint   NOT NULL,
    position_token bigint   NOT NULL,
    reason         text,
    PRIMARY KEY (bucket, resource, at_ms, transaction_id, ordinal)
);

-- The shapes of what a batch sends. One array of such rows costs a tenth of one array per column. A shape never
-- changes: a version that needs another one makes it beside this one, so that both versions can run at once.
CREATE TYPE key_named_v1 AS (ordinal integer, bucket smallint, name text);
CREATE TYPE key_hashed_v1 AS (ordinal integer, bucket smallint, hash bytea);
CREATE TYPE key_target_v1 AS (ordinal integer, bucket smallint, resource text, target text);
CREATE TYPE key_operation_v1 AS (
    ordinal integer, bucket smallint, resource text, incarnation bigint, operation_id text
);
CREATE TYPE key_position_v1 AS (
    ordinal integer, bucket smallint, resource text, epoch bigint, token bigint, operation_id text
);

CREATE TYPE new_namespace_v1 AS (
    namespace text, epoch bigint, base_epoch bigint, base_token bigint, base_incarnation bigint, definition text,
    version bigint
);
CREATE TYPE new_resource_v1 AS (
    bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint
);
-- The row that is to stand, and the registers that the decision saw.
CREATE TYPE changed_resource_v1 AS (
    bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint,
    seen_incarnation bigint, seen_life text, seen_issued_epoch bigint, seen_issued_token bigint,
    seen_floor_epoch bigint, seen_floor_token bigint, seen_revoked_epoch bigint, seen_revoked_token bigint,
    seen_applied_epoch bigint, seen_applied_token bigint, seen_applied_sequence bigint, seen_commit_no bigint,
    seen_lease bytea
);
-- The same where it is known in which place the row lies: it was read there and has been held since, so it is as the
-- decision saw it.
CREATE TYPE placed_resource_v1 AS (
    place tid, bucket smallint, resource text, incarnation bigint, born_epoch bigint, born_token bigint, life text,
    issued_epoch bigint, issued_token bigint, floor_epoch bigint, floor_token bigint, revoked_epoch bigint,
    revoked_token bigint, applied_epoch bigint, applied_token bigint, applied_sequence bigint, commit_no bigint,
    pruned_epoch bigint, pruned_token bigint, pruned_sequence bigint, lease bytea, last_operation text,
    changed_ms bigint
);
CREATE TYPE new_era_v1 AS (
    bucket smallint, resource text, born_epoch bigint, born_token bigint, incarnation bigint
);
CREATE TYPE new_target_v1 AS (
    bucket smallint, resource text, target text, incarnation bigint, commit_no bigint, content_type text, size bigint,
    digest bytea, body bytea
);
CREATE TYPE placed_target_v1 AS (
    place tid, bucket smallint, resource text, target text, incarnation bigint, commit_no bigint, content_type text,
    size bigint, digest bytea, body bytea
);
CREATE TYPE new_operation_v1 AS (
    bucket smallint, resource text, incarnation bigint, operation_id text, target text, method text,
    fingerprint bytea, position_epoch bigint, position_token bigint, sequence bigint, acquisition bytea, state text,
    attempt bigint, created_ms bigint, decided_ms bigint, done text, commit_no bigint, etag_incarnation bigint,
    etag_commit bigint, response bytea
);
CREATE TYPE new_lease_v1 AS (
    bucket smallint, acquisition bytea, nonce bytea, key_id bytea, resource text, position_epoch bigint,
    position_token bigint, holder text, ttl_ms bigint, asked_ttl_ms bigint, request_id bytea, request_key bytea,
    granted_ms bigint, expires_ms bigint, state text
);
CREATE TYPE changed_lease_v1 AS (
    bucket smallint, acquisition bytea, ttl_ms bigint, expires_ms bigint, state text, seen_expires_ms bigint,
    seen_state text
);
CREATE TYPE new_audit_v1 AS (
    bucket smallint, resource text, at_ms bigint, ordinal bigint, verb text, position_epoch bigint,
    position_token bigint, reason text
);
