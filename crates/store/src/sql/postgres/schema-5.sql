-- The oldest version whose servers can use a schema of this version; none: its own.
ALTER TABLE rookery_schema ADD COLUMN runs_from BIGINT;
