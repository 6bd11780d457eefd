-- Days after which what is said in a room leaves its archive; 0: when its domain says.
SET @step = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'rooms' AND column_name = 'archive_days') > 0,
    'DO 0', 'ALTER TABLE rooms ADD COLUMN archive_days BIGINT NOT NULL DEFAULT 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
