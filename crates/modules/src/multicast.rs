//! XEP-0033: Extended Stanza Addressing. A service `multicast.DOMAIN` to which a client or another
//! server sends one stanza for many recipients.
//!
//! # Layout
//!
//! This file: the module, its options, and the replies of the service. [`untrusted`]: the checks of
//! a stanza from outside, in their order. `limits`: the numbers of recipients. `originators`:
//! remote senders of presence. [`discovery`]: the multicast services of other servers. The delivery
//! itself is the hub's trusted route and the plan of the fan-out engine.
//!
//! # Invariants
//!
//! * A stanza that any check refuses is not delivered at all.
//! * A shard handles the stanzas that arrive on it; there is no process, queue or lock that all
//!   multicasts pass.
//! * The service sends nothing to itself, nor to a domain of this server.
//!
//! The service shows the feature, not the domain, although the domain also accepts stanzas with a
//! header: the limits depend on the asker, and a domain's service discovery information must be
//! the same for all (XEP-0115).

pub mod discovery;
mod limits;
mod originators;
pub mod untrusted;

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Bound, Domain, Hooks, Iq, Module, Most, OptionSpec, Per, Phase, Unit, Value, World};
use rookery_jid::JidRef;
use rookery_modkit::disco::{DiscoIdentity, Info, reply_items};
use rookery_modkit::option;
use rookery_modkit::request::is_get;
use rookery_stream::error::Condition;
use rookery_xml::{Kind, ns};

use discovery::Discovery;
pub(crate) use limits::NAME;
use originators::Originators;

/// The module that passes one stanza on to the many addresses in its header.
#[derive(Debug)]
pub struct MulticastModule;

impl Module for MulticastModule {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "clients and other servers can send one stanza to many recipients"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0033", "1.2.1")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(Discovery::default());
        hooks.state(Originators::default());
        hooks.state(limits::Spent::default());
        hooks.service(serve);
        hooks.to_domain(Phase::Act, untrusted::for_domain);
        hooks.remote_service(discovery::find);
    }
}

const OPTIONS: [OptionSpec; 10] = [
    OptionSpec {
        key: "host",
        default: || Value::Text("multicast.@".to_owned()),
        doc: "the address of the service; @ stands for the domain",
        check: option::host,
    },
    OptionSpec {
        key: "name",
        default: || Value::Text("Multicast".to_owned()),
        doc: "its name in lists of services",
        check: option::any,
    },
    OptionSpec {
        key: "access",
        default: || Value::List(vec!["all".to_owned()]),
        doc: "who may use it: \"all\", \"local\" (users of this server, without those of anonymous domains), domains, or addresses such as \"news@example.org\"",
        check: option::access_list,
    },
    limit(limits::LOCAL_MESSAGES, 100, "recipients of one message from a user of this server; 0 means no limit"),
    limit(limits::LOCAL_PRESENCES, 100, "recipients of one presence from a user of this server; 0 means no limit"),
    limit(limits::REMOTE_MESSAGES, 20, "recipients of one message from elsewhere; 0 means no limit"),
    limit(limits::REMOTE_PRESENCES, 20, "recipients of one presence from elsewhere; 0 means no limit"),
    OptionSpec {
        key: limits::MINUTE_BYTES,
        default: || Value::Number(64 << 20),
        doc: "bytes of messages, times their recipients, that one sender may send in a minute; 0 means no limit",
        check: option::any,
    },
    OptionSpec {
        key: "description",
        default: || Value::Text("Sends one stanza to many recipients.".to_owned()),
        doc: "the description in its vCard",
        check: option::any,
    },
    OptionSpec {
        key: "url",
        default: || Value::Text(String::new()),
        doc: "the web page in its vCard; empty for none",
        check: option::any,
    },
];

const BOUNDS: [Bound; 5] = [
    recipients("recipients of a message from here", limits::LOCAL_MESSAGES),
    recipients("recipients of a presence from here", limits::LOCAL_PRESENCES),
    recipients("recipients of a message from elsewhere", limits::REMOTE_MESSAGES),
    recipients("recipients of a presence from elsewhere", limits::REMOTE_PRESENCES),
    Bound::on(
        "bytes of messages, times their recipients",
        Per::Other("account, or other domain"),
        Most::Option(limits::MINUTE_BYTES),
        Unit::BytesPerMinute,
    )
    .or("the sender gets <resource-constraint/>"),
];

const fn recipients(resource: &'static str, key: &'static str) -> Bound {
    Bound::on(resource, Per::Stanza, Most::Option(key), Unit::Number).or("the sender gets <not-acceptable/>")
}

const fn limit(key: &'static str, default: u64, doc: &'static str) -> OptionSpec {
    // A function pointer can't hold the number.
    let default = match default {
        20 => || Value::Number(20),
        _ => || Value::Number(100),
    };
    OptionSpec { key, default, doc, check: option::any }
}

/// Dispatches a stanza for the service.
fn serve(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    if !to.is_domain() {
        // §3: the outer stanza goes to the service itself, which has neither users nor resources.
        return world.bounce(packet, to, Condition::ItemNotFound.into());
    }
    match (packet.kind(), packet.type_()) {
        (Kind::Iq, StanzaType::Get | StanzaType::Set) => asked(world, packet, to, domain),
        (Kind::Iq, StanzaType::Result | StanzaType::Error) => {
            discovery::answered(world, packet, to);
        }
        _ => untrusted::handle(world, packet, to, domain),
    }
}

/// Takes a request to the service.
fn asked(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    let Some(from) = packet.sender() else { return };
    let Some(iq) = Iq::read(packet.stanza(), from, to.to_jid(), None) else {
        return world.bounce(packet, to, Condition::BadRequest.into());
    };
    match iq.payload.ns() {
        ns::DISCO_INFO if is_get(world, &iq, "query") => info(world, &iq, domain),
        ns::DISCO_ITEMS if is_get(world, &iq, "query") => match iq.payload.attr("node") {
            Some(node) if !node.is_empty() => world.reply_error(&iq, Condition::ItemNotFound),
            _ => reply_items(world, &iq, &[]),
        },
        ns::VCARD if is_get(world, &iq, "vCard") => vcard(world, &iq, domain),
        ns::DISCO_INFO | ns::DISCO_ITEMS | ns::VCARD => {}
        _ => world.reply_error(&iq, Condition::ServiceUnavailable),
    }
}

fn info(world: &mut World, iq: &Iq, domain: &Domain) {
    if iq.payload.attr("node").is_some_and(|node| !node.is_empty()) {
        return world.reply_error(iq, Condition::ItemNotFound);
    }
    let Some(options) = domain.module(NAME) else { return };
    let identity = DiscoIdentity { category: "service", type_: "multicast", name: Some(options.text("name")) };
    let form = limits::form(options, world.is_ours(iq.from.domain()));
    let info = Info { identity, more: &[], features: FEATURES.to_vec(), forms: vec![form] };
    let mut reply = iq.result();
    info.write(&mut reply, None);
    world.reply(iq, reply);
}

/// Replies with the vCard of the service (XEP-0054 §3.1).
fn vcard(world: &mut World, iq: &Iq, domain: &Domain) {
    let Some(options) = domain.module(NAME) else { return };
    let mut reply = iq.result();
    reply.start_ns("vCard", ns::VCARD).text_child("FN", options.text("name"));
    if !options.text("url").is_empty() {
        reply.text_child("URL", options.text("url"));
    }
    reply.text_child("DESC", options.text("description"));
    world.reply(iq, reply);
}

/// The features, sorted.
const FEATURES: [&str; 4] = [ns::ADDRESS, ns::DISCO_INFO, ns::DISCO_ITEMS, ns::VCARD];
