-- Days after which what is said in a room leaves its archive; 0: when its domain says.
ALTER TABLE rooms ADD COLUMN archive_days INTEGER NOT NULL DEFAULT 0;

-- Messages whose archive has no row, as those of accounts that were removed long ago: they get one that is nobody's, by which they are found and removed.
INSERT INTO archives (id, domain, localpart)
WITH RECURSIVE owners (owner) AS (
    SELECT MIN(owner) FROM archive_messages
    UNION ALL
    SELECT (SELECT MIN(m.owner) FROM archive_messages AS m WHERE m.owner > owners.owner) FROM owners
    WHERE owner IS NOT NULL
)
SELECT owner, '', CAST(owner AS TEXT) FROM owners
WHERE owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM archives AS known WHERE known.id = owner);
