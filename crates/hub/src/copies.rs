//! The trusted route: one packet for many recipients, without checking the sender's permission.
//!
//! Everything with many recipients passes through here: presence, rooms, services, XEP-0033. The
//! audience is split by next hop once; each shard gets one parcel and each remote domain one part,
//! whatever the number of recipients there.

use std::collections::BTreeMap;
use std::sync::Arc;

use rookery_fanout::{Addresses, Audience, Packet, StanzaType};
use rookery_jid::{Jid, JidRef};
use rookery_observe::StanzaStage;

use crate::World;
use crate::filter::DELIVERY;
use crate::mail::Mail;
use crate::passage::Notes;

impl World {
    /// Sends one packet to many addresses, bare or full, here or elsewhere. No recipient sees the
    /// others.
    pub fn fan_out<'a>(&mut self, packet: &Packet, to: impl IntoIterator<Item = JidRef<'a>>) {
        let mut away = BTreeMap::<String, Vec<Jid>>::new();
        let elsewhere = self.fan_out_here(packet, to, |jid| match away.get_mut(jid.domain()) {
            Some(others) => others.push(jid.to_jid()),
            None => {
                away.insert(jid.domain().to_owned(), vec![jid.to_jid()]);
            }
        });
        for jid in elsewhere {
            self.route(packet, jid);
        }
        for (domain, to) in away {
            self.fan_out_away(packet, domain, to);
        }
    }

    /// Fans out to accounts of this server. `away` gets those of other servers; the rest are
    /// services and domains.
    fn fan_out_here<'a>(
        &mut self,
        packet: &Packet,
        to: impl IntoIterator<Item = JidRef<'a>>,
        mut away: impl FnMut(JidRef<'a>),
    ) -> Vec<JidRef<'a>> {
        let mut audience = Audience::new(self.shards());
        let mut elsewhere = Vec::new();
        // Most audiences name one domain again and again.
        let mut known = "";
        for jid in to {
            if jid.domain() != known && self.is_domain(jid.domain()) {
                known = jid.domain();
            }
            if jid.domain() == known && jid.local().is_some() {
                let hash = self.hash(jid.bare_str());
                audience.add(self.hop(hash), hash, jid.as_str());
            } else if self.is_here(jid.domain()) {
                elsewhere.push(jid);
            } else {
                away(jid);
            }
        }
        self.fan_out_sorted(packet, audience);
        elsewhere
    }

    /// Sends a packet to an audience that is sorted by shard already.
    pub(crate) fn fan_out_sorted(&mut self, packet: &Packet, audience: Audience) {
        for (shard, names) in audience.into_groups() {
            if shard == self.shard() {
                self.deliver_copies(packet, &names);
            } else {
                self.post(shard, Mail::Copies { to: Arc::new(names), packet: packet.clone() });
            }
        }
    }

    /// Delivers a packet to addresses whose home this is.
    pub(crate) fn deliver_copies(&mut self, packet: &Packet, to: &Addresses) {
        let outer = self.counters.path.enter(StanzaStage::Deliver);
        let others = |to| Mail::Copies { to: Arc::new(to), packet: packet.clone() };
        let here = match self.people.moves {
            Some(_) => self.sift(to, (packet.bytes().len(), false), others),
            None => None,
        };
        self.deliver_copies_here(packet, here.as_ref().unwrap_or(to));
        self.counters.path.back(outer);
    }

    fn deliver_copies_here(&mut self, packet: &Packet, to: &Addresses) {
        if self.is_tracing() {
            self.sight_copies(packet, to);
        }
        // Presence for an account goes only to the resources that are available there.
        let is_state = matches!(packet.type_(), StanzaType::Available | StanzaType::Unavailable);
        let on = self.filters_anywhere().delivery;
        for (hash, name) in to.iter() {
            debug_assert!(self.may_be_home(hash), "copies come to homes");
            if is_state && !name.contains('/') {
                let user = self.user_named(hash, name);
                let is_wanted = || self.registry().passing.before_delivery.want(on, packet, || self.traits(user, name));
                if !self.is_held(user) && !is_wanted() {
                    if let Some(user) = user {
                        self.show_to(user, packet);
                    }
                    continue;
                }
            }
            match JidRef::parse_prepared(name) {
                Some(to) => self.deliver_copy(hash, packet, to, is_state),
                // A name beyond ASCII has to be prepared first.
                None => {
                    if let Ok(to) = Jid::parse(name) {
                        self.deliver_copy(hash, packet, to.as_ref(), is_state);
                    }
                }
            }
        }
    }

    fn deliver_copy(&mut self, hash: u64, packet: &Packet, to: JidRef<'_>, is_state: bool) {
        // A newer state is sent after older ones (RFC 6120 §10.1).
        if !is_state || to.resource().is_some() || self.is_held(self.user_named(hash, to.bare_str())) {
            return self.deliver(hash, packet, to, Notes::default());
        }
        let on = self.filters(to.domain()).delivery;
        if let Some(packet) = self.pass(DELIVERY, on, packet, to, to, &mut Notes::default()) {
            self.show(hash, &packet, to.bare_str());
        }
    }

    /// Gives presence to the available resources of an account, if it is here.
    fn show(&mut self, hash: u64, packet: &Packet, bare: &str) {
        if let Some(user) = self.user_named(hash, bare) {
            self.show_to(user, packet);
        }
    }
}
