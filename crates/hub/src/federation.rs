//! Stanzas to and from other servers and components.
//!
//! Everything for a remote domain passes its home shard, which thus keeps the order and knows the
//! domain's multicast service. The owner of the streams to other servers implements [`Federation`],
//! and passes incoming stanzas to [`World::incoming`] on that shard. In a cluster, where another
//! server may connect to any node, it does so on the shard of that node which stands for the home
//! ([`World::stand_in_for`]). From there they go to the home first, which sees everything that the
//! domain sends.

use rookery_fanout::Packet;
use rookery_fanout::multicast::{Distant, Outgoing, bcc};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Kind, Writer};

use crate::World;
use crate::mail::Mail;
use crate::passage::{Delivery, Notes, Passage};
pub use crate::remote::{Federation, RemoteService};
use crate::trace::Step;

impl World {
    /// Lets stanzas for other domains leave. Without it there are no other servers.
    pub fn set_federation(&mut self, federation: Box<dyn Federation>) {
        self.out.federation = Some(federation);
    }

    /// Lets no stanza leave for other servers any more.
    pub fn end_federation(&mut self) {
        self.out.federation = None;
    }

    /// Returns whether stanzas can go to other servers.
    pub fn federates(&self) -> bool {
        self.out.federation.is_some()
    }

    /// Takes a stanza from another server, on the home shard of that server's domain or the one
    /// that stands for it.
    pub fn incoming(&mut self, packet: &Packet, to: JidRef<'_>) {
        self.sight(packet, to, Step::Received, || "from its server".into());
        // Without other nodes, this shard is the domain's home.
        let is_alone = self.shards() == self.own_shards();
        let sender = if is_alone { None } else { packet.sender() };
        let home = sender.map_or(0, |sender| self.home_of_text(sender.domain()));
        if home < self.own_shards() {
            return self.let_in(packet, to);
        }
        self.sight(packet, to, Step::Goes, || self.place_of_hop(home, "the home of the other domain"));
        self.post(home, Mail::Incoming { to: to.to_jid(), packet: packet.clone() });
    }

    /// Takes a stanza that came in from another server at another node, on the home shard of that
    /// server's domain.
    pub(crate) fn arrive(&mut self, packet: &Packet, to: &Jid) {
        let custody = self.custody();
        let is_taken = self.out.federation.as_mut().is_some_and(|streams| streams.arrive(packet, to, custody));
        if !is_taken {
            self.let_in(packet, to.as_ref());
        }
    }

    /// Lets a stanza of another server continue, on the home shard of that server's domain.
    pub fn let_in(&mut self, packet: &Packet, to: JidRef<'_>) {
        if !self.lets_cross(packet.sender().as_ref().map(Jid::as_ref), to.domain()) {
            return self.sight(packet, to, Step::Stopped, || self.barrier_in_words(packet.sender(), to.domain()));
        }
        if self.is_here(to.domain()) {
            self.hear(packet, to);
            self.route(packet, to);
        } else if self.is_component(to.domain()) {
            self.route_away(packet, to);
        } else {
            self.bounce(packet, to, Condition::ItemNotFound.into());
        }
    }

    /// Takes a stanza from a component, on the shard of this process that stands for its name.
    pub fn from_component(&mut self, packet: &Packet, to: JidRef<'_>) {
        self.sight(packet, to, Step::Received, || "from the component".into());
        if self.is_privileged(packet, to) {
            return self.sight(packet, to, Step::Answered, || "by the privileges of the component (XEP-0356)".into());
        }
        self.out.bridged.note(packet, to);
        if self.is_here(to.domain()) {
            self.hear(packet, to);
        }
        self.route(packet, to);
    }

    /// Tells those who have seen a component's users that these are gone, since its last connection
    /// is. Called on the shard of this process that stands for the component's name.
    pub fn component_gone(&mut self, name: &str) {
        self.attach(name, false);
        if self.out.bridged.gone(name) {
            self.bid_farewell();
        }
    }

    /// Tells some of those who have seen a component's users, and the others in later ticks: a
    /// bridge may have thousands of users.
    fn bid_farewell(&mut self) {
        for _ in 0..FAREWELLS {
            let Some((from, to)) = self.out.bridged.next() else { return };
            let mut presence = Writer::new("presence");
            if self.is_here(to.domain()) && !self.is_domain(to.domain()) {
                presence.attr("type", "error").attr("from", from.as_str());
                StanzaError::from(Condition::RemoteServerTimeout).write(&mut presence);
            } else {
                presence.attr("type", "unavailable").attr("from", from.as_str());
            }
            self.route_built(&presence.finish(), &to);
        }
        if self.out.bridged.has_more() {
            self.after(FAREWELL_MS, Self::bid_farewell);
        }
    }

    /// Notes that a stream with a remote domain has broken, or that its server can't be reached;
    /// on the domain's home shard or the one that stands for it.
    pub fn lost(&mut self, domain: &str) {
        let home = self.home_of_text(domain);
        if home < self.own_shards() {
            return self.tell_lost(domain);
        }
        self.post(home, Mail::Lost { domain: domain.to_owned() });
    }

    /// Tells modules that a stream with a remote domain has broken, on the domain's home shard.
    pub(crate) fn tell_lost(&mut self, domain: &str) {
        for call in self.catalogue.registry.passing.lost.all().map(|call| call.call).collect::<Vec<_>>() {
            call(self, domain);
        }
    }

    /// Tells modules of a stanza from elsewhere.
    fn hear(&mut self, packet: &Packet, to: JidRef<'_>) {
        for at in 0..self.catalogue.registry.passing.heard.len() {
            let Some(hook) = self.catalogue.registry.passing.heard.get(at) else { return };
            let wanted = &hook.call.wanted;
            let names = wanted.namespaces.is_none_or(|named| packet.namespaces().may_have(named));
            let is_wanted = wanted.stanzas.has(packet) && names;
            if is_wanted && self.domain(to.domain()).is_some_and(|domain| domain.module(hook.module).is_some()) {
                (hook.call.call)(self, packet, to);
            }
        }
    }

    /// Sends a stanza to another server.
    pub(crate) fn route_away(&mut self, packet: &Packet, to: JidRef<'_>) {
        if !self.federates() {
            self.sight(packet, to, Step::Noted, || {
                "the domain isn't one of this server, which knows no others: there is no [federation]".into()
            });
            // RFC 6120 §8.3.3.16.
            return self.bounce(packet, to, Condition::RemoteServerNotFound.into());
        }
        if packet.is_local() && !self.may_go_abroad(packet, to) {
            return;
        }
        let shard = self.way_to(to.domain());
        if shard != self.shard() {
            self.sight(packet, to, Step::Goes, || self.place_of_hop(shard, "the home of the other domain"));
            return self.post(shard, Mail::Route { to: to.to_jid(), packet: packet.clone() });
        }
        self.leave(Outgoing::plain(to.to_jid(), packet.clone()));
    }

    /// Returns whether modules let the stanzas of an account on this shard go to another server.
    fn may_go_abroad(&mut self, packet: &Packet, to: JidRef<'_>) -> bool {
        for at in 0..self.catalogue.registry.passing.abroad.len() {
            let Some(hook) = self.catalogue.registry.passing.abroad.get(at) else { return true };
            if !hook.call.wanted.stanzas.has(packet) {
                continue;
            }
            let Some(sender) = packet.sender() else { return true };
            // The stanza passes here again at the home of the other domain.
            let is_home = sender.local().is_some() && self.home_of(sender.as_ref()) == self.shard();
            let has_module = self.domain(sender.domain()).is_some_and(|domain| domain.module(hook.module).is_some());
            let passage = Passage { packet, to, notes: &mut Notes::default() };
            if is_home && has_module && !matches!((hook.call.call)(self, passage), Delivery::Pass) {
                self.sight(packet, to, Step::Stopped, || format!("by the module {}", hook.module));
                return false;
            }
        }
        true
    }

    /// Sends one packet to recipients of another server, none of whom sees the others: the trusted
    /// route.
    pub(crate) fn fan_out_away(&mut self, packet: &Packet, domain: String, to: Vec<Jid>) {
        self.multicast_away(bcc(domain, packet, to));
    }

    /// Sends the part of a multicast that goes to another server.
    pub fn multicast_away(&mut self, distant: Distant) {
        let shard = self.way_to(&distant.domain);
        if shard != self.shard() && self.federates() {
            return self.post(shard, Mail::Distant(Box::new(distant)));
        }
        if !self.federates() {
            let packet = distant.packet().clone();
            for outgoing in distant.individually() {
                self.bounce(&packet, outgoing.to().as_ref(), Condition::RemoteServerNotFound.into());
            }
            return;
        }
        // One copy for one recipient needs no service.
        let service = (distant.len() > 1 && distant.fits_service()).then(|| self.service_for(&distant)).flatten();
        match service {
            Some((service, limit)) => distant.through(&service, limit).for_each(|outgoing| self.leave(outgoing)),
            None => distant.individually().for_each(|outgoing| self.leave(outgoing)),
        }
    }

    /// Returns the multicast service of a remote domain, and how many recipients it takes at once.
    fn service_for(&mut self, distant: &Distant) -> Option<(Jid, usize)> {
        // A component gets its stanzas one by one: it is as near as a multicast service would be.
        if self.is_component(&distant.domain) {
            return None;
        }
        let sender = distant.packet().sender()?;
        let own = self.domain_of(sender.domain())?.name.clone();
        let service = self.remote_service(&own, &distant.domain)?;
        let limit = match distant.packet().kind() {
            Kind::Presence => service.presences,
            _ => service.messages,
        };
        (limit > 0).then_some((service.jid, limit))
    }

    /// Returns whether modules let an address of another server communicate with a host of this
    /// one.
    fn lets_cross(&self, remote: Option<JidRef<'_>>, host: &str) -> bool {
        let component =
            || self.settings().domains.iter().find(|domain| self.components_of(&domain.name).any(|name| name == host));
        let domain = self.domain_of(host).or_else(component);
        remote
            .filter(|remote| !self.is_component(remote.domain()))
            .zip(domain)
            .is_none_or(|(remote, domain)| self.catalogue.registry.lets_cross(self, remote, domain))
    }

    /// Returns the module, if any, that forbids an address of another server to communicate with a
    /// host.
    fn barrier_in_words(&self, remote: Option<Jid>, host: &str) -> String {
        let domain = self.domain_of(host);
        let remote = remote.as_ref().map(Jid::as_ref);
        let module =
            remote.zip(domain).and_then(|(remote, domain)| self.catalogue.registry.barrier(self, remote, domain));
        format!(
            "the lists of the module {} let nothing pass between that address and {host}",
            module.unwrap_or("of the domain")
        )
    }

    fn leave(&mut self, outgoing: Outgoing) {
        let (packet, to) = (outgoing.packet(), outgoing.to().as_ref());
        let may_leave = match packet.plain_sender() {
            Some(sender) => self.lets_cross(Some(to), sender.domain()),
            None => packet.sender().is_none_or(|sender| self.lets_cross(Some(to), sender.domain())),
        };
        if !may_leave {
            self.sight(packet, to, Step::Noted, || {
                let host = packet.sender().map(|sender| sender.domain().to_owned()).unwrap_or_default();
                self.barrier_in_words(Some(to.to_jid()), &host)
            });
            return self.bounce(outgoing.packet(), outgoing.to().as_ref(), Condition::NotAllowed.into());
        }
        let is_component = self.is_component(outgoing.to().domain());
        if self.is_tracing() {
            let whose = if is_component { "the component" } else { "the server" };
            self.sight(packet, to, Step::Goes, || format!("to the stream with {whose} {}", to.domain()));
        }
        if let Some(federation) = &mut self.out.federation {
            self.counters.remote_out += u64::from(!is_component);
            federation.send(outgoing);
        }
    }
}

/// The users of a component that is gone of whose end others are told at a time.
const FAREWELLS: usize = 500;
/// Milliseconds until the next of these.
const FAREWELL_MS: u64 = 10;
