//! Nodes whose items come from outside the chat, in the service `data.DOMAIN`: XEP-0060 for
//! readings of devices.
//!
//! # How it works
//!
//! The server attaches a [`DataSource`] to the service, which describes nodes and delivers their
//! items. A node is active while it has subscribers, at the home shard of its name: the first
//! subscriber opens it at the source, and it is closed when the last one leaves. An item from the
//! source becomes one packet, which goes to all subscribers by the fan-out engine.
//!
//! # Invariants
//!
//! * A user who may not use the service can't find out which nodes exist.
//! * No subscriber gets items of a node more often than the subscription says (`pace`); newer items
//!   replace those that haven't been sent.
//! * Items are headlines: they aren't stored for offline users. A subscription of a bare JID
//!   survives a restart; one of a full JID ends with its session.
//! * Operations of the store are carried out in the order in which they were requested, and memory
//!   is up to date at once.
//!
//! # Layout
//!
//! [`source`] is the seam, `joined` the attached source; `options` are the operator's; `state` is
//! a shard's memory, `subscriptions` the table of all shards' subscriptions; `subscribe`, `pace`
//! and `discovery` do the work; `load` finds the subscribers after a start; `speak` posts the
//! source's texts in rooms.

mod discovery;
mod joined;
mod load;
mod options;
mod pace;
pub mod source;
mod speak;
mod state;
mod subscribe;
mod subscriptions;

use rookery_fanout::{Link, Packet, StanzaType};
use rookery_hub::{Bound, Carry, Domain, Hooks, Iq, Module, OptionSpec, Options, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::request::is_get;
use rookery_stream::error::Condition;
use rookery_xml::{Kind, ns};

use crate::error::{specific, unsupported};
use crate::request::{PubsubCall, RequestAction};
pub use joined::Data;
use options::{BOUNDS, NAME, OPTIONS, lets_in};
pub use pace::deliver;
pub use source::{DataListed, DataSource, Description, Reading, Topic};
pub use speak::say;
use speak::{RoomSay, RoomSpeakers, Speaker};
use state::{DataState, describe, home};
use subscribe::SubscriptionsOver;

/// The module that publishes the items of an outside source.
#[derive(Debug)]
pub struct DataService {
    data: Data,
}

impl DataService {
    /// Returns the module for one shard; `data` is the same for all shards.
    pub fn new(data: Data) -> Self {
        Self { data }
    }
}

impl Module for DataService {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users can subscribe to readings of devices ([dpm]), and alarms are announced in rooms"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0060", "1.30.0")]
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(DataState::new(self.data.clone()));
        hooks.state(RoomSpeakers::default());
        hooks.memo::<SubscriptionsOver>();
        hooks.memo::<RoomSay>();
        hooks.service(serve);
        hooks.starting(load::load);
        hooks.moved(load::moved);
        hooks.session_ended(session_ended);
        hooks.session_carried(stays, |_, _, _| {});
        hooks.account_removed(|world, account| {
            if world.state::<DataState>().data.subscriptions.has(account) {
                tell_all(world, &account.to_jid(), false);
            }
        });
    }
}

/// Keeps sessions that get readings from continuing in another process, which doesn't know their
/// subscriptions.
fn stays(world: &World, link: Link) -> Carry {
    let subscriptions = &world.state::<DataState>().data.subscriptions;
    let has_any = subscriptions.has_sessions();
    let has_any = has_any && world.address(link).is_some_and(|address| subscriptions.has_session(address));
    if has_any { Carry::Impossible } else { Carry::Nothing }
}

fn session_ended(world: &mut World, link: Link) {
    let subscriptions = &world.state::<DataState>().data.subscriptions;
    if !subscriptions.has_sessions() {
        return;
    }
    let address = world.address(link).filter(|address| subscriptions.has_session(address));
    if let Some(address) = address.cloned() {
        tell_all(world, &address, true);
    }
}

fn tell_all(world: &mut World, subscriber: &Jid, is_session: bool) {
    for shard in 0..world.shards() {
        world.send_memo(shard, SubscriptionsOver { subscriber: subscriber.clone(), is_session });
    }
}

/// Dispatches a stanza for the service.
fn serve(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    let Some(from) = packet.sender() else { return };
    if to.resource() == Some(speak::RESOURCE) {
        let home = world.home_of(from.bare());
        match home == world.shard() {
            true => Speaker::heard(world, packet, &from, to),
            false => world.route_to_service(home, packet, to),
        }
        return;
    }
    if !matches!((packet.kind(), packet.type_()), (Kind::Iq, StanzaType::Get | StanzaType::Set)) {
        return;
    }
    let Some(iq) = Iq::read(packet.stanza(), from, to.to_jid(), None) else {
        return world.bounce(packet, to, Condition::BadRequest.into());
    };
    let Some(options) = domain.module(NAME).filter(|_| to.is_domain()) else {
        return world.reply_error(&iq, Condition::ItemNotFound);
    };
    let node = iq.payload.attr("node").filter(|node| !node.is_empty()).map(str::to_owned);
    match iq.payload.ns() {
        ns::DISCO_INFO if is_get(world, &iq, "query") => match node {
            Some(node) if !is_at_home(world, packet, to, &node) => {}
            Some(node) => discovery::node_info(world, &iq, &node, options),
            None => discovery::service_info(world, &iq, options),
        },
        ns::DISCO_ITEMS if is_get(world, &iq, "query") => match node {
            Some(node) if !is_at_home(world, packet, to, &node) => {}
            Some(node) => discovery::node_items(world, &iq, &node, options),
            None => discovery::service_items(world, &iq, options),
        },
        ns::DISCO_INFO | ns::DISCO_ITEMS => {}
        ns::PUBSUB | ns::PUBSUB_OWNER => match RequestAction::read(&iq) {
            Ok(action) if action.node().is_none_or(|node| is_at_home(world, packet, to, node)) => {
                run(world, PubsubCall { iq, relation: None }, action, options);
            }
            Ok(_) => {}
            Err(error) => world.reply_error(&iq, error),
        },
        _ => world.reply_error(&iq, Condition::ServiceUnavailable),
    }
}

/// Returns whether a node is at home on this shard; if not, the stanza goes to its home.
fn is_at_home(world: &mut World, packet: &Packet, to: JidRef<'_>, node: &str) -> bool {
    let home = home(world, to.domain(), node);
    if home != world.shard() {
        world.route_to_service(home, packet, to);
    }
    home == world.shard()
}

/// Carries out a request, at the home of the node that it is about.
fn run(world: &mut World, call: PubsubCall, action: RequestAction, options: &Options) {
    match action {
        RequestAction::Subscriptions { node } => subscribe::list_own(world, &call, node.as_deref()),
        RequestAction::Affiliations { node } => subscribe::affiliations(world, &call, node.as_deref()),
        RequestAction::DefaultOptions => subscribe::default_options(world, &call, options),
        _ if !lets_in(world, options, &call.iq.from) => {
            // §6.1.3.4, and the same for all requests about a node, so that the existing ones
            // aren't revealed.
            call.refuse(world, specific(Condition::NotAllowed, "closed-node"));
        }
        RequestAction::Subscribe { node, jid, options: form } => {
            subscribe::subscribe(world, call, &node, jid, form.as_ref(), options);
        }
        RequestAction::Unsubscribe { node, jid } => subscribe::unsubscribe(world, call, &node, jid),
        RequestAction::Options { node, jid } => subscribe::options(world, &call, &node, &jid, options),
        RequestAction::SetOptions { node, jid, form } => {
            subscribe::set_options(world, call, &node, jid, &form, options);
        }
        RequestAction::Items { node, ids, .. } => discovery::items(world, &call, &node, &ids),
        // Nodes exist by themselves, and only the source publishes.
        RequestAction::Create { .. } => call.refuse(world, unsupported("create-nodes")),
        RequestAction::DefaultConfiguration => call.refuse(world, unsupported("config-node")),
        other => match other.node().map(|node| describe(world, &call.iq, node)) {
            Some(Err(error)) => call.refuse(world, error),
            _ => call.refuse(world, Condition::Forbidden),
        },
    }
}
