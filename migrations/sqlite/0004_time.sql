-- Epochs and the breaker.

-- `breaker` is what stopped the namespace: the detector, the time in milliseconds since 1970, and what was found.
ALTER TABLE namespaces ADD COLUMN breaker TEXT;

-- What holds for namespaces that were never used yet; one copy per bucket, all of which change in one transaction. An
-- act on all namespaces changes it too, so that whoever uses a name for the first time meets it.
CREATE TABLE everywhere (
    bucket  INTEGER NOT NULL PRIMARY KEY CHECK (bucket BETWEEN 0 AND 255),
    epoch   INTEGER NOT NULL CHECK (epoch >= 0),
    breaker TEXT
) STRICT;

INSERT INTO everywhere (bucket, epoch)
WITH RECURSIVE buckets (bucket) AS (VALUES (0) UNION ALL SELECT bucket + 1 FROM buckets WHERE bucket < 255)
SELECT bucket, 0 FROM buckets;

-- Old lines of what was done, and old control calls, are found by their time. `operations` need no index for that: they
-- stand in the order in which they were decided.
CREATE INDEX audit_by_time ON audit (at_ms);
CREATE INDEX controls_by_time ON controls (at_ms);

-- The lowest protocol that a process must speak to work on this file. It is raised when every gateway is of a release that
-- speaks it; one that speaks a lower one is refused from then on.
ALTER TABLE ledger ADD COLUMN least_protocol INTEGER NOT NULL DEFAULT 1 CHECK (least_protocol >= 1);

-- Who held the lease, of an act on one. A line may tell of an earlier time than its commit: an expiry is written down by
-- whoever comes across it.
ALTER TABLE audit ADD COLUMN holder TEXT;
CREATE INDEX audit_of_resource ON audit (bucket, resource, at_ms);

-- Samples of what was refused: of each resource the last sixteen, in a ring. `number` counts them, and its rest by sixteen
-- is the `slot`. No decision looks here.
CREATE TABLE refusals (
    bucket          INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 255),
    resource        TEXT    NOT NULL,
    slot            INTEGER NOT NULL CHECK (slot BETWEEN 0 AND 15),
    number          INTEGER NOT NULL CHECK (number % 16 = slot),
    at_ms           INTEGER NOT NULL,
    code            TEXT    NOT NULL,
    presented_epoch INTEGER,
    presented_token INTEGER,
    operation_id    TEXT,
    times           INTEGER NOT NULL CHECK (times >= 1),
    PRIMARY KEY (bucket, resource, slot),
    CHECK ((presented_epoch IS NULL) = (presented_token IS NULL))
) STRICT, WITHOUT ROWID;

-- The few that a person has to look at are found without walking past all others.
CREATE INDEX resources_quarantined ON resources (resource) WHERE quarantined IS NOT NULL;
CREATE INDEX intents_uncertain ON intents (resource) WHERE state = 'uncertain';
