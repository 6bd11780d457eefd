//! The keys of `[instruments]`.

use super::{ConfigKey, plain, put};

/// All of them.
pub(super) const KEYS: &[ConfigKey] = &[ConfigKey {
    table: "instruments",
    name: "slow_ms",
    doc: "Milliseconds from which `rookery slow` lists something: work of a shard, waits, database operations.\n\
          Logins and streams to other servers may take ten times as long. 0 lists nothing.",
    set: |config, given| put(&mut config.instruments.slow_ms, given.number(0..=600_000)),
    show: |config| plain(config.instruments.slow_ms),
}];
