-- The process of a cluster whose connection it is, and when others have taken over from it.
ALTER TABLE rookery_lanes ADD COLUMN node INTEGER;
ALTER TABLE rookery_lanes ADD COLUMN incarnation BIGINT;
ALTER TABLE rookery_lanes ADD COLUMN fenced_ms BIGINT;
