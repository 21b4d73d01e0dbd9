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
