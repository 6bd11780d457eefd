//! The audience of a room, kept ready: who is in it, by next hop, changed when somebody comes or goes and not looked up per message.
//!
//! Addresses lie in shared chunks, so that a letter to another shard takes a reference and no copy. An addition writes into the last chunk of its
//! shard; a removal rewrites one chunk. What is left out of one packet costs a copy of the chunk that it is in, and of no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use rookery_fanout::audience::home;
use rookery_fanout::{Addresses, Link, Packet, To};
use rookery_jid::{Jid, JidRef};

use crate::World;
use crate::mail::Mail;

/// Full JIDs, by next hop.
#[derive(Debug, Default)]
pub struct Roll {
    /// Accounts of this server, by home shard.
    shards: Vec<Vec<Arc<Addresses>>>,
    /// Those of other servers, by domain.
    away: BTreeMap<String, Vec<Jid>>,
    /// Services and domains of this server.
    others: Vec<Jid>,
    len: usize,
}

impl Roll {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The accounts of this server with their home shards.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (usize, &Arc<Addresses>)> {
        self.shards.iter().enumerate().flat_map(|(shard, chunks)| chunks.iter().map(move |chunk| (shard, chunk)))
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

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
            if let Some(chunks) = roll.shards.get_mut(home(hash, self.shards())) {
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
            None => remove(&mut roll.others, jid) || roll.shards.iter_mut().any(|chunks| cut(chunks, hash, jid)),
        };
        roll.len -= usize::from(is_struck);
    }

    /// Sends one packet to everybody on a roll but a few. Nobody sees who else gets it.
    pub fn fan_out_roll(&mut self, packet: &Packet, roll: &Roll, except: &[Jid]) {
        let except: Vec<_> = except.iter().map(|jid| (self.hash(jid.bare_str()), jid.as_str())).collect();
        for (shard, chunks) in roll.shards.iter().enumerate() {
            for chunk in chunks {
                let to = without(chunk, &except);
                if shard == self.shard() {
                    self.give(packet, &to);
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

    /// Sends many packets to one address, in their order, with one letter. They may be more than an outbox takes: a session gets them as fast as it
    /// reads, and what else comes for it waits behind them.
    pub fn bundle(&mut self, packets: Vec<Packet>, to: &Jid) {
        let shard = self.home_of(to.as_ref());
        if self.is_account(to.as_ref()) && shard != self.shard() {
            return self.post(shard, Mail::Bundle { to: to.clone(), packets });
        }
        let user = self.user_named(self.hash(to.bare_str()), to.bare_str());
        let link = to.resource().and_then(|resource| self.find_resource(user, resource));
        match link {
            Some(link) if self.is_account(to.as_ref()) => self.give_bundle(link, packets),
            _ => packets.iter().for_each(|packet| self.route(packet, to.as_ref())),
        }
    }

    /// Gives a session of this shard many packets, as [`World::bundle`] does.
    pub fn give_bundle(&mut self, link: Link, packets: Vec<Packet>) {
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

fn push(chunks: &mut Vec<Arc<Addresses>>, hash: u64, jid: &str) {
    match chunks.last_mut().filter(|last| last.len() < CHUNK) {
        // A letter that is still on its way keeps its own copy.
        Some(last) => Arc::make_mut(last).push(hash, jid),
        None => {
            let mut names = Addresses::default();
            names.push(hash, jid);
            chunks.push(Arc::new(names));
        }
    }
}

fn remove(jids: &mut Vec<Jid>, jid: JidRef<'_>) -> bool {
    let at = jids.iter().position(|other| other.as_ref() == jid);
    at.map(|at| jids.swap_remove(at)).is_some()
}

/// Takes a name out of its chunk. Chunks that have become small are filled from the last one, so that their number stays in proportion.
fn cut(chunks: &mut Vec<Arc<Addresses>>, hash: u64, jid: JidRef<'_>) -> bool {
    let has = |names: &Addresses| names.iter().any(|(other, name)| other == hash && name == jid.as_str());
    let Some(at) = chunks.iter().position(|names| has(names)) else { return false };
    let cut = chunks.get(at).map(|names| without(names, &[(hash, jid.as_str())]));
    let (Some(chunk), Some(cut)) = (chunks.get_mut(at), cut) else { return false };
    *chunk = cut;
    if chunk.len() >= CHUNK / 2 {
        return true;
    }
    // Only the last chunk may be small.
    let small = chunks.remove(at);
    small.iter().for_each(|(hash, name)| push(chunks, hash, name));
    true
}

/// The names but a few; the chunk itself if none of those is in it.
fn without(names: &Arc<Addresses>, except: &[(u64, &str)]) -> Arc<Addresses> {
    let is_out = |hash: u64, name: &str| except.iter().any(|(other, jid)| *other == hash && *jid == name);
    if except.is_empty() || !names.iter().any(|(hash, name)| is_out(hash, name)) {
        return names.clone();
    }
    let mut rest = Addresses::default();
    names.iter().filter(|(hash, name)| !is_out(*hash, name)).for_each(|(hash, name)| rest.push(hash, name));
    Arc::new(rest)
}

/// Addresses in one chunk: few enough that copying one is nothing, many enough that a letter for each is nothing either.
const CHUNK: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jid(number: u64) -> Jid {
        Jid::parse(&format!("u{number}@example.org/r")).unwrap()
    }

    fn all(chunks: &[Arc<Addresses>]) -> Vec<String> {
        let mut all: Vec<_> =
            chunks.iter().flat_map(|names| names.iter().map(|(_, name)| name.to_owned()).collect::<Vec<_>>()).collect();
        all.sort();
        all
    }

    proptest! {
        /// Whoever is added and not removed is there, once; and chunks stay few.
        #[test]
        fn a_roll_is_a_set(steps in proptest::collection::vec((any::<bool>(), 0u64..400), 0..800)) {
            let (mut chunks, mut wanted) = (Vec::new(), std::collections::BTreeSet::new());
            for (comes, number) in steps {
                let name = jid(number);
                if comes && wanted.insert(name.to_string()) {
                    push(&mut chunks, number, name.as_str());
                } else if !comes {
                    prop_assert_eq!(cut(&mut chunks, number, name.as_ref()), wanted.remove(name.as_str()));
                }
            }
            prop_assert_eq!(all(&chunks), wanted.iter().cloned().collect::<Vec<_>>());
            prop_assert!(chunks.len() <= wanted.len() / (CHUNK / 4) + 2);
        }
    }

    #[test]
    fn exceptions_leave_other_chunks_as_they_are() {
        let mut chunks = Vec::new();
        (0..300).for_each(|number| push(&mut chunks, number, jid(number).as_str()));
        let out = jid(5);
        let kept: Vec<_> = chunks.iter().map(|names| without(names, &[(5, out.as_str())])).collect();
        assert_eq!(all(&kept).len(), 299);
        assert!(!Arc::ptr_eq(&kept[0], &chunks[0]) && Arc::ptr_eq(&kept[1], &chunks[1]));
    }
}
