-- The embedded ledger.
--
-- `bucket` (the first byte of SHA-256 of the resource) is the first column of every table and of every key, and nothing
-- refers across resources, so that the same tables can be spread over several servers. Two tables have no bucket,
-- because they tell of the database as a whole and hold a handful of rows: `ledger` and `seal_keys`.
--
-- The tables that every write touches are laid out so that it dirties as few pages as it can: one random page, that of
-- the resource, and otherwise the right edge of `operations`. `id` is a row's address in this file, given out in rising
-- order and never again; it is explicit, since SQLite may give other numbers to rows that have none. A row is told
-- apart by its bucket and names, and an `id` from one table is only ever followed inside the same resource.
--
-- A position is two integers, `..._epoch` and `..._token`; a time is milliseconds since 1970 (`..._ms`). The words that
-- a CHECK lists are all those of the protocol, also those that only later versions write: SQLite cannot change a CHECK
-- without copying the table. They are compared one by one, since a longer IN is a table in memory for each row written.

-- "FENC": how the file says that it is a ledger of fencegate and nobody else's.
PRAGMA application_id = 0x46454E43;

-- The database's own id, how far it has come (+ 1 per commit), the effective time, which never goes back, and how many
-- operations were ever recorded: that number is the id of the newest one.
CREATE TABLE ledger (
    one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    database_id TEXT    NOT NULL,
    ledger_seq  INTEGER NOT NULL CHECK (ledger_seq >= 0),
    clock_ms    INTEGER NOT NULL,
    operations  INTEGER NOT NULL CHECK (operations >= 0)
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

-- Three groups of columns: the registers of the rules; the way to the resource's operations; and its whole-path
-- document, so that one page serves a write. A document's bytes stand here while they are few, else in `bodies`.
--
-- `newest_operation` begins the chain of the resource's operations (`operations.previous`). `recent` holds the keys of
-- the newest of them, 16 bytes each: the hash of the operation id and the row's id, both big-endian, oldest first, then
-- zeros: a row that keeps its length never splits its page. When they have become too many all of them move to
-- `operation_keys` together, and `indexed` says that some are there.
CREATE TABLE resources (
    bucket           INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    id               INTEGER PRIMARY KEY,
    resource         TEXT    NOT NULL,
    incarnation      INTEGER NOT NULL CHECK (incarnation >= 1),
    born_epoch       INTEGER NOT NULL CHECK (born_epoch >= 0),
    born_token       INTEGER NOT NULL CHECK (born_token >= 0),
    life             TEXT    NOT NULL CHECK (
        life = 'active' OR life = 'deleted' OR life = 'cancelled' OR life = 'quarantined'
    ),
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
    newest_operation INTEGER,
    indexed          INTEGER NOT NULL CHECK (indexed IN (0, 1)),
    recent           BLOB    NOT NULL CHECK (length(recent) = 128),
    doc_incarnation  INTEGER,
    doc_commit       INTEGER,
    doc_type         TEXT,
    doc_size         INTEGER,
    doc_digest       BLOB CHECK (length(doc_digest) = 32),
    doc_body         BLOB CHECK (length(doc_body) = doc_size),
    UNIQUE (bucket, resource),
    CHECK ((doc_commit IS NULL) = (doc_incarnation IS NULL) AND (doc_commit IS NULL) = (doc_size IS NULL)
        AND (doc_commit IS NULL) = (doc_digest IS NULL)),
    CHECK (doc_commit IS NOT NULL OR (doc_type IS NULL AND doc_body IS NULL)),
    CHECK ((revoked_epoch IS NULL) = (revoked_token IS NULL)),
    CHECK ((applied_epoch IS NULL) = (applied_token IS NULL)),
    CHECK ((pruned_epoch IS NULL) = (pruned_token IS NULL)),
    CHECK (life <> 'deleted' OR revoked_epoch IS NOT NULL),
    CHECK (applied_epoch IS NULL OR (applied_epoch, applied_token) <= (floor_epoch, floor_token))
) STRICT;

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

-- The bytes of whole-path documents that are too large to stand beside their resource.
CREATE TABLE bodies (
    bucket      INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource_id INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    PRIMARY KEY (bucket, resource_id)
) STRICT;

-- What stands below a resource. The body stands last, so that the other columns are read without it. The rows may be
-- large, so the table keeps its row ids and the key is an index beside it.
CREATE TABLE targets (
    bucket       INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource_id  INTEGER NOT NULL,
    target       TEXT    NOT NULL CHECK (target <> ''),
    incarnation  INTEGER NOT NULL CHECK (incarnation >= 1),
    commit_no    INTEGER NOT NULL CHECK (commit_no >= 1),
    content_type TEXT,
    size         INTEGER NOT NULL CHECK (size >= 0),
    digest       BLOB    NOT NULL CHECK (length(digest) = 32),
    body         BLOB    NOT NULL,
    PRIMARY KEY (bucket, resource_id, target),
    CHECK (length(body) = size)
) STRICT;

-- Operations, in the order in which they were recorded, which is also that of `created_ms`: the newest stand at the
-- right edge. `previous` is the operation of the same resource that was recorded before; a number without a row ends the
-- chain there. `target` is '' for the resource itself; no name is empty.
CREATE TABLE operations (
    bucket           INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    id               INTEGER PRIMARY KEY,
    resource_id      INTEGER NOT NULL,
    previous         INTEGER CHECK (previous < id),
    incarnation      INTEGER NOT NULL CHECK (incarnation >= 1),
    operation_id     TEXT    NOT NULL,
    target           TEXT    NOT NULL,
    method           TEXT    NOT NULL,
    fingerprint      BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    position_epoch   INTEGER NOT NULL CHECK (position_epoch >= 0),
    position_token   INTEGER NOT NULL CHECK (position_token >= 1),
    sequence         INTEGER,
    acquisition      BLOB CHECK (length(acquisition) = 16),
    state            TEXT    NOT NULL CHECK (
        state = 'applied' OR state = 'intent' OR state = 'refused' OR state = 'uncertain'
        OR state = 'resolved_applied' OR state = 'resolved_not_applied'
    ),
    attempt          INTEGER NOT NULL CHECK (attempt >= 0),
    created_ms       INTEGER NOT NULL,
    decided_ms       INTEGER,
    done             TEXT,
    commit_no        INTEGER,
    etag_incarnation INTEGER,
    etag_commit      INTEGER,
    response         BLOB,
    CHECK ((response IS NULL) = (done IS NULL) AND (response IS NULL) = (commit_no IS NULL)),
    CHECK ((etag_incarnation IS NULL) = (etag_commit IS NULL))
) STRICT;

-- The few that are not plainly applied are found without walking past all that are.
CREATE INDEX operations_not_applied ON operations (bucket, resource_id, created_ms) WHERE state <> 'applied';

-- Where an operation is found by its id, unless its resource still has it in `recent`. `hash` is the first 8 bytes of
-- SHA-256 of the operation id; the row itself says whether it is the one that is meant.
CREATE TABLE operation_keys (
    bucket      INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource_id INTEGER NOT NULL,
    hash        INTEGER NOT NULL,
    operation   INTEGER NOT NULL,
    PRIMARY KEY (bucket, resource_id, hash, operation)
) STRICT, WITHOUT ROWID;

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
    state          TEXT    NOT NULL CHECK (
        state = 'held' OR state = 'pending_barrier' OR state = 'released' OR state = 'expired' OR state = 'superseded'
    ),
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
