//! What administrators did: their logins to the admin page and their acts, by whatever way, the newest last.
//!
//! One for all shards and the web front. The last thousand entries are kept in the store, some seconds later, so that they outlive a restart; the log of the
//! process has all of them at once. Acts of the command line are not here: it works beside the server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rookery_hub::{Hooks, World};
use tracing::info;

/// The journal. Clones are handles on the same one.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<Entry>,
    /// Something isn't in the store yet.
    is_dirty: bool,
    /// Set once the entries of the store are here. Until then nothing takes their place there.
    is_filled: bool,
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When, milliseconds since 1970.
    pub unix_ms: u64,
    /// Who: an account, or a token.
    pub who: String,
    /// By which way: `page`, `api` or `command`; for those from outside with the address.
    pub by: String,
    /// What, in words.
    pub act: String,
    /// The domain that it concerns; empty if it is none in particular.
    pub domain: String,
}

impl Journal {
    /// Adds an entry, and tells the log of the process. What is too long is cut.
    pub fn note(&self, mut entry: Entry) {
        for text in [&mut entry.who, &mut entry.by, &mut entry.act, &mut entry.domain] {
            *text = text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(MAX_CHARS).collect();
        }
        let Entry { who, by, act, domain, .. } = &entry;
        info!(who, by, domain, "an administrator: {act}");
        let mut inner = self.lock();
        inner.entries.push_back(entry);
        if inner.entries.len() > MOST {
            inner.entries.pop_front();
        }
        inner.is_dirty = true;
    }

    /// Returns the entries that concern one of these domains, the newest first, `limit` at most.
    /// `of_server`: those that concern none in particular as well.
    pub fn recent(&self, domains: &[String], of_server: bool, limit: usize) -> Vec<Entry> {
        let inner = self.lock();
        let concerns = |entry: &&Entry| match entry.domain.as_str() {
            "" => of_server,
            _ => domains.contains(&entry.domain),
        };
        inner.entries.iter().rev().filter(concerns).take(limit).cloned().collect()
    }

    /// What isn't in the store yet, as it is kept.
    fn take_unkept(&self) -> Option<Vec<u8>> {
        let mut inner = self.lock();
        if !inner.is_filled || !std::mem::take(&mut inner.is_dirty) {
            return None;
        }
        let lines: Vec<_> = inner.entries.iter().map(Entry::write).collect();
        Some(lines.join("\n").into_bytes())
    }

    /// Puts what the store has before what there is.
    fn fill(&self, kept: &str) {
        let mut inner = self.lock();
        inner.is_filled = true;
        for entry in kept.lines().rev().filter_map(Entry::read) {
            if inner.entries.len() < MOST {
                inner.entries.push_front(entry);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn write(&self) -> String {
        let Self { unix_ms, who, by, act, domain } = self;
        format!("{unix_ms}\t{who}\t{by}\t{domain}\t{act}")
    }

    fn read(line: &str) -> Option<Self> {
        let mut fields = line.splitn(5, '\t');
        let [unix_ms, who, by, domain, act] = std::array::from_fn(|_| fields.next().unwrap_or_default().to_owned());
        Some(Self { unix_ms: unix_ms.parse().ok()?, who, by, act, domain })
    }
}

/// Reads and keeps the journal, on the first shard.
pub fn install(hooks: &mut Hooks<'_>) {
    hooks.starting(read);
    hooks.every(PERIOD_MS, keep);
    hooks.stopping(keep);
}

fn read(world: &mut World) {
    if world.shard() > 0 {
        return;
    }
    let kept = world.stores.meta.get(KEY);
    world.wait(kept, |world, kept| match kept {
        Ok(kept) => world.state::<Journal>().fill(&String::from_utf8_lossy(&kept.unwrap_or_default())),
        Err(error) => tracing::error!(%error, "the journal of administrators can't be read; it is tried again"),
    });
}

fn keep(world: &mut World) {
    if world.shard() > 0 {
        return;
    }
    let journal = world.state::<Journal>();
    if !journal.lock().is_filled {
        return read(world);
    }
    if let Some(bytes) = journal.take_unkept() {
        let kept = world.stores.meta.put(KEY, bytes);
        world.wait(kept, |_, kept| {
            if let Err(error) = kept {
                tracing::error!(%error, "the journal of administrators can't be kept");
            }
        });
    }
}

/// Where the store keeps it.
const KEY: &str = "journal";
/// Entries that are kept.
const MOST: usize = 1000;
/// Characters of a text of an entry.
const MAX_CHARS: usize = 300;
/// How often what is new is kept, milliseconds.
const PERIOD_MS: u64 = 3_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(act: &str, domain: &str) -> Entry {
        let (who, by) = ("admin@a.example".to_owned(), "page".to_owned());
        Entry { unix_ms: 5, who, by, act: act.into(), domain: domain.into() }
    }

    #[test]
    fn what_was_noted_is_read_back_and_bounded() {
        let journal = Journal::default();
        // Nothing is kept until the entries of the store are here.
        journal.fill("");
        for number in 0..MOST + 5 {
            journal.note(entry(&format!("act {number}\n\tforged\tline"), "a.example"));
        }
        let kept = journal.take_unkept().unwrap();
        assert_eq!(journal.take_unkept(), None);
        let again = Journal::default();
        again.note(entry("new", ""));
        again.fill(&String::from_utf8(kept).unwrap());
        let all = again.recent(&["a.example".into()], true, usize::MAX);
        assert_eq!((all.len(), all[0].act.as_str()), (MOST, "new"));
        assert_eq!(all[1].act, format!("act {}  forged line", MOST + 4));
    }

    #[test]
    fn others_domains_are_nobodys_business() {
        let journal = Journal::default();
        journal.note(entry("here", "a.example"));
        journal.note(entry("there", "b.example"));
        journal.note(entry("everywhere", ""));
        let acts = |of_server| {
            let entries = journal.recent(&["a.example".into()], of_server, 10).into_iter();
            entries.map(|entry| entry.act).collect::<Vec<_>>()
        };
        assert_eq!(acts(true), ["everywhere", "here"]);
        assert_eq!(acts(false), ["here"]);
    }
}
