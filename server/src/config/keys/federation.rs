//! The keys of `[federation]`.

use std::path::PathBuf;

use rookery_federation::{Pattern, PeerPolicy};
use rookery_resolver::Route;

use super::super::error::WrongValue;
use super::super::given::GivenValue;
use super::super::{Exception, FederationRule};
use super::{ConfigKey, DomainKey, ShownValue, address, bytes, list, plain, put, word};

/// The comment at the head of the table in the example.
pub const ABOUT: &str = "Other servers: who may communicate with the users of this one, and how they prove their identity. Off\n\
                         by default. The book (`doc/SUMMARY.md`) explains which DNS records and certificates this requires.";

/// All keys of the table, in the order of the example.
pub const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: TABLE,
        name: "enabled",
        doc: "true lets users communicate with other servers. A change needs a restart. Domains may have settings of their own.",
        set: |config, given| put(&mut config.federation.enabled, given.switch()),
        show: |config| plain(config.federation.enabled),
    },
    ConfigKey {
        table: TABLE,
        name: "policy",
        doc: "The proof that another server has to give for its domain: \"certificate\", a certificate from an\n\
              authority; \"dialback\", that or DNS (XEP-0220), which anyone who can forge DNS can forge too;\n\
              \"plain\", the same without encryption.",
        set: |config, given| put(&mut config.federation.policy, given.choice(POLICIES)),
        show: |config| word(POLICIES, config.federation.policy),
    },
    ConfigKey {
        table: TABLE,
        name: "exceptions",
        doc: "Domains with a different policy, such as [\"old.example.net dialback\", \"*.lan.example.net plain\"].",
        set: |config, given| put(&mut config.federation.exceptions, given.list(exception)),
        show: |config| list(config.federation.exceptions.iter().map(|exception| &exception.written)),
    },
    ConfigKey {
        table: TABLE,
        name: "allow",
        doc: "The only domains to communicate with, such as [\"example.net\", \"*.example.net\"]; [] means all. A reason may follow a\n\
              domain, as in `deny`.",
        set: |config, given| put(&mut config.federation.allow, given.list(rule)),
        show: |config| list(config.federation.allow.iter().map(|rule| &rule.written)),
    },
    ConfigKey {
        table: TABLE,
        name: "deny",
        doc: "Domains not to communicate with. A reason may follow, as in [\"bad.example: it floods rooms\"]; local\n\
              users who write there see it, and so does that server.",
        set: |config, given| put(&mut config.federation.deny, given.list(rule)),
        show: |config| list(config.federation.deny.iter().map(|rule| &rule.written)),
    },
    ConfigKey {
        table: TABLE,
        name: "dns",
        doc: "Name servers to ask, such as [\"127.0.0.1:53\"]; [] means those of this machine.",
        set: |config, given| put(&mut config.federation.dns, given.list(address)),
        show: |config| list(&config.federation.dns),
    },
    ConfigKey {
        table: TABLE,
        name: "dnssec",
        doc: "true trusts the name servers in `dns` when they say that an answer is signed (DNSSEC), and then what\n\
              it says about certificates (DANE). All of them have to validate signatures and be on this machine or\n\
              in your own network.",
        set: |config, given| put(&mut config.federation.dnssec, given.switch()),
        show: |config| plain(config.federation.dnssec),
    },
    ConfigKey {
        table: TABLE,
        name: "host_meta",
        doc: "true looks up servers of domains without SRV records over HTTPS (XEP-0487). A stranger's domain can\n\
              then make this server read a page from its web server.",
        set: |config, given| put(&mut config.federation.host_meta, given.switch()),
        show: |config| plain(config.federation.host_meta),
    },
    ConfigKey {
        table: TABLE,
        name: "routes",
        doc: "The servers of some domains, instead of asking DNS, such as [\"example.net 192.0.2.7:5269\"], or, with\n\
              TLS from the first byte, [\"example.net tls xmpp.example.net:5270\"].",
        set: |config, given| put(&mut config.federation.routes, given.list(route)),
        show: |config| list(config.federation.routes.iter().map(write_route)),
    },
    ConfigKey {
        table: TABLE,
        name: "trusted",
        doc: "PEM files with authorities to trust for other servers' certificates, in addition to those that this\n\
              machine trusts.",
        set: |config, given| put(&mut config.federation.trusted, given.list(file)),
        show: |config| list(config.federation.trusted.iter().map(|file| file.display())),
    },
    ConfigKey {
        table: TABLE,
        name: "allow_private_addresses",
        doc: "true allows other servers at addresses of this machine or of private networks. Strangers decide where\n\
              their domain points, so with this they can make the server connect to whatever runs there.",
        set: |config, given| put(&mut config.federation.allow_private_addresses, given.switch()),
        show: |config| plain(config.federation.allow_private_addresses),
    },
    ConfigKey {
        table: TABLE,
        name: "bidi",
        doc: "true uses one connection for both directions with servers that support it (XEP-0288).",
        set: |config, given| put(&mut config.federation.bidi, given.switch()),
        show: |config| plain(config.federation.bidi),
    },
    ConfigKey {
        table: TABLE,
        name: "bytes_per_second",
        doc: "Bytes that one other domain may send per second, over all of its connections; 0 means no limit. A\n\
              faster server is read from more slowly, and nothing is lost.",
        set: |config, given| put(&mut config.federation.bytes_per_second, given.bytes(0..=1 << 40)),
        show: |config| bytes(config.federation.bytes_per_second),
    },
    ConfigKey {
        table: TABLE,
        name: "stanzas_per_second",
        doc: "The same in stanzas.",
        set: |config, given| put(&mut config.federation.stanzas_per_second, given.number(0..=1 << 32)),
        show: |config| plain(config.federation.stanzas_per_second),
    },
    ConfigKey {
        table: TABLE,
        name: "newcomer_stanzas_per_second",
        doc: "The same for a domain that nobody here has written to since startup, because spam comes from servers\n\
              set up for it; with 0, they are treated like others.",
        set: |config, given| put(&mut config.federation.newcomer_stanzas, given.number(0..=1 << 32)),
        show: |config| plain(config.federation.newcomer_stanzas),
    },
    ConfigKey {
        table: TABLE,
        name: "burst_seconds",
        doc: "Seconds' worth of these that a domain may send at once.",
        set: |config, given| put(&mut config.federation.burst_seconds, given.number(1..=3600)),
        show: |config| plain(config.federation.burst_seconds),
    },
];

/// The keys of a table `[domain."NAME".federation]`.
pub const OWN_KEYS: [DomainKey; 5] = [
    DomainKey {
        name: "enabled",
        doc: "true lets the domain, with its services and components, communicate with other servers. A reload is\n\
              enough if another domain already does.",
        set: |domain, given| put(&mut domain.federation.enabled, given.switch().map(Some)),
        show: |domain| domain.federation.enabled.map(|enabled| enabled.to_string()),
        example: "false",
    },
    DomainKey {
        name: "policy",
        doc: "The proof that other servers have to give it.",
        set: |domain, given| put(&mut domain.federation.policy, given.choice(POLICIES).map(Some)),
        show: |domain| domain.federation.policy.and_then(|policy| text(word(POLICIES, policy))),
        example: "\"dialback\"",
    },
    DomainKey {
        name: "exceptions",
        doc: "Domains with a different policy. These lists replace those in [federation] rather than adding to them.",
        set: |domain, given| put(&mut domain.federation.exceptions, given.list(exception).map(Some)),
        show: |domain| texts(domain.federation.exceptions.as_deref(), |exception| &exception.written),
        example: "[\"old.example.net dialback\"]",
    },
    DomainKey {
        name: "allow",
        doc: "The only domains to communicate with.",
        set: |domain, given| put(&mut domain.federation.allow, given.list(rule).map(Some)),
        show: |domain| texts(domain.federation.allow.as_deref(), |rule| &rule.written),
        example: "[\"example.net\"]",
    },
    DomainKey {
        name: "deny",
        doc: "Domains not to communicate with.",
        set: |domain, given| put(&mut domain.federation.deny, given.list(rule).map(Some)),
        show: |domain| texts(domain.federation.deny.as_deref(), |rule| &rule.written),
        example: "[\"spam.example\"]",
    },
];

pub(super) fn text(shown: ShownValue) -> Option<String> {
    match shown {
        ShownValue::Value(value) => Some(value),
        ShownValue::Unset(_) => None,
    }
}

fn texts<T>(given: Option<&[T]>, written: impl Fn(&T) -> &String) -> Option<String> {
    text(list(given?.iter().map(written)))
}

fn exception(given: GivenValue<'_>) -> Result<Exception, WrongValue> {
    given.parse_by("a domain and a policy, such as \"old.example.net dialback\"", |text| {
        let (domain, policy) = text.split_once(' ')?;
        let (_, policy) = POLICIES.iter().find(|(word, _)| *word == policy.trim())?;
        Some(Exception { written: text.to_owned(), pattern: Pattern::read(domain)?, policy: *policy })
    })
}

fn rule(given: GivenValue<'_>) -> Result<FederationRule, WrongValue> {
    given.parse_by(
        "a domain such as \"example.net\" or \"*.example.net\", perhaps with a reason behind \": \"",
        |text| Some(FederationRule { written: text.to_owned(), rule: rookery_federation::Rule::read(text)? }),
    )
}

fn route(given: GivenValue<'_>) -> Result<Route, WrongValue> {
    given.parse_by("a domain and a place, such as \"example.net 192.0.2.7:5269\"", |text| {
        let mut words = text.split_whitespace();
        let domain = rookery_jid::prepare_domain(words.next()?).ok()?.into_owned();
        let (direct_tls, place) = match words.next()? {
            "tls" => (true, words.next()?),
            place => (false, place),
        };
        let (host, port) = place.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let route = Route { domain, host, port: port.parse().ok()?, direct_tls };
        (words.next().is_none() && !route.host.is_empty()).then_some(route)
    })
}

fn write_route(route: &Route) -> String {
    let Route { domain, host, port, direct_tls } = route;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    format!("{domain} {}{host}:{port}", if *direct_tls { "tls " } else { "" })
}

fn file(given: GivenValue<'_>) -> Result<PathBuf, WrongValue> {
    given.parse_by("the name of a file", |text| (!text.is_empty()).then(|| text.into()))
}

const TABLE: &str = "federation";
const POLICIES: &[(&str, PeerPolicy)] =
    &[("certificate", PeerPolicy::Certificate), ("dialback", PeerPolicy::Dialback), ("plain", PeerPolicy::Plain)];
