-- Who asked, and what is told to those who listen.

-- Who asked for an act. NULL where the gateway did it of itself, and in the lines of earlier releases.
ALTER TABLE audit ADD COLUMN actor TEXT;

-- Lines in the order in which they were committed, for those who listen. Operations need no index for that: their rows
-- stand in that order.
CREATE INDEX audit_in_order ON audit (ledger_seq, ordinal);
