//! Replies to requests that come to this server: for a domain or on behalf of an account (RFC 6121
//! §8.5.2.1.3).

use rookery_fanout::{Packet, StanzaType};
use rookery_jid::Jid;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Built, Writer, ns};
use tracing::warn;

use crate::World;
use crate::iq::Iq;
use crate::module::{Guest, Target};
use crate::trace::Step;

impl World {
    /// Sends a reply to the sender of a request.
    pub fn reply(&mut self, iq: &Iq, reply: Writer) {
        self.route_built(&reply.finish(), &iq.from);
    }

    /// Replies to a request with success and nothing else.
    pub fn reply_done(&mut self, iq: &Iq) {
        self.reply(iq, iq.result());
    }

    /// Replies to a request with an error.
    pub fn reply_error(&mut self, iq: &Iq, error: impl Into<StanzaError>) {
        let reply = self.refusal(iq, error);
        self.reply(iq, reply);
    }

    /// Returns an error as the reply to a request, and counts it.
    pub(crate) fn refusal(&mut self, iq: &Iq, error: impl Into<StanzaError>) -> Writer {
        let error = error.into();
        self.sight_iq(iq, Step::Refused, || {
            let text = error.text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            format!("its sender gets <{}/>{text}", error.condition.name())
        });
        self.counters.errors += 1;
        let mut reply = iq.reply("error");
        error.write(&mut reply);
        reply
    }

    /// Sends a stanza that the server wrote, in the name that its `from` says.
    pub fn route_built(&mut self, built: &Built, to: &Jid) {
        match Packet::from_built(built) {
            Ok(packet) => self.route(&packet, to.as_ref()),
            Err(fault) => warn!(?fault, "the server wrote a stanza that its own scanner refuses"),
        }
    }

    /// Replies to a request that comes to this server or to an account.
    pub(crate) fn answer(&mut self, iq: Iq) {
        let target = if iq.to.is_domain() { Target::Server } else { Target::Account };
        let is_own = iq.is_own();
        self.sight_iq(&iq, Step::Answered, || {
            let whose = if target == Target::Server { "the server" } else { "the account" };
            format!("by {whose}, for <{} xmlns='{}'/>", iq.payload.name(), iq.payload.ns())
        });
        if let Some(component) = self.delegate_of(&iq) {
            self.sight_iq(&iq, Step::Goes, || format!("to the component {component}, which answers for it (XEP-0355)"));
            return self.delegate(&component, iq);
        }
        match iq.payload.ns() {
            ns::ROSTER if target == Target::Account && is_own => return self.roster(iq),
            ns::ROSTER if target == Target::Account && self.privileges(&iq.from).is_some() => {
                return self.roster_for_component(iq);
            }
            // RFC 6121 §2.1.5: the reply is the same whether the account exists or not, so it
            // reveals nothing.
            ns::ROSTER if target == Target::Account && iq.set => return self.reply_error(&iq, Condition::Forbidden),
            // RFC 3921 §3: older clients ask for a session; RFC 6120 has no such step, so it does
            // nothing.
            ns::SESSION if iq.set => return self.reply_done(&iq),
            // One resource per stream (RFC 6120 §7.1).
            ns::BIND => return self.reply_error(&iq, Condition::NotAllowed),
            _ => {}
        }
        let domain = self.place_of(iq.to.domain()).and_then(|at| self.catalogue.settings.domains.get(at));
        match domain.and_then(|domain| self.catalogue.registry.iq(target, iq.payload.ns(), domain)) {
            Some((module, handler)) => {
                self.sight_iq(&iq, Step::Goes, || format!("to the module {module}"));
                self.call_module(module, |world| handler(world, iq));
            }
            None => {
                self.sight_iq(&iq, Step::Noted, || "no active module handles such requests".into());
                self.reply_error(&iq, Condition::ServiceUnavailable);
            }
        }
    }

    /// Handles a request for one of the domains, from a connection that has not logged in. Returns
    /// `false` if no module handles it.
    pub fn guest_iq(&mut self, guest: Guest, iq: Iq) -> bool {
        let domain = self.place_of(iq.to.domain()).and_then(|at| self.catalogue.settings.domains.get(at));
        match domain.and_then(|domain| self.catalogue.registry.guest_iq(iq.payload.ns(), domain)) {
            Some(handler) => {
                handler(self, guest, iq);
                true
            }
            None => false,
        }
    }

    /// Replies to a connection that has not logged in.
    pub fn reply_to_guest(&mut self, guest: Guest, reply: Writer) {
        self.out.events.push_back(crate::Event::GuestReply(guest.connection, reply.finish()));
    }

    /// Sends an error to a connection that has not logged in.
    pub fn refuse_guest(&mut self, guest: Guest, iq: &Iq, error: impl Into<StanzaError>) {
        self.counters.errors += 1;
        let mut reply = iq.reply("error");
        error.into().write(&mut reply);
        self.reply_to_guest(guest, reply);
    }

    /// Handles a request that was routed to an address that this server answers for.
    pub(crate) fn answer_packet(&mut self, packet: &Packet, to: Jid) {
        if !matches!(packet.type_(), StanzaType::Get | StanzaType::Set) {
            return;
        }
        let Some(from) = packet.sender() else { return };
        if let Some(iq) = Iq::read(packet.stanza(), from, to, None) {
            self.answer(iq);
        }
    }
}
