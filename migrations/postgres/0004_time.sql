-- Epochs and the breaker.

-- `breaker` is what stopped the namespace: the detector, the time in milliseconds since 1970, and what was found.
ALTER TABLE namespaces ADD COLUMN breaker text;

-- What holds for namespaces that were never used yet; one copy per bucket, all of which change in one transaction. An
-- act on all namespaces changes it too, so that whoever uses a name for the first time meets it.
CREATE TABLE everywhere (
    bucket  smallint NOT NULL,
    epoch   bigint   NOT NULL,
    breaker text,
    PRIMARY KEY (bucket),
    CHECK (bucket BETWEEN 0 AND 255 AND epoch >= 0)
);

INSERT INTO everywhere (bucket, epoch) SELECT b.bucket::smallint, 0 FROM generate_series(0, 255) AS b (bucket);

-- The shapes that have grown, beside those of the version before.
CREATE TYPE new_namespace_v2 AS (
    namespace text, epoch bigint, base_epoch bigint, base_token bigint, base_incarnation bigint, definition text,
    version bigint, breaker text
);
-- The row that is to stand, and what the decision saw of it.
CREATE TYPE changed_namespace_v1 AS (
    namespace text, epoch bigint, base_epoch bigint, base_token bigint, base_incarnation bigint, definition text,
    version bigint, breaker text, seen_epoch bigint, seen_base_epoch bigint, seen_base_token bigint,
    seen_base_incarnation bigint, seen_version bigint, seen_breaker text
);
CREATE TYPE changed_everywhere_v1 AS (
    epoch bigint, breaker text, seen_epoch bigint, seen_breaker text
);

-- Old operations are found by the hour in which they came and by bucket; old lines of what was done, and old control
-- calls, by their time.
CREATE INDEX operations_by_hour ON operations ((created_ms / 3600000), bucket);
CREATE INDEX audit_by_time ON audit (at_ms);
CREATE INDEX controls_by_time ON controls (at_ms);

-- Up to when lines of what was done are forgotten.
CREATE TYPE aged_audit_v1 AS (before_ms bigint);
