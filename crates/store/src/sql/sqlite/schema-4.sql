-- Publish-subscribe: nodes of accounts and of services.

CREATE TABLE pubsub_nodes (
    -- Numbers grow, so that a page that goes on behind one misses none that is newer.
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The account whose node it is; NULL if it is a service's.
    account INTEGER REFERENCES accounts (id) ON DELETE CASCADE,
    -- The bare JID of the account, or the host of the service.
    host    TEXT NOT NULL,
    node    TEXT NOT NULL,
    config  BLOB NOT NULL,
    items   INTEGER NOT NULL,
    UNIQUE (host, node)
) STRICT;

CREATE INDEX pubsub_nodes_by_account ON pubsub_nodes (account);

CREATE TABLE pubsub_affiliations (
    node        INTEGER NOT NULL REFERENCES pubsub_nodes (id) ON DELETE CASCADE,
    entity      TEXT NOT NULL,
    -- 1 owner, 2 publisher, 3 publish-only, 4 member, 5 outcast.
    affiliation INTEGER NOT NULL,
    PRIMARY KEY (node, entity)
) STRICT, WITHOUT ROWID;

CREATE INDEX pubsub_affiliations_by_entity ON pubsub_affiliations (entity);

CREATE TABLE pubsub_subscriptions (
    node       INTEGER NOT NULL REFERENCES pubsub_nodes (id) ON DELETE CASCADE,
    subscriber TEXT NOT NULL,
    pending    INTEGER NOT NULL,
    options    BLOB NOT NULL,
    PRIMARY KEY (node, subscriber)
) STRICT, WITHOUT ROWID;

CREATE INDEX pubsub_subscriptions_by_subscriber ON pubsub_subscriptions (subscriber);

CREATE TABLE pubsub_items (
    node      INTEGER NOT NULL REFERENCES pubsub_nodes (id) ON DELETE CASCADE,
    item      TEXT NOT NULL,
    -- The order of publication: the newest has the highest.
    position  INTEGER NOT NULL,
    publisher TEXT NOT NULL,
    unix_ms   INTEGER NOT NULL,
    payload   BLOB NOT NULL,
    PRIMARY KEY (node, item)
) STRICT;

CREATE UNIQUE INDEX pubsub_items_by_position ON pubsub_items (node, position);
