//! Rooms whose latest changes the store has refused. A change takes effect as soon as occupants
//! have seen it; its author is told that it isn't stored yet, and the room is written again, in its
//! current state, until the store accepts it. Such a room stays in memory even when it is empty.

use rookery_base::Map;
use std::collections::BTreeSet;

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::StoreError;
use rookery_stream::error::{ErrorType, StanzaError};

/// The pending and the refused writes of a shard's rooms.
#[derive(Debug, Default)]
pub(crate) struct Unsaved(Map<Jid, UnsavedChanges>);

/// The changes of a room that the store lacks.
#[derive(Debug, Default)]
pub(crate) struct UnsavedChanges {
    /// The number of unanswered writes.
    pending: usize,
    /// True if the store has refused a write.
    pub(super) is_refused: bool,
    /// The users whose affiliations it lacks, besides the document.
    pub(super) users: BTreeSet<Jid>,
    /// True if the store still has the room, though it was destroyed.
    pub(super) is_destroyed: bool,
}

impl Unsaved {
    /// Notes that a write begins.
    pub(crate) fn begin(&mut self, room: &Jid) {
        self.0.entry(room.clone()).or_default().pending += 1;
    }

    /// Notes that a write has ended. A failed one has to be repeated, with the affiliations of
    /// these users.
    pub(crate) fn end(&mut self, room: &Jid, is_kept: bool, users: impl IntoIterator<Item = Jid>) {
        if let Some(lack) = self.0.get_mut(room) {
            debug_assert!(lack.pending > 0, "a write ends once");
            lack.pending = lack.pending.saturating_sub(1);
            if !is_kept {
                lack.is_refused = true;
                lack.users.extend(users);
            }
        }
    }

    /// Returns whether the store lacks changes of a room, or might.
    pub(crate) fn has(&self, room: &Jid) -> bool {
        self.0.get(room).is_some_and(UnsavedChanges::is_real)
    }

    /// Returns the rooms that are being written.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Jid> {
        self.0.iter().filter(|(_, lack)| lack.pending > 0).map(|(room, _)| room)
    }

    /// Takes out the users whose affiliations the store lacks, or might lack, for a room that
    /// another process writes from now on; `None` if it has all of the room.
    pub(crate) fn take_of(&mut self, room: &Jid) -> Option<Vec<Jid>> {
        let lack = self.0.remove(room).filter(UnsavedChanges::is_real)?;
        Some(lack.users.into_iter().collect())
    }

    /// Returns the same users without taking them out.
    pub(crate) fn users_of(&self, room: &str) -> Option<Vec<Jid>> {
        let lack = self.0.get(room).filter(|lack| lack.is_real())?;
        Some(lack.users.iter().cloned().collect())
    }

    /// Takes out the changes of all rooms that aren't being written.
    pub(crate) fn take(&mut self) -> Map<Jid, UnsavedChanges> {
        self.0.extract_if(|_, lack| lack.pending == 0).collect()
    }

    /// Puts back changes that can't be written now.
    pub(crate) fn put_back(&mut self, room: Jid, lack: UnsavedChanges) {
        let kept = self.0.entry(room).or_default();
        kept.is_refused |= lack.is_refused;
        kept.is_destroyed |= lack.is_destroyed;
        kept.users.extend(lack.users);
    }
}

/// Removes a room that was destroyed, or is not to stay, from the store.
pub(crate) fn remove(world: &mut World, room: &Jid, then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static) {
    world.state_mut::<Unsaved>().begin(room);
    let (room, removed) = (room.clone(), world.stores.rooms.remove(room.as_ref()));
    world.wait(removed, move |world, removed| {
        world.state_mut::<Unsaved>().end(&room, removed.is_ok(), []);
        if let Err(error) = &removed {
            world.store_failed("removing a room", &room, error);
            let lack = UnsavedChanges { is_destroyed: true, is_refused: true, ..UnsavedChanges::default() };
            world.state_mut::<Unsaved>().put_back(room, lack);
        }
        then(world, removed.map(drop));
    });
}

impl UnsavedChanges {
    /// Returns the changes of a room that is to be written again, with the affiliations of these
    /// users.
    pub(crate) fn for_users(users: Vec<Jid>) -> Self {
        Self { is_refused: true, users: users.into_iter().collect(), ..Self::default() }
    }

    /// Returns whether a write was refused, or is under way.
    pub(crate) fn is_real(&self) -> bool {
        self.is_refused || self.pending > 0
    }
}

/// Returns the error for a change that is in effect, but not in the store yet.
pub(crate) fn not_kept_yet(error: &StoreError) -> StanzaError {
    StanzaError::new(rookery_hub::failure::condition(error))
        .with_type(ErrorType::Wait)
        .with_text("this takes effect, but couldn't be stored yet; that will be tried again")
}

/// The time after a failure until the next attempt, in milliseconds.
pub(crate) const RETRY_MS: u64 = 10_000;
