CREATE TABLE slots (
    token        TEXT NOT NULL PRIMARY KEY,
    -- NULL: the account was removed, and the file is to follow.
    owner        INTEGER REFERENCES accounts (id) ON DELETE SET NULL,
    name         TEXT NOT NULL,
    size         INTEGER NOT NULL,
    content_type TEXT,
    expires_ms   INTEGER NOT NULL,
    keep_ms      INTEGER NOT NULL,
    -- 1: reserved, 2: being filled, 3: filled.
    stage        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX slots_by_owner ON slots (owner);
CREATE INDEX slots_by_expiry ON slots (expires_ms);
