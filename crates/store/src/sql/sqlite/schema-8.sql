-- Conversations in archives are found by stretches of ids (id >> 51): what is written at a time lies in one place.

ALTER TABLE archive_messages ADD COLUMN stretch INTEGER NOT NULL DEFAULT 0;

DROP INDEX archive_messages_by_contact;

UPDATE archive_messages SET stretch = id >> 51;

CREATE INDEX archive_messages_by_contact ON archive_messages (owner, stretch, contact, id);
