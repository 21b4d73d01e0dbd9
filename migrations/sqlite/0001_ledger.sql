-- The embedded ledger. `bucket` (the first byte of SHA-256 of the resource) is the first column of every key, and
-- nothing refers across resources, so that the same schema can be spread over several servers. Two tables belong to
-- the database as a whole and have no bucket: `ledger` and `seal_keys`.

-- The database's own id, how far it has come, and the effective time, which never goes back.
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
) STRICT;

-- One copy per bucket; all copies change in one transaction.
CREATE TABLE namespaces (
    bucket           INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    namespace        TEXT    NOT NULL,
    epoch            INTEGER NOT NULL CHECK (epoch >= 0),
    base_epoch       INTEGER NOT NULL,
    base_token       INTEGER NOT NULL,
    base_incarnation INTEGER NOT NULL,
    definition       TEXT    NOT NULL,
    version          INTEGER NOT NULL CHECK (version >= 1),
    PRIMARY KEY (bucket, namespace)
) STRICT, WITHOUT ROWID;

CREATE TABLE resources (
    bucket           INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource         TEXT    NOT NULL,
    incarnation      INTEGER NOT NULL CHECK (incarnation >= 1),
    born_epoch       INTEGER NOT NULL,
    born_token       INTEGER NOT NULL,
    life             TEXT    NOT NULL CHECK (life IN ('active', 'deleted', 'cancelled')),
    issued_epoch     INTEGER NOT NULL,
    issued_token     INTEGER NOT NULL,
    floor_epoch      INTEGER NOT NULL,
    floor_token      INTEGER NOT NULL,
    revoked_epoch    INTEGER,
    revoked_token    INTEGER,
    applied_epoch    INTEGER,
    applied_token    INTEGER,
    applied_sequence INTEGER,
    commit_no        INTEGER NOT NULL CHECK (commit_no >= 0),
    pruned_epoch     INTEGER,
    pruned_token     INTEGER,
    pruned_sequence  INTEGER,
    lease            BLOB,
    last_operation   TEXT,
    changed_ms       INTEGER NOT NULL,
    PRIMARY KEY (bucket, resource)
) STRICT, WITHOUT ROWID;

-- For listing in order of name.
CREATE INDEX resources_by_name ON resources (resource);

-- Incarnations that ended: which positions belonged to them.
CREATE TABLE incarnations (
    bucket      INTEGER NOT NULL,
    resource    TEXT    NOT NULL,
    born_epoch  INTEGER NOT NULL,
    born_token  INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    PRIMARY KEY (bucket, resource, born_epoch, born_token)
) STRICT, WITHOUT ROWID;

-- `target` is '' for the resource itself; no name is empty. The body stands last, so that the other columns are read
-- without it.
CREATE TABLE targets (
    bucket       INTEGER NOT NULL,
    resource     TEXT    NOT NULL,
    target       TEXT    NOT NULL,
    incarnation  INTEGER NOT NULL,
    commit_no    INTEGER NOT NULL,
    content_type TEXT,
    size         INTEGER NOT NULL,
    digest       BLOB    NOT NULL CHECK (length(digest) = 32),
    body         BLOB    NOT NULL,
    PRIMARY KEY (bucket, resource, target)
) STRICT;

CREATE TABLE operations (
    bucket        INTEGER NOT NULL,
    resource      TEXT    NOT NULL,
    incarnation   INTEGER NOT NULL,
    operation_id  TEXT    NOT NULL,
    target        TEXT    NOT NULL,
    method        TEXT    NOT NULL,
    fingerprint   BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    epoch         INTEGER NOT NULL,
    token         INTEGER NOT NULL,
    sequence      INTEGER,
    acquisition   BLOB,
    state         TEXT    NOT NULL,
    attempt       INTEGER NOT NULL,
    created_ms    INTEGER NOT NULL,
    decided_ms    INTEGER,
    done          TEXT,
    commit_no     INTEGER,
    etag          INTEGER,
    response      BLOB,
    PRIMARY KEY (bucket, resource, incarnation, operation_id)
) STRICT, WITHOUT ROWID;

-- For the newest operations of a resource.
CREATE INDEX operations_by_time ON operations (bucket, resource, created_ms, incarnation, operation_id);

CREATE TABLE leases (
    bucket       INTEGER NOT NULL,
    acquisition  BLOB    NOT NULL CHECK (length(acquisition) = 32),
    nonce        BLOB    NOT NULL CHECK (length(nonce) = 16),
    key_id       BLOB    NOT NULL CHECK (length(key_id) = 4),
    resource     TEXT    NOT NULL,
    epoch        INTEGER NOT NULL,
    token        INTEGER NOT NULL,
    holder       TEXT,
    ttl_ms       INTEGER NOT NULL,
    asked_ttl_ms INTEGER,
    request_id   BLOB    NOT NULL CHECK (length(request_id) = 16),
    request_key  BLOB    NOT NULL CHECK (length(request_key) = 32),
    granted_ms   INTEGER NOT NULL,
    expires_ms   INTEGER NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('held', 'released', 'expired', 'superseded')),
    PRIMARY KEY (bucket, acquisition)
) STRICT, WITHOUT ROWID;

-- Where a repeated acquire finds its lease.
CREATE UNIQUE INDEX leases_by_request ON leases (bucket, request_key);

-- What was done to a resource outside its content, for those who read the record.
CREATE TABLE audit (
    bucket     INTEGER NOT NULL,
    resource   TEXT    NOT NULL,
    ledger_seq INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,
    verb       TEXT    NOT NULL,
    epoch      INTEGER NOT NULL,
    token      INTEGER NOT NULL,
    reason     TEXT,
    at_ms      INTEGER NOT NULL,
    PRIMARY KEY (bucket, resource, ledger_seq, ordinal)
) STRICT, WITHOUT ROWID;
