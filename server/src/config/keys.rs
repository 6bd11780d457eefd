//! The table of all keys: the place of each, its meaning, how it is read and how it is written.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

use rookery_sasl::Mechanism;
use rookery_shard::SystemInterface;
use rookery_stream::tls::Oldest;

use super::error::WrongValue;
use super::given::GivenValue;
use super::{DomainConfig, LogFormat, ServerConfig, WrittenNetwork, size};

mod cluster;
mod component;
mod dpm;
mod events;
mod federation;
mod instruments;
mod limits;
mod login;
mod store;
mod traces;
mod uploads;
mod web;

pub use cluster::why_exposed;
pub use component::{ABOUT as COMPONENTS, COMPONENT_KEYS};
pub use dpm::LISTEN as DPM_LISTEN;
pub use federation::OWN_KEYS;
pub use login::LOGIN_KEYS;

/// One key of the configuration.
pub struct ConfigKey {
    /// Its table; empty for the keys before the first table.
    pub table: &'static str,
    /// The name of the key within its table.
    pub name: &'static str,
    /// Its meaning, in a line or two.
    pub doc: &'static str,
    /// Puts a value into the configuration.
    pub set: fn(&mut ServerConfig, &GivenValue<'_>) -> Result<(), WrongValue>,
    /// Returns its value in a configuration.
    pub show: fn(&ServerConfig) -> ShownValue,
}

/// The value of a key as TOML.
pub enum ShownValue {
    /// It has this value, written as TOML.
    Value(String),
    /// It has no value; this one is an example.
    Unset(&'static str),
}

/// The tables with their descriptions, in the order of the example.
pub const TABLES: [(&str, &str); 16] = [
    ("", "The server as a whole."),
    ("listen", "The addresses where clients connect. A change needs a restart."),
    ("web", "The services over HTTP: WebSocket and BOSH for browsers and their discovery, health and metrics."),
    ("uploads", "The files that users share (see [modules.upload]). A change needs a restart."),
    ("events", "A program to notify of events on this server (see [modules.events]). A change needs a restart."),
    ("tls", "Encryption, for the domains that have no certificate of their own."),
    (
        "tls.acme",
        "Certificates from an authority that issues them automatically (ACME), for domains without certificate\n\
         files.",
    ),
    ("login", "The ways in which clients log in."),
    ("store", "The database for accounts, messages and everything else. A change needs a restart."),
    ("cluster", cluster::ABOUT),
    ("federation", federation::ABOUT),
    ("limits", "The limits of one client. Sizes are bytes, or texts like \"64 KiB\" and \"1 MiB\"."),
    ("instruments", "Instruments that show why something is slow."),
    ("traces", traces::ABOUT),
    ("log", "The log goes to standard error."),
    (DPM, dpm::ABOUT),
];

/// The table for readings of devices, which few servers serve: it comes last in the example.
pub const DPM: &str = "dpm";

/// Returns all keys; those of a table in the order of the example. The modules themselves declare
/// their options.
pub fn all() -> impl Iterator<Item = &'static ConfigKey> + Clone {
    KEYS.iter()
        .chain(web::KEYS)
        .chain(uploads::KEYS)
        .chain(events::KEYS)
        .chain(store::KEYS)
        .chain(cluster::KEYS)
        .chain(federation::KEYS)
        .chain(dpm::KEYS)
        .chain(limits::KEYS)
        .chain(instruments::KEYS)
        .chain(traces::KEYS)
}

const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "",
        name: "domains",
        doc: "The domains whose users have accounts here, starting with the default one. A domain with its own table\n\
              [domain.\"NAME\"] needn't be repeated.",
        set: |config, given| {
            config.domains = given.list(domain)?.into_iter().map(DomainConfig::with_name).collect();
            Ok(())
        },
        show: |config| list(config.domains.iter().map(|domain| &domain.name)),
    },
    ConfigKey {
        table: "",
        name: "shards",
        doc: "Threads that serve connections; 0 means one per core. Changing it needs a restart.",
        set: |config, given| put(&mut config.shards, given.number(0..=1024)),
        show: |config| plain(config.shards),
    },
    ConfigKey {
        table: "",
        name: "io",
        doc: "The Linux interface by which they wait for connections: \"epoll\", \"io_uring\", or \"auto\", which is\n\
              epoll. io_uring takes less CPU where a message goes to many, but the server doesn't start where the\n\
              system forbids it. Changing it needs a restart.",
        set: |config, given| put(&mut config.io, given.choice(INTERFACES)),
        show: |config| word(INTERFACES, config.io),
    },
    ConfigKey {
        table: "",
        name: "profile",
        doc: "true measures where stanzas with many recipients spend their time. SIGUSR1 writes the result to the\n\
              log.",
        set: |config, given| put(&mut config.profile, given.switch()),
        show: |config| plain(config.profile),
    },
    ConfigKey {
        table: "listen",
        name: "c2s",
        doc: "Clients that connect unencrypted and then switch to TLS (STARTTLS). [::] means every address of this\n\
              machine, IPv4 and IPv6.",
        set: |config, given| put(&mut config.listen.c2s, given.list(address)),
        show: |config| list(&config.listen.c2s),
    },
    ConfigKey {
        table: "listen",
        name: "c2s_tls",
        doc: "Clients that use TLS from the first byte (XEP-0368). [] switches it off.",
        set: |config, given| put(&mut config.listen.c2s_tls, given.list(address)),
        show: |config| list(&config.listen.c2s_tls),
    },
    ConfigKey {
        table: "listen",
        name: "web",
        doc: "Unencrypted HTTP, for a proxy on this machine. [] switches it off.",
        set: |config, given| put(&mut config.listen.web, given.list(address)),
        show: |config| list(&config.listen.web),
    },
    ConfigKey {
        table: "listen",
        name: "web_tls",
        doc: "HTTPS. Also serves XMPP clients and, with [federation], other servers, if they identify themselves by\n\
              ALPN, so port 443 can serve them all.",
        set: |config, given| put(&mut config.listen.web_tls, given.list(address)),
        show: |config| list(&config.listen.web_tls),
    },
    ConfigKey {
        table: "listen",
        name: "bytestreams",
        doc: "Files that clients send each other through the server (XEP-0065, see [modules.bytestreams]). [] switches it off.",
        set: |config, given| put(&mut config.listen.bytestreams, given.list(address)),
        show: |config| list(&config.listen.bytestreams),
    },
    ConfigKey {
        table: "listen",
        name: "s2s",
        doc: "Other servers, if [federation] is on, that connect unencrypted and then switch to TLS. [] switches it\n\
              off.",
        set: |config, given| put(&mut config.listen.s2s, given.list(address)),
        show: |config| list(&config.listen.s2s),
    },
    ConfigKey {
        table: "listen",
        name: "s2s_tls",
        doc: "The same for servers that use TLS from the first byte (XEP-0368).",
        set: |config, given| put(&mut config.listen.s2s_tls, given.list(address)),
        show: |config| list(&config.listen.s2s_tls),
    },
    ConfigKey {
        table: "listen",
        name: "components",
        doc: "Components, if there is a table [component.\"NAME\"]. These connections aren't encrypted. [] switches it\n\
              off.",
        set: |config, given| put(&mut config.listen.components, given.list(address)),
        show: |config| list(&config.listen.components),
    },
    ConfigKey {
        table: "tls",
        name: "certificate",
        doc: "PEM file with the certificate, followed by the intermediate ones; relative to this file. Without it,\n\
              the server creates a self-signed certificate.",
        set: |config, given| put(&mut config.tls.files.certificate, file(given)),
        show: |config| path(&config.tls.files.certificate, "\"/etc/rookery/fullchain.pem\""),
    },
    ConfigKey {
        table: "tls",
        name: "key",
        doc: "PEM file with the private key of that certificate.",
        set: |config, given| put(&mut config.tls.files.key, file(given)),
        show: |config| path(&config.tls.files.key, "\"/etc/rookery/privkey.pem\""),
    },
    ConfigKey {
        table: "tls",
        name: "minimum",
        doc: "The oldest version of TLS to speak: \"1.2\" or \"1.3\".",
        set: |config, given| put(&mut config.tls.minimum, given.choice(VERSIONS)),
        show: |config| word(VERSIONS, config.tls.minimum),
    },
    ConfigKey {
        table: "tls.acme",
        name: "enabled",
        doc: "true requests certificates and renews them. By this you agree to the authority's terms. The authority\n\
              connects to port 80 of each domain, which must be, or lead to, an address of `web` in [listen].",
        set: |config, given| put(&mut config.acme.enabled, given.switch()),
        show: |config| plain(config.acme.enabled),
    },
    ConfigKey {
        table: "tls.acme",
        name: "directory",
        doc: "The address of the authority's directory (RFC 8555 §7.1.1).",
        set: |config, given| {
            let url = given.parse_by("an address that begins with \"https://\"", |text| {
                (text.starts_with("https://") && text.is_ascii()).then(|| text.to_owned())
            });
            put(&mut config.acme.directory, url)
        },
        show: |config| quoted_value(&config.acme.directory),
    },
    ConfigKey {
        table: "tls.acme",
        name: "contact",
        doc: "Addresses where the authority can contact you, such as [\"mailto:admin@example.org\"].",
        set: |config, given| put(&mut config.acme.contacts, given.list(contact)),
        show: |config| list(&config.acme.contacts),
    },
    ConfigKey {
        table: "tls.acme",
        name: "domains",
        doc: "The domains to get certificates for; [] means all without certificate files.",
        set: |config, given| put(&mut config.acme.domains, given.list(domain)),
        show: |config| list(&config.acme.domains),
    },
    ConfigKey {
        table: "tls.acme",
        name: "services",
        doc: "Modules whose addresses the certificates should also cover, such as [\"rooms\", \"upload\"] for\n\
              conference.example.org and upload.example.org. The authority connects to port 80 of each of them too,\n\
              and issues nothing if one doesn't lead here.",
        set: |config, given| put(&mut config.acme.services, given.list(|given| given.text().map(str::to_owned))),
        show: |config| list(&config.acme.services),
    },
    ConfigKey {
        table: "tls.acme",
        name: "trusted",
        doc: "PEM file with certificates to trust when connecting to the authority, in addition to those that this\n\
              machine trusts.",
        set: |config, given| put(&mut config.acme.trusted, file(given)),
        show: |config| path(&config.acme.trusted, "\"/etc/rookery/authority.pem\""),
    },
    ConfigKey {
        table: "login",
        name: "plaintext_loopback",
        doc: "true lets clients on this machine log in without encryption.",
        set: |config, given| put(&mut config.login.plaintext_loopback, given.switch()),
        show: |config| plain(config.login.plaintext_loopback),
    },
    ConfigKey {
        table: "login",
        name: "plaintext_networks",
        doc: "Networks whose clients may log in without encryption, such as [\"10.0.0.0/8\"].",
        set: |config, given| put(&mut config.login.plaintext_networks, given.list(network)),
        show: |config| list(config.login.plaintext_networks.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "login",
        name: "plain_without_tls",
        doc: "true also offers the mechanism PLAIN, which sends the password itself, to clients that may log in\n\
              without encryption. The other mechanisms prove the password without sending it.",
        set: |config, given| put(&mut config.login.plain_without_tls, given.switch()),
        show: |config| plain(config.login.plain_without_tls),
    },
    ConfigKey {
        table: "login",
        name: "exempt_networks",
        doc: "Networks whose failed logins aren't counted and slow nobody down, such as that of a gateway that\n\
              counts them itself: [\"10.0.0.5\"]. Everybody behind a proxy that isn't listed in `trusted_proxies` has\n\
              the proxy's address.",
        set: |config, given| put(&mut config.login.exempt_networks, given.list(network)),
        show: |config| list(config.login.exempt_networks.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "login",
        name: "guesses_per_day",
        doc: "Logins to one account that may fail in a day, after the first hundred, from places where it hasn't\n\
              logged in within a month. Its owner can still log in from known places, with known clients and with\n\
              tokens.",
        set: |config, given| {
            put(&mut config.login.guesses_per_day, given.number(10..=1_000_000).map(|number| number as u32))
        },
        show: |config| plain(config.login.guesses_per_day),
    },
    ConfigKey {
        table: "login",
        name: "scram_iterations",
        doc: "Iterations for hashing a new password. More slow down anyone who stole the database, and every client\n\
              at its first login.",
        set: |config, given| {
            // RFC 5802 §5.1 requires at least 4096; above ten million a login takes a phone
            // minutes.
            put(&mut config.login.scram_iterations, given.number(4096..=10_000_000).map(|number| number as u32))
        },
        show: |config| plain(config.login.scram_iterations),
    },
    ConfigKey {
        table: "login",
        name: "mechanisms",
        doc: "The mechanisms to offer, in any order; a connection is offered those that it supports.",
        set: |config, given| put(&mut config.login.mechanisms, given.list(mechanism)),
        show: |config| list(config.login.mechanisms.iter().map(|mechanism| mechanism.name())),
    },
    ConfigKey {
        table: "log",
        name: "level",
        doc: "\"error\", \"warn\", \"info\", \"debug\" or \"trace\", also per part: \"info,rookery_store=debug\".",
        set: |config, given| {
            let levels = |text: &str| crate::logging::is_filter(text).then(|| text.to_owned());
            put(
                &mut config.log.level,
                given.parse_by("a level such as \"info\" or \"warn,rookery_store=debug\"", levels),
            )
        },
        show: |config| quoted_value(&config.log.level),
    },
    ConfigKey {
        table: "log",
        name: "format",
        doc: "\"text\", or \"json\" for one object per line.",
        set: |config, given| put(&mut config.log.format, given.choice(FORMATS)),
        show: |config| word(FORMATS, config.log.format),
    },
];

/// A key of a `[domain."NAME"]` table.
pub struct DomainKey {
    /// The name of the key within the table.
    pub name: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// Puts a value into the domain's configuration.
    pub set: fn(&mut DomainConfig, &GivenValue<'_>) -> Result<(), WrongValue>,
    /// Returns its value as TOML, if it has one.
    pub show: fn(&DomainConfig) -> Option<String>,
    /// A value for the example configuration, written as TOML.
    pub example: &'static str,
}

/// All keys of a `[domain."NAME"]` table itself; below it are `login`,
/// `federation` and the modules.
pub const DOMAIN_KEYS: [DomainKey; 2] = [
    DomainKey {
        name: "certificate",
        doc: "The domain's own certificate, instead of the one under [tls].",
        set: |domain, given| put(&mut domain.files.certificate, file(given)),
        show: |domain| path_text(&domain.files.certificate),
        example: "\"/etc/rookery/example.org.pem\"",
    },
    DomainKey {
        name: "key",
        doc: "Its private key.",
        set: |domain, given| put(&mut domain.files.key, file(given)),
        show: |domain| path_text(&domain.files.key),
        example: "\"/etc/rookery/example.org.key\"",
    },
];

/// Returns a text as TOML writes it.
pub fn quote(text: impl Into<String>) -> String {
    toml::Value::String(text.into()).to_string()
}

fn put<T, U: TryInto<T>>(place: &mut T, value: Result<U, WrongValue>) -> Result<(), WrongValue> {
    // Every number has been checked against a range that fits.
    if let Ok(value) = value?.try_into() {
        *place = value;
    }
    Ok(())
}

fn domain(given: GivenValue<'_>) -> Result<String, WrongValue> {
    given
        .parse_by("a domain such as \"example.org\"", |text| Some(rookery_jid::prepare_domain(text).ok()?.into_owned()))
}

fn address(given: GivenValue<'_>) -> Result<SocketAddr, WrongValue> {
    given.parse_by("an address with a port such as \"[::]:5222\" or \"127.0.0.1:5222\"", |text| text.parse().ok())
}

fn contact(given: GivenValue<'_>) -> Result<String, WrongValue> {
    given.parse_by("an address such as \"mailto:admin@example.org\"", |text| {
        (text.starts_with("mailto:") && text.contains('@')).then(|| text.to_owned())
    })
}

fn network(given: GivenValue<'_>) -> Result<WrittenNetwork, WrongValue> {
    given.parse_by("a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"", WrittenNetwork::read)
}

fn mechanism(given: GivenValue<'_>) -> Result<Mechanism, WrongValue> {
    let names = Mechanism::ALL.map(|mechanism| mechanism.name()).join(", ");
    given.parse_by(&format!("one of {names}"), Mechanism::from_name)
}

fn file(given: &GivenValue<'_>) -> Result<Option<PathBuf>, WrongValue> {
    given.parse_by("the name of a file", |text| (!text.is_empty()).then(|| Some(text.into())))
}

fn plain(value: impl Display) -> ShownValue {
    ShownValue::Value(value.to_string())
}

fn bytes(value: usize) -> ShownValue {
    ShownValue::Value(size::show(value as u64))
}

fn quoted_value(text: &str) -> ShownValue {
    ShownValue::Value(quote(text))
}

fn list<T: Display>(values: impl IntoIterator<Item = T>) -> ShownValue {
    let values: Vec<_> = values.into_iter().map(|value| quote(value.to_string())).collect();
    ShownValue::Value(format!("[{}]", values.join(", ")))
}

fn path_text(path: &Option<PathBuf>) -> Option<String> {
    path.as_ref().map(|path| quote(path.to_string_lossy()))
}

fn path(path: &Option<PathBuf>, example: &'static str) -> ShownValue {
    path.as_ref().map_or(ShownValue::Unset(example), |path| quoted_value(&path.to_string_lossy()))
}

fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> ShownValue {
    let word = words.iter().find(|(_, known)| *known == value);
    quoted_value(word.map_or("", |(word, _)| word))
}

const VERSIONS: &[(&str, Oldest)] = &[("1.2", Oldest::Tls12), ("1.3", Oldest::Tls13)];
const INTERFACES: &[(&str, SystemInterface)] =
    &[("auto", SystemInterface::Auto), ("epoll", SystemInterface::Epoll), ("io_uring", SystemInterface::IoUring)];
const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];
