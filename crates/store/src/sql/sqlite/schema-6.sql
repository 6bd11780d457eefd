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
