//! The archives in memory.

use super::{Memory, World, key};
use crate::archive::ARCHIVES_PER_SWEEP;
use crate::pending::ready;
use crate::{Archive, ArchiveOf, ArchivePage, ArchiveQuery, ArchivedMessage, Expiry, Pending, Swept};
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Archives by the domain and localpart of their owner.
#[derive(Default)]
pub(super) struct Archives {
    last_number: u64,
    kept: BTreeMap<(String, String), Kept>,
}

/// One archive. Its number tells it from others that its owner may have had.
struct Kept {
    number: u64,
    messages: BTreeMap<u64, (Jid, Vec<u8>)>,
}

impl Archives {
    pub(super) fn remove(&mut self, owner: JidRef<'_>) {
        self.kept.remove(&key(owner));
    }
}

impl Archive for Memory {
    fn append(&self, messages: Vec<ArchivedMessage>) -> Pending<()> {
        let mut world = self.world();
        for message in messages {
            if message.of == ArchiveOf::Room || world.account(message.owner.as_ref()).is_some() {
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

    fn sweep(&self, after: u64, expiry: Vec<Expiry>, limit: usize) -> Pending<Swept> {
        ready(Ok(sweep(&mut self.world(), after, &expiry, limit)))
    }
}

fn append(archives: &mut Archives, message: ArchivedMessage) {
    let archive = archives.kept.entry(key(message.owner.as_ref())).or_insert_with(|| {
        archives.last_number += 1;
        Kept { number: archives.last_number, messages: BTreeMap::new() }
    });
    archive.messages.entry(message.id).or_insert((message.with, message.stanza));
}

fn page(messages: &BTreeMap<u64, (Jid, Vec<u8>)>, query: &ArchiveQuery) -> ArchivePage {
    let entry = |id: &u64, stanza: &[u8]| (*id, stanza.to_vec());
    if let Some(ids) = &query.ids {
        let messages = ids.iter().filter_map(|id| messages.get(id).map(|(_, stanza)| entry(id, stanza)));
        return ArchivePage { messages: messages.collect(), more: false, count: Some(ids.len()) };
    }
    let before = if query.before == 0 { u64::MAX } else { query.before };
    let range = (Bound::Excluded(query.after), Bound::Excluded(before));
    let range = (query.after < before).then(|| messages.range(range)).into_iter().flatten();
    let wanted = range.filter(|(_, (with, _))| query.with.as_ref().is_none_or(|wanted| matches(wanted, with)));
    let mut wanted: Vec<_> = wanted.collect();
    let count = Some(wanted.len()).filter(|&count| query.count_to > 0 && count <= query.count_to);
    if query.last {
        wanted.reverse();
    }
    let (mut page, mut room) = (ArchivePage { count, ..ArchivePage::default() }, query.max_bytes);
    for (id, (_, stanza)) in wanted {
        if page.messages.len() >= query.limit || !(page.messages.is_empty() || stanza.len() <= room) {
            page.more = true;
            break;
        }
        room = room.saturating_sub(stanza.len());
        page.messages.push(entry(id, stanza));
    }
    if query.last {
        page.messages.reverse();
    }
    page
}

fn matches(wanted: &Jid, with: &Jid) -> bool {
    if wanted.resource().is_some() { wanted == with } else { wanted.bare_str() == with.bare_str() }
}

fn sweep(world: &mut World, after: u64, expiry: &[Expiry], limit: usize) -> Swept {
    let mut order: Vec<_> = world.archives.kept.iter().map(|(key, archive)| (archive.number, key.clone())).collect();
    order.sort_unstable();
    let (mut at, mut removed) = (after, 0);
    for (number, key) in order.into_iter().filter(|(number, _)| *number > after).take(ARCHIVES_PER_SWEEP) {
        let before = expiry.iter().find(|expiry| expiry.domain == key.0).map_or(0, |expiry| expiry.before);
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
