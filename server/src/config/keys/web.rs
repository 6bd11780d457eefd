//! The keys of `[web]`.

use std::path::{Path, PathBuf};

use super::super::error::WrongValue;
use super::super::given::GivenValue;
use super::{ConfigKey, ShownValue, file, list, network, path, plain, put, quote};

/// All keys of the table, in the order of the example.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "web",
        name: "title",
        doc: "The server's name on the pages for people: the home page, invitations and the web chat. By default,\n\
              the name of the domain.",
        set: |config, given| {
            let title = given.parse_by("a name of 1 to 60 characters", |text| {
                let text = text.trim();
                (1..=60).contains(&text.chars().count()).then(|| text.to_owned())
            });
            put(&mut config.web.title, title.map(Some))
        },
        show: |config| match &config.web.title {
            Some(title) => ShownValue::Value(quote(title)),
            None => ShownValue::Unset("\"Chat of the Smiths\""),
        },
    },
    ConfigKey {
        table: "web",
        name: "logo",
        doc: "The server's picture on these pages: an SVG, PNG, JPEG or WebP file of at most 1 MiB.",
        set: |config, given| put(&mut config.web.logo, logo(given)),
        show: |config| path(&config.web.logo, "\"/etc/rookery/logo.svg\""),
    },
    ConfigKey {
        table: "web",
        name: "files",
        doc: "A folder with files of your own that everybody can read, under any path that isn't used otherwise: a\n\
              page, or something below /.well-known. For a subfolder, its index.html is served.",
        set: |config, given| put(&mut config.web.files, file(given)),
        show: |config| path(&config.web.files, "\"/srv/www\""),
    },
    ConfigKey {
        table: "web",
        name: "public_host",
        doc: "The host name, with a port unless it is 443, by which browsers reach the server from outside, if a\n\
              proxy in front of it has another name.",
        set: |config, given| {
            let host = given.parse_by("a host such as \"chat.example.org\" or \"example.org:5443\"", |text| {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
                (!text.is_empty() && text.bytes().all(allowed)).then(|| text.to_owned())
            });
            put(&mut config.web.public_host, host.map(Some))
        },
        show: |config| match &config.web.public_host {
            Some(host) => ShownValue::Value(quote(host)),
            None => ShownValue::Unset("\"chat.example.org\""),
        },
    },
    ConfigKey {
        table: "web",
        name: "hosts",
        doc: "Further names by which administrators and metrics scrapers reach this server, such as\n\
              [\"xmpp1.example.net\"]. The domains, their subdomains, `public_host`, localhost and IP addresses are\n\
              always accepted. Under any other name, /admin, /api and /metrics don't respond, because it could\n\
              belong to a site that misuses a visitor's browser.",
        set: |config, given| put(&mut config.web.hosts, given.list(host)),
        show: |config| list(&config.web.hosts),
    },
    ConfigKey {
        table: "web",
        name: "origins",
        doc: "Sites whose pages may use WebSocket and BOSH, in addition to those under this server's own names, such\n\
              as [\"https://chat.example.net\"]; [\"*\"] for all. Programs other than browsers send no origin, and are\n\
              always allowed.",
        set: |config, given| put(&mut config.web.origins, given.list(origin)),
        show: |config| list(&config.web.origins),
    },
    ConfigKey {
        table: "web",
        name: "trusted_proxies",
        doc: "Networks of proxies that are trusted to report a client's address and encryption in X-Forwarded-For\n\
              and X-Forwarded-Proto, such as [\"127.0.0.1\"]. List every proxy: everybody behind an unlisted one may\n\
              appear to be the machine that it runs on.",
        set: |config, given| put(&mut config.web.trusted_proxies, given.list(network)),
        show: |config| list(config.web.trusted_proxies.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "web",
        name: "proxy_protocol",
        doc: "true if connections from these proxies begin with a PROXY protocol header, version 2.",
        set: |config, given| put(&mut config.web.proxy_protocol, given.switch()),
        show: |config| plain(config.web.proxy_protocol),
    },
    ConfigKey {
        table: "web",
        name: "metrics_networks",
        doc: "Networks from which /metrics may be read.",
        set: |config, given| put(&mut config.web.metrics_networks, given.list(network)),
        show: |config| list(config.web.metrics_networks.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "web",
        name: "api_networks",
        doc: "Networks that may use the HTTP API (/api/v1), with a token from `rookery token add`. [] switches it\n\
              off. Other machines can reach it only over TLS.",
        set: |config, given| put(&mut config.web.api_networks, given.list(network)),
        show: |config| list(config.web.api_networks.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "web",
        name: "admin_networks",
        doc: "Networks from which administrators may use the admin page (/admin). [] switches it off; [\"0.0.0.0/0\",\n\
              \"::/0\"] means everywhere. Other machines can reach it only over TLS.",
        set: |config, given| put(&mut config.web.admin_networks, given.list(network)),
        show: |config| list(config.web.admin_networks.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "web",
        name: "chat",
        doc: "true serves a web chat at /chat. `rookery web install` downloads the files it needs.",
        set: |config, given| put(&mut config.web.chat, given.switch()),
        show: |config| plain(config.web.chat),
    },
    ConfigKey {
        table: "web",
        name: "connections",
        doc: "Connections at a time. A WebSocket counts only until it is open, a BOSH client counts as one or two.\n\
              When all are in use, the address with the most loses some to others; this machine has a few extra. A\n\
              change needs a restart.",
        set: |config, given| put(&mut config.web.connections, given.number(1..=1_000_000)),
        show: |config| plain(config.web.connections),
    },
    ConfigKey {
        table: "web",
        name: "bosh",
        doc: "true serves /http-bind, for browser clients without WebSocket (XEP-0124).",
        set: |config, given| put(&mut config.web.bosh, given.switch()),
        show: |config| plain(config.web.bosh),
    },
    ConfigKey {
        table: "web",
        name: "bosh_wait",
        doc: "Seconds that a BOSH request waits for something to deliver, if its client allows that.",
        set: |config, given| put(&mut config.web.bosh_terms.wait, given.number(1..=600)),
        show: |config| plain(config.web.bosh_terms.wait),
    },
    ConfigKey {
        table: "web",
        name: "bosh_inactivity",
        doc: "Seconds without a request after which a BOSH session ends.",
        set: |config, given| put(&mut config.web.bosh_terms.inactivity, given.number(5..=3600)),
        show: |config| plain(config.web.bosh_terms.inactivity),
    },
    ConfigKey {
        table: "web",
        name: "bosh_max_pause",
        doc: "The most that a client may ask for when it announces a pause. 0 allows no pauses.",
        set: |config, given| put(&mut config.web.bosh_terms.max_pause, given.number(0..=86_400)),
        show: |config| plain(config.web.bosh_terms.max_pause),
    },
    ConfigKey {
        table: "web",
        name: "bosh_polling",
        doc: "Minimum seconds between two empty BOSH requests. A client that asks more often is disconnected.",
        set: |config, given| put(&mut config.web.bosh_terms.polling, given.number(0..=600)),
        show: |config| plain(config.web.bosh_terms.polling),
    },
    ConfigKey {
        table: "web",
        name: "bosh_compression",
        doc: "true compresses BOSH responses for clients that ask for it. An attacker who can observe the length of\n\
              encrypted responses, and send a user messages, may be able to guess what else such a response contains\n\
              (BREACH).",
        set: |config, given| put(&mut config.web.bosh_compression, given.switch()),
        show: |config| plain(config.web.bosh_compression),
    },
];

fn logo(given: &GivenValue<'_>) -> Result<Option<PathBuf>, WrongValue> {
    given.parse_by("a file whose name ends in .svg, .png, .jpg, .jpeg or .webp", |text| {
        rookery_web::guests::picture_type(Path::new(text)).map(|_| Some(PathBuf::from(text)))
    })
}

fn host(given: GivenValue<'_>) -> Result<String, WrongValue> {
    given.parse_by("a name such as \"xmpp1.example.net\", without a port", |text| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        (!text.is_empty() && text.bytes().all(allowed)).then(|| text.to_owned())
    })
}

fn origin(given: GivenValue<'_>) -> Result<String, WrongValue> {
    given.parse_by("an origin such as \"https://chat.example.org\", or \"*\"", |text| {
        let (scheme, host) = text.split_once("://").unwrap_or_default();
        let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
        let is_origin = !scheme.is_empty() && !host.is_empty() && is_scheme && is_host;
        // The origins of pages from files and of some frames.
        (matches!(text, "*" | "null") || is_origin).then(|| text.to_owned())
    })
}
