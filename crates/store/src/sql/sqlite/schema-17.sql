-- The oldest version whose servers can use a schema of this version. A version without a row is for those that know it.
CREATE TABLE rookery_schema (
    version   INTEGER PRIMARY KEY,
    runs_from INTEGER NOT NULL
) STRICT;
