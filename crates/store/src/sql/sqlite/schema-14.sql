-- Who has made a node, who therefore answers for its size, and that size: what it says of itself, its items and its affiliations.

ALTER TABLE pubsub_nodes ADD COLUMN creator TEXT NOT NULL DEFAULT '';
ALTER TABLE pubsub_nodes ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

UPDATE pubsub_nodes SET creator = CASE WHEN account IS NOT NULL THEN host ELSE COALESCE(
    (SELECT MIN(entity) FROM pubsub_affiliations WHERE node = pubsub_nodes.id AND affiliation = 1), '') END;

UPDATE pubsub_nodes SET bytes = LENGTH(config)
    + COALESCE((SELECT SUM(LENGTH(CAST(item AS BLOB)) + LENGTH(CAST(publisher AS BLOB)) + LENGTH(payload) + 100)
        FROM pubsub_items WHERE node = pubsub_nodes.id), 0)
    + COALESCE((SELECT SUM(LENGTH(CAST(entity AS BLOB)) + 100)
        FROM pubsub_affiliations WHERE node = pubsub_nodes.id), 0);

CREATE INDEX pubsub_nodes_by_creator ON pubsub_nodes (creator, host);
