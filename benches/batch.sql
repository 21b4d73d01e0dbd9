-- As many writes as :rows in one statement, the rows made by the server itself. Two clients write resources of their
-- own, even and odd ones, so neither waits for the other. A resource that is drawn twice counts once in the database
-- and twice in the figure: 0.3 % at 256 rows.
WITH asked AS MATERIALIZED (
    SELECT DISTINCT ON (resource) resource, operation, body
    FROM unnest(
        ARRAY(SELECT 'bench/doc-' || lpad((floor(random() * :half::float8)::bigint * 2 + :client_id::bigint)::text, 6, '0')
              FROM generate_series(1, :rows::bigint)),
        ARRAY(SELECT gen_random_uuid() FROM generate_series(1, :rows::bigint)),
        ARRAY(SELECT (random() * 1e15)::bigint::text || :padding::text FROM generate_series(1, :rows::bigint))
    ) AS t (resource, operation, body)
    ORDER BY resource
), fenced AS (
    UPDATE documents d SET max_token = 7, version = d.version + 1, body = a.body
        FROM asked a WHERE d.resource = a.resource AND d.max_token <= 7
        RETURNING d.resource, a.operation
)
INSERT INTO operations (resource, operation, token, fingerprint)
    SELECT resource, operation, 7, :fingerprint::text::bytea FROM fenced;
