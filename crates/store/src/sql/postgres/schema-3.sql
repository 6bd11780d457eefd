-- With what is usual, an archive of a hundred million messages has twenty million dead rows before PostgreSQL clears them away, and as many new ones
-- before it knows that all can see them.
ALTER TABLE archive_messages SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
