-- When the account was made, milliseconds since 1970; 0: before that was noted.
ALTER TABLE accounts ADD COLUMN created_ms INTEGER NOT NULL DEFAULT 0;
