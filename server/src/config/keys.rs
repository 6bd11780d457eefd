//! The table of all keys: where each stands, what it means, how it is read and how it is written.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

use rookery_hub::Conflict;
use rookery_sasl::Mechanism;
use rookery_stream::tls::Oldest;

use super::error::Wrong;
use super::given::Given;
use super::{Config, DomainConfig, Files, LogFormat, WrittenNetwork, size};

mod dpm;

pub use dpm::LISTEN as DPM_LISTEN;

/// One key of the configuration.
pub struct Key {
    /// The table it stands in; empty for the keys before the first table.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it means, a line or two.
    pub doc: &'static str,
    /// Puts a value into the configuration.
    pub set: fn(&mut Config, &Given<'_>) -> Result<(), Wrong>,
    /// How it stands in the configuration now.
    pub show: fn(&Config) -> Shown,
}

/// A key's value as TOML.
pub enum Shown {
    /// It has this value.
    Value(String),
    /// It has no value; this one is an example.
    Unset(&'static str),
}

/// The tables with what they are about, in the order of the example.
pub const TABLES: [(&str, &str); 9] = [
    ("", "The server as a whole."),
    ("listen", "Where clients connect. A change needs a restart."),
    ("web", "What is served over HTTP: WebSocket and BOSH for browsers, how they find them, health and metrics."),
    ("tls", "Encryption, for the domains that have no certificate of their own."),
    (
        "tls.acme",
        "Certificates from an authority that gives them out by itself (ACME), for domains that have no files.",
    ),
    ("login", "How clients prove who they are."),
    ("dpm", dpm::ABOUT),
    ("limits", "What one client may take. Sizes are bytes, or texts like \"64 KiB\" and \"1 MiB\"."),
    ("log", "The log goes to standard error."),
];

/// All keys; those of a table in the order of the example. Those of modules come from the modules themselves.
pub fn all() -> impl Iterator<Item = &'static Key> + Clone {
    KEYS.iter().chain(dpm::KEYS)
}

const KEYS: &[Key] = &[
    Key {
        table: "",
        name: "domains",
        doc: "The domains whose users have their accounts here, the default one first.\n\
              A domain with a table [domain.\"NAME\"] need not be repeated here.",
        set: |config, given| {
            config.domains = given.list(domain)?.into_iter().map(DomainConfig::named).collect();
            Ok(())
        },
        show: |config| list(config.domains.iter().map(|domain| &domain.name)),
    },
    Key {
        table: "",
        name: "shards",
        doc: "Threads that serve connections; 0 means one per core. A change needs a restart.",
        set: |config, given| put(&mut config.shards, given.number(0..=1024)),
        show: |config| plain(config.shards),
    },
    Key {
        table: "",
        name: "profile",
        doc: "Whether to measure where the time of stanzas with many recipients goes. SIGUSR1 writes the table to the log.",
        set: |config, given| put(&mut config.profile, given.switch()),
        show: |config| plain(config.profile),
    },
    Key {
        table: "listen",
        name: "c2s",
        doc: "Clients that start in the clear and then encrypt (STARTTLS).\n\
              [::] means every address of this machine, IPv4 and IPv6.",
        set: |config, given| put(&mut config.listen.c2s, given.list(address)),
        show: |config| list(&config.listen.c2s),
    },
    Key {
        table: "listen",
        name: "c2s_tls",
        doc: "Clients that encrypt from the first byte (XEP-0368). [] switches it off.",
        set: |config, given| put(&mut config.listen.c2s_tls, given.list(address)),
        show: |config| list(&config.listen.c2s_tls),
    },
    Key {
        table: "listen",
        name: "web",
        doc: "HTTP in the clear, for a proxy on this machine. [] switches it off.",
        set: |config, given| put(&mut config.listen.web, given.list(address)),
        show: |config| list(&config.listen.web),
    },
    Key {
        table: "listen",
        name: "web_tls",
        doc: "HTTPS. XMPP clients that name themselves by ALPN are served here too, so this may be port 443 for both.",
        set: |config, given| put(&mut config.listen.web_tls, given.list(address)),
        show: |config| list(&config.listen.web_tls),
    },
    Key {
        table: "listen",
        name: "bytestreams",
        doc: "Files that clients send each other through the server (XEP-0065, see [modules.bytestreams]). [] switches it off.",
        set: |config, given| put(&mut config.listen.bytestreams, given.list(address)),
        show: |config| list(&config.listen.bytestreams),
    },
    Key {
        table: "web",
        name: "public_host",
        doc: "Host, and port unless it is 443, under which browsers reach the server from outside, if a proxy stands\n\
              in front of it under another name.",
        set: |config, given| {
            let host = given.parsed("a host such as \"chat.example.org\" or \"example.org:5443\"", |text| {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
                (!text.is_empty() && text.bytes().all(allowed)).then(|| text.to_owned())
            });
            put(&mut config.web.public_host, host.map(Some))
        },
        show: |config| match &config.web.public_host {
            Some(host) => Shown::Value(quote(host)),
            None => Shown::Unset("\"chat.example.org\""),
        },
    },
    Key {
        table: "web",
        name: "trusted_proxies",
        doc: "Networks of proxies that are believed when they say, in X-Forwarded-For and X-Forwarded-Proto, where a client\n\
              is and whether it is encrypted, such as [\"127.0.0.1\"].",
        set: |config, given| put(&mut config.web.trusted_proxies, given.list(network)),
        show: |config| list(config.web.trusted_proxies.iter().map(|network| &network.written)),
    },
    Key {
        table: "web",
        name: "proxy_protocol",
        doc: "Whether connections from these proxies begin with a header of the PROXY protocol, version 2.",
        set: |config, given| put(&mut config.web.proxy_protocol, given.switch()),
        show: |config| plain(config.web.proxy_protocol),
    },
    Key {
        table: "web",
        name: "metrics_networks",
        doc: "Networks from which /metrics may be read.",
        set: |config, given| put(&mut config.web.metrics_networks, given.list(network)),
        show: |config| list(config.web.metrics_networks.iter().map(|network| &network.written)),
    },
    Key {
        table: "web",
        name: "api_networks",
        doc: "Networks from which the HTTP API (/api/v1) may be used, with a token of `rookery token add`. [] switches it off.\n\
              From other machines it is served over TLS only.",
        set: |config, given| put(&mut config.web.api_networks, given.list(network)),
        show: |config| list(config.web.api_networks.iter().map(|network| &network.written)),
    },
    Key {
        table: "web",
        name: "admin_networks",
        doc: "Networks from which administrators may use the admin page (/admin). [] switches it off; [\"0.0.0.0/0\", \"::/0\"] is\n\
              everywhere. From other machines it is served over TLS only.",
        set: |config, given| put(&mut config.web.admin_networks, given.list(network)),
        show: |config| list(config.web.admin_networks.iter().map(|network| &network.written)),
    },
    Key {
        table: "web",
        name: "chat",
        doc: "Whether /chat is a page to chat in. `rookery web install` gets what it needs.",
        set: |config, given| put(&mut config.web.chat, given.switch()),
        show: |config| plain(config.web.chat),
    },
    Key {
        table: "web",
        name: "connections",
        doc: "Connections that are served at a time; a WebSocket counts only until it is open, a client of BOSH for one or\n\
              two. A change needs a restart.",
        set: |config, given| put(&mut config.web.connections, given.number(1..=1_000_000)),
        show: |config| plain(config.web.connections),
    },
    Key {
        table: "web",
        name: "bosh",
        doc: "Whether /http-bind is served, for clients in browsers that have no WebSocket (XEP-0124).",
        set: |config, given| put(&mut config.web.bosh, given.switch()),
        show: |config| plain(config.web.bosh),
    },
    Key {
        table: "web",
        name: "bosh_wait",
        doc: "Seconds for which a request of BOSH waits for something to tell, if its client allows that.",
        set: |config, given| put(&mut config.web.bosh_terms.wait, given.number(1..=600)),
        show: |config| plain(config.web.bosh_terms.wait),
    },
    Key {
        table: "web",
        name: "bosh_inactivity",
        doc: "Seconds without a request after which a session of BOSH ends.",
        set: |config, given| put(&mut config.web.bosh_terms.inactivity, given.number(5..=3600)),
        show: |config| plain(config.web.bosh_terms.inactivity),
    },
    Key {
        table: "web",
        name: "bosh_max_pause",
        doc: "The same for a client that says that it will be away, at most. 0 means that none may.",
        set: |config, given| put(&mut config.web.bosh_terms.max_pause, given.number(0..=86_400)),
        show: |config| plain(config.web.bosh_terms.max_pause),
    },
    Key {
        table: "web",
        name: "bosh_polling",
        doc: "Seconds between two empty requests of BOSH, at least. A client that asks more often is sent away.",
        set: |config, given| put(&mut config.web.bosh_terms.polling, given.number(0..=600)),
        show: |config| plain(config.web.bosh_terms.polling),
    },
    Key {
        table: "web",
        name: "bosh_origins",
        doc: "Sites whose scripts may use BOSH from other sites' pages, such as [\"https://chat.example.org\"]; [\"*\"] for all.",
        set: |config, given| put(&mut config.web.bosh_origins, given.list(origin)),
        show: |config| list(&config.web.bosh_origins),
    },
    Key {
        table: "web",
        name: "bosh_compression",
        doc: "Whether answers of BOSH are compressed for clients that ask for it.",
        set: |config, given| put(&mut config.web.bosh_compression, given.switch()),
        show: |config| plain(config.web.bosh_compression),
    },
    Key {
        table: "tls",
        name: "certificate",
        doc: "PEM file with the certificate and the intermediate ones behind it; relative to this file.\n\
              Without one the server makes itself a self-signed certificate.",
        set: |config, given| put(&mut config.tls.files.certificate, file(given)),
        show: |config| path(&config.tls.files.certificate, "\"/etc/rookery/fullchain.pem\""),
    },
    Key {
        table: "tls",
        name: "key",
        doc: "PEM file with the private key of that certificate.",
        set: |config, given| put(&mut config.tls.files.key, file(given)),
        show: |config| path(&config.tls.files.key, "\"/etc/rookery/privkey.pem\""),
    },
    Key {
        table: "tls",
        name: "minimum",
        doc: "The oldest version of TLS to speak: \"1.2\" or \"1.3\".",
        set: |config, given| put(&mut config.tls.minimum, given.choice(VERSIONS)),
        show: |config| word(VERSIONS, config.tls.minimum),
    },
    Key {
        table: "tls.acme",
        name: "enabled",
        doc: "Whether to get certificates, and to renew them. It agrees to the authority's terms. The authority comes to port 80 of each\n\
              domain, which has to be, or lead to, an address of `web` in [listen].",
        set: |config, given| put(&mut config.acme.enabled, given.switch()),
        show: |config| plain(config.acme.enabled),
    },
    Key {
        table: "tls.acme",
        name: "directory",
        doc: "The address of the authority's directory (RFC 8555 §7.1.1).",
        set: |config, given| {
            let url = given.parsed("an address that begins with \"https://\"", |text| {
                (text.starts_with("https://") && text.is_ascii()).then(|| text.to_owned())
            });
            put(&mut config.acme.directory, url)
        },
        show: |config| quoted(&config.acme.directory),
    },
    Key {
        table: "tls.acme",
        name: "contact",
        doc: "Where the authority may write to, such as [\"mailto:admin@example.org\"].",
        set: |config, given| put(&mut config.acme.contacts, given.list(contact)),
        show: |config| list(&config.acme.contacts),
    },
    Key {
        table: "tls.acme",
        name: "domains",
        doc: "The domains to get certificates for; [] means all that have no files of their own.",
        set: |config, given| put(&mut config.acme.domains, given.list(domain)),
        show: |config| list(&config.acme.domains),
    },
    Key {
        table: "tls.acme",
        name: "services",
        doc: "Modules whose addresses the certificates name besides their domain, such as [\"rooms\", \"upload\"] for conference.example.org and\n\
              upload.example.org. The authority comes to port 80 of each of them too, and gives nothing out if one doesn't lead here.",
        set: |config, given| put(&mut config.acme.services, given.list(|given| given.text().map(str::to_owned))),
        show: |config| list(&config.acme.services),
    },
    Key {
        table: "tls.acme",
        name: "trusted",
        doc: "PEM file of certificates to trust when the authority is asked, besides those that this machine trusts.",
        set: |config, given| put(&mut config.acme.trusted, file(given)),
        show: |config| path(&config.acme.trusted, "\"/etc/rookery/authority.pem\""),
    },
    Key {
        table: "login",
        name: "plaintext_loopback",
        doc: "Whether clients on this machine may log in without encryption.",
        set: |config, given| put(&mut config.login.plaintext_loopback, given.switch()),
        show: |config| plain(config.login.plaintext_loopback),
    },
    Key {
        table: "login",
        name: "plaintext_networks",
        doc: "Networks whose clients may log in without encryption, such as [\"10.0.0.0/8\"].",
        set: |config, given| put(&mut config.login.plaintext_networks, given.list(network)),
        show: |config| list(config.login.plaintext_networks.iter().map(|network| &network.written)),
    },
    Key {
        table: "login",
        name: "plain_without_tls",
        doc: "Whether the mechanism PLAIN, which sends the password itself, is offered where login without\n\
              encryption is allowed. The others prove the password without sending it.",
        set: |config, given| put(&mut config.login.plain_without_tls, given.switch()),
        show: |config| plain(config.login.plain_without_tls),
    },
    Key {
        table: "login",
        name: "scram_iterations",
        doc: "How often a new password is hashed. More is slower for whoever steals the database, and for\n\
              every client at its first login.",
        set: |config, given| {
            // RFC 5802 §5.1 asks for at least 4096; above ten million a login takes a phone minutes.
            put(&mut config.login.scram_iterations, given.number(4096..=10_000_000).map(|number| number as u32))
        },
        show: |config| plain(config.login.scram_iterations),
    },
    Key {
        table: "login",
        name: "mechanisms",
        doc: "The mechanisms to offer, in any order; a connection is offered those that it supports.",
        set: |config, given| put(&mut config.login.mechanisms, given.list(mechanism)),
        show: |config| list(config.login.mechanisms.iter().map(|mechanism| mechanism.name())),
    },
    Key {
        table: "limits",
        name: "stanza_bytes_before_login",
        doc: "One stanza of a client that has not logged in; the standard wants at least 10000.",
        set: |config, given| put(&mut config.limits.before_login.bytes, given.bytes(STANZA_BYTES_MIN..=1 << 20)),
        show: |config| bytes(config.limits.before_login.bytes),
    },
    Key {
        table: "limits",
        name: "stanza_bytes",
        doc: "One stanza of a client that has logged in.",
        set: |config, given| put(&mut config.limits.after_login.bytes, given.bytes(STANZA_BYTES_MIN..=64 << 20)),
        show: |config| bytes(config.limits.after_login.bytes),
    },
    Key {
        table: "limits",
        name: "depth",
        doc: "Elements inside one another in a stanza, up to 32.",
        set: |config, given| {
            let depth = given.number(4..=32)? as usize;
            config.limits.before_login.depth = depth;
            config.limits.after_login.depth = depth;
            Ok(())
        },
        show: |config| plain(config.limits.after_login.depth),
    },
    Key {
        table: "limits",
        name: "resources_per_user",
        doc: "Clients that one account may have connected at a time.",
        set: |config, given| put(&mut config.limits.resources_per_user, given.number(1..=10_000)),
        show: |config| plain(config.limits.resources_per_user),
    },
    Key {
        table: "limits",
        name: "conflict",
        doc: "When a client asks for a resource that another one has: \"end-older\" ends the other one,\n\
              \"refuse-newer\" refuses it.",
        set: |config, given| put(&mut config.limits.conflict, given.choice(CONFLICTS)),
        show: |config| word(CONFLICTS, config.limits.conflict),
    },
    Key {
        table: "limits",
        name: "outbox_soft",
        doc: "What may wait for a client that reads slowly, before newer presence replaces older.",
        set: |config, given| put(&mut config.limits.outbox.soft, given.bytes(4096..=1 << 30)),
        show: |config| bytes(config.limits.outbox.soft),
    },
    Key {
        table: "limits",
        name: "outbox_hard",
        doc: "The same, before the client is disconnected. Its messages are kept.",
        set: |config, given| put(&mut config.limits.outbox.hard, given.bytes(4096..=1 << 30)),
        show: |config| bytes(config.limits.outbox.hard),
    },
    Key {
        table: "limits",
        name: "outbox_total",
        doc: "What may wait for all clients of one shard together. Above it, every client over `outbox_soft` is disconnected.",
        set: |config, given| put(&mut config.limits.outbox.total, given.bytes(1 << 20..=1 << 40)),
        show: |config| bytes(config.limits.outbox.total),
    },
    Key {
        table: "limits",
        name: "lane_bytes",
        doc: "What a client may send ahead while a request of it waits for storage, before the server stops reading.",
        set: |config, given| put(&mut config.limits.lane_bytes, given.bytes(4096..=1 << 30)),
        show: |config| bytes(config.limits.lane_bytes),
    },
    Key {
        table: "limits",
        name: "rate_bytes",
        doc: "What a client may send per second, five times as much at once, before the server reads it later; 0 for no limit.",
        set: |config, given| put(&mut config.limits.rate_bytes, given.bytes(0..=1 << 40)),
        show: |config| bytes(config.limits.rate_bytes),
    },
    Key {
        table: "limits",
        name: "rate_stanzas",
        doc: "The same in stanzas.",
        set: |config, given| put(&mut config.limits.rate_stanzas, given.number(0..=1_000_000_000)),
        show: |config| plain(config.limits.rate_stanzas),
    },
    Key {
        table: "limits",
        name: "directed_presence",
        doc: "Addresses outside of its roster to which one session may have sent presence, rooms included.",
        set: |config, given| put(&mut config.limits.directed_presence, given.number(0..=1_000_000)),
        show: |config| plain(config.limits.directed_presence),
    },
    Key {
        table: "limits",
        name: "roster_items",
        doc: "Contacts of one account.",
        set: |config, given| put(&mut config.limits.roster.items, given.number(0..=1_000_000)),
        show: |config| plain(config.limits.roster.items),
    },
    Key {
        table: "limits",
        name: "roster_name",
        doc: "Bytes of a contact's name.",
        set: |config, given| put(&mut config.limits.roster.name_bytes, given.bytes(0..=65_536)),
        show: |config| bytes(config.limits.roster.name_bytes),
    },
    Key {
        table: "limits",
        name: "roster_groups",
        doc: "Groups of one contact.",
        set: |config, given| put(&mut config.limits.roster.groups, given.number(0..=10_000)),
        show: |config| plain(config.limits.roster.groups),
    },
    Key {
        table: "limits",
        name: "roster_group",
        doc: "Bytes of a group's name.",
        set: |config, given| put(&mut config.limits.roster.group_bytes, given.bytes(0..=65_536)),
        show: |config| bytes(config.limits.roster.group_bytes),
    },
    Key {
        table: "limits",
        name: "login_seconds",
        doc: "How long a connection may take to log in before it is closed.",
        set: |config, given| put(&mut config.limits.login_seconds, given.number(5..=3600)),
        show: |config| plain(config.limits.login_seconds),
    },
    Key {
        table: "limits",
        name: "login_failures",
        doc: "Wrong passwords on one connection before it is closed.",
        set: |config, given| put(&mut config.limits.login_failures, given.number(2..=100)),
        show: |config| plain(config.limits.login_failures),
    },
    Key {
        table: "limits",
        name: "connections_per_address",
        doc: "Connections from one IP address other than this machine's own; 0 means no limit.",
        set: |config, given| put(&mut config.limits.connections_per_address, given.number(0..=10_000_000)),
        show: |config| plain(config.limits.connections_per_address),
    },
    Key {
        table: "log",
        name: "level",
        doc: "\"error\", \"warn\", \"info\", \"debug\" or \"trace\", also per part: \"info,rookery_store=debug\".",
        set: |config, given| {
            let levels = |text: &str| crate::logging::is_filter(text).then(|| text.to_owned());
            put(&mut config.log.level, given.parsed("a level such as \"info\" or \"warn,rookery_store=debug\"", levels))
        },
        show: |config| quoted(&config.log.level),
    },
    Key {
        table: "log",
        name: "format",
        doc: "\"text\", or \"json\" for one object per line.",
        set: |config, given| put(&mut config.log.format, given.choice(FORMATS)),
        show: |config| word(FORMATS, config.log.format),
    },
];

/// A key of a `[domain."NAME"]` table.
pub struct DomainKey {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// Puts a value into the domain's files.
    pub set: fn(&mut Files, &Given<'_>) -> Result<(), Wrong>,
    /// An example.
    pub example: &'static str,
}

/// All keys of a `[domain."NAME"]` table besides its modules.
pub const DOMAIN_KEYS: [DomainKey; 2] = [
    DomainKey {
        name: "certificate",
        doc: "The domain's own certificate, instead of the one under [tls].",
        set: |files, given| put(&mut files.certificate, file(given)),
        example: "\"/etc/rookery/example.org.pem\"",
    },
    DomainKey {
        name: "key",
        doc: "Its private key.",
        set: |files, given| put(&mut files.key, file(given)),
        example: "\"/etc/rookery/example.org.key\"",
    },
];

/// A text as TOML writes it.
pub fn quote(text: impl Into<String>) -> String {
    toml::Value::String(text.into()).to_string()
}

fn put<T, U: TryInto<T>>(place: &mut T, value: Result<U, Wrong>) -> Result<(), Wrong> {
    // Every number has been held against a range that fits.
    if let Ok(value) = value?.try_into() {
        *place = value;
    }
    Ok(())
}

fn domain(given: Given<'_>) -> Result<String, Wrong> {
    given.parsed("a domain such as \"example.org\"", |text| Some(rookery_jid::prepare_domain(text).ok()?.into_owned()))
}

fn address(given: Given<'_>) -> Result<SocketAddr, Wrong> {
    given.parsed("an address with a port such as \"[::]:5222\" or \"127.0.0.1:5222\"", |text| text.parse().ok())
}

fn origin(given: Given<'_>) -> Result<String, Wrong> {
    given.parsed("an origin such as \"https://chat.example.org\", or \"*\"", |text| {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
        let is_host =
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
        (text == "*" || is_host).then(|| text.to_owned())
    })
}

fn contact(given: Given<'_>) -> Result<String, Wrong> {
    given.parsed("an address such as \"mailto:admin@example.org\"", |text| {
        (text.starts_with("mailto:") && text.contains('@')).then(|| text.to_owned())
    })
}

fn network(given: Given<'_>) -> Result<WrittenNetwork, Wrong> {
    given.parsed("a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"", WrittenNetwork::read)
}

fn mechanism(given: Given<'_>) -> Result<Mechanism, Wrong> {
    let names = Mechanism::ALL.map(|mechanism| mechanism.name()).join(", ");
    given.parsed(&format!("one of {names}"), Mechanism::from_name)
}

fn file(given: &Given<'_>) -> Result<Option<PathBuf>, Wrong> {
    given.parsed("the name of a file", |text| (!text.is_empty()).then(|| Some(text.into())))
}

fn plain(value: impl Display) -> Shown {
    Shown::Value(value.to_string())
}

fn bytes(value: usize) -> Shown {
    Shown::Value(size::show(value as u64))
}

fn quoted(text: &str) -> Shown {
    Shown::Value(quote(text))
}

fn list<T: Display>(values: impl IntoIterator<Item = T>) -> Shown {
    let values: Vec<_> = values.into_iter().map(|value| quote(value.to_string())).collect();
    Shown::Value(format!("[{}]", values.join(", ")))
}

fn path(path: &Option<PathBuf>, example: &'static str) -> Shown {
    path.as_ref().map_or(Shown::Unset(example), |path| quoted(&path.to_string_lossy()))
}

fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> Shown {
    let word = words.iter().find(|(_, known)| *known == value);
    quoted(word.map_or("", |(word, _)| word))
}

const VERSIONS: &[(&str, Oldest)] = &[("1.2", Oldest::Tls12), ("1.3", Oldest::Tls13)];
const CONFLICTS: &[(&str, Conflict)] = &[("end-older", Conflict::EndOlder), ("refuse-newer", Conflict::RefuseNewer)];
const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// RFC 6120 §13.12 forbids a smaller limit.
const STANZA_BYTES_MIN: u64 = 10_000;
