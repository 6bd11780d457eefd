//! `rookery config example`: every key with its meaning and default, written from the same table
//! that the parser uses.

use std::fmt::Write;

use rookery_hub::{Module, Value};

use super::keys::{
    self, COMPONENT_KEYS, COMPONENTS, DOMAIN_KEYS, DPM, LOGIN_KEYS, OWN_KEYS, ShownValue, TABLES, quote,
};
use super::{ServerConfig, size};

/// Returns a commented configuration with all defaults.
pub fn example(table: &[Box<dyn Module>]) -> String {
    let config = ServerConfig::defaults(table);
    let mut text = HEAD.to_owned();
    let (last, tables): (Vec<_>, Vec<_>) = TABLES.iter().partition(|(name, _)| *name == DPM);
    for (name, about) in tables {
        section(&mut text, &config, name, about);
    }
    domains(&mut text);
    components(&mut text);
    modules(&mut text, table);
    for (name, about) in last {
        section(&mut text, &config, name, about);
    }
    text
}

/// Returns a commented configuration of the keys that most servers set, with the defaults: a file
/// to begin with.
pub fn short(table: &[Box<dyn Module>]) -> String {
    let config = ServerConfig::defaults(table);
    let mut text = SHORT_HEAD.to_owned();
    for (name, keys) in SHORT {
        let about = TABLES.iter().find(|(table, _)| *table == name).map_or("", |(_, about)| about);
        heading(&mut text, name, about);
        let of_table = keys::all().filter(|key| key.table == name);
        of_table.filter(|key| keys.contains(&key.name)).for_each(|key| entry(&mut text, &config, key));
    }
    for (name, options) in SHORT_MODULES {
        let Some(module) = table.iter().find(|module| module.name() == name) else { continue };
        heading(&mut text, &format!("modules.{name}"), module.summary());
        if options.contains(&ENABLED) {
            line(&mut text, format_args!("{ENABLED} = {}", module.on_by_default()));
        }
        for spec in module.options().iter().filter(|spec| options.contains(&spec.key)) {
            comment(&mut text, spec.doc);
            line(&mut text, format_args!("{} = {}", spec.key, option(spec.key, &(spec.default)())));
        }
    }
    text
}

fn section(text: &mut String, config: &ServerConfig, table: &str, about: &str) {
    heading(text, table, about);
    for key in keys::all().filter(|key| key.table == table) {
        text.push('\n');
        entry(text, config, key);
    }
}

fn heading(text: &mut String, table: &str, about: &str) {
    text.push('\n');
    comment(text, about);
    if !table.is_empty() {
        line(text, format_args!("[{table}]"));
    }
}

fn entry(text: &mut String, config: &ServerConfig, key: &keys::ConfigKey) {
    comment(text, key.doc);
    match (key.show)(config) {
        ShownValue::Value(value) => line(text, format_args!("{} = {value}", key.name)),
        ShownValue::Unset(example) => line(text, format_args!("#{} = {example}", key.name)),
    }
}

fn domains(text: &mut String) {
    text.push('\n');
    comment(text, "One domain with settings of its own. Anything not set here is as for all domains.");
    line(text, format_args!("#[domain.\"example.org\"]"));
    for key in DOMAIN_KEYS {
        comment(text, key.doc);
        line(text, format_args!("#{} = {}", key.name, key.example));
    }
    comment(text, "The ways to log in, if not with passwords stored on this server.");
    line(text, format_args!("#[domain.\"example.org\".login]"));
    for key in LOGIN_KEYS {
        comment(text, key.doc);
        line(text, format_args!("#{} = {}", key.name, key.example));
    }
    comment(text, "The domain's own settings for other servers, as under [federation] above.");
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

/// The keys of the short form, by table.
pub(super) const SHORT: [(&str, &[&str]); 8] = [
    ("", &["domains"]),
    ("listen", &["web", "web_tls"]),
    ("web", &["title", "public_host"]),
    ("tls", &["certificate", "key"]),
    ("tls.acme", &["enabled", "contact"]),
    ("store", &["url"]),
    ("federation", &["enabled"]),
    ("log", &["level"]),
];

/// The options of the short form, by module.
pub(super) const SHORT_MODULES: [(&str, &[&str]); 5] = [
    ("administration", &["admins"]),
    ("register", &["allow_creation", "users_invite"]),
    ("rooms", &["create", "default_persistent"]),
    ("archive", &["expire_days"]),
    ("upload", &["max_bytes", "keep_days"]),
];

/// The switch of a module.
const ENABLED: &str = "enabled";

const SHORT_HEAD: &str = "\
# Rookery's configuration, with what most servers set. `rookery config example` has every key; what
# isn't here has its default. After a change: `rookery check`, then `rookery reload`.
";

const HEAD: &str = "\
# Rookery's configuration. This lists every key with its default: keep the ones that you change.
# After a change: `rookery check`, then `rookery reload`.
";
