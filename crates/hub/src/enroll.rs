//! Maintains rolls, and sends packets to everybody on one.

use rookery_fanout::{Link, Packet, To, View};
use rookery_jid::{Jid, JidRef};

use crate::World;
use crate::acting::Whereabouts;
use crate::mail::Mail;
use crate::passage::Notes;
use crate::roll::{Roll, push, remove, remove_from_chunk, without};

impl World {
    /// Adds an address, which must not be there already.
    pub fn enroll(&self, roll: &mut Roll, jid: JidRef<'_>) {
        roll.len += 1;
        if !self.is_here(jid.domain()) {
            match roll.away.get_mut(jid.domain()) {
                Some(others) => others.push(jid.to_jid()),
                None => drop(roll.away.insert(jid.domain().to_owned(), vec![jid.to_jid()])),
            }
        } else if !self.is_account(jid) {
            roll.others.push(jid.to_jid());
        } else {
            let hash = self.hash(jid.bare_str());
            roll.shards.resize_with(self.shards(), Vec::new);
            if let Some(chunks) = roll.shards.get_mut(self.hop(hash)) {
                push(chunks, hash, jid.as_str());
            }
        }
    }

    /// Removes an address that was added.
    pub fn strike(&self, roll: &mut Roll, jid: JidRef<'_>) {
        let hash = self.hash(jid.bare_str());
        let is_struck = match roll.away.get_mut(jid.domain()) {
            Some(others) => {
                let found = remove(others, jid);
                if others.is_empty() {
                    roll.away.remove(jid.domain());
                }
                found
            }
            None => {
                remove(&mut roll.others, jid)
                    || roll.shards.iter_mut().any(|chunks| remove_from_chunk(chunks, hash, jid))
            }
        };
        roll.len -= usize::from(is_struck);
    }

    /// Sorts a roll by the current homes, after they have changed. Returns those of its addresses
    /// whose home is in another process than before.
    pub fn sort_again(&self, roll: &mut Roll) -> Vec<String> {
        let process_of = |view: &View, hop| view.station(hop).map(|station| (station.node, station.incarnation));
        let (was, is) = (&self.here.before, &self.here.view);
        let chunks = std::mem::take(&mut roll.shards);
        roll.shards.resize_with(self.shards(), Vec::new);
        let mut moved = Vec::new();
        for (before, chunks) in chunks.iter().enumerate() {
            for (hash, name) in chunks.iter().flat_map(|chunk| chunk.iter()) {
                let home = self.hop(hash);
                // The next process of a node has the hop of the last one.
                if process_of(was, before) != process_of(is, home) {
                    moved.push(name.to_owned());
                }
                if let Some(chunks) = roll.shards.get_mut(home) {
                    push(chunks, hash, name);
                }
            }
        }
        moved
    }

    /// Sends one packet to everybody on a roll but a few. No recipient sees the others.
    pub fn fan_out_roll(&mut self, packet: &Packet, roll: &Roll, except: &[Jid]) {
        let except: Vec<_> = except.iter().map(|jid| (self.hash(jid.bare_str()), jid.as_str())).collect();
        for (shard, chunks) in roll.shards.iter().enumerate() {
            for chunk in chunks {
                let to = without(chunk, &except);
                if shard == self.shard() {
                    self.deliver_copies(packet, &to);
                } else {
                    self.post(shard, Mail::Copies { to, packet: packet.clone() });
                }
            }
        }
        let wanted = |jid: &&Jid| !except.iter().any(|(_, other)| *other == jid.as_str());
        for jid in roll.others.iter().filter(wanted) {
            self.route(packet, jid.as_ref());
        }
        for (domain, jids) in &roll.away {
            let to: Vec<_> = jids.iter().filter(wanted).cloned().collect();
            if !to.is_empty() {
                self.fan_out_away(packet, domain.clone(), to);
            }
        }
    }

    /// Sends many packets to one address, in their order, with one parcel. They may exceed the
    /// bounds of an outbox: a session gets them as fast as it reads, and other stanzas for it wait
    /// behind them.
    pub fn bundle(&mut self, packets: Vec<Packet>, to: &Jid) {
        let shard = self.home_of(to.as_ref());
        if self.is_account(to.as_ref()) && shard != self.shard() {
            return self.post(shard, Mail::Bundle { to: to.clone(), packets });
        }
        self.bundle_here(packets, to);
    }

    /// Sends many packets to one address, which may be at home here.
    pub(crate) fn bundle_here(&mut self, packets: Vec<Packet>, to: &Jid) {
        if self.people.moves.is_some() && self.is_account(to.as_ref()) {
            match self.whereabouts(self.hash(to.bare_str())) {
                Whereabouts::Here => {}
                Whereabouts::Awaited => {
                    let bytes = packets.iter().map(|packet| packet.bytes().len()).sum();
                    return self.keep_mail(Mail::Bundle { to: to.clone(), packets }, bytes);
                }
                Whereabouts::Elsewhere(home) => return self.post(home, Mail::Bundle { to: to.clone(), packets }),
            }
        }
        let user = self.user_named(self.hash(to.bare_str()), to.bare_str());
        if self.is_account(to.as_ref()) && self.is_held(user) {
            // They wait behind what came before (RFC 6120 §10.1).
            let notes = Notes { is_bundled: true, ..Notes::default() };
            for packet in &packets {
                let is_kept = self.is_kept_back(user, packet, to.as_ref(), &notes);
                debug_assert!(is_kept, "nothing in here ends a hold");
            }
            return;
        }
        let link = to.resource().and_then(|resource| self.find_resource(user, resource));
        match link {
            Some(link) if self.is_account(to.as_ref()) => self.bundle_ahead(link, packets),
            _ => packets.iter().for_each(|packet| self.route(packet, to.as_ref())),
        }
    }

    /// Gives a session of this shard many packets, as [`World::bundle`] does, but ahead of the
    /// stanzas that wait for its account.
    pub fn bundle_ahead(&mut self, link: Link, packets: Vec<Packet>) {
        let (Some(session), Some(to)) = (self.reference(link), self.outboxes.address(link).cloned()) else { return };
        for packet in packets {
            let packet = self.let_through(packet, to.as_ref());
            // Filters may have ended the session.
            if self.session(session).is_none() {
                return;
            }
            if let Some(packet) = packet {
                self.push_paced(link, &packet, To::Full);
            }
        }
    }

    fn is_account(&self, jid: JidRef<'_>) -> bool {
        jid.local().is_some() && self.is_domain(jid.domain())
    }
}
