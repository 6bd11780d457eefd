//! What an operator decides about rooms.

use rookery_hub::{Domain, OptionSpec, Value};

use super::NAME;
use crate::option;

/// The options of a domain's service, read once per room and generation of settings.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub occupants: usize,
    pub rooms: usize,
    pub history: usize,
    pub nick: usize,
    pub affiliations: usize,
    pub subject: usize,
    pub description: usize,
    /// Messages a second of one occupant, 0 for no limit.
    pub messages: u64,
    /// Joins a second of one room, 0 for no limit.
    pub joins: u64,
    pub logs: Option<String>,
    pub defaults: Defaults,
}

/// What a new room is.
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

impl Limits {
    pub(crate) fn of(domain: &Domain) -> Self {
        let number = |key| domain.module(NAME).map_or(0, |options| options.number(key));
        let size = |key| usize::try_from(number(key)).unwrap_or(usize::MAX);
        let switch = |key| domain.module(NAME).is_some_and(|options| options.switch(key));
        let logs = domain.module(NAME).map(|options| options.text("logs")).filter(|folder| !folder.is_empty());
        Self {
            occupants: size("max_occupants"),
            rooms: size("max_rooms"),
            history: size("max_history"),
            nick: size("nick_bytes"),
            affiliations: size("max_affiliations"),
            subject: size("subject_bytes"),
            description: size("description_bytes"),
            messages: number("messages_per_second"),
            joins: number("joins_per_second"),
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

pub(super) const OPTIONS: [OptionSpec; 22] = [
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
        doc: "who may create rooms: \"all\", \"local\" (users of this server), domains, or addresses such as \"crone@example.org\"",
        check: option::access_list,
    },
    OptionSpec {
        key: "max_rooms",
        default: || Value::Number(100_000),
        doc: "rooms of the service, those that wait in the store included",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "max_occupants",
        default: || Value::Number(10_000),
        doc: "the most occupants that an owner can allow a room; owners and admins get in above it",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "max_history",
        default: || Value::Number(200),
        doc: "the most messages that an owner can have a room remember for those who enter",
        check: option::any,
    },
    OptionSpec {
        key: "max_affiliations",
        default: || Value::Number(100_000),
        doc: "users that one room may have as members, admins, owners and outcasts together",
        check: option::at_least_one,
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
        key: "joins_per_second",
        default: || Value::Number(0),
        doc: "occupants that one room lets in, on average over five seconds; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: "logs",
        default: || Value::Text(String::new()),
        doc: "the folder for logs of rooms whose owners switch logging on; empty: no room can be logged",
        check: option::any,
    },
    OptionSpec {
        key: "default_public",
        default: || Value::Switch(true),
        doc: "whether everybody can find a new room",
        check: option::any,
    },
    OptionSpec {
        key: "default_persistent",
        default: || Value::Switch(false),
        doc: "whether a new room stays when its last occupant leaves",
        check: option::any,
    },
    OptionSpec {
        key: "default_members_only",
        default: || Value::Switch(false),
        doc: "whether only members may enter a new room",
        check: option::any,
    },
    OptionSpec {
        key: "default_moderated",
        default: || Value::Switch(false),
        doc: "whether only members speak in a new room until a moderator lets others",
        check: option::any,
    },
    OptionSpec {
        key: "default_nonanonymous",
        default: || Value::Switch(false),
        doc: "whether all occupants of a new room see real addresses, or moderators only",
        check: option::any,
    },
    OptionSpec {
        key: "default_archived",
        default: || Value::Switch(true),
        doc: "whether what is said in a new room goes into its archive; needs the module archive",
        check: option::any,
    },
    OptionSpec {
        key: "default_occupants",
        default: || Value::Number(10_000),
        doc: "occupants that a new room takes",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "default_history",
        default: || Value::Number(20),
        doc: "messages that a new room remembers for those who enter",
        check: option::any,
    },
    OptionSpec {
        key: "admins",
        default: || Value::List(Vec::new()),
        doc: "addresses that have the rights of an owner in every room",
        check: option::bare_addresses,
    },
];
