-- A fenced write as four statements: what a service sends that keeps its own fence by hand.
\set r random(0, :resources - 1)
\set n random(1, 1000000000000000)
BEGIN;
UPDATE documents SET max_token = 7, version = version + 1, body = :n::text || :padding::text
    WHERE resource = 'bench/doc-' || lpad(:r::text, 6, '0') AND max_token <= 7;
INSERT INTO operations (resource, operation, token, fingerprint)
    VALUES ('bench/doc-' || lpad(:r::text, 6, '0'), gen_random_uuid(), 7, :fingerprint::text::bytea);
COMMIT;
