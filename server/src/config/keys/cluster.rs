//! The keys of `[cluster]`.

use std::net::{IpAddr, Ipv6Addr};

use super::super::WrongValue;
use super::super::given::GivenValue;
use super::{ConfigKey, ShownValue, list, plain, put, quoted_value, word};
use crate::config::ClusterSteering;

/// The description of the table.
pub(super) const ABOUT: &str = "Several servers that act as one, on one database. Read the chapter \"Several nodes\" of the book\n\
                                before you rely on it. A change needs a restart.";

/// All keys of the table, in the order of the example.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "cluster",
        name: "node",
        doc: "The unique name of this node. Setting it turns this server into a node of a cluster.",
        set: |config, given| put(&mut config.cluster.node, name(given).map(Some)),
        show: |config| text(config.cluster.node.as_deref(), "\"n1\""),
    },
    ConfigKey {
        table: "cluster",
        name: "redis",
        doc: "The Redis or Valkey that carries messages between nodes: \"redis://:PASSWORD@HOST:PORT\", or\n\
              \"rediss://…\" with TLS, or \"unix:///PATH\" for a socket on this machine, with \"?pass=PASSWORD\" if it\n\
              wants one. Unless it is on this machine, it needs TLS and a password, so keep this file secret. A\n\
              list of addresses names the nodes of a Redis Cluster.",
        set: |config, given| put(&mut config.cluster.redis, given.one_or_more(|address| redis_or_socket(&address))),
        show: |config| addresses(&config.cluster.redis, "\"rediss://:PASSWORD@redis.example.org\""),
    },
    ConfigKey {
        table: "cluster",
        name: "sentinels",
        doc: "The Sentinels that know which Redis is the primary, if you use them. In `redis`, replace the host with\n\
              the name under which they know it: \"rediss://:PASSWORD@NAME\".",
        set: |config, given| put(&mut config.cluster.sentinels, given.one_or_more(|address| redis(&address))),
        show: |config| {
            addresses(&config.cluster.sentinels, "[\"redis://s1.example.org:26379\", \"redis://s2.example.org:26379\"]")
        },
    },
    ConfigKey {
        table: "cluster",
        name: "public_host",
        doc: "The host name of this node, if clients can reach it on its own, with a port unless it is 5222. It\n\
              still presents the certificate of the domains. `rookery node list` shows the name.",
        set: |config, given| put(&mut config.cluster.public_host, public_host(given).map(Some)),
        show: |config| text(config.cluster.public_host.as_deref(), "\"n1.example.org\""),
    },
    ConfigKey {
        table: "cluster",
        name: "steer",
        doc: "The way to move clients to their account's home node, if that has a `public_host`. \"resume\": the\n\
              server names it when it enables stream management, and clients that support this (XEP-0198,\n\
              `location`) resume there. \"login\": also redirects clients on TCP with TLS after login, at most once\n\
              a minute. \"off\": clients stay where they are. Every node serves all clients.",
        set: |config, given| put(&mut config.cluster.steer, given.choice(STEERING)),
        show: |config| word(STEERING, config.cluster.steer),
    },
    ConfigKey {
        table: "cluster",
        name: "lease_seconds",
        doc: "Seconds without a sign of life after which a node is considered gone.",
        set: |config, given| put(&mut config.cluster.lease_seconds, given.number(2..=60)),
        show: |config| plain(config.cluster.lease_seconds),
    },
];

const STEERING: &[(&str, ClusterSteering)] =
    &[("resume", ClusterSteering::Resume), ("login", ClusterSteering::Login), ("off", ClusterSteering::Off)];

fn text(value: Option<&str>, example: &'static str) -> ShownValue {
    value.map_or(ShownValue::Unset(example), quoted_value)
}

fn addresses(given: &[String], example: &'static str) -> ShownValue {
    match given {
        [] => ShownValue::Unset(example),
        [alone] => quoted_value(alone),
        several => list(several),
    }
}

fn name(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    let is_plain = |text: &str| {
        let fits = (1..=63).contains(&text.len());
        fits && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    given.parse_by("a name of letters, digits and hyphens", |text| is_plain(text).then(|| text.to_owned()))
}

/// Reads a host that clients are redirected to: the form of `<see-other-host/>` (RFC 6120
/// §4.9.3.19).
fn public_host(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    let expected = "a host such as \"n1.example.org\", \"n1.example.org:5223\" or \"[2001:db8::1]:5222\"";
    given.parse_by(expected, |text| is_host_with_port(text).then(|| text.to_owned()))
}

fn is_host_with_port(text: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if let Some(bracketed) = text.strip_prefix('[') {
        let Some((address, rest)) = bracketed.split_once(']') else { return false };
        let has_port = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().is_ok() && has_port;
    }
    let (host, has_port) = text.split_once(':').map_or((text, true), |(host, port)| (host, is_port(port)));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    (1..=253).contains(&host.len()) && host.bytes().all(is_name) && has_port
}

/// Reads the address of a Redis.
fn redis_or_socket(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    let text = given.text()?;
    match ClusterAddress::read(text).is_some() || is_socket(text) {
        true => Ok(text.to_owned()),
        false => Err(given.wrong("expected \"redis://…\", \"rediss://…\" or \"unix:///…\"")),
    }
}

/// Returns whether an address is that of a socket on this machine, by its absolute path.
fn is_socket(text: &str) -> bool {
    ["unix://", "redis+unix://", "valkey+unix://"].iter().any(|scheme| {
        let path = text.strip_prefix(scheme).and_then(|path| path.split(['?', '#']).next());
        path.is_some_and(|path| path.starts_with('/') && path.len() > 1)
    })
}

/// Reads the address of a Sentinel.
fn redis(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    let text = given.text()?;
    match ClusterAddress::read(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(given.wrong("expected \"redis://…\" or \"rediss://…\"")),
    }
}

/// Returns the reason why one of the addresses of Redis can't be used, if its traffic could be read
/// or changed by others. A primary that Sentinels name is on this machine if all of them are.
pub fn why_exposed(redis: &[String], sentinels: &[String]) -> Option<&'static str> {
    if redis.iter().any(|text| is_socket(text)) && (redis.len() > 1 || !sentinels.is_empty()) {
        return Some(
            "a socket leads to one Redis on this machine; a Redis Cluster, or a primary named by Sentinels, needs \"redis://…\"",
        );
    }
    let is_local =
        |text: &String| is_socket(text) || ClusterAddress::read(text).is_some_and(|address| address.is_local());
    let are_here = !sentinels.is_empty() && sentinels.iter().all(is_local);
    let elsewhere = redis.iter().filter(|text| !are_here && !is_local(text));
    let addresses: Vec<_> = elsewhere.filter_map(|text| ClusterAddress::read(text)).collect();
    if addresses.iter().any(|address| !address.is_encrypted) {
        return Some("this Redis is on another machine: messages between nodes need TLS, \"rediss://…\"");
    }
    let has_none = addresses.iter().any(|address| !address.has_password);
    has_none.then_some("this Redis is on another machine: it needs a password, \"rediss://:PASSWORD@HOST\"")
}

struct ClusterAddress<'a> {
    is_encrypted: bool,
    has_password: bool,
    host: &'a str,
}

impl<'a> ClusterAddress<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_encrypted = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => return None,
        };
        let rest = rest.split(['/', '?', '#']).next()?;
        let (user, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        let host = match host.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']')?.0,
            None => host.split_once(':').map_or(host, |(host, _)| host),
        };
        let has_password = user.split_once(':').is_some_and(|(_, password)| !password.is_empty());
        (!host.is_empty()).then_some(Self { is_encrypted, has_password, host })
    }

    fn is_local(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_clients_are_sent_to_may_have_a_port() {
        for good in ["n1.example.org", "n1.example.org:5223", "192.0.2.1:5222", "[2001:db8::1]", "[2001:db8::1]:5222"] {
            assert!(is_host_with_port(good), "{good}");
        }
        for bad in [
            "",
            ":5222",
            "n1.example.org:",
            "n1.example.org:0",
            "n1.example.org:70000",
            "2001:db8::1",
            "[n1]:1",
            "a b",
            "a/b",
        ] {
            assert!(!is_host_with_port(bad), "{bad}");
        }
    }

    #[test]
    fn a_redis_elsewhere_needs_tls_and_a_password() {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let refused = |redis: &[&str], sentinels: &[&str]| why_exposed(&owned(redis), &owned(sentinels)).is_some();
        assert!(!refused(&["redis://127.0.0.1"], &[]) && !refused(&["rediss://:p@r.example.org"], &[]));
        assert!(refused(&["redis://:p@r.example.org"], &[]) && refused(&["rediss://r.example.org"], &[]));
        assert!(refused(&["redis://127.0.0.1:1", "redis://:p@r.example.org:1"], &[]), "each of several");
        assert!(!refused(&["redis://letters"], &["redis://127.0.0.1:26379", "redis://localhost:26380"]));
        assert!(refused(&["redis://letters"], &["redis://127.0.0.1:26379", "redis://s2.example.org"]));
    }

    #[test]
    fn a_socket_is_on_this_machine() {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        for good in ["unix:///run/redis.sock", "redis+unix:///run/redis.sock?pass=secret", "valkey+unix:///a"] {
            assert!(is_socket(good) && why_exposed(&owned(&[good]), &[]).is_none(), "{good}");
        }
        for bad in ["unix://run/redis.sock", "unix:///", "unix:/run/redis.sock", "file:///run/redis.sock"] {
            assert!(!is_socket(bad), "{bad}");
        }
        let two = owned(&["unix:///a", "unix:///b"]);
        assert!(why_exposed(&two, &[]).is_some(), "a Redis Cluster has none");
        assert!(why_exposed(&owned(&["unix:///a"]), &owned(&["redis://127.0.0.1:26379"])).is_some());
    }

    #[test]
    fn addresses_are_read_to_the_end() {
        let read =
            |text| ClusterAddress::read(text).map(|found| (found.is_encrypted, found.has_password, found.is_local()));
        assert_eq!(read("redis://localhost"), Some((false, false, true)));
        assert_eq!(read("redis://127.0.0.1:6380/3"), Some((false, false, true)));
        assert_eq!(read("redis://[::1]:6380"), Some((false, false, true)));
        assert_eq!(read("rediss://:p@ss:w@redis.example.org:6379"), Some((true, true, false)));
        assert_eq!(read("rediss://user@redis.example.org"), Some((true, false, false)));
        assert_eq!(read("redis://:x@localhost.example.org"), Some((false, true, false)));
        assert_eq!(read("http://localhost"), None);
        assert_eq!(read("redis://"), None);
    }
}
