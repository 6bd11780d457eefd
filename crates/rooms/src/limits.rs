//! The operator's settings for rooms.

use rookery_hub::{Domain, OptionSpec, Value};
use rookery_modkit::option;

/// The key below `[modules]`.
pub const NAME: &str = "rooms";

/// The options of a domain's service, read once per room and generation of settings.
#[derive(Debug, Clone)]
pub(crate) struct RoomLimits {
    pub occupants: usize,
    pub rooms: usize,
    pub history: usize,
    pub nick: usize,
    pub affiliations: usize,
    /// Bytes of all affiliations of a room, see [`super::room::bytes_of`].
    pub affiliation_bytes: usize,
    pub subject: usize,
    pub description: usize,
    /// Messages per second of one occupant, 0 for no limit.
    pub messages: u64,
    /// Requests per second of one occupant, 0 for no limit.
    pub requests: u64,
    /// Invitations per minute of one account, 0 for no limit.
    pub invitations: u64,
    /// Joins per second of one room, 0 for no limit.
    pub joins: u64,
    /// The share of one account in all rooms together.
    pub of_account: RoomShare,
    /// The share of all addresses of another server's domain together.
    pub of_domain: RoomShare,
    /// The number of rooms that may know an account before it can't register with another one.
    pub registrations: u64,
    pub logs: Option<String>,
    pub defaults: Defaults,
}

/// A share of a service. A field without a limit is the largest number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomShare {
    /// Rooms that it may have created.
    pub rooms: usize,
    /// Sessions that may be in rooms: one session in ten rooms counts as ten.
    pub seats: usize,
}

/// The default configuration of a new room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    pub public: bool,
    pub persistent: bool,
    pub members_only: bool,
    pub moderated: bool,
    pub nonanonymous: bool,
    pub archived: bool,
    pub occupants: usize,
    pub history: usize,
}

impl RoomLimits {
    pub(crate) fn of(domain: &Domain) -> Self {
        let number = |key| domain.module(NAME).map_or(0, |options| options.number(key));
        let size = |key| usize::try_from(number(key)).unwrap_or(usize::MAX);
        let unless_0 = |key| if number(key) == 0 { usize::MAX } else { size(key) };
        let switch = |key| domain.module(NAME).is_some_and(|options| options.switch(key));
        let logs = domain.module(NAME).map(|options| options.text("logs")).filter(|folder| !folder.is_empty());
        Self {
            occupants: size("max_occupants"),
            rooms: size("max_rooms"),
            history: size("max_history"),
            nick: size("nick_bytes"),
            affiliations: size("max_affiliations"),
            affiliation_bytes: unless_0(AFFILIATION_BYTES),
            subject: size("subject_bytes"),
            description: size("description_bytes"),
            messages: number("messages_per_second"),
            requests: number(REQUESTS),
            invitations: number(INVITATIONS),
            joins: number("joins_per_second"),
            of_account: RoomShare { rooms: unless_0(ROOMS_OF_ACCOUNT), seats: unless_0(SEATS_OF_ACCOUNT) },
            of_domain: RoomShare { rooms: unless_0(ROOMS_OF_DOMAIN), seats: unless_0(SEATS_OF_DOMAIN) },
            registrations: unless_0(REGISTRATIONS) as u64,
            logs: logs.map(str::to_owned),
            defaults: Defaults {
                public: switch("default_public"),
                persistent: switch("default_persistent"),
                members_only: switch("default_members_only"),
                moderated: switch("default_moderated"),
                nonanonymous: switch("default_nonanonymous"),
                archived: switch("default_archived"),
                occupants: size("default_occupants"),
                history: size("default_history"),
            },
        }
    }
}

pub(super) const OPTIONS: [OptionSpec; 30] = [
    OptionSpec {
        key: "host",
        default: || Value::Text("conference.@".to_owned()),
        doc: "the address of the service; @ stands for the domain",
        check: option::host,
    },
    OptionSpec {
        key: "name",
        default: || Value::Text("Rooms".to_owned()),
        doc: "its name in lists of services",
        check: option::any,
    },
    OptionSpec {
        key: "create",
        default: || Value::List(vec!["local".to_owned()]),
        doc: "who may create rooms: \"all\", \"local\" (users of this server, without those of anonymous domains), domains, or addresses such as \"crone@example.org\"",
        check: option::access_list,
    },
    OptionSpec {
        key: "max_rooms",
        default: || Value::Number(100_000),
        doc: "rooms of the service, including those that are only in the store",
        check: option::at_least_one,
    },
    OptionSpec {
        key: ROOMS_OF_ACCOUNT,
        default: || Value::Number(50),
        doc: "rooms of the service that one account may have created, unless `admins` names it; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: ROOMS_OF_DOMAIN,
        default: || Value::Number(1000),
        doc: "rooms of the service that all addresses of another server's domain may have created together; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: "max_occupants",
        default: || Value::Number(10_000),
        doc: "the most occupants that an owner can allow in a room; owners and admins can enter even if it is full",
        check: option::at_least_one,
    },
    OptionSpec {
        key: SEATS_OF_ACCOUNT,
        default: || Value::Number(1000),
        doc: "presences of one account's sessions in rooms: one session in ten rooms counts as ten; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: SEATS_OF_DOMAIN,
        default: || Value::Number(20_000),
        doc: "the same for all addresses of another server's domain together",
        check: option::any,
    },
    OptionSpec {
        key: "max_history",
        default: || Value::Number(200),
        doc: "the most messages that an owner can have a room show to users who enter",
        check: option::any,
    },
    OptionSpec {
        key: "max_affiliations",
        default: || Value::Number(100_000),
        doc: "users that one room may have as members, admins, owners and outcasts together",
        check: option::at_least_one,
    },
    OptionSpec {
        key: AFFILIATION_BYTES,
        default: || Value::Number(2_097_152),
        doc: "bytes of all affiliations of one room, with their reasons and reserved nicks; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: REGISTRATIONS,
        default: || Value::Number(1000),
        doc: "rooms that may know a user, as a member or otherwise, who registers with one more; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: "nick_bytes",
        default: || Value::Number(255),
        doc: "the longest nick, in bytes",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "subject_bytes",
        default: || Value::Number(8192),
        doc: "the longest subject, in bytes of its stanza",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "description_bytes",
        default: || Value::Number(4096),
        doc: "the longest name or description of a room, in bytes",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "messages_per_second",
        default: || Value::Number(20),
        doc: "messages of one occupant to a room, on average over five seconds; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: REQUESTS,
        default: || Value::Number(50),
        doc: "requests of one occupant to a room and its occupants, or of one account to rooms that it is not in, on average over five seconds; presence counts as two, a change that rewrites the room as 20, and either counts one more for every 100 who are notified; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: INVITATIONS,
        default: || Value::Number(20),
        doc: "users that rooms may invite, or notify of their affiliation, on behalf of one account in a minute, on average over five minutes; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: "joins_per_second",
        default: || Value::Number(0),
        doc: "occupants that one room lets in, on average over five seconds; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: "logs",
        default: || Value::Text(String::new()),
        doc: "the folder for logs of rooms whose owners switch logging on; \"\" for none",
        check: option::any,
    },
    OptionSpec {
        key: "default_public",
        default: || Value::Switch(true),
        doc: "true lets everybody find a new room",
        check: option::any,
    },
    OptionSpec {
        key: "default_persistent",
        default: || Value::Switch(true),
        doc: "true keeps a new room when its last occupant leaves, unless its owner's form says otherwise, once it has been configured or somebody has spoken in it",
        check: option::any,
    },
    OptionSpec {
        key: "default_members_only",
        default: || Value::Switch(false),
        doc: "true lets only members enter a new room",
        check: option::any,
    },
    OptionSpec {
        key: "default_moderated",
        default: || Value::Switch(false),
        doc: "true lets only members speak in a new room until a moderator gives others voice",
        check: option::any,
    },
    OptionSpec {
        key: "default_nonanonymous",
        default: || Value::Switch(false),
        doc: "true shows real addresses to all occupants of a new room; false only to moderators",
        check: option::any,
    },
    OptionSpec {
        key: "default_archived",
        default: || Value::Switch(true),
        doc: "true archives the messages in a new room; needs the module archive",
        check: option::any,
    },
    OptionSpec {
        key: "default_occupants",
        default: || Value::Number(10_000),
        doc: "the most occupants of a new room",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "default_history",
        default: || Value::Number(20),
        doc: "messages that a new room shows to users who enter",
        check: option::any,
    },
    OptionSpec {
        key: "admins",
        default: || Value::List(Vec::new()),
        doc: "addresses that have the rights of an owner in every room",
        check: option::bare_addresses,
    },
];

pub(super) const ROOMS_OF_ACCOUNT: &str = "rooms_per_account";
pub(super) const ROOMS_OF_DOMAIN: &str = "rooms_per_remote_domain";
pub(super) const SEATS_OF_ACCOUNT: &str = "occupancies_per_account";
pub(super) const SEATS_OF_DOMAIN: &str = "occupancies_per_remote_domain";
pub(super) const AFFILIATION_BYTES: &str = "affiliation_bytes";
pub(super) const REGISTRATIONS: &str = "registrations_per_account";
pub(super) const REQUESTS: &str = "requests_per_second";
pub(super) const INVITATIONS: &str = "invitations_per_minute";
