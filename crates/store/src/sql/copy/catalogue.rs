//! The tables that every engine has, and the statements that read and fill them.
//!
//! Conversations of archives (`archive_conversations`) are left out: only one engine finds messages
//! by them, and derives them from the messages. So is `rookery_schema`, which is about the database
//! itself.

use std::ops::Range;
use std::sync::LazyLock;

use super::cells::{Cell, ColumnKind};

/// A table that copies have to include.
pub(crate) struct Table {
    /// The name of the table, which is the same on all engines.
    pub(crate) name: &'static str,
    /// Its columns; those of the key, in whose order rows are read, come first.
    pub(super) columns: &'static [(&'static str, ColumnKind)],
    /// The number of columns of the key.
    pub(super) key: usize,
    /// True if the engine numbers its rows in the first column.
    pub(crate) is_numbered: bool,
    /// The places of the columns that, apart from the number, are unique to a row.
    unique: Range<usize>,
    /// Its statements.
    pub(super) texts: TableTexts,
}

/// The statements of a table. Their texts are static, so a connection prepares each once.
pub(super) struct TableTexts {
    /// The first rows. Value: the limit.
    pub(super) first: String,
    /// The rows after a key that equal it in the first `n` columns. Values: `n + 1` columns of the
    /// key, the limit.
    pub(super) behind: Vec<String>,
    /// The key of the last row.
    pub(super) last: String,
    /// The number of rows.
    pub(super) count: String,
    /// Inserts rows, one text for each of the [`SIZES`].
    pub(super) insert: Vec<String>,
    /// Removes all rows.
    pub(super) clear: String,
    /// Removes a row. Values: its key.
    pub(super) remove: String,
    /// Changes a row of a table with columns besides its key. Values: those columns, then the key.
    pub(super) change: String,
}

impl Table {
    /// Returns the key of a row.
    pub(super) fn key_of<'a>(&self, row: &'a [Cell]) -> &'a [Cell] {
        row.get(..self.key).unwrap_or(row)
    }

    /// Returns whether a row can be changed into another one with its key in place, at any time: it
    /// is numbered, so that others refer to it, and no unique column changes.
    pub(super) fn can_change(&self, row: &[Cell], into: &[Cell]) -> bool {
        self.is_numbered && row.get(self.unique.clone()) == into.get(self.unique.clone())
    }

    /// Returns the columns of the key, in the order in which rows are sorted by them.
    pub(super) fn key_columns(&self) -> &'static [(&'static str, ColumnKind)] {
        self.columns.get(..self.key).unwrap_or_default()
    }

    const fn of(name: &'static str, key: usize, columns: &'static [(&'static str, ColumnKind)]) -> Plain {
        Plain { name, key, columns, is_numbered: false, unique: 0..0 }
    }

    const fn with_number(
        name: &'static str,
        unique: Range<usize>,
        columns: &'static [(&'static str, ColumnKind)],
    ) -> Plain {
        Plain { name, key: 1, columns, is_numbered: true, unique }
    }
}

/// Returns the tables, referenced ones before those that refer to them.
pub(crate) fn tables() -> &'static [Table] {
    static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| PLAIN.iter().map(Plain::with_texts).collect());
    &TABLES
}

/// A table without its statements.
struct Plain {
    name: &'static str,
    key: usize,
    columns: &'static [(&'static str, ColumnKind)],
    is_numbered: bool,
    unique: Range<usize>,
}

impl Plain {
    fn with_texts(&self) -> Table {
        let Plain { name, key, columns, is_numbered, ref unique } = *self;
        let names = |columns: &[(&'static str, ColumnKind)]| columns.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let (all, keys) = (names(columns).join(", "), names(columns.get(..key).unwrap_or_default()));
        let behind = |equal: usize| {
            let (same, rest) = keys.split_at(equal);
            let conditions = same.iter().map(|column| format!("{column} = ? AND "));
            let first = rest.first().copied().unwrap_or_default();
            let conditions: String = conditions.collect();
            format!("SELECT {all} FROM {name} WHERE {conditions}{first} > ? ORDER BY {} LIMIT ?", rest.join(", "))
        };
        let row = format!("({})", vec!["?"; columns.len()].join(", "));
        let rest = names(columns.get(key..).unwrap_or_default());
        let is = |names: &[&str], between: &str| {
            names.iter().map(|name| format!("{name} = ?")).collect::<Vec<_>>().join(between)
        };
        let insert =
            |size: &usize| format!("INSERT INTO {name} ({all}) VALUES {}", vec![row.as_str(); *size].join(", "));
        let texts = TableTexts {
            first: format!("SELECT {all} FROM {name} ORDER BY {} LIMIT ?", keys.join(", ")),
            behind: (0..key).map(behind).collect(),
            last: format!("SELECT {} FROM {name} ORDER BY {} DESC LIMIT 1", keys.join(", "), keys.join(" DESC, ")),
            count: format!("SELECT COUNT(*) FROM {name}"),
            insert: SIZES.iter().map(insert).collect(),
            clear: format!("DELETE FROM {name}"),
            remove: format!("DELETE FROM {name} WHERE {}", is(&keys, " AND ")),
            change: format!("UPDATE {name} SET {} WHERE {}", is(&rest, ", "), is(&keys, " AND ")),
        };
        Table { name, columns, key, is_numbered, unique: unique.clone(), texts }
    }
}

/// The numbers of rows that are inserted at a time, largest first.
pub(super) const SIZES: [usize; 5] = [200, 64, 16, 4, 1];

/// The table of numbers for the whole server. It is copied last, all at once.
pub(super) const COUNTERS: &str = "counters";

use ColumnKind::{Bytes, Integer, OptionalBytes, OptionalInteger, OptionalText, Text};

const PLAIN: &[Plain] = &[
    Table::with_number(
        "accounts",
        1..3,
        &[
            ("id", Integer),
            ("domain", Text),
            ("localpart", Text),
            ("roster_version", Integer),
            ("roster_oldest", Integer),
            ("roster_items", Integer),
            ("offline_messages", Integer),
            ("offline_bytes", Integer),
            ("created_ms", Integer),
        ],
    ),
    Table::of(
        "scram_keys",
        2,
        &[
            ("account", Integer),
            ("hash", Integer),
            ("iterations", Integer),
            ("salt", Bytes),
            ("stored_key", Bytes),
            ("server_key", Bytes),
        ],
    ),
    Table::of("disabled_accounts", 1, &[("account", Integer)]),
    Table::of(
        "roster_items",
        2,
        &[
            ("owner", Integer),
            ("contact", Text),
            ("version", Integer),
            ("name", OptionalText),
            ("roster_groups", Text),
            ("subscription", Integer),
            ("ask", Integer),
            ("approved", Integer),
            ("listed", Integer),
            ("pending_in", OptionalBytes),
        ],
    ),
    Table::of("roster_removals", 2, &[("owner", Integer), ("contact", Text), ("version", Integer)]),
    Table::with_number(
        "offline_messages",
        0..0,
        &[("id", Integer), ("owner", Integer), ("unix_ms", Integer), ("stanza", Bytes), ("sender", Text)],
    ),
    Table::of("last_presence", 1, &[("owner", Integer), ("unix_ms", Integer), ("stanza", Bytes)]),
    Table::of("documents", 2, &[("owner", Integer), ("name", Text), ("bytes", Bytes)]),
    Table::with_number(
        "archives",
        1..3,
        &[
            ("id", Integer),
            ("domain", Text),
            ("localpart", Text),
            ("account", OptionalInteger),
            ("bytes", Integer),
            ("counted", Integer),
        ],
    ),
    Table::of(
        MESSAGES,
        // No engine's index has more columns in front: MariaDB would sort the rest of the archive
        // for each stretch of rows.
        2,
        &[
            ("owner", Integer),
            ("id", Integer),
            ("contact_key", Integer),
            ("contact", Text),
            ("resource", Text),
            ("stanza", Bytes),
        ],
    ),
    Table::of("archive_shares", 2, &[("owner", Integer), ("contact_key", Integer), ("bytes", Integer)]),
    Table::with_number(
        "pubsub_nodes",
        2..4,
        &[
            ("id", Integer),
            ("account", OptionalInteger),
            ("host", Text),
            ("node", Text),
            ("config", Bytes),
            ("items", Integer),
            ("creator", Text),
            ("bytes", Integer),
        ],
    ),
    Table::of("pubsub_affiliations", 2, &[("node", Integer), ("entity", Text), ("affiliation", Integer)]),
    Table::of(
        "pubsub_subscriptions",
        2,
        &[("node", Integer), ("subscriber", Text), ("pending", Integer), ("options", Bytes)],
    ),
    Table::of(
        "pubsub_items",
        2,
        &[
            ("node", Integer),
            ("position", Integer),
            ("item", Text),
            ("publisher", Text),
            ("unix_ms", Integer),
            ("payload", Bytes),
        ],
    ),
    Table::with_number(
        "rooms",
        1..3,
        &[
            ("id", Integer),
            ("host", Text),
            ("localpart", Text),
            ("name", Text),
            ("is_public", Integer),
            ("config", Bytes),
            ("subject", OptionalBytes),
            ("vcard", OptionalBytes),
            ("creator", OptionalText),
            ("archive_days", Integer),
        ],
    ),
    Table::of(
        "room_affiliations",
        2,
        &[
            ("room", Integer),
            ("member", Text),
            ("affiliation", Integer),
            ("nick", OptionalText),
            ("reason", OptionalText),
        ],
    ),
    Table::of("room_users", 2, &[("room", Integer), ("place", Integer), ("member", Text), ("document", Bytes)]),
    Table::of(
        "invitations",
        1,
        &[
            ("token", Text),
            ("domain", Text),
            ("purpose", Integer),
            ("localpart", OptionalText),
            ("owner", OptionalInteger),
            ("expires_ms", Integer),
        ],
    ),
    Table::of(
        SLOTS,
        1,
        &[
            ("token", Text),
            ("owner", OptionalInteger),
            ("name", Text),
            ("size", Integer),
            ("content_type", OptionalText),
            ("expires_ms", Integer),
            ("keep_ms", Integer),
            ("stage", Integer),
        ],
    ),
    Table::of("lists", 2, &[("list", Text), ("name", Text), ("bytes", Bytes)]),
    Table::of("meta", 1, &[("name", Text), ("bytes", Bytes)]),
    Table::of(COUNTERS, 1, &[("name", Text), ("value", Integer)]),
];

/// Places for files that users share.
pub(super) const SLOTS: &str = "slots";

/// The messages of archives.
pub(crate) const MESSAGES: &str = "archive_messages";
