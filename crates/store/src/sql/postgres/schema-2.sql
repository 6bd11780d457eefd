-- Days after which what is said in a room leaves its archive; 0: when its domain says.
ALTER TABLE rooms ADD COLUMN archive_days BIGINT NOT NULL DEFAULT 0;
