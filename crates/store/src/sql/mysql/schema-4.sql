-- The oldest version whose servers can use a schema of this version; none: its own.
SET @step = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'rookery_schema' AND column_name = 'runs_from') > 0,
    'DO 0', 'ALTER TABLE rookery_schema ADD COLUMN runs_from BIGINT');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
