-- Stores behind HTTP: operations that are announced and not decided yet, what upstreams answered, cells and barriers.

-- `quarantined` says what was found that contradicts the row. `cell` is the validator of the cell's last recorded state.
-- `barrier_...` is the position up to which nothing older can become authoritative in the store. NULL stands for none, so
-- that the row of a document stays as short as it was.
ALTER TABLE resources ADD COLUMN quarantined TEXT;
ALTER TABLE resources ADD COLUMN cell TEXT;
ALTER TABLE resources ADD COLUMN barrier_epoch INTEGER CHECK (barrier_epoch >= 0);
ALTER TABLE resources ADD COLUMN barrier_token INTEGER CHECK (
    barrier_token >= 0 AND (barrier_token IS NULL) = (barrier_epoch IS NULL)
);

-- What an upstream answered beside the body that stands in `response`: its status, its headers (name and value in turn,
-- each with its length before it in 4 bytes, big-endian), its ETag as it came, and length and SHA-256 of a body that was
-- too large to be kept. All are NULL where the gateway composed the answer.
--
-- An answer without an effect has a `commit_no` of 0: the CHECK of the first step wants one beside every answer, and no
-- commit has that number. `resolution` says how a doubt was ended: "said" or "assumed", a space, the length of the evidence
-- in bytes, a line break, the evidence, and the reason.
ALTER TABLE operations ADD COLUMN relayed_status INTEGER;
ALTER TABLE operations ADD COLUMN relayed_headers BLOB;
ALTER TABLE operations ADD COLUMN relayed_etag TEXT;
ALTER TABLE operations ADD COLUMN omitted_length INTEGER;
ALTER TABLE operations ADD COLUMN omitted_digest BLOB;
ALTER TABLE operations ADD COLUMN resolution TEXT;

-- An operation is recorded when it is decided. Where that is later than it was announced the order of recording is not
-- that of `created_ms`, and these are found by their time. Operations on documents are decided at once and are not here.
CREATE INDEX operations_late ON operations (bucket, resource_id, created_ms) WHERE decided_ms > created_ms;

-- Operations that are announced and not decided: few rows, each with all that is needed to send it again. A decided one
-- is deleted here and appended to `operations`, or, when it was withdrawn, deleted alone. So a resource's rows here are its
-- lane. They are found by name, since a row comes and goes many times more often than its resource is made.
--
-- `named_incarnation` is the one that the caller named. `headers` are packed as in `operations`. `base` is what the last
-- conditional send rests on: "unread", "absent", or a validator with its quotes. `claim` has 8 bytes. `body` is the first
-- piece of the body, up to 1 MiB; it stands last, so that the other columns are read without it.
CREATE TABLE intents (
    bucket            INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource          TEXT    NOT NULL,
    incarnation       INTEGER NOT NULL CHECK (incarnation >= 1),
    operation_id      TEXT    NOT NULL,
    target            TEXT    NOT NULL,
    method            TEXT    NOT NULL,
    fingerprint       BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    position_epoch    INTEGER NOT NULL CHECK (position_epoch >= 0),
    position_token    INTEGER NOT NULL CHECK (position_token >= 1),
    sequence          INTEGER,
    acquisition       BLOB CHECK (length(acquisition) = 16),
    state             TEXT    NOT NULL CHECK (state = 'intent' OR state = 'uncertain'),
    attempt           INTEGER NOT NULL CHECK (attempt >= 1),
    created_ms        INTEGER NOT NULL,
    named_incarnation INTEGER,
    if_match          TEXT,
    if_none_match     TEXT,
    query             TEXT,
    headers           BLOB    NOT NULL,
    content_type      TEXT,
    length            INTEGER NOT NULL CHECK (length >= 0),
    digest            BLOB    NOT NULL CHECK (length(digest) = 32),
    base              TEXT    NOT NULL,
    doubt             INTEGER NOT NULL CHECK (doubt = 0 OR doubt = 1),
    due_ms            INTEGER NOT NULL,
    claim             BLOB    NOT NULL CHECK (length(claim) = 8),
    body              BLOB    NOT NULL CHECK (length(body) <= 1048576),
    PRIMARY KEY (bucket, resource, incarnation, operation_id)
) STRICT;

-- Whose next step is due.
CREATE INDEX intents_due ON intents (due_ms);

-- What a body has beyond its first piece, 1 MiB in each row but the last, counted from 1.
CREATE TABLE intent_pieces (
    bucket       INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource     TEXT    NOT NULL,
    incarnation  INTEGER NOT NULL CHECK (incarnation >= 1),
    operation_id TEXT    NOT NULL,
    piece        INTEGER NOT NULL CHECK (piece >= 1),
    bytes        BLOB    NOT NULL,
    PRIMARY KEY (bucket, resource, incarnation, operation_id, piece)
) STRICT;

-- Leases that wait for a barrier: they are looked at until it stands, and they expire like those that are held.
CREATE INDEX leases_pending ON leases (expires_ms) WHERE state = 'pending_barrier';
