-- Tables whose rows belong to one account have its id first in their key, so that they lie side by side.

CREATE TABLE accounts (
    id               INTEGER PRIMARY KEY,
    domain           TEXT NOT NULL,
    localpart        TEXT NOT NULL,
    roster_version   INTEGER NOT NULL,
    -- The oldest version whose changes since are all known.
    roster_oldest    INTEGER NOT NULL,
    roster_items     INTEGER NOT NULL,
    offline_messages INTEGER NOT NULL,
    UNIQUE (domain, localpart)
) STRICT;

CREATE TABLE scram_keys (
    account    INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- 1, 256 or 512.
    hash       INTEGER NOT NULL,
    iterations INTEGER NOT NULL,
    salt       BLOB NOT NULL,
    stored_key BLOB NOT NULL,
    server_key BLOB NOT NULL,
    PRIMARY KEY (account, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE roster_items (
    owner         INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    contact       TEXT NOT NULL,
    -- The roster's version that the latest change visible to clients made.
    version       INTEGER NOT NULL,
    name          TEXT,
    -- Each group as its length in bytes, a colon and itself.
    roster_groups TEXT NOT NULL,
    -- 1: the owner sees the contact's presence, 2: the contact sees the owner's, 3: both.
    subscription  INTEGER NOT NULL,
    ask           INTEGER NOT NULL,
    approved      INTEGER NOT NULL,
    listed        INTEGER NOT NULL,
    pending_in    BLOB,
    PRIMARY KEY (owner, contact)
) STRICT, WITHOUT ROWID;

-- Contacts that clients saw vanish.
CREATE TABLE roster_removals (
    owner   INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    contact TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (owner, contact)
) STRICT, WITHOUT ROWID;

CREATE INDEX roster_removals_by_version ON roster_removals (owner, version);

-- AUTOINCREMENT: an id is never given again, so what a client acknowledged late can't remove what came later.
CREATE TABLE offline_messages (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    owner   INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    unix_ms INTEGER NOT NULL,
    stanza  BLOB NOT NULL
) STRICT;

CREATE INDEX offline_messages_by_owner ON offline_messages (owner, id);

CREATE TABLE last_presence (
    owner   INTEGER PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    unix_ms INTEGER NOT NULL,
    stanza  BLOB NOT NULL
) STRICT;

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
    name  TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Where the roster of a new account starts to count: above those of all accounts that were removed.
INSERT INTO counters (name, value) VALUES ('next_roster_version', 1);
