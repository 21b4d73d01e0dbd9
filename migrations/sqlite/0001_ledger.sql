-- The embedded ledger.
--
-- `bucket` (the first byte of SHA-256 of the resource) is the first column of every table and of every key, and nothing
-- refers across resources, so that the same tables can be spread over several servers. Two tables have no bucket,
-- because they tell of the database as a whole and hold a handful of rows: `ledger` and `seal_keys`.
--
-- A position is two integers, `..._epoch` and `..._token`; a time is milliseconds since 1970 (`..._ms`). The words that
-- a CHECK lists are all those of the protocol, also those that only later versions write: SQLite cannot change a CHECK
-- without copying the table.

-- "FENC": how the file says that it is a ledger of fencegate and nobody else's.
PRAGMA application_id = 0x46454E43;

-- The database's own id, how far it has come (+ 1 per commit), and the effective time, which never goes back.
CREATE TABLE ledger (
    one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    database_id TEXT    NOT NULL,
    ledger_seq  INTEGER NOT NULL CHECK (ledger_seq >= 0),
    clock_ms    INTEGER NOT NULL
) STRICT;

-- Name and fingerprint of each seal key that was ever active here; never a key.
CREATE TABLE seal_keys (
    key_id      BLOB    NOT NULL PRIMARY KEY CHECK (length(key_id) = 4),
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    recorded_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One copy per bucket; all copies change in one transaction.
CREATE TABLE namespaces (
    bucket           INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    namespace        TEXT    NOT NULL,
    epoch            INTEGER NOT NULL CHECK (epoch >= 0),
    base_epoch       INTEGER NOT NULL CHECK (base_epoch >= 0),
    base_token       INTEGER NOT NULL CHECK (base_token >= 0),
    base_incarnation INTEGER NOT NULL CHECK (base_incarnation >= 0),
    definition       TEXT    NOT NULL,
    version          INTEGER NOT NULL CHECK (version >= 1),
    PRIMARY KEY (bucket, namespace)
) STRICT, WITHOUT ROWID;

CREATE TABLE resources (
    bucket           INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource         TEXT    NOT NULL,
    incarnation      INTEGER NOT NULL CHECK (incarnation >= 1),
    born_epoch       INTEGER NOT NULL CHECK (born_epoch >= 0),
    born_token       INTEGER NOT NULL CHECK (born_token >= 0),
    life             TEXT    NOT NULL CHECK (life IN ('active', 'deleted', 'cancelled', 'quarantined')),
    issued_epoch     INTEGER NOT NULL CHECK (issued_epoch >= 0),
    issued_token     INTEGER NOT NULL CHECK (issued_token >= 0),
    floor_epoch      INTEGER NOT NULL CHECK (floor_epoch >= 0),
    floor_token      INTEGER NOT NULL CHECK (floor_token >= 0),
    revoked_epoch    INTEGER,
    revoked_token    INTEGER,
    applied_epoch    INTEGER,
    applied_token    INTEGER,
    applied_sequence INTEGER,
    commit_no        INTEGER NOT NULL CHECK (commit_no >= 0),
    pruned_epoch     INTEGER,
    pruned_token     INTEGER,
    pruned_sequence  INTEGER,
    lease            BLOB CHECK (length(lease) = 32),
    last_operation   TEXT,
    changed_ms       INTEGER NOT NULL,
    PRIMARY KEY (bucket, resource),
    CHECK ((revoked_epoch IS NULL) = (revoked_token IS NULL)),
    CHECK ((applied_epoch IS NULL) = (applied_token IS NULL)),
    CHECK ((pruned_epoch IS NULL) = (pruned_token IS NULL)),
    CHECK (life <> 'deleted' OR revoked_epoch IS NOT NULL),
    CHECK (applied_epoch IS NULL OR (applied_epoch, applied_token) <= (floor_epoch, floor_token))
) STRICT, WITHOUT ROWID;

-- For listing in order of name, over all buckets.
CREATE INDEX resources_by_name ON resources (resource);

-- The few that do not live are found without walking past all that do.
CREATE INDEX resources_not_active ON resources (resource, life) WHERE life <> 'active';

-- Incarnations that ended: which positions belonged to them.
CREATE TABLE incarnations (
    bucket      INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource    TEXT    NOT NULL,
    born_epoch  INTEGER NOT NULL CHECK (born_epoch >= 0),
    born_token  INTEGER NOT NULL CHECK (born_token >= 0),
    incarnation INTEGER NOT NULL CHECK (incarnation >= 1),
    PRIMARY KEY (bucket, resource, born_epoch, born_token)
) STRICT, WITHOUT ROWID;

-- `target` is '' for the resource itself; no name is empty. The body stands last, so that the other columns are read
-- without it. The rows are large, so the table keeps its row ids and the key is an index beside it.
CREATE TABLE targets (
    bucket       INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource     TEXT    NOT NULL,
    target       TEXT    NOT NULL,
    incarnation  INTEGER NOT NULL CHECK (incarnation >= 1),
    commit_no    INTEGER NOT NULL CHECK (commit_no >= 1),
    content_type TEXT,
    size         INTEGER NOT NULL CHECK (size >= 0),
    digest       BLOB    NOT NULL CHECK (length(digest) = 32),
    body         BLOB    NOT NULL,
    PRIMARY KEY (bucket, resource, target),
    CHECK (length(body) = size)
) STRICT;

-- Row ids again: new operations go to the right edge of the table, and only the small key lands in a random place.
CREATE TABLE operations (
    bucket           INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource         TEXT    NOT NULL,
    incarnation      INTEGER NOT NULL CHECK (incarnation >= 1),
    operation_id     TEXT    NOT NULL,
    target           TEXT    NOT NULL,
    method           TEXT    NOT NULL,
    fingerprint      BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    position_epoch   INTEGER NOT NULL CHECK (position_epoch >= 0),
    position_token   INTEGER NOT NULL CHECK (position_token >= 1),
    sequence         INTEGER,
    acquisition      BLOB CHECK (length(acquisition) = 16),
    state            TEXT    NOT NULL CHECK (state IN (
        'intent', 'applied', 'refused', 'uncertain', 'resolved_applied', 'resolved_not_applied'
    )),
    attempt          INTEGER NOT NULL CHECK (attempt >= 0),
    created_ms       INTEGER NOT NULL,
    decided_ms       INTEGER,
    done             TEXT,
    commit_no        INTEGER,
    etag_incarnation INTEGER,
    etag_commit      INTEGER,
    response         BLOB,
    PRIMARY KEY (bucket, resource, incarnation, operation_id),
    CHECK ((response IS NULL) = (done IS NULL) AND (response IS NULL) = (commit_no IS NULL)),
    CHECK ((etag_incarnation IS NULL) = (etag_commit IS NULL))
) STRICT;

-- For the newest operations of a resource.
CREATE INDEX operations_by_time ON operations (bucket, resource, created_ms);

-- The few that are not plainly applied are found without walking past all that are.
CREATE INDEX operations_not_applied ON operations (bucket, resource, created_ms) WHERE state <> 'applied';

CREATE TABLE leases (
    bucket         INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    acquisition    BLOB    NOT NULL CHECK (length(acquisition) = 32),
    nonce          BLOB    NOT NULL CHECK (length(nonce) = 16),
    key_id         BLOB    NOT NULL CHECK (length(key_id) = 4),
    resource       TEXT    NOT NULL,
    position_epoch INTEGER NOT NULL CHECK (position_epoch >= 0),
    position_token INTEGER NOT NULL CHECK (position_token >= 1),
    holder         TEXT,
    ttl_ms         INTEGER NOT NULL CHECK (ttl_ms >= 0),
    asked_ttl_ms   INTEGER,
    request_id     BLOB    NOT NULL CHECK (length(request_id) = 16),
    request_key    BLOB    NOT NULL CHECK (length(request_key) = 32),
    granted_ms     INTEGER NOT NULL,
    expires_ms     INTEGER NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN (
        'pending_barrier', 'held', 'released', 'expired', 'superseded'
    )),
    PRIMARY KEY (bucket, acquisition)
) STRICT, WITHOUT ROWID;

-- Where a repeated acquire finds its lease.
CREATE UNIQUE INDEX leases_by_request ON leases (bucket, request_key);

-- What was done to a resource outside its content, for those who read the record: in the order of commits, and inside
-- one commit in the order of decisions.
CREATE TABLE audit (
    bucket         INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource       TEXT    NOT NULL,
    ledger_seq     INTEGER NOT NULL CHECK (ledger_seq >= 1),
    ordinal        INTEGER NOT NULL CHECK (ordinal >= 0),
    verb           TEXT    NOT NULL,
    position_epoch INTEGER NOT NULL CHECK (position_epoch >= 0),
    position_token INTEGER NOT NULL CHECK (position_token >= 0),
    reason         TEXT,
    at_ms          INTEGER NOT NULL,
    PRIMARY KEY (bucket, resource, ledger_seq, ordinal)
) STRICT, WITHOUT ROWID;
