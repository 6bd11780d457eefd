//! The actions of administrators: their logins to the admin page and their changes, by any
//! interface, newest last.
//!
//! One action log for all shards and the web front. The last thousand entries are saved in the
//! store, a few seconds later, so that they outlive a restart; the log of the process has all of
//! them at once. While a server runs, the command line records its actions here, through the
//! control socket; while none does, it stores them where the next server finds them
//! ([`keep_entry`]).

use std::collections::VecDeque;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_hub::{Hooks, World};
use rookery_store::{Pending, StoreError, Stores};
use tracing::info;

/// The action log. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ActionLog(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The entries, with their names in the store, which sort by time.
    entries: VecDeque<(String, Entry)>,
    /// The number of the newest entries that aren't stored yet.
    unkept: usize,
    /// The names of entries that are too old, and may still be stored.
    old: Vec<String>,
    /// Counts entries, so that those of the same moment have different names.
    serial: u64,
    /// True once the stored entries are loaded. Until then none are overwritten.
    is_filled: bool,
    /// The last failure of the store that was logged, and the time, in milliseconds since 1970.
    told: Option<(Discriminant<StoreError>, u64)>,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The time, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The actor: an account, or a token.
    pub who: String,
    /// The way: `page`, `api`, `command` or `command line`; with the address if it was remote.
    pub by: String,
    /// The action, as a text.
    pub act: String,
    /// The domain that it concerns; empty if there is none in particular.
    pub domain: String,
}

/// The changes that are not stored yet.
#[derive(Debug, Default, PartialEq, Eq)]
struct Unkept {
    /// The new entries, with names and lines.
    new: Vec<(String, Vec<u8>)>,
    /// The names of old entries.
    old: Vec<String>,
}

impl ActionLog {
    /// Adds an entry, and logs it. Texts that are too long are cut.
    pub fn note(&self, entry: Entry) {
        let entry = entry.cut_texts();
        let Entry { who, by, act, domain, .. } = &entry;
        info!(who, by, domain, "an administrator: {act}");
        self.add(entry);
    }

    /// Adds an entry about something that has a log line of its own.
    pub fn note_logged(&self, entry: Entry) {
        self.add(entry.cut_texts());
    }

    fn add(&self, entry: Entry) {
        let mut inner = self.lock();
        inner.serial += 1;
        let name = entry.name(inner.serial);
        inner.entries.push_back((name, entry));
        if inner.entries.len() > MOST
            && let Some((name, _)) = inner.entries.pop_front()
        {
            inner.old.push(name);
        }
        inner.unkept = (inner.unkept + 1).min(inner.entries.len());
    }

    /// Returns the entries that concern one of these domains, the newest first, `limit` at most.
    /// With `of_server`, those without a domain are included.
    pub fn recent(&self, domains: &[String], of_server: bool, limit: usize) -> Vec<Entry> {
        let inner = self.lock();
        let concerns = |entry: &&Entry| match entry.domain.as_str() {
            "" => of_server,
            _ => domains.contains(&entry.domain),
        };
        inner.entries.iter().rev().map(|(_, entry)| entry).filter(concerns).take(limit).cloned().collect()
    }

    /// Returns the entries that aren't stored yet, and the names of stored ones that are too old.
    fn take_unkept(&self) -> Unkept {
        let mut inner = self.lock();
        if !inner.is_filled {
            return Unkept::default();
        }
        let first = inner.entries.len().saturating_sub(std::mem::take(&mut inner.unkept));
        let line = |(name, entry): &(String, Entry)| (name.clone(), entry.write().into_bytes());
        let new = inner.entries.range(first..).map(line).collect();
        Unkept { new, old: std::mem::take(&mut inner.old) }
    }

    /// Puts back changes that the store has not taken.
    fn put_back(&self, new: usize, old: Vec<String>) {
        let mut inner = self.lock();
        inner.unkept = (inner.unkept + new).min(inner.entries.len());
        inner.old.extend(old);
    }

    /// Returns whether a failure of the store is to be logged: each cause once a minute, although
    /// the store is tried again every few seconds.
    fn is_to_be_told(&self, error: &StoreError, now_ms: u64) -> bool {
        let (mut inner, cause) = (self.lock(), discriminant(error));
        let is_due = inner.told.is_none_or(|(told, when)| told != cause || when + MINUTE_MS <= now_ms);
        if is_due {
            inner.told = Some((cause, now_ms));
        }
        is_due
    }

    /// Puts the entries that were stored by earlier runs before those of this run.
    fn fill(&self, kept: Vec<(String, Vec<u8>)>) {
        let mut inner = self.lock();
        inner.is_filled = true;
        for (name, line) in kept.into_iter().rev() {
            match Entry::read(&String::from_utf8_lossy(&line)) {
                Some(entry) if inner.entries.len() < MOST => inner.entries.push_front((name, entry)),
                _ => inner.old.push(name),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }
}

impl Entry {
    /// Returns the way without the address, and the address, if there is one.
    pub fn way(&self) -> (&str, Option<&str>) {
        self.by.split_once(" from ").map_or((&self.by, None), |(way, address)| (way, Some(address)))
    }

    /// Returns the entry without control characters, with each text cut to [`MAX_CHARS`].
    fn cut_texts(mut self) -> Self {
        for text in [&mut self.who, &mut self.by, &mut self.act, &mut self.domain] {
            *text = text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(MAX_CHARS).collect();
        }
        self
    }

    /// Returns the entry's name in the store; names sort by time.
    fn name(&self, serial: u64) -> String {
        format!("{:016}-{:06}", self.unix_ms, serial % 1_000_000)
    }

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

/// Loads and stores the action log, on the first shard.
pub fn install(hooks: &mut Hooks<'_>) {
    hooks.starting(read);
    hooks.every(PERIOD_MS, keep);
    hooks.stopping(keep);
}

/// Stores an entry while no server runs, and removes the oldest if there are too many.
pub fn keep_entry(stores: &Stores, entry: Entry) -> Pending<()> {
    let (stores, entry) = (stores.clone(), entry.cut_texts());
    Box::pin(async move {
        let kept = stores.meta.entries(KEY).await?;
        // The first serial whose name isn't taken by another entry of the same moment.
        let name = (1..).map(|serial| entry.name(serial)).find(|name| kept.iter().all(|(other, _)| other != name));
        stores.meta.put_entry(KEY, &name.unwrap_or_default(), entry.write().into_bytes()).await?;
        let surplus = (kept.len() + 1).saturating_sub(MOST);
        for (old, _) in kept.iter().take(surplus) {
            stores.meta.remove_entry(KEY, old).await?;
        }
        Ok(())
    })
}

fn read(world: &mut World) {
    if world.shard() > 0 {
        return;
    }
    let kept = world.stores.meta.entries(KEY);
    world.wait(kept, |world, kept| match kept {
        Ok(kept) => world.state::<ActionLog>().fill(kept),
        Err(error) if world.state::<ActionLog>().is_to_be_told(&error, world.time()) => {
            tracing::error!(%error, "the action log can't be read from the store; this is tried again");
        }
        Err(_) => {}
    });
}

fn keep(world: &mut World) {
    if world.shard() > 0 {
        return;
    }
    let actions = world.state::<ActionLog>();
    if !actions.lock().is_filled {
        return read(world);
    }
    let Unkept { new, old } = actions.take_unkept();
    let put: Vec<_> = new.into_iter().map(|(name, line)| world.stores.meta.put_entry(KEY, &name, line)).collect();
    let removed: Vec<_> = old.iter().map(|name| world.stores.meta.remove_entry(KEY, name)).collect();
    if put.is_empty() && removed.is_empty() {
        return;
    }
    let count = put.len();
    let kept: Pending<()> = Box::pin(async move {
        for put in put {
            put.await?;
        }
        for removed in removed {
            removed.await?;
        }
        Ok(())
    });
    world.wait(kept, move |world, kept| {
        if let Err(error) = kept {
            let actions = world.state::<ActionLog>();
            actions.put_back(count, old);
            if actions.is_to_be_told(&error, world.time()) {
                tracing::error!(%error, "the action log can't be saved in the store; this is tried again");
            }
        }
    });
}

/// The key of the action log in the store.
const KEY: &str = "journal";
/// The number of entries that are kept.
const MOST: usize = 1000;
/// The most characters of a text in an entry.
const MAX_CHARS: usize = 300;
/// The time between two writes of new entries, in milliseconds.
const PERIOD_MS: u64 = 3_000;
/// The shortest time between two log lines of the same cause, in milliseconds.
const MINUTE_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(act: &str, domain: &str) -> Entry {
        let (who, by) = ("admin@a.example".to_owned(), "page".to_owned());
        Entry { unix_ms: 5, who, by, act: act.into(), domain: domain.into() }
    }

    #[test]
    fn a_failure_of_the_store_is_logged_once_a_minute() {
        let (actions, start) = (ActionLog::default(), 1_278_803_305_000);
        assert!(actions.is_to_be_told(&StoreError::Busy, start), "the first");
        assert!(!(1..MINUTE_MS).step_by(3000).any(|later| actions.is_to_be_told(&StoreError::Busy, start + later)));
        assert!(actions.is_to_be_told(&StoreError::Closed, start + 3000), "another cause");
        assert!(actions.is_to_be_told(&StoreError::Closed, start + 3000 + MINUTE_MS), "it still fails");
    }

    #[test]
    fn entries_are_read_back_as_they_were_and_their_number_is_bounded() {
        let actions = ActionLog::default();
        // Nothing is stored until the stored entries are loaded.
        actions.fill(Vec::new());
        for number in 0..MOST + 5 {
            actions.note(entry(&format!("act {number}\n\tforged\tline"), "a.example"));
        }
        let kept = actions.take_unkept();
        assert_eq!((kept.new.len(), kept.old.len()), (MOST, 5));
        assert_eq!(actions.take_unkept(), Unkept::default());
        actions.put_back(2, vec!["old".into()]);
        assert_eq!(actions.take_unkept(), Unkept { new: kept.new[MOST - 2..].to_vec(), old: vec!["old".into()] });
        let again = ActionLog::default();
        again.note(entry("new", ""));
        again.fill(kept.new);
        let all = again.recent(&["a.example".into()], true, usize::MAX);
        assert_eq!((all.len(), all[0].act.as_str()), (MOST, "new"));
        assert_eq!(all[1].act, format!("act {}  forged line", MOST + 4));
    }

    #[test]
    fn the_way_and_the_address_are_told_apart() {
        let by = |by: &str| Entry { by: by.to_owned(), ..entry("act", "") };
        assert_eq!(by("page from 192.0.2.7").way(), ("page", Some("192.0.2.7")));
        assert_eq!(by("command line").way(), ("command line", None));
    }

    #[test]
    fn entries_of_other_domains_are_not_shown() {
        let actions = ActionLog::default();
        actions.note(entry("here", "a.example"));
        actions.note(entry("there", "b.example"));
        actions.note(entry("everywhere", ""));
        let acts = |of_server| {
            let entries = actions.recent(&["a.example".into()], of_server, 10).into_iter();
            entries.map(|entry| entry.act).collect::<Vec<_>>()
        };
        assert_eq!(acts(true), ["everywhere", "here"]);
        assert_eq!(acts(false), ["here"]);
    }
}
