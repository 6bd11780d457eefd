//! All stores in one bundle.

use crate::{Accounts, Archive, Documents, Invitations, LastPresence, Meta, Offline, Pubsub, Rooms, Rosters, Slots};
use std::sync::Arc;

/// One of each store. A clone is a handle on the same stores.
#[derive(Clone)]
pub struct Stores {
    /// Who may log in.
    pub accounts: Arc<dyn Accounts>,
    /// Who knows whom.
    pub rosters: Arc<dyn Rosters>,
    /// What waits for those who are away.
    pub offline: Arc<dyn Offline>,
    /// Small things with a name, by account.
    pub documents: Arc<dyn Documents>,
    /// What was said.
    pub archive: Arc<dyn Archive>,
    /// Who may come in without a password, once.
    pub invitations: Arc<dyn Invitations>,
    /// What those who are away said last.
    pub last_presence: Arc<dyn LastPresence>,
    /// What others can subscribe to.
    pub pubsub: Arc<dyn Pubsub>,
    /// The rooms that outlive their occupants.
    pub rooms: Arc<dyn Rooms>,
    /// Places for files.
    pub slots: Arc<dyn Slots>,
    /// The server's own few settings.
    pub meta: Arc<dyn Meta>,
}

impl Stores {
    /// All of them from one thing that implements them all.
    pub fn of<S>(store: Arc<S>) -> Stores
    where
        S: Accounts
            + Rosters
            + Offline
            + Archive
            + Documents
            + Invitations
            + LastPresence
            + Pubsub
            + Rooms
            + Slots
            + Meta
            + 'static,
    {
        Stores {
            accounts: store.clone(),
            rosters: store.clone(),
            offline: store.clone(),
            documents: store.clone(),
            archive: store.clone(),
            invitations: store.clone(),
            last_presence: store.clone(),
            pubsub: store.clone(),
            rooms: store.clone(),
            slots: store.clone(),
            meta: store,
        }
    }
}
