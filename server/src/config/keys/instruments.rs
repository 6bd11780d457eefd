//! The keys of `[instruments]`.

use super::{ConfigKey, plain, put};

/// All keys of the table, in the order of the example.
pub(super) const KEYS: &[ConfigKey] = &[ConfigKey {
    table: "instruments",
    name: "slow_ms",
    doc: "Milliseconds after which `rookery slow` lists work of a shard, a wait or a database operation; logins\n\
          and streams to other servers may take ten times as long. 0 lists nothing.",
    set: |config, given| put(&mut config.instruments.slow_ms, given.number(0..=600_000)),
    show: |config| plain(config.instruments.slow_ms),
}];
