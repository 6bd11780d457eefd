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
CREATE TABLE disabled_accounts (
    account INTEGER PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE
) STRICT;

CREATE TABLE invitations (
    token      TEXT NOT NULL PRIMARY KEY,
    domain     TEXT NOT NULL,
    -- 1: create an account, 2: set the owner's password.
    purpose    INTEGER NOT NULL,
    -- The name that the new account must have.
    localpart  TEXT,
    owner      INTEGER REFERENCES accounts (id) ON DELETE CASCADE,
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX invitations_by_owner ON invitations (owner);
CREATE INDEX invitations_by_expiry ON invitations (expires_ms);
