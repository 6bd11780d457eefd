CREATE TABLE documents (
    owner INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name  TEXT NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
