//! Reads a configuration's text by the table of keys, and continues after a mistake so that all of
//! them are reported at once.

mod readings;

use std::ops::Range;

use rookery_hub::Module;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::WrongValue;
use super::given::GivenValue;
use super::keys::{self, COMPONENT_KEYS, DOMAIN_KEYS, DomainKey, LOGIN_KEYS, OWN_KEYS, TABLES};
use super::nearest::nearest;
use super::ports;
use super::{
    CertificateFiles, ClusterSteering, ComponentConfig, DatabasePlace, DomainConfig, FederationConfig, Modules,
    ServerConfig,
};

type ConfigEntries<'a> = Vec<(&'a str, Range<usize>, &'a Spanned<DeValue<'a>>)>;

/// Reads a whole configuration, in which the keys of a second text win over those of the first.
/// Places in the second follow those of the first, with a byte between them.
pub fn read(text: &str, over: &str, table: &[Box<dyn Module>]) -> Result<ServerConfig, Vec<WrongValue>> {
    let over = format!("{}\n{over}", " ".repeat(text.len()));
    let mut root = parse(text)?;
    merge(&mut root, parse(&over)?);
    let mut reader = ConfigReader { config: ServerConfig::defaults(table), table, wrongs: Vec::new() };
    reader.root(&root);
    reader.wrongs.sort_by_key(|wrong| wrong.at.start);
    if reader.wrongs.is_empty() { Ok(reader.config) } else { Err(reader.wrongs) }
}

fn parse(text: &str) -> Result<DeTable<'_>, Vec<WrongValue>> {
    DeTable::parse(text).map(Spanned::into_inner).map_err(|error| {
        let at = error.span().unwrap_or_default();
        vec![WrongValue::new(at, format!("this is not TOML: {}", error.message()))]
    })
}

/// Puts the keys of a table into another one, including those of inner tables.
fn merge<'a>(table: &mut DeTable<'a>, over: DeTable<'a>) {
    for (key, value) in over {
        match table.get_mut(&**key.get_ref()).map(Spanned::get_mut) {
            Some(DeValue::Table(inner)) if value.get_ref().is_table() => {
                if let DeValue::Table(over) = value.into_inner() {
                    merge(inner, over);
                }
            }
            _ => {
                table.remove(&**key.get_ref());
                table.insert(key, value);
            }
        }
    }
}

struct ConfigReader<'t> {
    config: ServerConfig,
    table: &'t [Box<dyn Module>],
    wrongs: Vec<WrongValue>,
}

impl ConfigReader<'_> {
    fn root(&mut self, root: &DeTable<'_>) {
        let entries = entries(root);
        for (name, at, value) in &entries {
            match *name {
                // These are read below, once the keys that they change are known.
                DOMAIN | MODULES | COMPONENT => {}
                "" => self.report_unknown("", name, at),
                _ if TABLES.iter().any(|(table, _)| table == name) => self.section(name, value),
                _ => self.key("", name, at, value),
            }
        }
        let mut modules = std::mem::take(&mut self.config.modules);
        self.modules(&mut modules, MODULES, child(&entries, MODULES));
        for domain in &mut self.config.domains {
            domain.modules = modules.clone();
        }
        self.config.modules = modules;
        let listed = child(&entries, "domains").is_some();
        self.domains(child(&entries, DOMAIN), listed);
        self.components(child(&entries, COMPONENT));
        self.together(&entries);
    }

    /// Reads a table of [`TABLES`].
    fn section(&mut self, table: &str, value: &Spanned<DeValue<'_>>) {
        for (name, at, value) in self.entries_of(table, value) {
            let inner = full_key(table, name);
            match TABLES.iter().any(|(table, _)| *table == inner) {
                true => self.section(&inner, value),
                false => self.key(table, name, &at, value),
            }
        }
    }

    /// Reads the value of a key in a table, and notes a mistake if there is no such key or it can't
    /// have that value.
    fn key(&mut self, table: &str, name: &str, at: &Range<usize>, value: &Spanned<DeValue<'_>>) {
        let Some(key) = keys::all().find(|key| key.table == table && key.name == name) else {
            return self.report_unknown(table, name, at);
        };
        if let (true, Some(meant)) = (table.is_empty() && value.get_ref().is_table(), nearest(name, tables())) {
            let meant =
                if [DOMAIN, COMPONENT].contains(&meant) { format!("{meant}.\"NAME\"") } else { meant.to_owned() };
            let what = format!("this isn't a table; did you mean `[{meant}]`?");
            return self.wrongs.push(WrongValue::new(at.clone(), what).of(name));
        }
        let set = (key.set)(&mut self.config, &GivenValue::new(value));
        self.note(set, || full_key(table, name));
    }

    /// Reads the tables `[domain."NAME"]`. They are served in addition to those of `domains`, or
    /// alone if that key isn't given.
    fn domains(&mut self, value: Option<&Spanned<DeValue<'_>>>, listed: bool) {
        let Some(value) = value else { return };
        let tables = self.entries_of(DOMAIN, value);
        if !listed && !tables.is_empty() {
            self.config.domains.clear();
        }
        for (name, at, value) in tables {
            let path = format!("{DOMAIN}.{}", super::keys::quote(name));
            match rookery_jid::prepare_domain(name) {
                Ok(prepared) => self.domain(&prepared, &path, value),
                Err(error) => {
                    self.wrongs.push(WrongValue::new(at, format!("{error}; write it like \"example.org\"")).of(path))
                }
            }
        }
    }

    fn domain(&mut self, name: &str, path: &str, value: &Spanned<DeValue<'_>>) {
        let place = self.config.domains.iter().position(|domain| domain.name == name);
        let mut domain = match place {
            Some(place) => self.config.domains.remove(place),
            None => DomainConfig { modules: self.config.modules.clone(), ..DomainConfig::with_name(name.to_owned()) },
        };
        let entries = self.entries_of(path, value);
        self.domain_keys(&mut domain, path, &entries, &DOMAIN_KEYS, &[LOGIN, FEDERATION, MODULES]);
        let at = self.login(&mut domain, &full_key(path, LOGIN), child(&entries, LOGIN));
        if let Some(value) = child(&entries, FEDERATION) {
            let path = full_key(path, FEDERATION);
            let entries = self.entries_of(&path, value);
            self.domain_keys(&mut domain, &path, &entries, &OWN_KEYS, &[]);
        }
        self.modules(&mut domain.modules, &full_key(path, MODULES), child(&entries, MODULES));
        if let Some((name, why)) = domain.login.misplaced_module(&domain.modules) {
            let what = format!("the module `{name}` can't be on here: {why}");
            self.wrongs.push(WrongValue::new(at, what).of(full_key(path, LOGIN)));
        }
        self.pair(&domain.files, path, &entries);
        self.config.domains.insert(place.unwrap_or(self.config.domains.len()), domain);
    }

    /// Reads a table `[domain."NAME".login]`, and switches off everything that conflicts with it.
    /// Returns its place.
    fn login(&mut self, domain: &mut DomainConfig, path: &str, value: Option<&Spanned<DeValue<'_>>>) -> Range<usize> {
        let Some(value) = value else { return Range::default() };
        let entries = self.entries_of(path, value);
        let told = self.wrongs.len();
        self.domain_keys(domain, path, &entries, &LOGIN_KEYS, &[]);
        if let Some((key, what)) = domain.login.wrong().filter(|_| self.wrongs.len() == told) {
            let key = if key.is_empty() { path.to_owned() } else { full_key(path, key) };
            self.wrongs.push(WrongValue::new(value.span(), what).of(key));
        }
        domain.login.restrict(&mut domain.modules);
        if domain.login.anonymous {
            // Otherwise senders of spam would use it.
            domain.federation.enabled.get_or_insert(false);
        }
        value.span()
    }

    /// Reads the keys of a domain in one table; other tables are read elsewhere.
    fn domain_keys(
        &mut self,
        domain: &mut DomainConfig,
        path: &str,
        entries: &ConfigEntries<'_>,
        keys: &[DomainKey],
        tables: &[&str],
    ) {
        for (name, at, value) in entries {
            match keys.iter().find(|key| key.name == *name) {
                Some(key) => {
                    let set = (key.set)(domain, &GivenValue::new(value));
                    self.note(set, || full_key(path, name));
                }
                None if tables.contains(name) => {}
                None => self.stranger(path, name, at, keys.iter().map(|key| key.name).chain(tables.iter().copied())),
            }
        }
    }

    /// Reads the tables `[component."NAME"]`.
    fn components(&mut self, value: Option<&Spanned<DeValue<'_>>>) {
        let Some(value) = value else { return };
        for (name, at, value) in self.entries_of(COMPONENT, value) {
            let path = format!("{COMPONENT}.{}", super::keys::quote(name));
            match rookery_jid::prepare_domain(name) {
                Ok(prepared) => self.component(&prepared, &at, &path, value),
                Err(error) => {
                    let what = format!("{error}; write it like \"bridge.example.org\"");
                    self.wrongs.push(WrongValue::new(at, what).of(path));
                }
            }
        }
    }

    fn component(&mut self, name: &str, at: &Range<usize>, path: &str, value: &Spanned<DeValue<'_>>) {
        let mut component = ComponentConfig { name: name.to_owned(), ..ComponentConfig::default() };
        let told = self.wrongs.len();
        for (name, at, value) in self.entries_of(path, value) {
            match COMPONENT_KEYS.iter().find(|key| key.name == name) {
                Some(key) => {
                    let set = (key.set)(&mut component, &GivenValue::new(value));
                    self.note(set, || full_key(path, name));
                }
                None => self.stranger(path, name, &at, COMPONENT_KEYS.iter().map(|key| key.name)),
            }
        }
        let taken = |domain: &DomainConfig| domain.name == name || domain.services().any(|host| host == name);
        let what = if self.config.domains.iter().any(taken) {
            Some("this is the name of a domain or a service of this server; a component needs a name of its own")
        } else if self.config.components.iter().any(|known| known.name == name) {
            Some("the component is listed twice")
        } else if component.secret.is_some() == component.secret_file.is_some() && self.wrongs.len() == told {
            Some("it needs either a `secret` or a `secret_file`")
        } else if component.privileges.roster_presence && !component.privileges.roster.get {
            Some("`roster_presence` requires a `roster` that it may read: \"get\" or \"both\" (XEP-0356)")
        } else {
            None
        };
        if let Some(what) = what {
            self.wrongs.push(WrongValue::new(at.clone(), what).of(path));
        }
        self.config.components.push(component);
    }

    /// Reads the tables `[modules.NAME]`, of all domains or of one.
    fn modules(&mut self, modules: &mut Modules, path: &str, value: Option<&Spanned<DeValue<'_>>>) {
        let Some(value) = value else { return };
        for (name, at, value) in self.entries_of(path, value) {
            match self.table.iter().find(|module| module.name() == name) {
                Some(module) => self.module(modules, &**module, &full_key(path, name), value),
                None => self.stranger(path, name, &at, self.table.iter().map(|module| module.name())),
            }
        }
    }

    fn module(&mut self, modules: &mut Modules, module: &dyn Module, path: &str, value: &Spanned<DeValue<'_>>) {
        let Some(config) = modules.get_mut(module.name()) else { return };
        for (name, at, value) in self.entries_of(path, value) {
            let given = GivenValue::new(value);
            if name == ENABLED {
                let set = given.switch().map(|enabled| config.enabled = enabled);
                self.note(set, || full_key(path, name));
                continue;
            }
            let Some(spec) = module.options().iter().find(|spec| spec.key == name) else {
                let known = module.options().iter().map(|spec| spec.key).chain([ENABLED]);
                self.stranger(path, name, &at, known);
                continue;
            };
            let value = given.like(spec.key, &(spec.default)());
            let checked = value.and_then(|value| match (spec.check)(&value) {
                Ok(()) => Ok(value),
                Err(reason) => Err(given.wrong(reason)),
            });
            let set = checked.map(|value| drop(config.options.insert(spec.key, value)));
            self.note(set, || full_key(path, name));
        }
    }

    /// Checks for mistakes that involve two keys.
    fn together(&mut self, entries: &ConfigEntries<'_>) {
        let section = |name| child(entries, name).map(|value| (value.span(), table_entries(value))).unwrap_or_default();
        let (_, tls) = section("tls");
        let (_, uploads) = section("uploads");
        if self.config.uploads.bucket.is_some() && self.config.uploads.access_key.is_none() {
            let at = place(&uploads, &["bucket"]);
            self.wrongs.push(WrongValue::new(at, "it also needs `access_key`").of("uploads.bucket"));
        }
        let acme = child(&tls, "acme").map(table_entries).unwrap_or_default();
        let files = self.config.tls.files.clone();
        self.pair(&files, "tls", &tls);
        if self.config.acme.enabled && self.config.listen.web.is_empty() {
            let what = "the authority connects by HTTP: give `web` in [listen] an address";
            self.wrongs.push(WrongValue::new(place(&acme, &["enabled"]), what).of("tls.acme.enabled"));
        }
        if let Some(name) = self.config.acme.domains.iter().find(|name| self.config.domain(name).is_none()) {
            let what = format!("{name:?} isn't a domain of this server");
            self.wrongs.push(WrongValue::new(place(&acme, &["domains"]), what).of("tls.acme.domains"));
        }
        self.services_of_acme(&acme);
        let (at, dpm) = section("dpm");
        self.readings(at, &dpm);
        let (_, limits) = section("limits");
        let outbox = self.config.limits.outbox;
        let ladder = [
            ("outbox_soft", outbox.soft, "outbox_hard", outbox.hard),
            ("outbox_hard", outbox.hard, "outbox_account", outbox.account),
            ("outbox_account", outbox.account, "outbox_total", outbox.total),
        ];
        for (lower, less, upper, more) in ladder.into_iter().filter(|(_, less, _, more)| less > more) {
            let what = format!("it is larger than `{upper}`: {less} bytes and {more}");
            self.wrongs.push(WrongValue::new(place(&limits, &[lower, upper]), what).of(full_key("limits", lower)));
        }
        if self.config.limits.before_login.bytes > self.config.limits.after_login.bytes {
            let at = place(&limits, &["stanza_bytes_before_login", "stanza_bytes"]);
            let what = "a client could send more before login than after it (`stanza_bytes`)";
            self.wrongs.push(WrongValue::new(at, what).of("limits.stanza_bytes_before_login"));
        }
        let (_, store) = section("store");
        self.check_store(&store);
        let (_, federation) = section("federation");
        if self.config.federation.dnssec && self.config.federation.dns.is_empty() {
            let what = "this requires name servers that you trust: list them in `dns`, such as [\"127.0.0.1:53\"]";
            self.wrongs.push(WrongValue::new(place(&federation, &["dnssec"]), what).of("federation.dnssec"));
        }
        let FederationConfig { allow, deny, .. } = &self.config.federation;
        if let Some(rule) = deny.iter().find(|denied| allow.iter().any(|rule| rule.rule.pattern == denied.rule.pattern))
        {
            let what = format!("{:?} is also in `allow`: remove it from one of them", rule.written);
            self.wrongs.push(WrongValue::new(place(&federation, &["deny"]), what).of("federation.deny"));
        }
        let (_, cluster) = section("cluster");
        self.check_cluster(&cluster);
        let (at, listen) = section("listen");
        if let Some(((table, key), what)) = ports::find_conflict(&self.config) {
            // The mistake is reported at the address that the file gives; the other address is a
            // default.
            let entries = if table == "dpm" { &dpm } else { &listen };
            self.wrongs.push(WrongValue::new(place(entries, &[key]), what).of(full_key(table, key)));
        }
        if self.config.listen.c2s.is_empty() && self.config.listen.c2s_tls.is_empty() {
            self.wrongs
                .push(WrongValue::new(at, "no address is left to listen on; give `c2s` or `c2s_tls` one").of("listen"));
        }
        self.check_domains(place(entries, &["domains"]));
        if self.config.login.mechanisms.is_empty() {
            let (_, login) = section("login");
            let what = "nobody could log in; leave the key out for all mechanisms";
            self.wrongs.push(WrongValue::new(place(&login, &["mechanisms"]), what).of("login.mechanisms"));
        }
    }

    /// Checks the settings that only some databases have.
    fn check_store(&mut self, entries: &ConfigEntries<'_>) {
        let store = &self.config.store;
        if store.place != DatabasePlace::Folder {
            return;
        }
        let for_servers =
            "this key is for database servers: set `url` to a PostgreSQL or MariaDB, or leave the key out";
        let wrong = [
            (
                "archives",
                store.months,
                "SQLite can't partition a table: leave this at \"whole\", or set `url` to a PostgreSQL or MariaDB",
            ),
            (
                "search",
                store.has_index,
                "SQLite has no search index: leave this at \"look\", or set `url` to a PostgreSQL or MariaDB",
            ),
            ("password_file", store.password.is_some(), for_servers),
            ("tls", store.encrypted.is_some(), for_servers),
            ("tls_authorities", store.authorities.is_some(), for_servers),
        ];
        for (key, _, what) in wrong.into_iter().filter(|(_, is_wrong, _)| *is_wrong) {
            self.wrongs.push(WrongValue::new(place(entries, &[key]), what).of(full_key("store", key)));
        }
    }

    /// Checks the requirements of `[cluster]`.
    fn check_cluster(&mut self, entries: &ConfigEntries<'_>) {
        let config = &self.config;
        let at = |name| place(entries, &[name]);
        // The mistake in a refused value has already been reported.
        let is_given = |name| child(entries, name).is_some();
        if is_given("node") != is_given("redis") {
            let what = "`node` and `redis` belong together: give both, or neither";
            return self.wrongs.push(WrongValue::new(place(entries, &["node", "redis"]), what).of("cluster.node"));
        }
        if config.cluster.node.is_none() {
            return;
        }
        if let Some(what) = keys::why_exposed(&config.cluster.redis, &config.cluster.sentinels) {
            self.wrongs.push(WrongValue::new(at("redis"), what).of("cluster.redis"));
        }
        let config = &self.config;
        if !config.cluster.sentinels.is_empty() && config.cluster.redis.len() > 1 {
            let what = "Sentinels know a primary by its name: set `redis` to one address with that name, or leave `sentinels` out";
            self.wrongs.push(WrongValue::new(at("sentinels"), what).of("cluster.sentinels"));
        }
        let config = &self.config;
        if config.cluster.steer == ClusterSteering::Login && config.cluster.public_host.is_none() {
            let what = "clients can't be sent to a node without its own name: set `public_host`, or leave `steer` out";
            self.wrongs.push(WrongValue::new(at("steer"), what).of("cluster.steer"));
        }
        let config = &self.config;
        if config.store.place == DatabasePlace::Folder {
            let what = "nodes share a database, but SQLite is a file on one machine: set `url` in [store] to a PostgreSQL or MariaDB";
            self.wrongs.push(WrongValue::new(at("node"), what).of("cluster.node"));
        }
    }

    fn check_domains(&mut self, at: Range<usize>) {
        let domains = &self.config.domains;
        let repeated = |(place, domain): (usize, &DomainConfig)| {
            domains.iter().take(place).any(|earlier| earlier.name == domain.name).then(|| domain.name.clone())
        };
        if let Some(name) = domains.iter().enumerate().find_map(repeated) {
            self.wrongs.push(WrongValue::new(at, format!("{name:?} is listed twice")).of("domains"));
        } else if domains.is_empty() {
            self.wrongs
                .push(WrongValue::new(at, "at least one domain is needed, such as [\"localhost\"]").of("domains"));
        }
    }

    /// Reports services that certificates should name although they have no address.
    fn services_of_acme(&mut self, acme: &ConfigEntries<'_>) {
        let config = &self.config;
        let is_served = |module: &str| config.domains.iter().any(|domain| domain.service(module).is_some());
        if let Some(name) = config.acme.services.iter().find(|name| !is_served(name)) {
            let all = config.domains.iter().flat_map(|domain| domain.modules.keys()).filter(|module| is_served(module));
            let all: std::collections::BTreeSet<String> = all.map(ToString::to_string).collect();
            let all = all.into_iter().collect::<Vec<_>>().join(", ");
            let what = format!("{name:?} isn't a module with its own address; those with one are: {all}");
            self.wrongs.push(WrongValue::new(place(acme, &["services"]), what).of("tls.acme.services"));
        }
    }

    /// Reports a certificate without its key, or the other way round.
    fn pair(&mut self, files: &CertificateFiles, path: &str, entries: &ConfigEntries<'_>) {
        let (given, missing) = match (&files.certificate, &files.key) {
            (Some(_), None) => ("certificate", "key"),
            (None, Some(_)) => ("key", "certificate"),
            _ => return,
        };
        // The mistake in a refused value has already been reported.
        if child(entries, missing).is_none() {
            let what = format!("it also needs `{missing}`");
            self.wrongs.push(WrongValue::new(place(entries, &[given]), what).of(full_key(path, given)));
        }
    }

    /// Reports a key that isn't in [`keys::all`], nor a table.
    fn report_unknown(&mut self, table: &str, name: &str, at: &Range<usize>) {
        let elsewhere = keys::all().find(|key| key.name == name);
        let Some(key) = elsewhere else {
            let tables = tables().filter(|_| table.is_empty());
            let known = keys::all().filter(|key| key.table == table).map(|key| key.name).chain(tables);
            return self.stranger(table, name, at, known);
        };
        let what = match key.table {
            "" => "there is no such key here; it goes above the first [table]".to_owned(),
            table => format!("there is no such key here; it goes into [{table}]"),
        };
        self.wrongs.push(WrongValue::new(at.clone(), what).of(full_key(table, name)));
    }

    /// Reports a name that is unknown in its table.
    fn stranger<'k>(
        &mut self,
        path: &str,
        name: &str,
        at: &Range<usize>,
        known: impl Iterator<Item = &'k str> + Clone,
    ) {
        let what = match nearest(name, known.clone()) {
            Some(meant) => format!("there is no such key; did you mean `{meant}`?"),
            None => {
                let mut known: Vec<_> = known.collect();
                known.sort_unstable();
                format!("there is no such key; the keys are: {}", known.join(", "))
            }
        };
        self.wrongs.push(WrongValue::new(at.clone(), what).of(full_key(path, name)));
    }

    fn entries_of<'v>(&mut self, path: &str, value: &'v Spanned<DeValue<'v>>) -> ConfigEntries<'v> {
        if !value.get_ref().is_table() {
            let what = not_a_table(path, value.get_ref());
            self.wrongs.push(WrongValue::new(value.span(), what).of(path));
        }
        table_entries(value)
    }

    fn note(&mut self, set: Result<(), WrongValue>, key: impl FnOnce() -> String) {
        if let Err(wrong) = set {
            self.wrongs.push(wrong.of(key()));
        }
    }
}

/// Returns the entries of a table in the order of the text.
fn entries<'a>(table: &'a DeTable<'a>) -> ConfigEntries<'a> {
    let mut entries: ConfigEntries<'a> =
        table.iter().map(|(key, value)| (&**key.get_ref(), key.span(), value)).collect();
    entries.sort_by_key(|(_, at, _)| at.start);
    entries
}

fn table_entries<'a>(value: &'a Spanned<DeValue<'a>>) -> ConfigEntries<'a> {
    value.get_ref().as_table().map(entries).unwrap_or_default()
}

fn child<'a>(entries: &ConfigEntries<'a>, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
    entries.iter().find(|(key, ..)| *key == name).map(|(_, _, value)| *value)
}

/// Returns the place of the first of these keys that is given.
fn place(entries: &ConfigEntries<'_>, names: &[&str]) -> Range<usize> {
    names.iter().find_map(|name| Some(child(entries, name)?.span())).unwrap_or_default()
}

/// Returns the names of the top-level tables.
fn tables() -> impl Iterator<Item = &'static str> + Clone {
    let all = TABLES.iter().map(|(table, _)| *table).chain([DOMAIN, MODULES, COMPONENT]);
    all.filter(|name| !name.is_empty() && !name.contains('.'))
}

/// Returns a message with the probable meaning of a value in place of a table.
fn not_a_table(path: &str, value: &DeValue<'_>) -> String {
    let keys = keys::all().filter(|key| key.table.is_empty()).map(|key| key.name);
    if let Some(meant) = nearest(path, keys) {
        return format!("expected a table; did you mean the key `{meant}`?");
    }
    let key = match value.as_bool() {
        Some(switch) if path.contains(MODULES) => format!("`{ENABLED} = {switch}`"),
        _ => "its keys".to_owned(),
    };
    format!("expected a table: write [{path}] on a line of its own, and {key} below")
}

fn full_key(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

const DOMAIN: &str = "domain";
/// The table below a domain for the logins of its users.
const LOGIN: &str = "login";
const FEDERATION: &str = "federation";
/// The table of the modules of all domains, and of those of one.
pub(super) const MODULES: &str = "modules";
const COMPONENT: &str = "component";
/// The key that switches a module on or off.
pub(super) const ENABLED: &str = "enabled";
