-- The same write as one statement.
\set r random(0, :resources - 1)
\set n random(1, 1000000000000000)
WITH fenced AS (
    UPDATE documents SET max_token = 7, version = version + 1, body = :n::text || :padding::text
        WHERE resource = 'bench/doc-' || lpad(:r::text, 6, '0') AND max_token <= 7
        RETURNING resource
)
INSERT INTO operations (resource, operation, token, fingerprint)
    SELECT resource, gen_random_uuid(), 7, :fingerprint::text::bytea FROM fenced;
