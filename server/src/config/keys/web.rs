//! The keys of `[web]`.

use std::path::{Path, PathBuf};

use super::super::error::WrongValue;
use super::super::given::GivenValue;
use super::{ConfigKey, ShownValue, file, list, network, path, plain, put, quote};

/// All of them.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "web",
        name: "title",
        doc: "The name of the server on the pages for people: the first page, invitations and the chat page. Without it they have\n\
              the name of the domain.",
        set: |config, given| {
            let title = given.parsed("a name of 1 to 60 characters", |text| {
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
        doc: "The picture of the server on these pages: a file in SVG, PNG, JPEG or WebP with 1 MiB at most.",
        set: |config, given| put(&mut config.web.logo, logo(given)),
        show: |config| path(&config.web.logo, "\"/etc/rookery/logo.svg\""),
    },
    ConfigKey {
        table: "web",
        name: "files",
        doc: "A folder with files of your own that everybody may read, under the paths that nothing else here has: a page, or\n\
              something below /.well-known. Of a folder in it, that is index.html.",
        set: |config, given| put(&mut config.web.files, file(given)),
        show: |config| path(&config.web.files, "\"/srv/www\""),
    },
    ConfigKey {
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
            Some(host) => ShownValue::Value(quote(host)),
            None => ShownValue::Unset("\"chat.example.org\""),
        },
    },
    ConfigKey {
        table: "web",
        name: "hosts",
        doc: "Further names under which administrators and scrapers of metrics come here, such as [\"xmpp1.example.net\"]. The domains,\n\
              names below them, `public_host`, localhost and IP addresses are known anyway; under other names /admin, /api and\n\
              /metrics don't answer, since those could be names of a site that misuses a visitor's browser.",
        set: |config, given| put(&mut config.web.hosts, given.list(host)),
        show: |config| list(&config.web.hosts),
    },
    ConfigKey {
        table: "web",
        name: "origins",
        doc: "Sites whose pages may use WebSocket and BOSH besides those that this server's own names have, such as\n\
              [\"https://chat.example.net\"]; [\"*\"] for all. Programs that are no browsers say no site, and may.",
        set: |config, given| put(&mut config.web.origins, given.list(origin)),
        show: |config| list(&config.web.origins),
    },
    ConfigKey {
        table: "web",
        name: "trusted_proxies",
        doc: "Networks of proxies that are believed when they say, in X-Forwarded-For and X-Forwarded-Proto, where a client\n\
              is and whether it is encrypted, such as [\"127.0.0.1\"]. Name every proxy: behind one that isn't named here\n\
              everybody may look like the machine that it runs on.",
        set: |config, given| put(&mut config.web.trusted_proxies, given.list(network)),
        show: |config| list(config.web.trusted_proxies.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "web",
        name: "proxy_protocol",
        doc: "true if connections from these proxies begin with a header of the PROXY protocol, version 2.",
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
        doc: "Networks from which the HTTP API (/api/v1) may be used, with a token of `rookery token add`. [] switches it off.\n\
              From other machines it is served over TLS only.",
        set: |config, given| put(&mut config.web.api_networks, given.list(network)),
        show: |config| list(config.web.api_networks.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "web",
        name: "admin_networks",
        doc: "Networks from which administrators may use the admin page (/admin). [] switches it off; [\"0.0.0.0/0\", \"::/0\"] is\n\
              everywhere. From other machines it is served over TLS only.",
        set: |config, given| put(&mut config.web.admin_networks, given.list(network)),
        show: |config| list(config.web.admin_networks.iter().map(|network| &network.written)),
    },
    ConfigKey {
        table: "web",
        name: "chat",
        doc: "true makes /chat a page to chat in. `rookery web install` gets what it needs.",
        set: |config, given| put(&mut config.web.chat, given.switch()),
        show: |config| plain(config.web.chat),
    },
    ConfigKey {
        table: "web",
        name: "connections",
        doc: "Connections that are served at a time; a WebSocket counts only until it is open, a client of BOSH for one or\n\
              two. When all are taken, the address with the most loses some to others, and this machine has a few besides.\n\
              A change needs a restart.",
        set: |config, given| put(&mut config.web.connections, given.number(1..=1_000_000)),
        show: |config| plain(config.web.connections),
    },
    ConfigKey {
        table: "web",
        name: "bosh",
        doc: "true serves /http-bind, for clients in browsers that have no WebSocket (XEP-0124).",
        set: |config, given| put(&mut config.web.bosh, given.switch()),
        show: |config| plain(config.web.bosh),
    },
    ConfigKey {
        table: "web",
        name: "bosh_wait",
        doc: "Seconds for which a request of BOSH waits for something to tell, if its client allows that.",
        set: |config, given| put(&mut config.web.bosh_terms.wait, given.number(1..=600)),
        show: |config| plain(config.web.bosh_terms.wait),
    },
    ConfigKey {
        table: "web",
        name: "bosh_inactivity",
        doc: "Seconds without a request after which a session of BOSH ends.",
        set: |config, given| put(&mut config.web.bosh_terms.inactivity, given.number(5..=3600)),
        show: |config| plain(config.web.bosh_terms.inactivity),
    },
    ConfigKey {
        table: "web",
        name: "bosh_max_pause",
        doc: "The same for a client that says that it will be away, at most. 0 means that none may.",
        set: |config, given| put(&mut config.web.bosh_terms.max_pause, given.number(0..=86_400)),
        show: |config| plain(config.web.bosh_terms.max_pause),
    },
    ConfigKey {
        table: "web",
        name: "bosh_polling",
        doc: "Seconds between two empty requests of BOSH, at least. A client that asks more often is sent away.",
        set: |config, given| put(&mut config.web.bosh_terms.polling, given.number(0..=600)),
        show: |config| plain(config.web.bosh_terms.polling),
    },
    ConfigKey {
        table: "web",
        name: "bosh_compression",
        doc: "true compresses answers of BOSH for clients that ask for it. Somebody who can watch how long encrypted answers are, and send\n\
              a user messages, may guess from it what else such an answer holds (BREACH).",
        set: |config, given| put(&mut config.web.bosh_compression, given.switch()),
        show: |config| plain(config.web.bosh_compression),
    },
];

fn logo(given: &GivenValue<'_>) -> Result<Option<PathBuf>, WrongValue> {
    given.parsed("a file whose name ends in .svg, .png, .jpg, .jpeg or .webp", |text| {
        rookery_web::guests::picture_type(Path::new(text)).map(|_| Some(PathBuf::from(text)))
    })
}

fn host(given: GivenValue<'_>) -> Result<String, WrongValue> {
    given.parsed("a name such as \"xmpp1.example.net\", without a port", |text| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        (!text.is_empty() && text.bytes().all(allowed)).then(|| text.to_owned())
    })
}

fn origin(given: GivenValue<'_>) -> Result<String, WrongValue> {
    given.parsed("an origin such as \"https://chat.example.org\", or \"*\"", |text| {
        let (scheme, host) = text.split_once("://").unwrap_or_default();
        let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
        let is_origin = !scheme.is_empty() && !host.is_empty() && is_scheme && is_host;
        // What pages of files and of some frames say.
        (matches!(text, "*" | "null") || is_origin).then(|| text.to_owned())
    })
}
