//! The options of archives, by the key of the module.

use std::sync::Arc;

use rookery_hub::{OptionSpec, Settings, Value, World};
use rookery_modkit::option;

/// The key below `[modules]`.
pub const NAME: &str = "archive";

/// The default policy for addresses without a rule (XEP-0441 §2.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ArchivePolicy {
    /// Everything.
    #[default]
    Always,
    /// Nothing.
    Never,
    /// Messages from or to a contact of the roster.
    Roster,
}

impl ArchivePolicy {
    pub(super) fn read(word: &str) -> Option<Self> {
        WORDS.iter().find(|(known, _)| *known == word).map(|(_, default)| *default)
    }

    pub(super) fn word(self) -> &'static str {
        WORDS.iter().find(|(_, default)| *default == self).map_or("always", |(word, _)| word)
    }
}

/// The option for the policy of users without preferences.
pub(super) const DEFAULT: OptionSpec = OptionSpec {
    key: "default",
    default: || Value::Text("always".into()),
    doc: "messages that are archived for users without a preference: \"always\", \"roster\" (contacts only) or \"never\"",
    check: |value| match value {
        Value::Text(word) if ArchivePolicy::read(word).is_none() => {
            Err("must be \"always\", \"roster\" or \"never\"".to_owned())
        }
        _ => Ok(()),
    },
};

const WORDS: [(&str, ArchivePolicy); 3] =
    [("always", ArchivePolicy::Always), ("never", ArchivePolicy::Never), ("roster", ArchivePolicy::Roster)];

pub(super) const EXPIRE_DAYS: OptionSpec = OptionSpec {
    key: "expire_days",
    default: || Value::Number(0),
    doc: "days after which archived messages of users and rooms are removed; 0: never",
    check: option::any,
};

pub(super) const ROOM_EXPIRE_DAYS: OptionSpec = OptionSpec {
    key: "room_expire_days",
    default: || Value::Number(0),
    doc: "the same for rooms; 0: as `expire_days`. Owners of persistent rooms can set less",
    check: option::any,
};

pub(super) const PAGE: OptionSpec = OptionSpec {
    key: "page",
    default: || Value::Number(250),
    doc: "messages that one request for archived messages can return",
    check: option::at_least_one,
};

pub(super) const SEARCH: OptionSpec = OptionSpec {
    key: "search",
    default: || Value::Number(100_000),
    doc: "messages that one search for words reads before it replies; the next request continues from there",
    check: option::at_least_one,
};

pub(super) const BYTES: OptionSpec = OptionSpec {
    key: "account_bytes",
    default: || Value::Number(256 << 20),
    doc: "bytes that the archive of one user may take; above that the oldest messages of the largest conversations are removed; 0: no limit",
    check: option::any,
};

pub(super) const ROOM_BYTES: OptionSpec = OptionSpec {
    key: "room_bytes",
    default: || Value::Number(1 << 30),
    doc: "bytes that the archive of one room may take; above that the oldest messages are removed; 0: no limit",
    check: option::any,
};

pub(super) const DAY_BYTES: OptionSpec = OptionSpec {
    key: "day_bytes",
    default: || Value::Number(1 << 30),
    doc: "bytes that one user, or one room, may add to the archives of a shard in a day; beyond that, messages are delivered, but not archived; 0: no limit",
    check: option::any,
};

/// The options that apply to recording a message.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordOptions {
    /// The policy for users without preferences.
    pub default: ArchivePolicy,
    /// Bytes of one user's archive, and of one room's; 0: no limit.
    pub account_bytes: u64,
    pub room_bytes: u64,
    /// Bytes that a sender may add in a day; 0: no limit.
    pub day_bytes: u64,
}

/// The options of the last host. The next message is nearly always for the same one, and it takes
/// longer to look options up in their tables of texts.
#[derive(Debug, Default)]
pub(super) struct LastOptions(Option<(Arc<Settings>, Box<str>, RecordOptions)>);

impl RecordOptions {
    /// Returns the options of a domain, or of the domain that a service belongs to.
    pub(super) fn of(world: &mut World, host: &str) -> Self {
        let LastOptions(last) = world.state();
        if let Some((settings, known, options)) = last
            && **known == *host
            && Arc::ptr_eq(settings, world.settings())
        {
            return *options;
        }
        let read = Self::read(world, host);
        let settings = world.settings().clone();
        world.state_mut::<LastOptions>().0 = Some((settings, host.into(), read));
        read
    }

    fn read(world: &World, host: &str) -> Self {
        let Some(options) = world.domain_of(host).and_then(|domain| domain.module(NAME)) else {
            return Self::default();
        };
        Self {
            default: ArchivePolicy::read(options.text(DEFAULT.key)).unwrap_or_default(),
            account_bytes: options.number(BYTES.key),
            room_bytes: options.number(ROOM_BYTES.key),
            day_bytes: options.number(DAY_BYTES.key),
        }
    }
}
