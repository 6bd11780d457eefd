//! The keys of `[cluster]`.

use std::net::IpAddr;

use super::super::WrongValue;
use super::super::given::GivenValue;
use super::{ConfigKey, ShownValue, plain, put, quoted};

/// That which the table is about.
pub(super) const ABOUT: &str = "Several servers as one, on one database: see the chapter \"Several nodes\" before you rely on it. A change needs a restart.";

/// All of them.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "cluster",
        name: "node",
        doc: "The name of this node, which no other has: this switches the cluster on.",
        set: |config, given| put(&mut config.cluster.node, name(given).map(Some)),
        show: |config| text(config.cluster.node.as_deref(), "\"n1\""),
    },
    ConfigKey {
        table: "cluster",
        name: "redis",
        doc: "The Redis or Valkey that carries what nodes tell each other: \"redis://:PASSWORD@HOST:PORT\", or \"rediss://…\" for TLS,\n\
              which a Redis that isn't on this machine needs as well as a password. The file's reader knows the password.",
        set: |config, given| put(&mut config.cluster.redis, redis(given).map(Some)),
        show: |config| text(config.cluster.redis.as_deref(), "\"rediss://:PASSWORD@redis.example.org\""),
    },
    ConfigKey {
        table: "cluster",
        name: "public_host",
        doc: "The name under which clients reach this node and no other, if it has one: `rookery node list` shows it.",
        set: |config, given| put(&mut config.cluster.public_host, given.text().map(|text| Some(text.to_owned()))),
        show: |config| text(config.cluster.public_host.as_deref(), "\"n1.example.org\""),
    },
    ConfigKey {
        table: "cluster",
        name: "lease_seconds",
        doc: "Seconds after which a silent node is taken to be gone.",
        set: |config, given| put(&mut config.cluster.lease_seconds, given.number(2..=60)),
        show: |config| plain(config.cluster.lease_seconds),
    },
];

fn text(value: Option<&str>, example: &'static str) -> ShownValue {
    value.map_or(ShownValue::Unset(example), quoted)
}

fn name(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    let is_plain = |text: &str| {
        let fits = (1..=63).contains(&text.len());
        fits && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    given.parsed("a name of letters, digits and hyphens", |text| is_plain(text).then(|| text.to_owned()))
}

/// Reads the address of a Redis. One on another machine is refused if others could read along or
/// write to it.
fn redis(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    let text = given.text()?;
    let address =
        ClusterAddress::read(text).ok_or_else(|| given.wrong("\"redis://…\" or \"rediss://…\" is expected"))?;
    if !address.is_local() && !address.is_encrypted {
        return Err(
            given.wrong("this Redis is on another machine: what nodes tell each other needs TLS, \"rediss://…\"")
        );
    }
    if !address.is_local() && !address.has_password {
        return Err(given.wrong("this Redis is on another machine: it needs a password, \"rediss://:PASSWORD@HOST\""));
    }
    Ok(text.to_owned())
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
