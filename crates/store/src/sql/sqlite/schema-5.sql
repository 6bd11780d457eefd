-- Persistent rooms and who is affiliated with them.

CREATE TABLE rooms (
    id        INTEGER PRIMARY KEY,
    host      TEXT NOT NULL,
    localpart TEXT NOT NULL,
    name      TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    config    BLOB NOT NULL,
    subject   BLOB,
    vcard     BLOB,
    UNIQUE (host, localpart)
) STRICT;

CREATE TABLE room_affiliations (
    room        INTEGER NOT NULL REFERENCES rooms (id) ON DELETE CASCADE,
    -- A bare JID, of this server or of another.
    member      TEXT NOT NULL,
    -- -1: outcast, 1: member, 2: admin, 3: owner.
    affiliation INTEGER NOT NULL,
    nick        TEXT,
    reason      TEXT,
    PRIMARY KEY (room, member)
) STRICT, WITHOUT ROWID;

CREATE INDEX room_affiliations_by_member ON room_affiliations (member);
