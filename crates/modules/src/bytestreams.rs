//! XEP-0065: SOCKS5 Bytestreams, the proxy. A service `proxy.DOMAIN` through which clients that
//! can't reach each other send files.
//!
//! This module announces the proxy's address and lets requesters activate their streams; the bytes
//! go through the [`Relay`], on a separate port and off the shards.
//!
//! # Invariants
//!
//! * Only the requester's own address makes the token of its stream: no client can activate another
//!   client's stream.
//! * The rule about who may use the proxy applies to the address and to the activation alike.
//!
//! Left out: UDP (§7), which no client supports.

use std::sync::{Arc, OnceLock};

use rookery_base::hex;
use rookery_base::{Completer, one_shot};
use rookery_fanout::Packet;
use rookery_hub::{Bound, Domain, Hooks, Iq, Module, Most, OptionSpec, Options, Per, Unit, Value, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::disco::{DiscoIdentity, Info, reply_items};
use rookery_modkit::option;
use rookery_modkit::request::{is_get, to_service};
use rookery_stream::error::Condition;
use rookery_xml::ns;
use sha1::{Digest, Sha1};

/// The module that announces the proxy for bytestreams, and activates streams.
#[derive(Debug)]
pub struct Bytestreams {
    relay: Relay,
}

/// The part of the process that joins connections, as far as modules use it. Clones share it.
#[derive(Clone, Default)]
pub struct Relay(Arc<OnceLock<Serving>>);

struct Serving {
    port: u16,
    join: Box<dyn Fn(RelayWish) + Send + Sync>,
}

/// The request to join the two connections that wait with a token.
pub struct RelayWish {
    /// SHA-1 of the stream's id, the requester and the target, in hexadecimal digits.
    pub token: String,
    /// The domain against whose limit the stream counts.
    pub domain: String,
    /// The account against whose limit the stream counts, a bare JID.
    pub requester: String,
    /// The terms for this stream.
    pub terms: RelayTerms,
    /// Gets the outcome. If it is dropped, the proxy has failed.
    pub answer: Completer<RelayOutcome>,
}

/// The bounds for the streams of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayTerms {
    /// The most streams that the domain may have at a time.
    pub streams: usize,
    /// The most streams that one account may have at a time.
    pub streams_per_user: usize,
    /// Bytes per second in each direction; 0 for no limit.
    pub rate_bytes: u64,
    /// Seconds without data after which a stream ends.
    pub idle_seconds: u64,
}

/// The outcome of a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayOutcome {
    /// Both connections are one stream now.
    Joined,
    /// Only one party is connected.
    OneOnly,
    /// No connection waits with this token.
    Unknown,
    /// The domain, or the account, has as many streams as it may.
    TooMany,
}

impl Bytestreams {
    /// Makes the module over a relay that joins the connections.
    pub fn new(relay: Relay) -> Self {
        Self { relay }
    }
}

impl Relay {
    /// Sets the port of the relay and the function that joins connections, from any thread. Only
    /// the first call has an effect.
    pub fn serve(&self, port: u16, join: impl Fn(RelayWish) + Send + Sync + 'static) {
        // A second relay would be a mistake in the program; ignoring it does no harm.
        let _ = self.0.set(Serving { port, join: Box::new(join) });
    }

    /// Asks the relay to join two connections. Without a relay the wish is dropped.
    pub fn ask(&self, wish: RelayWish) {
        if let Some(serving) = self.0.get() {
            (serving.join)(wish);
        }
    }

    /// Returns the port that accepts connections, if there is one.
    fn port(&self) -> Option<u16> {
        self.0.get().map(|serving| serving.port)
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Relay").field(&self.port()).finish()
    }
}

impl std::fmt::Debug for RelayWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wish").field("token", &self.token).field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Module for Bytestreams {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users can send each other files through the server if they can't connect directly"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0065", "1.8.2")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0065", "UDP (§7)")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(self.relay.clone());
        hooks.service(serve);
    }
}

/// The key below `[modules]`.
const NAME: &str = "bytestreams";

const BOUNDS: [Bound; 4] = [
    Bound::on("streams", Per::Domain, Most::Option("streams"), Unit::Number)
        .or("the activation of one more gets <resource-constraint/>"),
    Bound::on("streams", Per::Account, Most::Option("streams_per_user"), Unit::Number).or("one more gets the same"),
    Bound::on("bytes of a stream, each way", Per::Other("stream"), Most::Option("rate_bytes"), Unit::BytesPerSecond)
        .or("they are read later"),
    Bound::on("silence of a stream", Per::Other("stream"), Most::Option("idle_seconds"), Unit::Seconds)
        .or("it is closed"),
];

const OPTIONS: [OptionSpec; 9] = [
    OptionSpec {
        key: "host",
        default: || Value::Text("proxy.@".to_owned()),
        doc: "the address of the service; @ stands for the domain",
        check: option::host,
    },
    OptionSpec {
        key: "name",
        default: || Value::Text("File transfer".to_owned()),
        doc: "its name in lists of services",
        check: option::any,
    },
    OptionSpec {
        key: "access",
        default: || Value::List(vec!["local".to_owned()]),
        doc: "who may send files through it: \"all\", \"local\", domains or addresses",
        check: option::access_list,
    },
    OptionSpec {
        key: "address",
        default: || Value::Text("@".to_owned()),
        doc: "the name or IP address at which clients reach the port of [listen] bytestreams; @ stands for the domain",
        check: address,
    },
    OptionSpec {
        key: "port",
        default: || Value::Number(0),
        doc: "the port that clients connect to, if it isn't that of [listen] bytestreams; 0: the same",
        check: port,
    },
    OptionSpec {
        key: "streams",
        default: || Value::Number(500),
        doc: "streams at the same time; each takes two connections",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "streams_per_user",
        default: || Value::Number(10),
        doc: "the same for one user",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "rate_bytes",
        default: || Value::Number(0),
        doc: "bytes per second that one stream may send in each direction; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: "idle_seconds",
        default: || Value::Number(300),
        doc: "seconds after which an idle stream ends",
        check: option::at_least_one,
    },
];

/// Accepts a host name or an IP address (§4.2).
fn address(value: &Value) -> Result<(), String> {
    let Value::Text(text) = value else { return Ok(()) };
    let host = text.replace('@', "example.org");
    let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    if is_name(&host) || host.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(());
    }
    Err(format!("{text:?} is neither a host name, such as \"proxy.example.org\", nor an IP address"))
}

fn port(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) if u16::try_from(*number).is_err() => Err(format!("{number} isn't a port")),
        _ => Ok(()),
    }
}

/// Handles a stanza for the service.
fn serve(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    let Some((iq, options)) = to_service(world, packet, to, domain, NAME) else { return };
    let has_node = iq.payload.attr("node").is_some_and(|node| !node.is_empty());
    match iq.payload.ns() {
        ns::DISCO_INFO | ns::DISCO_ITEMS if has_node => world.reply_error(&iq, Condition::ItemNotFound),
        ns::DISCO_INFO if is_get(world, &iq, "query") => info(world, &iq, options),
        ns::DISCO_ITEMS if is_get(world, &iq, "query") => reply_items(world, &iq, &[]),
        ns::BYTESTREAMS if iq.payload.name() != "query" => world.reply_error(&iq, Condition::BadRequest),
        // §4.2 names this error for users without permission.
        ns::BYTESTREAMS if !option::may_use(world, options.list("access"), &iq.from) => {
            world.reply_error(&iq, Condition::Forbidden);
        }
        ns::BYTESTREAMS => match world.state::<Relay>().port() {
            // §4.2: it is "unable to act as a StreamHost".
            None => world.reply_error(&iq, Condition::NotAllowed),
            Some(_) if iq.set => activate(world, iq, options, domain),
            Some(port) => tell(world, &iq, options, domain, port),
        },
        ns::DISCO_INFO | ns::DISCO_ITEMS => {}
        _ => world.reply_error(&iq, Condition::ServiceUnavailable),
    }
}

/// Replies to service discovery (§4.1).
fn info(world: &mut World, iq: &Iq, options: &Options) {
    let identity = DiscoIdentity { category: "proxy", type_: "bytestreams", name: Some(options.text("name")) };
    let info = Info { identity, more: &[], features: FEATURES.to_vec(), forms: Vec::new() };
    let mut reply = iq.result();
    info.write(&mut reply, None);
    world.reply(iq, reply);
}

/// Replies with the address to connect to (§4.2).
fn tell(world: &mut World, iq: &Iq, options: &Options, domain: &Domain, listening: u16) {
    let host = options.text("address").replace('@', &domain.name);
    let port = match options.number("port") {
        0 => u64::from(listening),
        port => port,
    };
    let mut reply = iq.result();
    reply.start_ns("query", ns::BYTESTREAMS);
    reply.start("streamhost").attr("host", &host).attr("jid", iq.to.as_str()).attr("port", &port.to_string()).end();
    world.reply(iq, reply);
}

/// Activates a stream (§6.3.5).
fn activate(world: &mut World, iq: Iq, options: &Options, domain: &Domain) {
    let sid = iq.payload.attr("sid").filter(|sid| !sid.is_empty());
    let target = iq.payload.child("activate", ns::BYTESTREAMS).and_then(|target| Jid::parse(target.text().trim()).ok());
    let (Some(sid), Some(target)) = (sid, target) else { return world.reply_error(&iq, Condition::BadRequest) };
    let (answer, joined) = one_shot();
    let terms = RelayTerms {
        streams: usize::try_from(options.number("streams")).unwrap_or(usize::MAX),
        streams_per_user: usize::try_from(options.number("streams_per_user")).unwrap_or(usize::MAX),
        rate_bytes: options.number("rate_bytes"),
        idle_seconds: options.number("idle_seconds"),
    };
    let token = token(sid, &iq.from, &target);
    let requester = iq.from.bare_str().to_owned();
    world.state::<Relay>().ask(RelayWish { token, domain: domain.name.clone(), requester, terms, answer });
    world.wait(joined, move |world, outcome| match outcome {
        Ok(RelayOutcome::Joined) => world.reply_done(&iq),
        Ok(RelayOutcome::OneOnly) => world.reply_error(&iq, Condition::NotAllowed),
        Ok(RelayOutcome::Unknown) => world.reply_error(&iq, Condition::ItemNotFound),
        Ok(RelayOutcome::TooMany) => world.reply_error(&iq, Condition::ResourceConstraint),
        Err(_) => world.reply_error(&iq, Condition::InternalServerError),
    });
}

/// Returns the token that both parties send to the proxy (§5.3.2).
fn token(sid: &str, requester: &Jid, target: &Jid) -> String {
    let parts = [sid, requester.as_str(), target.as_str()];
    let hash = parts.iter().fold(Sha1::new(), |hash, part| hash.chain_update(part.as_bytes())).finalize();
    hex::encode(hash)
}

/// The features, sorted.
const FEATURES: [&str; 3] = [ns::BYTESTREAMS, ns::DISCO_INFO, ns::DISCO_ITEMS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_a_hash_of_all_three() {
        let jid = |text| Jid::parse(text).unwrap();
        // echo -n 'vxf9n471bn46requester@example.com/footarget@example.org/bar' | sha1sum
        let token = token("vxf9n471bn46", &jid("requester@example.com/foo"), &jid("target@example.org/bar"));
        assert_eq!(token, EXPECTED);
    }

    #[test]
    fn addresses_are_hosts() {
        let check = |text: &str| address(&Value::Text(text.into())).is_ok();
        assert!(check("@") && check("proxy.@") && check("192.0.2.1") && check("2001:db8::1"));
        assert!(!check("") && !check("[::1]") && !check("a b") && !check("host:7777") && !check("http://a"));
    }

    const EXPECTED: &str = "98b8d688d0f5d895fd41c5e7309a2e9e33ba32ff";
}
