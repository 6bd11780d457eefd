//! The options of archives, by the key of the module.

use rookery_hub::{OptionSpec, Value};
use rookery_modkit::option;

/// The key below `[modules]`.
pub const NAME: &str = "archive";

pub(super) const EXPIRE_DAYS: OptionSpec = OptionSpec {
    key: "expire_days",
    default: || Value::Number(0),
    doc: "days after which archived messages of users and rooms are removed; 0: never",
    check: option::any,
};

pub(super) const ROOM_EXPIRE_DAYS: OptionSpec = OptionSpec {
    key: "room_expire_days",
    default: || Value::Number(0),
    doc: "the same for rooms; 0: as many as `expire_days`. Owners of persistent rooms can say less",
    check: option::any,
};

pub(super) const PAGE: OptionSpec = OptionSpec {
    key: "page",
    default: || Value::Number(250),
    doc: "messages that one request for archived messages can get",
    check: option::at_least_one,
};

pub(super) const SEARCH: OptionSpec = OptionSpec {
    key: "search",
    default: || Value::Number(100_000),
    doc: "messages that one search for words looks into before it replies; the next request goes on from there",
    check: option::at_least_one,
};

pub(super) const BYTES: OptionSpec = OptionSpec {
    key: "account_bytes",
    default: || Value::Number(256 << 20),
    doc: "bytes that the archive of one user may take; above that the oldest messages of the largest conversations go; 0: any number",
    check: option::any,
};

pub(super) const ROOM_BYTES: OptionSpec = OptionSpec {
    key: "room_bytes",
    default: || Value::Number(1 << 30),
    doc: "bytes that the archive of one room may take; then the oldest messages go; 0: any number",
    check: option::any,
};

pub(super) const DAY_BYTES: OptionSpec = OptionSpec {
    key: "day_bytes",
    default: || Value::Number(1 << 30),
    doc: "bytes that one user, or one room, may add to the archives of a shard in a day; more is delivered, but not archived; 0: any number",
    check: option::any,
};
