-- The obvious tables of a fence kept by hand. Documents keep some room in their pages, so that a replaced row stays
-- in its page and no index changes.
CREATE TABLE documents (
    resource  text   COLLATE "C" NOT NULL PRIMARY KEY,
    max_token bigint NOT NULL,
    version   bigint NOT NULL,
    body      text   NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE operations (
    resource    text   COLLATE "C" NOT NULL,
    operation   uuid   NOT NULL,
    token       bigint NOT NULL,
    fingerprint bytea  NOT NULL,
    PRIMARY KEY (resource, operation)
);
