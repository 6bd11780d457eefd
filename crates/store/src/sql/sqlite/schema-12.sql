-- What archives and waiting messages take is counted, so that it can be bounded. A message of an archive counts as its stanza and 128 bytes.

-- The count of an archive: all messages up to and with the id `counted`. Newer ones are counted a few at a time.
ALTER TABLE archives ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE archives ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;

UPDATE archives SET
    bytes = (SELECT COALESCE(SUM(length(stanza) + 128), 0) FROM archive_messages WHERE archive_messages.owner = archives.id),
    counted = (SELECT COALESCE(MAX(id), 0) FROM archive_messages WHERE archive_messages.owner = archives.id);

-- What conversations take of an archive. This is an estimate: it may lack the newest messages.
CREATE TABLE archive_shares (
    owner       INTEGER NOT NULL,
    contact_key INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    PRIMARY KEY (owner, contact_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX archive_shares_by_bytes ON archive_shares (owner, bytes);

INSERT INTO archive_shares (owner, contact_key, bytes)
    SELECT owner, contact_key, SUM(length(stanza) + 128) FROM archive_messages GROUP BY owner, contact_key;

-- The bare JID of who sent it, empty where that is unknown.
ALTER TABLE offline_messages ADD COLUMN sender TEXT NOT NULL DEFAULT '';

ALTER TABLE accounts ADD COLUMN offline_bytes INTEGER NOT NULL DEFAULT 0;

UPDATE accounts SET offline_bytes = (
    SELECT COALESCE(SUM(length(stanza)), 0) FROM offline_messages WHERE offline_messages.owner = accounts.id
);
