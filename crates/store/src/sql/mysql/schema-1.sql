-- The schema of SQLite's file at its version 15, as MariaDB and MySQL want it. Each statement may be run again.
--
-- Texts that are looked up or sorted are bytes, so that they are compared byte by byte, with their trailing spaces; texts that are only kept can hold
-- every character. Where a text may be longer than what an index takes (3072 bytes), such as a full JID behind a number, its digest is in the index
-- instead: a default and no generated column, by which rows could not lie in their order.

-- What has made the schema: see `schema.rs`.
CREATE TABLE IF NOT EXISTS rookery_schema (
    version    BIGINT PRIMARY KEY,
    checksum   CHAR(64) NOT NULL,
    applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    applied_by TEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS accounts (
    id               BIGINT AUTO_INCREMENT PRIMARY KEY,
    domain           VARBINARY(1023) NOT NULL,
    localpart        VARBINARY(1023) NOT NULL,
    roster_version   BIGINT NOT NULL,
    -- The oldest version whose changes since are all known.
    roster_oldest    BIGINT NOT NULL,
    roster_items     BIGINT NOT NULL,
    offline_messages BIGINT NOT NULL,
    offline_bytes    BIGINT NOT NULL DEFAULT 0,
    UNIQUE (domain, localpart)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS scram_keys (
    account    BIGINT NOT NULL,
    -- 1, 256 or 512.
    hash       INT NOT NULL,
    iterations BIGINT NOT NULL,
    salt       VARBINARY(255) NOT NULL,
    stored_key VARBINARY(255) NOT NULL,
    server_key VARBINARY(255) NOT NULL,
    PRIMARY KEY (account, hash),
    FOREIGN KEY (account) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS disabled_accounts (
    account BIGINT PRIMARY KEY,
    FOREIGN KEY (account) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS roster_items (
    owner          BIGINT NOT NULL,
    contact        VARBINARY(3071) NOT NULL,
    contact_digest BINARY(32) NOT NULL DEFAULT (UNHEX(SHA2(contact, 256))),
    -- The roster's version that the latest change visible to clients made.
    version        BIGINT NOT NULL,
    name           TEXT,
    -- Each group as its length in bytes, a colon and itself.
    roster_groups  MEDIUMTEXT NOT NULL,
    -- 1: the owner sees the contact's presence, 2: the contact sees the owner's, 3: both.
    subscription   TINYINT NOT NULL,
    ask            TINYINT NOT NULL,
    approved       TINYINT NOT NULL,
    listed         TINYINT NOT NULL,
    pending_in     MEDIUMBLOB,
    PRIMARY KEY (owner, contact_digest),
    FOREIGN KEY (owner) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Contacts that clients saw vanish.
CREATE TABLE IF NOT EXISTS roster_removals (
    owner          BIGINT NOT NULL,
    contact        VARBINARY(3071) NOT NULL,
    contact_digest BINARY(32) NOT NULL DEFAULT (UNHEX(SHA2(contact, 256))),
    version        BIGINT NOT NULL,
    PRIMARY KEY (owner, contact_digest),
    INDEX roster_removals_by_version (owner, version),
    FOREIGN KEY (owner) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Numbers are never given again, so what a client acknowledged late can't remove what came later. They grow for one owner, whose row is locked
-- by whoever adds.
CREATE TABLE IF NOT EXISTS offline_messages (
    id      BIGINT AUTO_INCREMENT PRIMARY KEY,
    owner   BIGINT NOT NULL,
    unix_ms BIGINT NOT NULL,
    -- The bare JID of who sent it, empty where that is unknown.
    sender  VARBINARY(2047) NOT NULL DEFAULT '',
    stanza  MEDIUMBLOB NOT NULL,
    INDEX offline_messages_by_owner (owner, id),
    FOREIGN KEY (owner) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS last_presence (
    owner   BIGINT PRIMARY KEY,
    unix_ms BIGINT NOT NULL,
    stanza  MEDIUMBLOB NOT NULL,
    FOREIGN KEY (owner) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS documents (
    owner       BIGINT NOT NULL,
    name        VARBINARY(3071) NOT NULL,
    name_digest BINARY(32) NOT NULL DEFAULT (UNHEX(SHA2(name, 256))),
    bytes       MEDIUMBLOB NOT NULL,
    PRIMARY KEY (owner, name_digest),
    FOREIGN KEY (owner) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS meta (
    name  VARBINARY(255) PRIMARY KEY,
    bytes MEDIUMBLOB NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Lists of the server, such as administrators, tokens and notes for the running server, a row for each entry.
CREATE TABLE IF NOT EXISTS lists (
    list  VARBINARY(255) NOT NULL,
    name  VARBINARY(2560) NOT NULL,
    bytes MEDIUMBLOB NOT NULL,
    PRIMARY KEY (list, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS counters (
    name  VARBINARY(255) PRIMARY KEY,
    value BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Where the roster of a new account starts to count: above those of all accounts that were removed.
INSERT INTO counters (name, value) VALUES ('next_roster_version', 1) ON DUPLICATE KEY UPDATE value = value;

CREATE TABLE IF NOT EXISTS invitations (
    token      VARBINARY(255) PRIMARY KEY,
    domain     VARBINARY(1023) NOT NULL,
    -- 1: create an account, 2: set the owner's password.
    purpose    TINYINT NOT NULL,
    -- The name that the new account must have.
    localpart  VARBINARY(1023),
    owner      BIGINT,
    expires_ms BIGINT NOT NULL,
    INDEX invitations_by_expiry (expires_ms),
    INDEX invitations_by_owner (owner),
    FOREIGN KEY (owner) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS slots (
    token        VARBINARY(255) PRIMARY KEY,
    -- NULL: the account was removed, and the file is to follow.
    owner        BIGINT,
    name         TEXT NOT NULL,
    size         BIGINT NOT NULL,
    content_type TEXT,
    expires_ms   BIGINT NOT NULL,
    keep_ms      BIGINT NOT NULL,
    -- 1: reserved, 2: being filled, 3: filled.
    stage        TINYINT NOT NULL,
    INDEX slots_by_expiry (expires_ms),
    INDEX slots_by_owner (owner),
    FOREIGN KEY (owner) REFERENCES accounts (id) ON DELETE SET NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Message archives. An archive's number is never given again: messages of one that was removed lie here until a sweep has them.
CREATE TABLE IF NOT EXISTS archives (
    id        BIGINT AUTO_INCREMENT PRIMARY KEY,
    domain    VARBINARY(1023) NOT NULL,
    localpart VARBINARY(1023) NOT NULL,
    -- NULL: a room's.
    account   BIGINT,
    -- The count of an archive: all messages up to and with the id `counted`.
    bytes     BIGINT NOT NULL DEFAULT 0,
    counted   BIGINT NOT NULL DEFAULT 0,
    UNIQUE (domain, localpart),
    INDEX archives_by_account (account),
    FOREIGN KEY (account) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS archive_messages (
    owner       BIGINT NOT NULL,
    id          BIGINT NOT NULL,
    -- The contact's address as a number: h = 0, then (31 h + character) mod 2^31 for each character.
    contact_key BIGINT NOT NULL,
    -- The other party of the conversation.
    contact     VARBINARY(3071) NOT NULL,
    resource    VARBINARY(1023) NOT NULL,
    stanza      MEDIUMBLOB NOT NULL,
    PRIMARY KEY (owner, id),
    INDEX archive_messages_by_contact (owner, contact_key, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What conversations take of an archive. This is an estimate: it may lack the newest messages.
CREATE TABLE IF NOT EXISTS archive_shares (
    owner       BIGINT NOT NULL,
    contact_key BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    PRIMARY KEY (owner, contact_key),
    INDEX archive_shares_by_bytes (owner, bytes)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Publish-subscribe: nodes of accounts and of services.
CREATE TABLE IF NOT EXISTS pubsub_nodes (
    id          BIGINT AUTO_INCREMENT PRIMARY KEY,
    -- The account whose node it is; NULL if it is a service's.
    account     BIGINT,
    -- The bare JID of the account, or the host of the service.
    host        VARBINARY(2047) NOT NULL,
    node        VARBINARY(1023) NOT NULL,
    node_digest BINARY(32) NOT NULL DEFAULT (UNHEX(SHA2(node, 256))),
    config      MEDIUMBLOB NOT NULL,
    items       BIGINT NOT NULL,
    -- Who made it and answers for its size.
    creator     VARBINARY(2047) NOT NULL DEFAULT '',
    -- What it says of itself, its items and its affiliations.
    bytes       BIGINT NOT NULL DEFAULT 0,
    UNIQUE (host, node_digest),
    INDEX pubsub_nodes_by_creator (creator),
    INDEX pubsub_nodes_by_account (account),
    FOREIGN KEY (account) REFERENCES accounts (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS pubsub_affiliations (
    node        BIGINT NOT NULL,
    entity      VARBINARY(2047) NOT NULL,
    -- 1 owner, 2 publisher, 3 publish-only, 4 member, 5 outcast.
    affiliation TINYINT NOT NULL,
    PRIMARY KEY (node, entity),
    INDEX pubsub_affiliations_by_entity (entity),
    FOREIGN KEY (node) REFERENCES pubsub_nodes (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS pubsub_subscriptions (
    node              BIGINT NOT NULL,
    subscriber        VARBINARY(3071) NOT NULL,
    subscriber_digest BINARY(32) NOT NULL DEFAULT (UNHEX(SHA2(subscriber, 256))),
    bare              VARBINARY(2047) NOT NULL DEFAULT (SUBSTRING_INDEX(subscriber, '/', 1)),
    pending           TINYINT NOT NULL,
    options           MEDIUMBLOB NOT NULL,
    PRIMARY KEY (node, subscriber_digest),
    INDEX pubsub_subscriptions_by_subscriber (bare),
    FOREIGN KEY (node) REFERENCES pubsub_nodes (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS pubsub_items (
    node      BIGINT NOT NULL,
    item      VARBINARY(1023) NOT NULL,
    -- The order of publication: the newest has the highest.
    position  BIGINT NOT NULL,
    publisher VARBINARY(3071) NOT NULL,
    unix_ms   BIGINT NOT NULL,
    payload   MEDIUMBLOB NOT NULL,
    PRIMARY KEY (node, item),
    UNIQUE INDEX pubsub_items_by_position (node, position),
    FOREIGN KEY (node) REFERENCES pubsub_nodes (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Persistent rooms and who is affiliated with them.
CREATE TABLE IF NOT EXISTS rooms (
    id        BIGINT AUTO_INCREMENT PRIMARY KEY,
    host      VARBINARY(1023) NOT NULL,
    localpart VARBINARY(1023) NOT NULL,
    name      TEXT NOT NULL,
    is_public TINYINT NOT NULL,
    config    MEDIUMBLOB NOT NULL,
    subject   MEDIUMBLOB,
    vcard     MEDIUMBLOB,
    -- For whom the room counts.
    creator   VARBINARY(2047),
    UNIQUE (host, localpart),
    INDEX rooms_by_creator (creator)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS room_affiliations (
    room        BIGINT NOT NULL,
    -- A bare JID, of this server or of another.
    member      VARBINARY(2047) NOT NULL,
    -- -1: outcast, 1: member, 2: admin, 3: owner.
    affiliation TINYINT NOT NULL,
    nick        TEXT,
    reason      TEXT,
    PRIMARY KEY (room, member),
    INDEX room_affiliations_by_member (member),
    FOREIGN KEY (room) REFERENCES rooms (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What rooms say of single users: it goes with the account.
CREATE TABLE IF NOT EXISTS room_users (
    room     BIGINT NOT NULL,
    place    BIGINT NOT NULL,
    member   VARBINARY(2047) NOT NULL,
    document MEDIUMBLOB NOT NULL,
    PRIMARY KEY (room, place),
    INDEX room_users_by_member (member),
    FOREIGN KEY (room) REFERENCES rooms (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The last batch of each connection, by which it learns whether that was committed when the answer was lost.
CREATE TABLE IF NOT EXISTS rookery_lanes (
    lane     BIGINT PRIMARY KEY,
    batch    BIGINT NOT NULL,
    since_ms BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Grows when archives lose messages: what other connections know of archives doesn't hold any more then.
CREATE TABLE IF NOT EXISTS rookery_epoch (
    -- Clusters want a key of each table.
    id    TINYINT PRIMARY KEY,
    value BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO rookery_epoch (id, value) VALUES (1, 1) ON DUPLICATE KEY UPDATE value = value;
