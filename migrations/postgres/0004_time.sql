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

-- The lowest protocol that a process must speak to work on this database. It is raised when every gateway is of a release
-- that speaks it; one that speaks a lower one is refused from then on.
ALTER TABLE ledger ADD COLUMN least_protocol bigint NOT NULL DEFAULT 1;

-- Who held the lease, of an act on one. A line may tell of an earlier time than its transaction: an expiry is written down
-- by whoever comes across it.
ALTER TABLE audit ADD COLUMN holder text;

-- Samples of what was refused: of each resource the last sixteen, in a ring. `number` counts them, and its rest by sixteen
-- is the `slot`. No decision looks here.
CREATE TABLE refusals (
    bucket          smallint NOT NULL,
    resource        text     COLLATE "C" NOT NULL,
    slot            bigint   NOT NULL,
    number          bigint   NOT NULL,
    at_ms           bigint   NOT NULL,
    code            text     COLLATE "C" NOT NULL,
    presented_epoch bigint,
    presented_token bigint,
    operation_id    text     COLLATE "C",
    times           bigint   NOT NULL,
    PRIMARY KEY (bucket, resource, slot),
    CHECK (slot BETWEEN 0 AND 15 AND number % 16 = slot)
);

-- The few that a person has to look at are found without walking past all others.
CREATE INDEX resources_quarantined ON resources (resource) WHERE quarantined IS NOT NULL;
CREATE INDEX intents_uncertain ON intents (resource) WHERE state = 'uncertain';

CREATE TYPE new_audit_v2 AS (
    bucket smallint, resource text, at_ms bigint, ordinal bigint, verb text, position_epoch bigint,
    position_token bigint, reason text, holder text
);
CREATE TYPE noted_refusal_v1 AS (
    bucket smallint, resource text, at_ms bigint, code text, presented_epoch bigint, presented_token bigint,
    operation_id text, times bigint
);
