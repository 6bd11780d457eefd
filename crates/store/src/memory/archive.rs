//! The operations on archives in memory.

use super::Memory;
use super::archives::{Archives, KeptArchive};
use super::key::key;
use super::world::MemoryWorld;
use crate::archive::{ARCHIVES_PER_SWEEP, BYTES_PER_MESSAGE, FAIR_PART, GatheredPage};
use crate::pending::ready;
use crate::{Archive, ArchiveOf, ArchivePage, ArchiveQuery, ArchivedMessage, Pending, Retention, RosterItem, Swept};
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

impl Archive for Memory {
    fn append(&self, messages: Arc<[ArchivedMessage]>) -> Pending<()> {
        let mut world = self.world();
        for message in messages.iter().cloned() {
            let account = world.account(message.owner.as_ref());
            let is_contact = || {
                account.is_some_and(|account| account.roster.item(message.with.bare()).is_some_and(RosterItem::visible))
            };
            let has_archive = message.of == ArchiveOf::Room || account.is_some();
            if has_archive && (!message.contacts_only || is_contact()) {
                append(&mut world.archives, message);
            }
        }
        ready(Ok(()))
    }

    fn page(&self, owner: JidRef<'_>, query: ArchiveQuery) -> Pending<Option<ArchivePage>> {
        let world = self.world();
        let none = BTreeMap::new();
        let messages = world.archives.kept.get(&key(owner)).map_or(&none, |archive| &archive.messages);
        let all_known = query.known.iter().chain(query.ids.iter().flatten()).all(|id| messages.contains_key(id));
        ready(Ok(all_known.then(|| page(messages, &query))))
    }

    fn replace(&self, owner: JidRef<'_>, id: u64, stanza: Vec<u8>) -> Pending<bool> {
        let mut world = self.world();
        let archive = world.archives.kept.get_mut(&key(owner));
        let message = archive.and_then(|archive| archive.messages.get_mut(&id));
        ready(Ok(message.map(|(_, kept)| *kept = stanza).is_some()))
    }

    fn ends(&self, owner: JidRef<'_>) -> Pending<Option<(u64, u64)>> {
        let world = self.world();
        let messages = world.archives.kept.get(&key(owner)).map(|archive| &archive.messages);
        let ends = messages.and_then(|messages| messages.first_key_value().zip(messages.last_key_value()));
        ready(Ok(ends.map(|((first, _), (last, _))| (*first, *last))))
    }

    fn purge(&self, owner: JidRef<'_>) -> Pending<()> {
        self.world().archives.remove(owner);
        ready(Ok(()))
    }

    fn clear(&self, _: usize) -> Pending<bool> {
        // Messages are removed together with their archive.
        ready(Ok(false))
    }

    fn sweep(&self, after: u64, retention: Retention, limit: usize) -> Pending<Swept> {
        ready(Ok(sweep(&mut self.world(), after, &retention, limit)))
    }

    fn expire(&self, owner: JidRef<'_>, before: u64, limit: usize) -> Pending<u64> {
        let mut world = self.world();
        let Some(archive) = world.archives.kept.get_mut(&key(owner)) else { return ready(Ok(0)) };
        let old: Vec<_> = archive.messages.range(..before).map(|(id, _)| *id).take(limit).collect();
        old.iter().for_each(|id| drop(archive.messages.remove(id)));
        ready(Ok(old.len() as u64))
    }

    fn months(&self, _: Retention) -> Pending<u64> {
        ready(Ok(0))
    }
}

fn append(archives: &mut Archives, message: ArchivedMessage) {
    let archive = archives.kept.entry(key(message.owner.as_ref())).or_insert_with(|| {
        archives.last_number += 1;
        KeptArchive { number: archives.last_number, messages: BTreeMap::new() }
    });
    if let Entry::Vacant(place) = archive.messages.entry(message.id) {
        let (size, with, most) = (message.size(), message.with.to_bare(), message.most);
        place.insert((message.with, message.stanza));
        make_room(&mut archive.messages, &with, size, most);
    }
}

/// Removes as much from an archive that exceeds its bound as was added to it.
fn make_room(messages: &mut BTreeMap<u64, (Jid, Vec<u8>)>, with: &Jid, added: u64, most: u64) {
    let size = |stanza: &Vec<u8>| stanza.len() as u64 + BYTES_PER_MESSAGE;
    let mut left = match most {
        0 => 0,
        _ => messages.values().map(|(_, stanza)| size(stanza)).sum::<u64>().saturating_sub(most).min(added),
    };
    while left > 0 {
        let mut shares = BTreeMap::<Jid, u64>::new();
        for (with, stanza) in messages.values() {
            *shares.entry(with.to_bare()).or_default() += size(stanza);
        }
        let has_its_part = shares.get(with).is_some_and(|own| *own >= most / FAIR_PART);
        let largest = || shares.iter().max_by_key(|(_, bytes)| **bytes).map(|(with, _)| with.clone());
        let Some(victim) = has_its_part.then(|| with.clone()).or_else(largest) else { return };
        let oldest = messages.iter().find(|(_, (with, _))| with.bare() == victim.as_ref()).map(|(id, _)| *id);
        let Some((_, stanza)) = oldest.and_then(|id| messages.remove(&id)) else { return };
        left = left.saturating_sub(size(&stanza));
    }
}

fn page(messages: &BTreeMap<u64, (Jid, Vec<u8>)>, query: &ArchiveQuery) -> ArchivePage {
    let ids = match &query.ids {
        Some(ids) => query.ids_in_order(ids),
        None => {
            let is_wanted = |with: &Jid| query.with.as_ref().is_none_or(|wanted| matches(wanted, with));
            let ids: Vec<_> = messages.iter().filter(|(_, (with, _))| is_wanted(with)).map(|(id, _)| *id).collect();
            query.ids_in_order(&ids)
        }
    };
    let mut page = GatheredPage::new(query);
    for id in &ids {
        if messages.get(id).is_some_and(|(_, stanza)| !page.take(*id, stanza)) {
            break;
        }
    }
    let count = Some(ids.len()).filter(|&count| query.ids.is_none() && query.count_to > 0 && count <= query.count_to);
    ArchivePage { count, ..page.page() }
}

fn matches(wanted: &Jid, with: &Jid) -> bool {
    if wanted.resource().is_some() { wanted == with } else { wanted.bare_str() == with.bare_str() }
}

fn sweep(world: &mut MemoryWorld, after: u64, retention: &Retention, limit: usize) -> Swept {
    let mut order: Vec<_> = world.archives.kept.iter().map(|(key, archive)| (archive.number, key.clone())).collect();
    order.sort_unstable();
    let (mut at, mut removed) = (after, 0);
    for (number, key) in order.into_iter().filter(|(number, _)| *number > after).take(ARCHIVES_PER_SWEEP) {
        let before = retention.before(&key.0, world.rooms.archive_days(&key));
        let Some(archive) = world.archives.kept.get_mut(&key) else { continue };
        while let Some(oldest) = archive.messages.first_entry().filter(|oldest| *oldest.key() < before) {
            if removed >= limit as u64 {
                return Swept { removed, next: Some(at) };
            }
            oldest.remove();
            removed += 1;
        }
        at = number;
    }
    let is_end = world.archives.kept.values().all(|archive| archive.number <= at);
    Swept { removed, next: (!is_end).then_some(at) }
}
