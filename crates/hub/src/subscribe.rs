//! Subscriptions: carries out what the state machine of [`crate::subscription`] says, for senders and receivers (RFC 6121 §3).

use rookery_fanout::{Link, Packet, StanzaType, To};
use rookery_jid::{Jid, JidRef};
use rookery_store::{Changed, StoreError};
use rookery_stream::error::Condition;
use rookery_xml::{Stanza, Writer};
use tracing::warn;

use crate::World;
use crate::roster::condition;
use crate::subscription::{self, Direction, Effects, Event};

impl World {
    /// A subscription stanza from a session: its sender is the account (§3.1.2), its state is changed before it goes out.
    pub(crate) fn subscription_from(&mut self, link: Link, stanza: Stanza<'_>, type_: StanzaType, to: JidRef<'_>) {
        let Some(owner) = self.outboxes.address(link).map(Jid::to_bare) else { return };
        let contact = to.bare().to_jid();
        if contact == owner {
            // Everybody sees the own resources anyway (§4.2.2).
            return self.refuse(link, stanza, Condition::NotAllowed.into());
        }
        let Some(packet) = self.stamp_as(link, stanza, type_, owner.as_ref()) else { return };
        let Some(seen) = self.stamp(link, stanza, type_) else { return };
        if self.leaving(link, &seen, contact.as_ref()).is_none() {
            return;
        }
        let Some(session) = self.reference(link) else { return };
        let changed = self.change(&owner, &contact, Event { direction: Direction::Out, type_, stanza: Vec::new() });
        self.wait_in_lane(session, changed, move |world, changed| match changed {
            Ok(changed) => world.subscription_sent(&packet, &owner, &contact, &changed),
            Err(error) => {
                world.store_failed("changing a subscription", &owner, &error);
                world.bounce(&packet, contact.as_ref(), condition(&error).into());
            }
        });
    }

    fn subscription_sent(&mut self, packet: &Packet, owner: &Jid, contact: &Jid, changed: &Changed) {
        if packet.type_() == StanzaType::Subscribe && changed.after.is_none() {
            return self.bounce(packet, contact.as_ref(), Condition::ResourceConstraint.into());
        }
        self.roster_changed(owner, contact, changed);
        let effects = Effects::of(Direction::Out, packet.type_(), changed.before.as_ref(), changed.after.as_ref());
        if effects.pass {
            self.route(packet, contact.as_ref());
        }
        self.carry_out(effects, owner, contact);
    }

    /// A subscription stanza for an account, at its home.
    pub(crate) fn subscription_for(&mut self, packet: &Packet, owner: JidRef<'_>) {
        let Some(contact) = packet.sender().map(|from| from.to_bare()) else { return };
        let owner = owner.to_jid();
        let is_request = packet.type_() == StanzaType::Subscribe;
        let stanza = if is_request { packet.addressed(owner.as_str()) } else { Vec::new() };
        let event = Event { direction: Direction::In, type_: packet.type_(), stanza };
        let hold = self.hold(owner.as_ref());
        let changed = self.change(&owner, &contact, event);
        let packet = packet.clone();
        self.wait(changed, move |world, changed| {
            match changed {
                Ok(changed) => world.subscription_received(&packet, &owner, &contact, &changed),
                // RFC 6121 §8.5.1: for an account that does not exist it is silently ignored.
                Err(StoreError::NoAccount) => {}
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
            // A request concerns everybody who is there (§3.1.3), an answer those who follow the roster (§3.1.6).
            let is_request = packet.type_() == StanzaType::Subscribe;
            for link in self.links_of(owner.as_ref()) {
                let Some(session) = self.session_at(link) else { continue };
                if if is_request { session.is_available() } else { session.interested } {
                    self.push(link, packet, To::Bare);
                }
            }
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
        self.send(&presence.finish(), contact);
    }

    /// The requests that wait for an answer, for a resource that has just become available (§3.1.3).
    pub(crate) fn show_requests(&mut self, link: Link) {
        let Some(owner) = self.outboxes.address(link).map(Jid::to_bare) else { return };
        let Some(session) = self.reference(link) else { return };
        let pending = self.stores.rosters.pending_in(owner.as_ref());
        self.wait_in_lane(session, pending, move |world, pending| match pending {
            Ok(pending) => {
                for (contact, stanza) in pending {
                    match Packet::scanned(&stanza) {
                        Ok(packet) if world.session(session).is_some_and(|found| found.is_available()) => {
                            world.push(session.link, &packet, To::Bare);
                        }
                        Ok(_) => {}
                        Err(fault) => warn!(account = %owner, %contact, ?fault, "a stored request is damaged"),
                    }
                }
            }
            Err(error) => world.store_failed("loading subscription requests", &owner, &error),
        });
    }

    fn change(&self, owner: &Jid, contact: &Jid, event: Event) -> rookery_store::Pending<Changed> {
        let limit = self.settings.roster.items;
        let jid = contact.clone();
        let edit = move |item: Option<&rookery_store::RosterItem>, items: usize| {
            subscription::edit(event, jid, limit, item, items)
        };
        self.stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(edit))
    }
}
