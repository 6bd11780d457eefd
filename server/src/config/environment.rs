//! Keys that are set by environment variables, for containers: `ROOKERY__LISTEN__WEB` is `web` in
//! `[listen]`.
//!
//! A variable becomes a line of TOML, so that the same table of keys reads it, and mistakes get the
//! same texts. Tables with a name in them, of domains and components, can only be in the file.
//!
//! # Invariants
//!
//! - A variable wins over the file, and never affects another key.
//! - An empty variable counts as unset, because Compose files pass unset ones in that way.

use std::collections::BTreeMap;

use rookery_hub::{Module, Value};
use toml::de::DeValue;

use super::ServerConfig;
use super::given::GivenValue;
use super::keys::{self, ShownValue, quote};
use super::read::{ENABLED, MODULES};

/// The variables that set keys, in the order of their names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

/// The variables of an environment as TOML.
#[derive(Debug, Default)]
pub struct WrittenVariables {
    /// The variables as one text, each as a line with a dotted key.
    pub text: String,
    /// The variables with the places in the text where they begin, in their order.
    places: Vec<(usize, String)>,
}

impl Environment {
    /// Returns those variables of this process that set keys.
    pub fn of_process() -> Environment {
        let text = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
        Environment::new(std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// Selects those of some variables, with their values, that set keys.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Environment {
        let ours = |(name, value): &(String, String)| name.starts_with(PREFIX) && !value.is_empty();
        Environment { variables: variables.into_iter().filter(ours).collect() }
    }

    /// Returns the keys that are set, such as `listen.web`, each with the name of its variable.
    pub fn keys(&self) -> BTreeMap<String, &str> {
        self.variables.keys().map(|name| (parts(name).join("."), name.as_str())).collect()
    }

    /// Returns the names of the variables in readable form; `None` if there are none.
    pub fn names(&self) -> Option<String> {
        let names: Vec<&str> = self.variables.keys().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Writes the variables as a TOML text.
    pub fn write_toml(&self, table: &[Box<dyn Module>]) -> WrittenVariables {
        let mut written = WrittenVariables::default();
        for (name, value) in &self.variables {
            let parts = parts(name);
            let key: Vec<String> = parts.iter().map(|part| quote(part.as_str())).collect();
            written.places.push((written.text.len(), name.clone()));
            written.text += &format!("{} = {}\n", key.join("."), VariablePlace::find(&parts, table).write(value));
        }
        written
    }
}

impl WrittenVariables {
    /// Returns the name of the variable at a place in the text.
    pub fn variable(&self, at: usize) -> Option<&str> {
        let after = self.places.partition_point(|(start, _)| *start <= at);
        self.places.get(after.checked_sub(1)?).map(|(_, name)| name.as_str())
    }
}

/// The key that a value is for.
enum VariablePlace<'a> {
    Key(&'static keys::ConfigKey),
    Switch,
    Option(&'a rookery_hub::OptionSpec),
    Nowhere,
}

impl<'a> VariablePlace<'a> {
    fn find(parts: &[String], table: &'a [Box<dyn Module>]) -> VariablePlace<'a> {
        let (name, above) = match parts.split_last() {
            Some((name, above)) => (name.as_str(), above.join(".")),
            None => return VariablePlace::Nowhere,
        };
        if let Some(key) = keys::all().find(|key| key.table == above && key.name == name) {
            return VariablePlace::Key(key);
        }
        let module = above.strip_prefix(MODULES).and_then(|rest| rest.strip_prefix('.'));
        let Some(module) = module.and_then(|module| table.iter().find(|known| known.name() == module)) else {
            return VariablePlace::Nowhere;
        };
        match module.options().iter().find(|spec| spec.key == name) {
            _ if name == ENABLED => VariablePlace::Switch,
            Some(spec) => VariablePlace::Option(spec),
            None => VariablePlace::Nowhere,
        }
    }

    /// Writes a value as TOML: unchanged, if it is TOML that the key accepts; otherwise as a text,
    /// or as a list of texts with commas between them. A value that isn't accepted in any form gets
    /// the one that the key expects, so that the message about the mistake fits.
    fn write(&self, value: &str) -> String {
        let as_it_is = DeValue::parse(value).is_ok().then(|| value.to_owned());
        let texts = value.split(',').map(|text| quote(text.trim())).collect::<Vec<_>>().join(", ");
        let list = format!("[{texts}]");
        let forms = [as_it_is.clone(), Some(quote(value)), Some(list.clone())];
        if let Some(form) = forms.into_iter().flatten().find(|form| self.takes(form)) {
            return form;
        }
        match as_it_is {
            Some(as_it_is) if !self.wants_list() || as_it_is.starts_with('[') => as_it_is,
            _ if self.wants_list() => list,
            _ => quote(value),
        }
    }

    fn takes(&self, text: &str) -> bool {
        let Ok(value) = DeValue::parse(text) else { return false };
        let given = GivenValue::new(&value);
        match self {
            VariablePlace::Key(key) => (key.set)(&mut ServerConfig::defaults(&[]), &given).is_ok(),
            VariablePlace::Switch => given.switch().is_ok(),
            VariablePlace::Option(spec) => {
                given.like(spec.key, &(spec.default)()).is_ok_and(|value| (spec.check)(&value).is_ok())
            }
            VariablePlace::Nowhere => false,
        }
    }

    fn wants_list(&self) -> bool {
        match self {
            VariablePlace::Key(key) => match (key.show)(&ServerConfig::defaults(&[])) {
                ShownValue::Value(value) => value.starts_with('['),
                ShownValue::Unset(example) => example.starts_with('['),
            },
            VariablePlace::Option(spec) => matches!((spec.default)(), Value::List(_)),
            VariablePlace::Switch | VariablePlace::Nowhere => false,
        }
    }
}

/// Returns the parts of the key that a variable sets: the texts between double underscores, in
/// lower case.
fn parts(name: &str) -> Vec<String> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    name.split("__").map(str::to_ascii_lowercase).collect()
}

const PREFIX: &str = "ROOKERY__";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    fn read(variables: &[(&str, &str)], file: Option<&str>) -> Result<ServerConfig, ConfigError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = file.map(|text| {
            let path = folder.path().join("rookery.toml");
            std::fs::write(&path, text).expect("written");
            path
        });
        let table = rookery_modules::table(&rookery_modules::Shared::default());
        ServerConfig::load(path.as_deref(), &environment(variables), &table)
    }

    #[test]
    fn variables_give_keys_and_win_over_the_file() {
        let variables = [
            ("ROOKERY__DOMAINS", "b.example, a.example"),
            ("ROOKERY__SHARDS", "3"),
            ("ROOKERY__LISTEN__C2S", "[::]:5222"),
            ("ROOKERY__LISTEN__WEB", "[]"),
            ("ROOKERY__LISTEN__WEB_TLS", "[\"127.0.0.1:1\", \"[::1]:2\"]"),
            ("ROOKERY__WEB__TITLE", "1984"),
            ("ROOKERY__TLS__ACME__CONTACT", "mailto:a@b.example"),
            ("ROOKERY__LIMITS__STANZA_BYTES", "1 MiB"),
            ("ROOKERY__LOG__FORMAT", "json"),
            ("ROOKERY__MODULES__UPLOAD__MAX_BYTES", "10 MiB"),
            ("ROOKERY__MODULES__PING__ENABLED", "false"),
            ("ROOKERY__PROFILE", ""),
            ("ROOKERY_SKIP", "x"),
            ("HOME", "/"),
        ];
        let config = read(&variables, Some("shards = 1\nprofile = true\n[web]\nchat = false\n")).expect("read");
        let names: Vec<_> = config.domains.iter().map(|domain| domain.name.as_str()).collect();
        assert_eq!((names, config.shards, config.profile), (vec!["b.example", "a.example"], 3, true));
        assert_eq!((config.listen.c2s.len(), config.listen.web.len(), config.listen.web_tls.len()), (1, 0, 2));
        assert_eq!((config.web.title.as_deref(), config.web.chat), (Some("1984"), false));
        assert_eq!(config.acme.contacts, ["mailto:a@b.example"]);
        assert_eq!(config.limits.after_login.bytes, 1 << 20);
        assert_eq!(config.log.format, crate::config::LogFormat::Json);
        assert_eq!(config.modules["upload"].options["max_bytes"], Value::Number(10 << 20));
        assert!(!config.modules["ping"].enabled && !config.domains[0].modules["ping"].enabled);
        assert_eq!(read(&variables[1..2], None).expect("without a file").shards, 3);
    }

    #[test]
    fn a_value_cannot_reach_another_key() {
        for value in ["\"a\"\nshards = 9", "a\"\nshards = 9 #", "'''\nshards = 9"] {
            let config = read(&[("ROOKERY__WEB__TITLE", value)], None).expect("a title");
            assert_eq!((config.web.title.as_deref(), config.shards), (Some(value), 0));
        }
    }

    #[test]
    fn mistakes_name_the_variable() {
        for (variable, value, words) in [
            ("ROOKERY__SHARD", "1", "shard: there is no such key; did you mean `shards`?"),
            ("ROOKERY__SHARDS", "many", "shards: expected a value from 0 to 1024, not \"many\""),
            ("ROOKERY__LISTEN", "5222", "listen: expected a table"),
            ("ROOKERY__LISTEN__C2S", "here", "listen.c2s: \"here\" is not"),
            ("ROOKERY__MODULES__PNIG__ENABLED", "true", "modules.pnig: there is no such key; did you mean `ping`?"),
            ("ROOKERY__MODULES__PING__ENABLED", "yes", "modules.ping.enabled: expected true or false"),
            ("ROOKERY____SHARDS", "1", "there is no such key"),
            ("ROOKERY__", "1", "there is no such key"),
        ] {
            for file in [None, Some("[web]\nchat = false\n[listen]\nweb = []\n")] {
                let error = read(&[("ROOKERY__LOG__LEVEL", "warn"), (variable, value)], file).expect_err(variable);
                let error = error.to_string();
                assert!(error.starts_with(&format!("{variable}: ")) && error.contains(words), "{error}");
            }
        }
        let both = read(&[("ROOKERY__SHARDS", "x")], Some("\n[web]\nchat = 1\n")).expect_err("wrong").to_string();
        let lines: Vec<&str> = both.lines().collect();
        assert!(lines[0].contains("rookery.toml:3: web.chat") && lines[1].starts_with("ROOKERY__SHARDS: "), "{both}");
    }

    #[test]
    fn keys_are_told_with_their_variables() {
        let given = environment(&[("ROOKERY__TLS__ACME__ENABLED", "true"), ("ROOKERY__DOMAINS", "a.example")]);
        assert_eq!(given.keys()["tls.acme.enabled"], "ROOKERY__TLS__ACME__ENABLED");
        assert_eq!(given.names().as_deref(), Some("ROOKERY__DOMAINS, ROOKERY__TLS__ACME__ENABLED"));
        assert_eq!(environment(&[]).names(), None);
    }
}
