-- Who asked, and what is told to those who listen.

-- Who asked for an act. NULL where the gateway did it of itself, and in the lines of earlier releases.
ALTER TABLE audit ADD COLUMN actor text;

CREATE TYPE new_audit_v3 AS (
    bucket smallint, resource text, at_ms bigint, ordinal bigint, verb text, position_epoch bigint,
    position_token bigint, reason text, holder text, actor text
);

-- The transaction that recorded an operation. The database fills it in, whichever release sends the row; operations
-- that were recorded before this step have none and are told to nobody. The column and its default come apart, so that
-- no row is written anew.
ALTER TABLE operations ADD COLUMN transaction_id bigint;
ALTER TABLE operations ALTER COLUMN transaction_id SET DEFAULT pg_current_xact_id()::text::bigint;

-- For those who listen: by transaction, and only what no transaction that still runs can come before. New entries stand
-- at the right edge, and those of one transaction share one.
CREATE INDEX operations_in_order ON operations (transaction_id) WHERE transaction_id IS NOT NULL;
CREATE INDEX audit_in_order ON audit (transaction_id, ordinal);
