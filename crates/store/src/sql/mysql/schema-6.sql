-- When the account was made, milliseconds since 1970; 0: before that was noted.
SET @step = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'accounts' AND column_name = 'created_ms') > 0,
    'DO 0', 'ALTER TABLE accounts ADD COLUMN created_ms BIGINT NOT NULL DEFAULT 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
