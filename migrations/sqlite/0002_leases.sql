-- Leases in full: several resources in one acquisition, queues, how and when a lease ended, and control calls.

-- The bucket of the lease's row where it is not that of the resource: a lease over several resources lies with the first
-- of them. `queue` has 40 bytes for each place, from the head to the end: its number, the first 16 bytes of the request's
-- key, until when it is kept in milliseconds since 1970, and the delivery that waits in it (0 for none), numbers big-endian. `reason` says why it does not live.
ALTER TABLE resources ADD COLUMN lease_bucket INTEGER CHECK (lease_bucket BETWEEN 0 AND 255);
ALTER TABLE resources ADD COLUMN queue BLOB CHECK (length(queue) % 40 = 0);
ALTER TABLE resources ADD COLUMN reason TEXT;

-- `others` has a line for each further resource: its position, a space, its name.
ALTER TABLE leases ADD COLUMN others TEXT;
ALTER TABLE leases ADD COLUMN ended_ms INTEGER;
ALTER TABLE leases ADD COLUMN cause TEXT;

-- Expired leases that are not known to have expired are found without walking past all others.
CREATE INDEX leases_held ON leases (expires_ms) WHERE state = 'held';

-- Control calls that were carried out, with their answers.
CREATE TABLE controls (
    bucket      INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource    TEXT    NOT NULL,
    verb        TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    body        BLOB    NOT NULL,
    at_ms       INTEGER NOT NULL,
    PRIMARY KEY (bucket, resource, verb, key)
) STRICT, WITHOUT ROWID;
