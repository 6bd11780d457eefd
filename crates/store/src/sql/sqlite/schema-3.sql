-- Message archives. An archive's id is never given again: messages of one that was removed lie here until a sweep has them.

CREATE TABLE archives (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    domain    TEXT NOT NULL,
    localpart TEXT NOT NULL,
    -- NULL: a room's.
    account   INTEGER REFERENCES accounts (id) ON DELETE CASCADE,
    UNIQUE (domain, localpart)
) STRICT;

CREATE INDEX archives_by_account ON archives (account);

-- In the order of their arrival; found by two keys.
CREATE TABLE archive_messages (
    owner    INTEGER NOT NULL,
    id       INTEGER NOT NULL,
    -- The other party of the conversation.
    contact  TEXT NOT NULL,
    resource TEXT NOT NULL,
    stanza   BLOB NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT;

CREATE INDEX archive_messages_by_contact ON archive_messages (owner, contact, id, resource);
