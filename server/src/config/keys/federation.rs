//! The keys of `[federation]`.

use std::path::PathBuf;

use rookery_federation::{Pattern, PeerPolicy};
use rookery_resolver::Route;

use super::super::error::WrongValue;
use super::super::given::GivenValue;
use super::super::{Exception, FederationRule};
use super::{ConfigKey, DomainKey, ShownValue, address, bytes, list, plain, put, word};

/// The comment at the head of the table in the example.
pub const ABOUT: &str = "Other servers: who may talk to the users of this one, and how they prove who they are. Off by default.\n\
                         The book (`doc/SUMMARY.md`) says which DNS records and certificates it takes.";

/// All of them.
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
        doc: "The proof that another server is that of its domain: \"certificate\", by a certificate that an authority has issued for\n\
              it; \"dialback\", by that or by what DNS says (XEP-0220), which anybody can forge who can forge DNS; \"plain\", the\n\
              same without encryption.",
        set: |config, given| put(&mut config.federation.policy, given.choice(POLICIES)),
        show: |config| word(POLICIES, config.federation.policy),
    },
    ConfigKey {
        table: TABLE,
        name: "exceptions",
        doc: "Domains for which another policy holds, such as [\"old.example.net dialback\", \"*.lan.example.net plain\"].",
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
        doc: "Domains not to communicate with. A reason may follow, such as in [\"bad.example: it floods rooms\"]: users of this\n\
              server who write there are told, and so is that server.",
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
        doc: "true believes the name servers of `dns` when they say that an answer is signed (DNSSEC), and then what the answer says of\n\
              certificates (DANE). All of them have to validate signatures and be on this machine or a network of your own.",
        set: |config, given| put(&mut config.federation.dnssec, given.switch()),
        show: |config| plain(config.federation.dnssec),
    },
    ConfigKey {
        table: TABLE,
        name: "host_meta",
        doc: "true asks domains that have no SRV records by HTTPS where their servers are (XEP-0487). A stranger's domain then has\n\
              the server read a page of its web server.",
        set: |config, given| put(&mut config.federation.host_meta, given.switch()),
        show: |config| plain(config.federation.host_meta),
    },
    ConfigKey {
        table: TABLE,
        name: "routes",
        doc: "Places of some domains' servers, known without asking DNS, such as [\"example.net 192.0.2.7:5269\"]; with TLS from\n\
              the first byte [\"example.net tls xmpp.example.net:5270\"].",
        set: |config, given| put(&mut config.federation.routes, given.list(route)),
        show: |config| list(config.federation.routes.iter().map(written)),
    },
    ConfigKey {
        table: TABLE,
        name: "trusted",
        doc: "PEM files of authorities to trust for the certificates of other servers, besides those that this machine trusts.",
        set: |config, given| put(&mut config.federation.trusted, given.list(file)),
        show: |config| list(config.federation.trusted.iter().map(|file| file.display())),
    },
    ConfigKey {
        table: TABLE,
        name: "allow_private_addresses",
        doc: "true lets servers be at addresses of this machine or of private networks. A stranger decides where its domain is:\n\
              with this it can have the server connect to whatever runs there.",
        set: |config, given| put(&mut config.federation.allow_private_addresses, given.switch()),
        show: |config| plain(config.federation.allow_private_addresses),
    },
    ConfigKey {
        table: TABLE,
        name: "bidi",
        doc: "true lets one connection with another server that knows how carry both directions (XEP-0288).",
        set: |config, given| put(&mut config.federation.bidi, given.switch()),
        show: |config| plain(config.federation.bidi),
    },
    ConfigKey {
        table: TABLE,
        name: "bytes_per_second",
        doc: "How many bytes one other domain may send in a second, over all of its connections; 0 means no limit. A server that\n\
              is faster is read later, and nothing is lost.",
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
        doc: "The same for a domain to which nobody here has written since the start of the server; 0 makes no difference.\n\
              Spam comes from servers that were set up for it.",
        set: |config, given| put(&mut config.federation.newcomer_stanzas, given.number(0..=1 << 32)),
        show: |config| plain(config.federation.newcomer_stanzas),
    },
    ConfigKey {
        table: TABLE,
        name: "burst_seconds",
        doc: "For how many seconds' worth of these a domain may send at once.",
        set: |config, given| put(&mut config.federation.burst_seconds, given.number(1..=3600)),
        show: |config| plain(config.federation.burst_seconds),
    },
];

/// The keys of a table `[domain."NAME".federation]`.
pub const OWN_KEYS: [DomainKey; 5] = [
    DomainKey {
        name: "enabled",
        doc: "Whether the domain, with its services and components, communicates with other servers. A reload is enough while another\n\
              domain does.",
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
        doc: "Domains for which another policy holds. The lists stand in the place of those in [federation]; they add nothing to them.",
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
    given.parsed("a domain and a policy, such as \"old.example.net dialback\"", |text| {
        let (domain, policy) = text.split_once(' ')?;
        let (_, policy) = POLICIES.iter().find(|(word, _)| *word == policy.trim())?;
        Some(Exception { written: text.to_owned(), pattern: Pattern::read(domain)?, policy: *policy })
    })
}

fn rule(given: GivenValue<'_>) -> Result<FederationRule, WrongValue> {
    given.parsed("a domain such as \"example.net\" or \"*.example.net\", perhaps with a reason behind \": \"", |text| {
        Some(FederationRule { written: text.to_owned(), rule: rookery_federation::Rule::read(text)? })
    })
}

fn route(given: GivenValue<'_>) -> Result<Route, WrongValue> {
    given.parsed("a domain and a place, such as \"example.net 192.0.2.7:5269\"", |text| {
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

fn written(route: &Route) -> String {
    let Route { domain, host, port, direct_tls } = route;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    format!("{domain} {}{host}:{port}", if *direct_tls { "tls " } else { "" })
}

fn file(given: GivenValue<'_>) -> Result<PathBuf, WrongValue> {
    given.parsed("the name of a file", |text| (!text.is_empty()).then(|| text.into()))
}

const TABLE: &str = "federation";
const POLICIES: &[(&str, PeerPolicy)] =
    &[("certificate", PeerPolicy::Certificate), ("dialback", PeerPolicy::Dialback), ("plain", PeerPolicy::Plain)];
