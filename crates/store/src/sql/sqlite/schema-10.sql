-- One index of archived messages instead of two: every index costs a page of the log for each message. It holds the number of the contact (see
-- schema 9), so that a conversation is picked out of a stretch of an archive without reading the messages; and for each conversation the stretches
-- (id >> 43) in which it has messages are noted.

CREATE TABLE archived (
    owner       INTEGER NOT NULL,
    id          INTEGER NOT NULL,
    contact_key INTEGER NOT NULL,
    -- The other party of the conversation.
    contact     TEXT NOT NULL,
    resource    TEXT NOT NULL,
    stanza      BLOB NOT NULL
) STRICT;

INSERT INTO archived (owner, id, contact_key, contact, resource, stanza)
    SELECT owner, id, contact_key, contact, resource, stanza FROM archive_messages ORDER BY rowid;

DROP TABLE archive_messages;

ALTER TABLE archived RENAME TO archive_messages;

CREATE UNIQUE INDEX archive_messages_by_id ON archive_messages (owner, id, contact_key);

CREATE TABLE archive_conversations (
    owner       INTEGER NOT NULL,
    contact_key INTEGER NOT NULL,
    stretch     INTEGER NOT NULL,
    PRIMARY KEY (owner, contact_key, stretch)
) STRICT, WITHOUT ROWID;

INSERT INTO archive_conversations SELECT DISTINCT owner, contact_key, id >> 43 FROM archive_messages;
