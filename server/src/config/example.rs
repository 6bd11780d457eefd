//! `rookery config example`: every key with its meaning and default, written from the same table
//! that the parser reads by.

use std::fmt::Write;

use rookery_hub::{Module, Value};

use super::keys::{self, COMPONENT_KEYS, COMPONENTS, DOMAIN_KEYS, OWN_KEYS, Shown, TABLES, quote};
use super::{Config, size};

/// Returns a commented configuration that says what holds without one.
pub fn example(table: &[Box<dyn Module>]) -> String {
    let config = Config::defaults(table);
    let mut text = HEAD.to_owned();
    for (name, about) in TABLES {
        section(&mut text, &config, name, about);
    }
    domains(&mut text);
    components(&mut text);
    modules(&mut text, table);
    text
}

fn section(text: &mut String, config: &Config, table: &str, about: &str) {
    text.push('\n');
    comment(text, about);
    if !table.is_empty() {
        line(text, format_args!("[{table}]"));
    }
    for key in keys::all().filter(|key| key.table == table) {
        text.push('\n');
        comment(text, key.doc);
        match (key.show)(config) {
            Shown::Value(value) => line(text, format_args!("{} = {value}", key.name)),
            Shown::Unset(example) => line(text, format_args!("#{} = {example}", key.name)),
        }
    }
}

fn domains(text: &mut String) {
    text.push('\n');
    comment(text, "One domain with settings of its own. What isn't set here is as for all domains.");
    line(text, format_args!("#[domain.\"example.org\"]"));
    for key in DOMAIN_KEYS {
        comment(text, key.doc);
        line(text, format_args!("#{} = {}", key.name, key.example));
    }
    comment(text, "Its own other servers, as under [federation] above.");
    line(text, format_args!("#[domain.\"example.org\".federation]"));
    for key in OWN_KEYS {
        comment(text, key.doc);
        line(text, format_args!("#{} = {}", key.name, key.example));
    }
    comment(text, "Any module, as under [modules] below.");
    line(text, format_args!("#[domain.\"example.org\".modules.NAME]"));
    line(text, format_args!("#enabled = false"));
}

fn components(text: &mut String) {
    text.push('\n');
    comment(text, COMPONENTS);
    line(text, format_args!("#[component.\"bridge.example.org\"]"));
    for key in COMPONENT_KEYS {
        comment(text, key.doc);
        line(text, format_args!("#{} = {}", key.name, key.example));
    }
}

fn modules(text: &mut String, table: &[Box<dyn Module>]) {
    for module in table {
        let standards: Vec<_> = module.standards().iter().map(|(standard, _)| *standard).collect();
        text.push('\n');
        match standards.as_slice() {
            [] => comment(text, module.summary()),
            _ => comment(text, &format!("{} ({})", module.summary().trim_end_matches('.'), standards.join(", "))),
        }
        line(text, format_args!("[modules.{}]", module.name()));
        line(text, format_args!("enabled = {}", module.on_by_default()));
        for spec in module.options() {
            comment(text, spec.doc);
            line(text, format_args!("{} = {}", spec.key, option(spec.key, &(spec.default)())));
        }
    }
}

/// Returns the value of a module's option as TOML writes it.
pub fn option(key: &str, value: &Value) -> String {
    match value {
        Value::Number(bytes) if size::is_named(key) => size::show(*bytes),
        Value::Switch(switch) => switch.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => quote(text),
        Value::List(list) => format!("[{}]", list.iter().map(quote).collect::<Vec<_>>().join(", ")),
    }
}

fn comment(text: &mut String, words: &str) {
    for words in words.lines() {
        line(text, format_args!("# {words}"));
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{words}");
}

const HEAD: &str = "\
# Rookery's configuration. Every key stands here with its default: keep the ones that you change.
# After a change: `rookery check`, then `systemctl reload rookery` or a SIGHUP to the server.
";
