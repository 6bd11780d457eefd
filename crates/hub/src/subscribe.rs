//! Subscriptions: carries out the decisions of the state machine in [`crate::subscription`], for
//! senders and receivers (RFC 6121 §3).

use std::borrow::Cow;

use rookery_fanout::{Link, Packet, StanzaType, To};
use rookery_jid::{Jid, JidRef};
use rookery_store::{Changed, StoreError};
use rookery_stream::error::Condition;
use rookery_xml::{Limits, Stanza, Writer, ns};
use tracing::warn;

use crate::World;
use crate::failure::condition;
use crate::session::{RosterInterest, SessionRef};
use crate::subscription::{self, Direction, Effects, SubscriptionEvent};
use crate::trace::Step;

impl World {
    /// Handles a subscription stanza from a session: its sender is the account (§3.1.2), whose
    /// state is changed before it goes out.
    pub(crate) fn subscription_from(&mut self, link: Link, stanza: Stanza<'_>, type_: StanzaType, to: JidRef<'_>) {
        let Some(owner) = self.outboxes.address(link).map(Jid::to_bare) else { return };
        let contact = to.bare().to_jid();
        if contact == owner {
            // A user always sees their own resources (§4.2.2).
            return self.refuse(link, stanza, Condition::NotAllowed.into());
        }
        if self.is_anonymous(owner.domain()) {
            // XEP-0175 §3: an account of one session gets nothing that lasts longer than the
            // session.
            return self.refuse(link, stanza, Condition::NotAllowed.into());
        }
        let Some(packet) = self.stamp_as(link, stanza, type_, owner.as_ref()) else { return };
        let Some(seen) = self.stamp(link, stanza, type_) else { return };
        if self.leaving(link, &seen, contact.as_ref()).is_none() {
            return;
        }
        let Some(session) = self.reference(link) else { return };
        let changed =
            self.change(&owner, &contact, SubscriptionEvent { direction: Direction::Out, type_, stanza: Vec::new() });
        self.wait_in_order(session, changed, move |world, changed| match changed {
            Ok(changed) => world.subscription_sent(&packet, &owner, &contact, &changed),
            Err(error) => {
                world.store_failed("changing a subscription", &owner, &error);
                world.bounce(&packet, contact.as_ref(), condition(&error).into());
            }
        });
    }

    fn subscription_sent(&mut self, packet: &Packet, owner: &Jid, contact: &Jid, changed: &Changed) {
        let has_no_place = match packet.type_() {
            StanzaType::Subscribe => changed.after.as_ref().is_none_or(|item| !item.visible()),
            // If the request is still pending, the roster had no room to make the user who sent it
            // a contact.
            StanzaType::Subscribed => changed.after.as_ref().is_some_and(|item| item.pending_in.is_some()),
            _ => false,
        };
        if has_no_place {
            self.sight(packet, contact.as_ref(), Step::Noted, || "the sender's roster has no room for it".into());
            return self.bounce(packet, contact.as_ref(), Condition::ResourceConstraint.into());
        }
        self.roster_changed(owner, contact, changed);
        let effects = Effects::of(Direction::Out, packet.type_(), changed.before.as_ref(), changed.after.as_ref());
        if effects.pass {
            self.route(packet, contact.as_ref());
        } else {
            self.sight(packet, contact.as_ref(), Step::Stopped, || {
                "it doesn't change the sender's subscription (RFC 6121, Appendix A.2)".into()
            });
        }
        self.carry_out(effects, owner, contact);
    }

    /// Handles a subscription stanza for an account, at its home.
    pub(crate) fn subscription_for(&mut self, packet: &Packet, owner: JidRef<'_>) {
        let Some(contact) = packet.sender().map(|from| from.to_bare()) else { return };
        let owner = owner.to_jid();
        let is_request = packet.type_() == StanzaType::Subscribe;
        let stanza = if is_request { request(Some(&packet.stanza()), &contact, &owner) } else { Vec::new() };
        let event = SubscriptionEvent { direction: Direction::In, type_: packet.type_(), stanza };
        let hold = self.hold(owner.as_ref());
        let changed = self.change(&owner, &contact, event);
        let packet = packet.clone();
        self.wait(changed, move |world, changed| {
            match changed {
                Ok(changed) => world.subscription_received(&packet, &owner, &contact, &changed),
                // RFC 6121 §8.5.1: for an account that does not exist it is silently ignored.
                Err(StoreError::NoAccount) => world.sight(&packet, owner.as_ref(), Step::Stopped, || {
                    "there is no such account (RFC 6121 §8.5.1)".into()
                }),
                Err(error) => {
                    world.store_failed("changing a subscription", &owner, &error);
                    world.bounce(&packet, owner.as_ref(), condition(&error).into());
                }
            }
            if let Some(hold) = hold {
                world.release(hold);
            }
        });
    }

    fn subscription_received(&mut self, packet: &Packet, owner: &Jid, contact: &Jid, changed: &Changed) {
        let effects = Effects::of(Direction::In, packet.type_(), changed.before.as_ref(), changed.after.as_ref());
        if effects.pass {
            // A request concerns every online resource (§3.1.3), an answer those that follow the
            // roster (§3.1.6).
            let is_request = packet.type_() == StanzaType::Subscribe;
            for link in self.links_of(owner.as_ref()) {
                let Some(session) = self.session_at(link) else { continue };
                if if is_request { session.is_available() } else { session.interest != RosterInterest::Unasked } {
                    self.push(link, packet, To::Bare);
                }
            }
            self.sight(packet, owner.as_ref(), Step::Noted, || {
                "the roster has it now, and the connected resources are notified".into()
            });
        } else {
            self.sight(packet, owner.as_ref(), Step::Stopped, || {
                "it doesn't change the recipient's subscription (RFC 6121, Appendix A.3)".into()
            });
        }
        self.roster_changed(owner, contact, changed);
        self.carry_out(effects, owner, contact);
    }

    fn carry_out(&mut self, effects: Effects, owner: &Jid, contact: &Jid) {
        if effects.approve {
            self.send_subscription("subscribed", owner, contact);
        }
        if effects.show {
            self.show_resources_to(owner, contact.as_ref());
        }
        if effects.hide {
            self.hide_resources_from(owner, contact.as_ref());
        }
    }

    /// Sends a subscription stanza in the name of an account.
    pub(crate) fn send_subscription(&mut self, type_: &str, owner: &Jid, contact: &Jid) {
        let mut presence = Writer::new("presence");
        presence.attr("type", type_).attr("from", owner.as_str());
        self.route_built(&presence.finish(), contact);
    }

    /// Shows a resource that has just become available the requests that wait for an answer
    /// (§3.1.3).
    pub(crate) fn show_requests(&mut self, link: Link) {
        let Some(owner) = self.outboxes.address(link).map(Jid::to_bare) else { return };
        let Some(session) = self.reference(link) else { return };
        if self.is_anonymous(owner.domain()) {
            return;
        }
        let pending = self.stores.rosters.pending_in(owner.as_ref(), None, PORTION);
        self.wait_in_order(session, pending, move |world, pending| world.show_portion(session, owner, pending));
    }

    /// Gives a session some of the requests, and loads the next when it has read them.
    fn show_portion(&mut self, session: SessionRef, owner: Jid, pending: Result<Vec<(Jid, Vec<u8>)>, StoreError>) {
        let pending = match pending {
            Ok(pending) => pending,
            Err(error) => return self.store_failed("loading subscription requests", &owner, &error),
        };
        for (contact, stanza) in &pending {
            if !self.session(session).is_some_and(|found| found.is_available()) {
                return;
            }
            // Earlier versions kept requests as they came.
            match Packet::from_bytes(&request(read_stored(stanza).as_ref(), contact, &owner)) {
                Ok(packet) => _ = self.push_paced(session.link, &packet, To::Bare),
                Err(fault) => warn!(account = %owner, %contact, ?fault, "a stored request is damaged"),
            }
        }
        if let Some((last, _)) = pending.into_iter().nth(PORTION - 1) {
            self.when_room(session, move |world| {
                let pending = world.stores.rosters.pending_in(owner.as_ref(), Some(last), PORTION);
                world.wait(pending, move |world, pending| world.show_portion(session, owner, pending));
            });
        }
    }

    fn change(&self, owner: &Jid, contact: &Jid, event: SubscriptionEvent) -> rookery_store::Pending<Changed> {
        let (limits, jid) = (self.catalogue.settings.roster, contact.clone());
        let edit = move |item: Option<&rookery_store::RosterItem>, size: rookery_store::SizeOf<'_>| {
            subscription::edit(&event, &jid, &limits, item, size)
        };
        self.stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(edit))
    }
}

/// Returns a request from the store; `None` if it is damaged.
fn read_stored(stanza: &[u8]) -> Option<Stanza<'_>> {
    Stanza::parse(stanza, &Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN }).ok()
}

/// Returns the part of a request that is stored until it is answered: its sender, and its text for
/// the owner. Anything else could only be used to fill another user's store and slow down their
/// login.
fn request(asked: Option<&Stanza<'_>>, contact: &Jid, owner: &Jid) -> Vec<u8> {
    let short = |value: Option<Cow<'_, str>>| value.filter(|value| value.len() <= SHORT).map(Cow::into_owned);
    let mut request = Writer::new("presence");
    request.attr("type", "subscribe").attr("from", contact.as_str()).attr("to", owner.as_str());
    request.opt_attr("id", short(asked.and_then(Stanza::id)).as_deref());
    request.opt_attr("xml:lang", short(asked.and_then(Stanza::lang)).as_deref());
    if let Some(status) = asked.and_then(|asked| short_text(asked, "status", ns::CLIENT)) {
        request.text_child("status", &status);
    }
    if let Some(nick) = asked.and_then(|asked| short_text(asked, "nick", ns::NICK)) {
        request.start_ns("nick", ns::NICK).text(&nick).end();
    }
    request.finish().into_bytes()
}

/// Returns the beginning of the text of a child of a stanza, of at most [`STATUS`] bytes; `None` if
/// there is none.
pub(crate) fn short_text(stanza: &Stanza<'_>, name: &str, ns: &str) -> Option<String> {
    let mut text = stanza.child(name, ns)?.element().text();
    text.truncate(text.floor_char_boundary(STATUS));
    (!text.is_empty()).then_some(text)
}

/// Bytes that are kept of a status and of a nick.
const STATUS: usize = 1024;
/// Bytes of an id or a language that are kept: a longer one is ignored.
const SHORT: usize = 256;
/// Requests that are loaded at a time.
const PORTION: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_request_what_its_owner_needs_is_kept() {
        let (contact, owner) = (Jid::parse("a@x").unwrap(), Jid::parse("b@x").unwrap());
        let kept = |stanza: &str| {
            String::from_utf8(request(read_stored(stanza.as_bytes()).as_ref(), &contact, &owner)).unwrap()
        };
        let stanza = "<presence from='a@x' type='subscribe' id='1' xml:lang='de'><status>hi &amp; so on</status>\
             <nick xmlns='http://jabber.org/protocol/nick'>A</nick><x xmlns='urn:x'>x</x></presence>";
        let short = "<presence type='subscribe' from='a@x' to='b@x' id='1' xml:lang='de'><status>hi &amp; so on</status>\
             <nick xmlns='http://jabber.org/protocol/nick'>A</nick></presence>";
        assert_eq!(kept(stanza), short);
        assert_eq!(kept(short), short);
        let long = "ä".repeat(100_000);
        let stanza = format!("<presence from='a@x' type='subscribe' id='{long}'><status>{long}</status></presence>");
        assert_eq!(
            kept(&stanza).len(),
            "<presence type='subscribe' from='a@x' to='b@x'><status></status></presence>".len() + STATUS
        );
        assert_eq!(kept("damaged"), "<presence type='subscribe' from='a@x' to='b@x'/>");
    }
}
