//! Files of operators: a database and roles that are wrong are refused with a line, and nothing
//! panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_dpm::authority::Roles;
use rookery_dpm::database::Database;

fuzz_target!(|text: &str| {
    for mistake in [Database::read(text).err(), Roles::read(text).err()].into_iter().flatten() {
        assert!(mistake.line >= 1 && !mistake.to_string().is_empty());
    }
});
