//! Bare JIDs as numbers: a shard stores each address once, however many rosters contain it.
//!
//! A roster of fifty contacts costs two hundred bytes this way, and finding the user of an address
//! is one look-up. References are counted; a name without any is forgotten and its number reused.

use hashbrown::HashTable;

/// The number of a bare JID within one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameId(pub u32);

impl NameId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// All names of a shard.
#[derive(Debug, Default)]
pub struct NameTable {
    table: HashTable<u32>,
    entries: Vec<NameEntry>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct NameEntry {
    text: Box<str>,
    hash: u64,
    references: u32,
    user: u32,
}

impl NameTable {
    /// Returns the number of a name that is known.
    pub fn find(&self, hash: u64, text: &str) -> Option<NameId> {
        self.table
            .find(hash, |&at| self.entries.get(at as usize).is_some_and(|entry| &*entry.text == text))
            .map(|&at| NameId(at))
    }

    /// Returns the number of a name, with one more reference to it.
    pub fn intern(&mut self, hash: u64, text: &str) -> NameId {
        if let Some(id) = self.find(hash, text) {
            if let Some(entry) = self.entries.get_mut(id.index()) {
                debug_assert!(entry.references > 0 && entry.hash == hash, "a name that is found lives");
                entry.references += 1;
            }
            return id;
        }
        let entry = NameEntry { text: text.into(), hash, references: 1, user: NOBODY };
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(slot) = self.entries.get_mut(at as usize) {
                    debug_assert!(slot.references == 0 && slot.text.is_empty(), "a number that is free is nobody's");
                    *slot = entry;
                }
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let entries = &self.entries;
        self.table.insert_unique(hash, at, |&other| entries.get(other as usize).map_or(0, |entry| entry.hash));
        NameId(at)
    }

    /// Gives one reference back; the last one forgets the name.
    pub fn release(&mut self, id: NameId) {
        let Some(entry) = self.entries.get_mut(id.index()) else { return };
        debug_assert!(entry.references > 0, "a reference is given back once");
        entry.references = entry.references.saturating_sub(1);
        if entry.references > 0 {
            return;
        }
        debug_assert!(entry.user == NOBODY, "a user who is here keeps the name");
        let hash = entry.hash;
        entry.text = Box::default();
        if let Ok(found) = self.table.find_entry(hash, |&at| at == id.0) {
            found.remove();
        }
        self.free.push(id.0);
        debug_assert!(self.table.len() + self.free.len() == self.entries.len(), "a number is used or free");
    }

    /// Returns the bare JID behind a number, and its hash.
    pub fn get(&self, id: NameId) -> Option<(u64, &str)> {
        self.entries.get(id.index()).map(|entry| (entry.hash, &*entry.text))
    }

    /// Returns the index of the user who is online under this name, see [`NameTable::set_user`].
    pub fn user(&self, id: NameId) -> Option<u32> {
        self.entries.get(id.index()).map(|entry| entry.user).filter(|&user| user != NOBODY)
    }

    /// Sets the user who is online under this name; `None` if there is none.
    pub fn set_user(&mut self, id: NameId, user: Option<u32>) {
        if let Some(entry) = self.entries.get_mut(id.index()) {
            debug_assert!(entry.references > 0, "a user has a name");
            debug_assert!(user.is_none() || entry.user == NOBODY, "one user has a name at a time");
            entry.user = user.unwrap_or(NOBODY);
        }
    }

    /// Returns the number of names that are known.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether no name is known.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

const NOBODY: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lives_as_long_as_its_references() {
        let mut names = NameTable::default();
        let romeo = names.intern(7, "romeo@example.org");
        assert_eq!(names.intern(7, "romeo@example.org"), romeo);
        let juliet = names.intern(7, "juliet@example.org");
        assert_ne!(romeo, juliet, "the same hash is not the same name");
        names.set_user(romeo, Some(3));
        names.release(romeo);
        assert_eq!(names.find(7, "romeo@example.org"), Some(romeo));
        assert_eq!(names.user(romeo), Some(3));
        names.set_user(romeo, None);
        names.release(romeo);
        assert_eq!(names.find(7, "romeo@example.org"), None);
        let nurse = names.intern(9, "nurse@example.org");
        assert_eq!(nurse, romeo, "numbers are reused");
        assert_eq!(names.user(nurse), None);
        assert_eq!(names.len(), 2);
    }
}
