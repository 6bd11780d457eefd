-- The process of a cluster whose connection it is, and when others have taken over from it.
SET @step = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'rookery_lanes' AND column_name = 'fenced_ms') > 0,
    'DO 0', 'ALTER TABLE rookery_lanes ADD COLUMN node INTEGER, ADD COLUMN incarnation BIGINT, ADD COLUMN fenced_ms BIGINT');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
