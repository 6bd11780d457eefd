//! The keys of `[store]`.

use rookery_store::sql::Migrations;

use super::{Key, word};

/// All of them.
pub(super) const KEYS: &[Key] = &[Key {
    table: "store",
    name: "migrate",
    doc: "\"auto\": a start brings the database's schema up to date. \"never\": it refuses an older one, and `rookery store migrate` is\n\
          run by somebody who may change tables.",
    set: |config, given| {
        config.store.migrations = given.choice(MIGRATIONS)?;
        Ok(())
    },
    show: |config| word(MIGRATIONS, config.store.migrations),
}];

const MIGRATIONS: &[(&str, Migrations)] = &[("auto", Migrations::Auto), ("never", Migrations::Never)];
