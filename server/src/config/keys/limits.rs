//! The keys of `[limits]`.

use rookery_hub::Conflict;

use super::{ConfigKey, bytes, plain, put, word};

/// All keys of the table, in the order of the example.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "limits",
        name: "stanza_bytes_before_login",
        doc: "Size of one stanza from a client that hasn't logged in; the standard requires at least 10000.",
        set: |config, given| put(&mut config.limits.before_login.bytes, given.bytes(STANZA_BYTES_MIN..=1 << 20)),
        show: |config| bytes(config.limits.before_login.bytes),
    },
    ConfigKey {
        table: "limits",
        name: "stanza_bytes",
        doc: "Size of one stanza from a client that has logged in.",
        set: |config, given| put(&mut config.limits.after_login.bytes, given.bytes(STANZA_BYTES_MIN..=64 << 20)),
        show: |config| bytes(config.limits.after_login.bytes),
    },
    ConfigKey {
        table: "limits",
        name: "depth",
        doc: "Elements inside one another in a stanza, up to 32.",
        set: |config, given| {
            let depth = given.number(4..=32)? as usize;
            config.limits.before_login.depth = depth;
            config.limits.after_login.depth = depth;
            Ok(())
        },
        show: |config| plain(config.limits.after_login.depth),
    },
    ConfigKey {
        table: "limits",
        name: "resources_per_user",
        doc: "Clients that one account may have connected at once.",
        set: |config, given| put(&mut config.limits.resources_per_user, given.number(1..=10_000)),
        show: |config| plain(config.limits.resources_per_user),
    },
    ConfigKey {
        table: "limits",
        name: "conflict",
        doc: "If a client asks for a resource that is in use: \"end-older\" disconnects the other client,\n\
              \"refuse-newer\" refuses this one.",
        set: |config, given| put(&mut config.limits.conflict, given.choice(CONFLICTS)),
        show: |config| word(CONFLICTS, config.limits.conflict),
    },
    ConfigKey {
        table: "limits",
        name: "outbox_soft",
        doc: "Bytes that may wait for a client that reads slowly, before newer presence replaces older.",
        set: |config, given| put(&mut config.limits.outbox.soft, given.bytes(4096..=1 << 30)),
        show: |config| bytes(config.limits.outbox.soft),
    },
    ConfigKey {
        table: "limits",
        name: "outbox_hard",
        doc: "The same, before the client is disconnected. Its messages are kept.",
        set: |config, given| put(&mut config.limits.outbox.hard, given.bytes(4096..=1 << 30)),
        show: |config| bytes(config.limits.outbox.hard),
    },
    ConfigKey {
        table: "limits",
        name: "outbox_paced",
        doc: "Further bytes that may wait for a client without it having asked for them, mostly at login. These\n\
              never cause a disconnection.",
        set: |config, given| put(&mut config.limits.outbox.paced, given.bytes(1 << 20..=1 << 30)),
        show: |config| bytes(config.limits.outbox.paced),
    },
    ConfigKey {
        table: "limits",
        name: "outbox_account",
        doc: "Bytes that may wait for all clients of one account together, beyond `outbox_soft` for each.",
        set: |config, given| put(&mut config.limits.outbox.account, given.bytes(1 << 20..=1 << 40)),
        show: |config| bytes(config.limits.outbox.account),
    },
    ConfigKey {
        table: "limits",
        name: "outbox_total",
        doc: "Bytes that may wait for all clients of one shard together. Above it, clients of the accounts with the\n\
              most waiting are disconnected.",
        set: |config, given| put(&mut config.limits.outbox.total, given.bytes(1 << 20..=1 << 40)),
        show: |config| bytes(config.limits.outbox.total),
    },
    ConfigKey {
        table: "limits",
        name: "lane_bytes",
        doc: "Bytes that a client may send while one of its requests waits for storage, before the server stops\n\
              reading.",
        set: |config, given| put(&mut config.limits.backlog_bytes, given.bytes(4096..=1 << 30)),
        show: |config| bytes(config.limits.backlog_bytes),
    },
    ConfigKey {
        table: "limits",
        name: "rate_bytes",
        doc: "Bytes that a client may send per second, or five times as many at once, before the server slows it\n\
              down; 0 for no limit.",
        set: |config, given| put(&mut config.limits.rate_bytes, given.bytes(0..=1 << 40)),
        show: |config| bytes(config.limits.rate_bytes),
    },
    ConfigKey {
        table: "limits",
        name: "rate_stanzas",
        doc: "The same in stanzas.",
        set: |config, given| put(&mut config.limits.rate_stanzas, given.number(0..=1_000_000_000)),
        show: |config| plain(config.limits.rate_stanzas),
    },
    ConfigKey {
        table: "limits",
        name: "directed_presence",
        doc: "Addresses outside of its roster to which one session may have sent presence, rooms included.",
        set: |config, given| put(&mut config.limits.directed_presence, given.number(0..=1_000_000)),
        show: |config| plain(config.limits.directed_presence),
    },
    ConfigKey {
        table: "limits",
        name: "roster_items",
        doc: "Contacts of one account.",
        set: |config, given| put(&mut config.limits.roster.items, given.number(0..=1_000_000)),
        show: |config| plain(config.limits.roster.items),
    },
    ConfigKey {
        table: "limits",
        name: "roster_bytes",
        doc: "Addresses, names and groups of all of these contacts.",
        set: |config, given| put(&mut config.limits.roster.bytes, given.bytes(0..=1 << 30)),
        show: |config| bytes(config.limits.roster.bytes),
    },
    ConfigKey {
        table: "limits",
        name: "roster_requests",
        doc: "Requests to see an account's presence that may wait for a response.",
        set: |config, given| put(&mut config.limits.roster.requests, given.number(0..=1_000_000)),
        show: |config| plain(config.limits.roster.requests),
    },
    ConfigKey {
        table: "limits",
        name: "roster_name",
        doc: "Bytes of a contact's name.",
        set: |config, given| put(&mut config.limits.roster.name_bytes, given.bytes(0..=65_536)),
        show: |config| bytes(config.limits.roster.name_bytes),
    },
    ConfigKey {
        table: "limits",
        name: "roster_groups",
        doc: "Groups of one contact.",
        set: |config, given| put(&mut config.limits.roster.groups, given.number(0..=10_000)),
        show: |config| plain(config.limits.roster.groups),
    },
    ConfigKey {
        table: "limits",
        name: "roster_group",
        doc: "Bytes of a group's name.",
        set: |config, given| put(&mut config.limits.roster.group_bytes, given.bytes(0..=65_536)),
        show: |config| bytes(config.limits.roster.group_bytes),
    },
    ConfigKey {
        table: "limits",
        name: "login_seconds",
        doc: "Seconds that a connection has to log in before it is closed.",
        set: |config, given| put(&mut config.limits.login_seconds, given.number(5..=3600)),
        show: |config| plain(config.limits.login_seconds),
    },
    ConfigKey {
        table: "limits",
        name: "login_failures",
        doc: "Wrong passwords allowed on one connection before it is closed.",
        set: |config, given| put(&mut config.limits.login_failures, given.number(2..=100)),
        show: |config| plain(config.limits.login_failures),
    },
    ConfigKey {
        table: "limits",
        name: "connections_per_address",
        doc: "Connections from one IP address other than this machine's own, for XMPP and for the web each; 0 means no limit.",
        set: |config, given| put(&mut config.limits.connections_per_address, given.number(0..=10_000_000)),
        show: |config| plain(config.limits.connections_per_address),
    },
];

const CONFLICTS: &[(&str, Conflict)] = &[("end-older", Conflict::EndOlder), ("refuse-newer", Conflict::RefuseNewer)];

/// RFC 6120 §13.12 forbids a smaller limit.
const STANZA_BYTES_MIN: u64 = 10_000;
