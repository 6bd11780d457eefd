-- Who sees the owner's presence. Somebody who logs in is looked up in the rosters of all contacts: by the owner each is elsewhere, here they lie
-- beside each other, and nothing of the table is read.
SET @step = IF(
    (SELECT COUNT(*) FROM information_schema.statistics
        WHERE table_schema = DATABASE() AND table_name = 'roster_items' AND index_name = 'roster_items_shown') > 0,
    'DO 0', 'CREATE INDEX roster_items_shown ON roster_items (contact_digest, owner, subscription)');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
