-- Conversations in archives are found by a number made of the contact's address, which takes a fraction of the address' place in the index:
-- h = 0, then (31 h + character) mod 2^31 for each character.

ALTER TABLE archive_messages ADD COLUMN contact_key INTEGER NOT NULL DEFAULT 0;

DROP INDEX archive_messages_by_contact;

UPDATE archive_messages SET contact_key = (
    WITH RECURSIVE fold (at, key) AS (
        SELECT 0, 0
        UNION ALL
        SELECT at + 1, (key * 31 + unicode(substr(contact, at + 1, 1))) & 2147483647 FROM fold WHERE at < length(contact)
    )
    SELECT key FROM fold WHERE at = length(contact)
);

CREATE INDEX archive_messages_by_contact ON archive_messages (owner, stretch, contact_key, id);
