//! The effect of an account's rules on incoming and outgoing stanzas (XEP-0191 §3.3, XEP-0016
//! §2.13).

use std::rc::Rc;

use rookery_fanout::{Link, Packet, StanzaType, To};
use rookery_hub::{Delivery, Document, Exported, Passage, Step, World};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::{Condition, ErrorType, StanzaError};
use rookery_xml::{Element, Kind, Writer, ns};

use super::rules::{Acquaintance, PassingStanza, PrivacyList, PrivacyRules};
use super::sessions::PrivacySessions;

impl Document for PrivacyRules {
    const NAME: &'static str = "privacy";
    const EXPORT: Exported = Exported::Element { name: "query", ns: ns::PRIVACY };
    const MAY_CONCEAL: bool = true;

    fn read(bytes: &[u8]) -> Option<Self> {
        PrivacyRules::read(bytes)
    }

    fn needs_roster(&self) -> bool {
        self.need_roster()
    }

    fn may_reach(&self, world: &World, link: Link, packet: &Packet) -> bool {
        may_reach(world, self, link, packet)
    }

    fn conceals(&self, world: &World, link: Option<Link>, owner: JidRef<'_>, contact: JidRef<'_>) -> bool {
        conceals(world, self, link, owner, contact)
    }
}

/// Filters a stanza that a session sends. One to a blocked address gets an error, if its kind gets
/// replies at all.
pub(crate) fn going(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    let Some(sender) = packet.sender() else { return Delivery::Pass };
    let Some(rules) = world.document::<PrivacyRules>(sender.bare()) else { return Delivery::Pass };
    let list = world.state::<PrivacySessions>().list_for(&rules, sender.as_ref());
    let passing = match (packet.kind(), packet.type_()) {
        (Kind::Presence, StanzaType::Available | StanzaType::Unavailable) => PassingStanza::PresenceOut,
        _ => PassingStanza::Other,
    };
    if list.is_none_or(|list| !denies(world, list, sender.as_ref(), to, passing)) {
        return Delivery::Pass;
    }
    world.sight(packet, to, Step::Refused, || {
        let name = list.map(|list| list.name.as_str()).unwrap_or_default();
        format!("{} blocks {to} itself (XEP-0191), or has a rule against it: list \"{name}\" (XEP-0016)", sender.bare())
    });
    refuse_going(world, packet, sender.as_ref(), to);
    Delivery::Taken
}

/// Filters a stanza for an account, or for one of its sessions.
pub(crate) fn coming(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    let Some(sender) = packet.sender() else { return Delivery::Pass };
    let Some(rules) = world.document::<PrivacyRules>(to) else { return Delivery::Pass };
    let stops = |sender: &Jid| is_stopped(world, &rules, packet, sender.as_ref(), to);
    if !stops(&sender) {
        let Some(behind) = behind(packet).filter(|behind| stops(behind)) else { return Delivery::Pass };
        world.sight(packet, to, Step::Stopped, || {
            format!("{} blocks {behind}, on whose behalf the room sends this (XEP-0191, XEP-0016)", to.bare())
        });
        return Delivery::Taken;
    }
    world.sight(packet, to, Step::Noted, || {
        let name =
            world.state::<PrivacySessions>().list_for(&rules, to).map(|list| list.name.as_str()).unwrap_or_default();
        format!("{} blocks {sender} (XEP-0191), or has a rule against it: list \"{name}\" (XEP-0016)", to.bare())
    });
    // XEP-0191 §3.3. A room would take an error for the occupant's departure, though only another
    // occupant may be blocked.
    let is_answered =
        matches!(packet.type_(), StanzaType::Normal | StanzaType::Chat | StanzaType::Get | StanzaType::Set);
    if is_answered {
        world.bounce(packet, to, Condition::ServiceUnavailable.into());
    }
    Delivery::Taken
}

/// Returns whether a stanza for a bare JID may reach this session, which may have a list of its
/// own.
fn may_reach(world: &World, rules: &PrivacyRules, link: Link, packet: &Packet) -> bool {
    let (Some(sender), Some(address)) = (packet.sender(), world.address(link)) else { return true };
    let Some(list) = world.state::<PrivacySessions>().list_for(rules, address.as_ref()) else { return true };
    let mut senders = [Some(sender), behind(packet)].into_iter().flatten();
    !senders.any(|sender| denies(world, list, address.bare(), sender.as_ref(), coming_as(packet)))
}

/// Returns the user behind a room's message: an invitation, or a declined one (XEP-0045 §7.8.2).
/// Rules against a user must not be evaded through a room.
fn behind(packet: &Packet) -> Option<Jid> {
    if (packet.kind(), packet.type_()) != (Kind::Message, StanzaType::Normal) {
        return None;
    }
    let stanza = packet.stanza();
    let user = stanza.child("x", ns::MUC_USER)?.element();
    let said = user.child("invite", ns::MUC_USER).or_else(|| user.child("decline", ns::MUC_USER))?;
    Jid::parse(said.attr("from")?).ok()
}

/// Returns whether an account, or one of its sessions, conceals its presence from a contact.
fn conceals(world: &World, rules: &PrivacyRules, link: Option<Link>, owner: JidRef<'_>, contact: JidRef<'_>) -> bool {
    let address = link.and_then(|link| world.address(link));
    let list = world.state::<PrivacySessions>().list_for(rules, address.map_or(owner, |address| address.as_ref()));
    list.is_some_and(|list| denies(world, list, owner, contact, PassingStanza::PresenceOut))
}

/// Returns whether a list of an account stops a stanza from or to a contact. Stanzas between an
/// account and its server always pass.
pub(crate) fn denies(
    world: &World,
    list: &PrivacyList,
    owner: JidRef<'_>,
    contact: JidRef<'_>,
    passing: PassingStanza,
) -> bool {
    denies_known(list, owner, contact, passing, || acquaintance(world, owner, contact))
}

/// Returns whether a list denies a contact, given the contact's entry in the roster.
pub(crate) fn denies_known(
    list: &PrivacyList,
    owner: JidRef<'_>,
    contact: JidRef<'_>,
    passing: PassingStanza,
    known: impl FnOnce() -> Acquaintance,
) -> bool {
    let is_own_server = contact.is_domain() && contact.domain() == owner.domain();
    let is_own = contact.bare_str() == owner.bare_str();
    !is_own && !is_own_server && list.denies(contact, passing, known)
}

/// Returns whether a stanza is stopped: one for a bare JID only if no session may have it; the
/// sessions that may are chosen one by one.
fn is_stopped(world: &World, rules: &Rc<PrivacyRules>, packet: &Packet, sender: JidRef<'_>, to: JidRef<'_>) -> bool {
    let (passing, sessions) = (coming_as(packet), world.state::<PrivacySessions>());
    let stops = |address: JidRef<'_>| {
        sessions.list_for(rules, address).is_some_and(|list| denies(world, list, to, sender, passing))
    };
    if to.resource().is_some() || !world.is_screened(to) {
        return stops(to);
    }
    let links = world.links_of(to);
    let mut addresses = links.iter().filter_map(|&link| world.address(link));
    addresses.all(|address| stops(address.as_ref()))
}

fn coming_as(packet: &Packet) -> PassingStanza {
    match (packet.kind(), packet.type_()) {
        (Kind::Message, _) => PassingStanza::Message,
        (Kind::Iq, _) => PassingStanza::Iq,
        (Kind::Presence, StanzaType::Available | StanzaType::Unavailable) => PassingStanza::PresenceIn,
        _ => PassingStanza::Other,
    }
}

/// Returns the roster's data about a contact, including groups of the operator; if the roster isn't
/// in memory, the same as for an unknown contact.
pub(crate) fn acquaintance(world: &World, owner: JidRef<'_>, contact: JidRef<'_>) -> Acquaintance {
    let own = world.roster_item(owner, contact).cloned();
    let item = world.join_parts(owner, &contact.bare().to_jid(), own);
    item.map(|item| Acquaintance { subscription: item.subscription, groups: item.groups.into() }).unwrap_or_default()
}

/// Tells a session that its stanza wasn't delivered. The error bypasses the queue of the session's
/// account, in which it would count as sent by the blocked address.
fn refuse_going(world: &mut World, packet: &Packet, sender: JidRef<'_>, to: JidRef<'_>) {
    let kind = match (packet.kind(), packet.type_()) {
        (_, StanzaType::Error | StanzaType::Result | StanzaType::Unavailable | StanzaType::Probe) => return,
        (Kind::Message, _) => "message",
        (Kind::Presence, _) => "presence",
        _ => "iq",
    };
    let mut links = world.links_of(sender).into_iter();
    let Some(link) = links.find(|&link| world.address(link).is_some_and(|own| *own == sender)) else { return };
    let mut reply = Writer::new(kind);
    reply.attr("type", "error").opt_attr("id", packet.id().as_deref()).attr("from", to.as_str());
    let blocked = Element::new("blocked", ns::BLOCKING_ERRORS);
    let error = StanzaError::new(Condition::NotAcceptable).with_type(ErrorType::Cancel).with_application(blocked);
    error.write(&mut reply);
    if let Ok(packet) = Packet::from_built(&reply.finish()) {
        world.counters.errors += 1;
        world.push(link, &packet, To::Full);
    }
}
