//! The configuration in force, key by key: for `rookery config show`, and for comparing two of
//! them in `rookery config diff`.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::error::line_of;
use super::example::option;
use super::keys::{self, COMPONENT_KEYS, DOMAIN_KEYS, LOGIN_KEYS, OWN_KEYS, ShownValue, TABLES, quote};
use super::{Modules, ServerConfig};

/// A key with its table, and its value as TOML; `None` if it has none.
pub type EffectiveSetting = (String, Option<String>);

/// Returns all settings in force: every key, every option of every module, and those that domains
/// and components set for themselves.
pub fn settings(config: &ServerConfig) -> Vec<EffectiveSetting> {
    let tables = TABLES.iter().flat_map(|(table, _)| keys::all().filter(|key| key.table == *table));
    let mut all: Vec<EffectiveSetting> = tables
        .map(|key| {
            let value = match (key.show)(config) {
                ShownValue::Value(value) => Some(value),
                ShownValue::Unset(_) => None,
            };
            (full_key(key.table, key.name), value)
        })
        .collect();
    all.extend(modules(&config.modules).map(|(key, value)| (full_key("modules", &key), Some(value))));
    for domain in &config.domains {
        let table = format!("domain.{}", quote(&domain.name));
        let shown = DOMAIN_KEYS.iter().filter_map(|key| Some((key.name, (key.show)(domain)?)));
        all.extend(shown.map(|(name, value)| (full_key(&table, name), Some(value))));
        let login = LOGIN_KEYS.iter().filter_map(|key| Some((key.name, (key.show)(domain)?)));
        all.extend(login.map(|(name, value)| (format!("{table}.login.{name}"), Some(value))));
        let own = OWN_KEYS.iter().filter_map(|key| Some((key.name, (key.show)(domain)?)));
        all.extend(own.map(|(name, value)| (format!("{table}.federation.{name}"), Some(value))));
        let for_all: BTreeMap<_, _> = modules(&config.modules).collect();
        let own = modules(&domain.modules).filter(|(key, value)| for_all.get(key) != Some(value));
        all.extend(own.map(|(key, value)| (format!("{table}.modules.{key}"), Some(value))));
    }
    for component in &config.components {
        let table = format!("component.{}", quote(&component.name));
        let shown = COMPONENT_KEYS.iter().filter_map(|key| Some((key.name, (key.show)(component)?)));
        all.extend(shown.map(|(name, value)| (full_key(&table, name), Some(value))));
    }
    all
}

fn modules(modules: &Modules) -> impl Iterator<Item = (String, String)> + '_ {
    modules.iter().flat_map(|(name, module)| {
        let options = module.options.iter().map(move |(key, value)| (full_key(name, key), option(key, value)));
        std::iter::once((full_key(name, "enabled"), module.enabled.to_string())).chain(options)
    })
}

/// Returns a value without secrets, and without passwords in addresses.
pub fn mask(key: &str, value: &str) -> String {
    let name = key.rsplit('.').next().unwrap_or(key);
    if name == "secret" && value != "\"\"" {
        return quote(MASK);
    }
    if value.starts_with('[') && value.contains("://") {
        // No address contains this between two letters, since the quotes of a password would be
        // escaped.
        return value.split("\", \"").map(without_password).collect::<Vec<_>>().join("\", \"");
    }
    without_password(value)
}

fn without_password(address: &str) -> String {
    // The address of a socket has it among its parameters.
    for parameter in ["?pass=", "&pass="] {
        if let Some((before, rest)) = address.split_once(parameter) {
            let behind = rest.trim_start_matches(|letter: char| !['&', '"', '#'].contains(&letter));
            return format!("{before}{parameter}{MASK}{behind}");
        }
    }
    let user = address.split_once("://").and_then(|(scheme, rest)| {
        let (user, host) = rest.rsplit_once('@')?;
        let (name, _) = user.split_once(':')?;
        Some(format!("{scheme}://{name}:{MASK}@{host}"))
    });
    user.unwrap_or_else(|| address.to_owned())
}

/// Returns the line of each key in a configuration's text; none if the text isn't TOML.
pub fn lines(text: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    if let Ok(root) = DeTable::parse(text) {
        gather(text, "", root.get_ref(), &mut lines);
    }
    lines
}

fn gather(text: &str, path: &str, table: &DeTable<'_>, lines: &mut BTreeMap<String, usize>) {
    for (name, value) in table {
        let at = name.span().start;
        let name = name.get_ref();
        // The keys of these tables are names that operators choose.
        let name = match path {
            "domain" | "component" => {
                quote(rookery_jid::prepare_domain(name).map_or_else(|_| name.to_string(), Into::into))
            }
            _ => name.to_string(),
        };
        let key = full_key(path, &name);
        match value.get_ref() {
            DeValue::Table(table) => gather(text, &key, table, lines),
            _ => drop(lines.insert(key, line_of(text, at))),
        }
    }
}

fn full_key(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// The text in place of a secret.
const MASK: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ServerConfig {
        ServerConfig::parse(text, &rookery_modules::table(&rookery_modules::Shared::default()))
            .expect("a configuration")
    }

    #[test]
    fn every_setting_of_the_defaults_is_there_once() {
        let all = settings(&config(""));
        let keys: std::collections::BTreeSet<_> = all.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), all.len());
        for key in ["shards", "tls.acme.enabled", "limits.depth", "modules.ping.enabled", "modules.upload.max_bytes"] {
            assert!(keys.contains(&key.to_owned()), "{key}");
        }
    }

    #[test]
    fn domains_and_components_have_what_is_their_own() {
        let all = settings(&config(
            "[domain.\"A.example\"]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n[domain.\"a.example\".modules.ping]\nenabled = false\n\
             [domain.\"a.example\".federation]\nenabled = true\ndeny = [\"bad.example\"]\n",
        ));
        // In TOML the two spellings would be two tables.
        let own: Vec<_> = all.iter().filter(|(key, _)| key.starts_with("domain.")).collect();
        assert!(own.contains(&&("domain.\"a.example\".modules.ping.enabled".into(), Some("false".into()))), "{own:?}");
        let denied = Some("[\"bad.example\"]".to_owned());
        assert!(own.contains(&&("domain.\"a.example\".federation.deny".into(), denied)), "{own:?}");
        let all = settings(&config("[component.\"b.example\"]\nsecret = \"a long secret\"\nroster = \"both\"\n"));
        let own: Vec<_> = all.iter().filter(|(key, _)| key.starts_with("component.")).collect();
        assert!(own.contains(&&("component.\"b.example\".roster".into(), Some("\"both\"".into()))), "{own:?}");
    }

    #[test]
    fn secrets_are_masked() {
        assert_eq!(mask("component.\"b.example\".secret", "\"long\""), "\"***\"");
        assert_eq!(mask("modules.external_services.secret", "\"\""), "\"\"");
        assert_eq!(mask("cluster.redis", "\"rediss://:p@ss@h:1\""), "\"rediss://:***@h:1\"");
        let socket = "\"unix:///run/redis.sock?db=1&pass=secret&protocol=resp3\"";
        assert_eq!(mask("cluster.redis", socket), "\"unix:///run/redis.sock?db=1&pass=***&protocol=resp3\"");
        assert_eq!(mask("cluster.redis", "\"unix:///s?pass=secret\""), "\"unix:///s?pass=***\"");
        let several = "[\"rediss://:p@h:1\", \"rediss://u:q@i:1\"]";
        assert_eq!(mask("cluster.redis", several), "[\"rediss://:***@h:1\", \"rediss://u:***@i:1\"]");
        assert_eq!(mask("store.url", "\"postgres://a@h/d\""), "\"postgres://a@h/d\"");
        assert_eq!(mask("web.public_host", "\"a.example\""), "\"a.example\"");
        // A secret has a name that shows it, or is a file or a number.
        for (key, value) in settings(&config("")) {
            let tells = ["secret", "password", "token"]
                .iter()
                .any(|word| key.rsplit('.').next().is_some_and(|name| name.contains(word)));
            let known = key.ends_with(".secret")
                || key.ends_with("_file")
                // A file of public keys, and names of an issuer.
                || key.starts_with("dpm.token")
                || value.is_some_and(|value| value.parse::<u64>().is_ok());
            assert!(!tells || known, "{key} may be a secret, and is shown");
        }
    }

    #[test]
    fn lines_are_those_of_keys() {
        let lines = lines(
            "shards = 1\n[tls]\nminimum = \"1.3\"\n[tls.acme]\ncontact = [\n]\n[domain.\"A.example\"]\nkey = \"a\"\n",
        );
        for (key, line) in [("shards", 1), ("tls.minimum", 3), ("tls.acme.contact", 5), ("domain.\"a.example\".key", 8)]
        {
            assert_eq!(lines.get(key), Some(&line), "{key}");
        }
        assert_eq!(lines.len(), 4);
    }
}
