//! XEP-0215: External Service Discovery: STUN and TURN servers for calls, and anything else that
//! the operator lists.
//!
//! A TURN server that shares the option `secret` (coturn: `use-auth-secret`) is shown with
//! credentials that are valid for some hours: the username is their expiry and the account, the
//! password its HMAC under the secret. So the server stores nothing, and a leaked password expires
//! by itself.
//!
//! Only accounts of the domain may ask. Left out: pushes (§3.2), since a list only changes with
//! the configuration.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use rookery_base::date;
use rookery_hub::{Hooks, Iq, Module, OptionSpec, Options, Target, Value, World};
use rookery_modkit::option;
use rookery_stream::error::Condition;
use rookery_xml::{Writer, ns};
use sha1::Sha1;

/// The module that lists services besides XMPP for clients.
#[derive(Debug)]
pub struct ExternalServices;

impl Module for ExternalServices {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "clients can find STUN and TURN servers for calls, with temporary credentials"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0215", "1.0.0")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0215", "pushes (§3.2): a list changes with the configuration only")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::EXTERNAL_SERVICES);
        hooks.iq(Target::Server, ns::EXTERNAL_SERVICES, answer);
    }
}

const OPTIONS: [OptionSpec; 3] = [SERVICES, SECRET, HOURS];

const SERVICES: OptionSpec = OptionSpec {
    key: "services",
    default: || Value::List(Vec::new()),
    doc: "the services, e.g. [\"stun:stun.example.org:3478\", \"turn:turn.example.org:3478?transport=udp\"]",
    check: |value| option::each(value, |text| ExternalService::read(text).map(drop)),
};

const SECRET: OptionSpec = OptionSpec {
    key: "secret",
    default: || Value::Text(String::new()),
    doc: "the secret shared with the TURN servers for creating credentials (coturn: static-auth-secret); \"\" creates none",
    check: option::any,
};

const HOURS: OptionSpec = OptionSpec {
    key: "credentials_hours",
    default: || Value::Number(24),
    doc: "hours for which credentials are valid",
    check: option::at_least_one,
};

/// A service as the operator writes it: type, host, and port and transport if they aren't the usual
/// ones.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ExternalService {
    type_: String,
    host: String,
    port: Option<u16>,
    transport: Option<String>,
}

impl ExternalService {
    /// Reads `type:host[:port][?transport=udp]`; an IPv6 address is written in brackets.
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} isn't a service; write e.g. \"turn:turn.example.org:3478?transport=udp\"");
        let (type_, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (host, port) = match place.strip_prefix('[') {
            Some(bracketed) => {
                let (host, behind) = bracketed.split_once(']').ok_or_else(wrong)?;
                let port = behind.strip_prefix(':');
                if !behind.is_empty() && port.is_none() || host.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(wrong());
                }
                (host, port)
            }
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map(|port| port.parse::<u16>().map_err(|_| wrong())).transpose()?;
        let transport = match query {
            None => None,
            Some(query) => Some(
                query.strip_prefix("transport=").filter(|found| matches!(*found, "udp" | "tcp")).ok_or_else(wrong)?,
            ),
        };
        let is_name =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c));
        if !is_name(type_) || !is_name(host) {
            return Err(wrong());
        }
        Ok(Self { type_: type_.to_owned(), host: host.to_owned(), port, transport: transport.map(str::to_owned) })
    }

    /// Returns whether the service uses credentials made from a secret.
    fn takes_credentials(&self) -> bool {
        matches!(self.type_.as_str(), "turn" | "turns")
    }
}

/// The username and password for an account, and their expiry in milliseconds since 1970.
struct ServiceCredentials {
    username: String,
    password: String,
    until_ms: u64,
}

impl ServiceCredentials {
    /// Makes credentials that are valid from `now_ms` on, in milliseconds since 1970.
    fn new(options: &Options, user: &str, now_ms: u64) -> Option<Self> {
        let secret = Some(options.text(SECRET.key)).filter(|secret| !secret.is_empty())?;
        let until = now_ms / 1000 + options.number(HOURS.key).saturating_mul(3600);
        let username = format!("{until}:{user}");
        let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).ok()?;
        mac.update(username.as_bytes());
        let password = STANDARD.encode(mac.finalize().into_bytes());
        Some(Self { username, password, until_ms: until.saturating_mul(1000) })
    }
}

/// Replies with services, or with credentials for one (§3.1, §3.3).
fn answer(world: &mut World, iq: Iq) {
    if iq.from.domain() != iq.to.domain() || iq.from.local().is_none() {
        return world.reply_error(&iq, Condition::Forbidden);
    }
    let asked = match (iq.set, iq.payload.name()) {
        (false, "services") => None,
        (false, "credentials") => match iq.payload.child("service", ns::EXTERNAL_SERVICES) {
            Some(asked) if asked.attr("host").is_some() && asked.attr("type").is_some() => Some(asked),
            _ => return world.reply_error(&iq, Condition::BadRequest),
        },
        _ => return world.reply_error(&iq, Condition::BadRequest),
    };
    let Some(options) = world.options(iq.to.domain(), NAME) else {
        return world.reply_error(&iq, Condition::ServiceUnavailable);
    };
    let services = options.list(SERVICES.key).iter().filter_map(|text| ExternalService::read(text).ok());
    let is_asked_for = |service: &ExternalService| match asked {
        Some(asked) => {
            asked.attr("host") == Some(&service.host)
                && asked.attr("type") == Some(&service.type_)
                && asked.attr("port").is_none_or(|port| service.port.is_some_and(|own| own.to_string() == port))
        }
        None => iq.payload.attr("type").is_none_or(|type_| type_ == service.type_),
    };
    let services: Vec<_> = services.filter(is_asked_for).collect();
    if asked.is_some() && services.is_empty() {
        return world.reply_error(&iq, Condition::ItemNotFound);
    }
    let credentials = ServiceCredentials::new(options, iq.from.local().unwrap_or_default(), world.time());
    let mut reply = iq.result();
    reply.start_ns(iq.payload.name(), ns::EXTERNAL_SERVICES).opt_attr("type", iq.payload.attr("type"));
    for service in &services {
        write(&mut reply, service, credentials.as_ref().filter(|_| service.takes_credentials()));
    }
    world.reply(&iq, reply);
}

fn write(reply: &mut Writer, service: &ExternalService, credentials: Option<&ServiceCredentials>) {
    let port = service.port.map(|port| port.to_string());
    reply.start("service").attr("type", &service.type_).attr("host", &service.host);
    reply.opt_attr("port", port.as_deref()).opt_attr("transport", service.transport.as_deref());
    if let Some(ServiceCredentials { username, password, until_ms }) = credentials {
        reply.attr("restricted", "true").attr("username", username).attr("password", password);
        reply.attr("expires", &date::timestamp(*until_ms));
    }
    reply.end();
}

/// The key below `[modules]`.
const NAME: &str = "external_services";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read() {
        let service = |type_: &str, host: &str, port, transport: Option<&str>| {
            Ok(ExternalService {
                type_: type_.into(),
                host: host.into(),
                port,
                transport: transport.map(str::to_owned),
            })
        };
        assert_eq!(ExternalService::read("stun:stun.example.org"), service("stun", "stun.example.org", None, None));
        assert_eq!(ExternalService::read("turn:t:3478?transport=udp"), service("turn", "t", Some(3478), Some("udp")));
        assert_eq!(
            ExternalService::read("turns:[2001:db8::1]:5349"),
            service("turns", "2001:db8::1", Some(5349), None)
        );
        for wrong in [
            "",
            "turn",
            "turn:",
            ":host",
            "turn:t:99999",
            "turn:t?transport=sctp",
            "turn:[x]:1",
            "turn:[::1]x",
            "turn:a b",
        ] {
            assert!(ExternalService::read(wrong).is_err(), "{wrong}");
        }
    }

    /// The expected value is coturn's, from the same secret: `echo -n 1000003600:romeo | openssl
    /// dgst -sha1 -hmac secret -binary | base64`.
    #[test]
    fn credentials_are_those_of_turn_servers() {
        let mut options = Options::defaults(&OPTIONS);
        assert!(ServiceCredentials::new(&options, "romeo", 0).is_none());
        options.set(&SECRET, Value::Text("secret".into()));
        options.set(&HOURS, Value::Number(1));
        let made = ServiceCredentials::new(&options, "romeo", 1_000_000_000_000).unwrap();
        assert_eq!((made.username.as_str(), made.until_ms), ("1000003600:romeo", 1_000_003_600_000));
        assert_eq!(made.password, "Hxz/p5fWSpdUjoUlZ2oSOZjLtjg=");
    }
}
