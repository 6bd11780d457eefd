//! One table of all bounds: `doc/limits.md` and `rookery config limits` are generated from the
//! declarations of the server's parts.
//!
//! # Invariants
//!
//! - A bound that names a key or an option shows the value in force, so the page can't promise
//!   another one.
//! - A bound says what happens to an excess.
//! - Every setting of a module or of `[limits]` with a number is a bound, or is listed in
//!   `NO_BOUNDS` with the reason; every table of the store is bounded, or listed in `BY_OPERATORS`.
//!   So no new one can be without a bound.
//!
//! Tests check all of this.

mod core;

use rookery_hub::{Bound, Module, Most, Value as Setting};
use serde_json::{Value, json};

use crate::columns;
use crate::config::{ServerConfig, keys, size};
use crate::failure::CommandFailure;

/// A row of the table.
struct BoundRow {
    of: &'static str,
    bound: Bound,
    key: String,
    value: String,
}

/// Returns the page for readers, with the values of a configuration.
pub fn page(config: &ServerConfig, table: &[Box<dyn Module>]) -> String {
    let mut text = HEAD.to_owned();
    for row in rows(config, table) {
        let BoundRow { of, bound, key, value } = row;
        let Bound { resource, per, excess, .. } = bound;
        // A condition is written as its element, which Markdown would treat as markup.
        let excess = excess.replace('<', "`<").replace("/>", "/>`");
        text.push_str(&format!("| {of} | {resource} | {} | {value} | {key} | {excess} |\n", per.words()));
    }
    text
}

/// Prints the bounds for programs, an object for each.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if standard output can't be written.
pub fn json(config: &ServerConfig, table: &[Box<dyn Module>]) -> Result<(), CommandFailure> {
    columns::objects(rows(config, table).into_iter().map(|BoundRow { of, bound, key, value }| {
        let key = key.trim_matches('`');
        json!({
            "part": of,
            "bounded": bound.resource,
            "for_each": bound.per.words(),
            "at_most": value,
            "key": if key.is_empty() { Value::Null } else { key.into() },
            "excess": bound.excess,
        })
    }))
}

fn rows(config: &ServerConfig, table: &[Box<dyn Module>]) -> Vec<BoundRow> {
    let of_core = core::all().map(|(of, bound)| row(config, of, None, bound));
    let of_modules = table.iter().flat_map(|module| {
        let name = module.name();
        module.bounds().iter().map(move |bound| row(config, name, Some(name), *bound))
    });
    let of_dpm = rookery_dpm::bounds::BOUNDS.iter().map(|bound| row(config, DPM, None, *bound));
    of_core.chain(of_modules).chain(of_dpm).collect()
}

fn row(config: &ServerConfig, of: &'static str, module: Option<&'static str>, bound: Bound) -> BoundRow {
    let (key, number) = match bound.most {
        Most::Fixed(number) => (String::new(), Some(number)),
        Most::Key(key) => (format!("`{key}`"), key_number(config, key)),
        Most::Option(option) => {
            let module = module.unwrap_or(of);
            (format!("`modules.{module}.{option}`"), option_number(config, module, option))
        }
    };
    let value = match number {
        // Zero switches a bound off wherever operators set a number.
        Some(0) if !key.is_empty() => "none".to_owned(),
        Some(number) => bound.unit.show(number),
        None => String::new(),
    };
    BoundRow { of, bound, key, value }
}

fn key_number(config: &ServerConfig, key: &str) -> Option<u64> {
    let (table, name) = key.rsplit_once('.')?;
    let key = keys::all().find(|key| key.table == table && key.name == name)?;
    match (key.show)(config) {
        keys::ShownValue::Value(value) => size::parse(value.trim_matches('"')),
        keys::ShownValue::Unset(_) => None,
    }
}

fn option_number(config: &ServerConfig, module: &str, option: &str) -> Option<u64> {
    match config.modules.get(module)?.options.get(option)? {
        Setting::Number(number) => Some(*number),
        _ => None,
    }
}

/// The name of the part that serves readings of devices.
const DPM: &str = "readings";

const HEAD: &str = "\
# Limits

Every bound on the data and work that a client, an account, an address or another server can cause here. An excess affects those who cause it.
`rookery config limits` prints this page with the values of your configuration; `UPDATE_DOC=1 cargo test --workspace up_to_date` writes it
with the defaults. Operators change a bound by its key; a bound without a key is fixed.

| part | bound on | for each | at most | key | beyond it |
| --- | --- | --- | --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../doc/limits.md");

    fn table() -> Vec<Box<dyn Module>> {
        rookery_modules::table(&rookery_modules::Shared::default())
    }

    #[test]
    fn the_page_is_up_to_date() {
        let table = table();
        let text = page(&ServerConfig::defaults(&table), &table);
        if std::env::var_os("UPDATE_DOC").is_some() {
            std::fs::write(PAGE, &text).unwrap();
        }
        let found = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert!(found == text, "doc/limits.md is old: run UPDATE_DOC=1 cargo test --workspace up_to_date");
    }

    #[test]
    fn every_bound_has_a_value_and_says_what_happens_to_more() {
        let table = table();
        for BoundRow { of, bound, value, .. } in rows(&ServerConfig::defaults(&table), &table) {
            assert!(!value.is_empty(), "{of}: {bound:?} names no number of the configuration");
            assert!(!bound.excess.is_empty(), "{of}: {bound:?} doesn't say what happens to more");
        }
    }

    #[test]
    fn every_number_of_a_module_is_a_bound() {
        let mut wrong = Vec::new();
        for module in table() {
            let numbers = module.options().iter().filter(|spec| matches!((spec.default)(), Setting::Number(_)));
            for spec in numbers {
                let of = (module.name(), spec.key);
                let is_bound = module.bounds().iter().any(|bound| bound.most == Most::Option(spec.key));
                if is_bound == NO_BOUNDS.contains(&of) {
                    wrong.push(of);
                }
            }
        }
        assert!(wrong.is_empty(), "each is either a bound of its module or none: {wrong:?}");
    }

    #[test]
    fn every_number_of_limits_is_a_bound() {
        let table = table();
        let config = ServerConfig::defaults(&table);
        let rows = rows(&config, &table);
        for key in keys::all().filter(|key| key.table == "limits") {
            let name = format!("limits.{}", key.name);
            let is_bound = rows.iter().any(|row| matches!(row.bound.most, Most::Key(key) if key == name));
            let is_number = key_number(&config, &name).is_some();
            assert!(is_bound == (is_number && !NO_BOUNDS.contains(&("limits", key.name))), "{name}");
        }
    }

    #[test]
    fn every_table_of_the_store_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rookery.db");
        drop(rookery_store::sql::sqlite::open(&file, &rookery_store::sql::sqlite::SqliteOptions::default()).unwrap());
        let database = rusqlite::Connection::open(&file).unwrap();
        let mut names = database
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            .unwrap();
        let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert!(names.len() > 20, "{names:?}");
        let table = table();
        let rows = rows(&ServerConfig::defaults(&table), &table);
        let is_bounded = |name: &str| rows.iter().any(|row| row.bound.tables.contains(&name));
        let wrong: Vec<_> =
            names.iter().filter(|name| is_bounded(name) == BY_OPERATORS.contains(&name.as_str())).collect();
        assert!(wrong.is_empty(), "each is either bounded or filled by operators alone: {wrong:?}");
        for table in rows.iter().flat_map(|row| row.bound.tables) {
            assert!(names.iter().any(|name| name == table), "there is no table {table}");
        }
    }

    /// Numbers that don't bound anything that others could fill: intervals of the server's own
    /// work, initial values of a new room or node, minimums for users.
    const NO_BOUNDS: &[(&str, &str)] = &[
        ("strangers", "newcomer_days"),
        ("limits", "outbox_soft"),
        ("fast", "rotate_hours"),
        ("data", "interval_ms"),
        ("register", "min_password"),
        ("external_services", "credentials_hours"),
        ("bytestreams", "port"),
        ("rooms", "default_occupants"),
        ("rooms", "default_history"),
    ];

    /// Tables that only operators fill, or that have as many rows as there are domains or versions.
    const BY_OPERATORS: &[&str] = &["meta", "counters", "disabled_accounts", "rookery_schema"];
}
