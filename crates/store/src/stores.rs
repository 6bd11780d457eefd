//! All stores in one bundle.

use crate::{
    Accounts, Archive, Documents, Invitations, LastPresence, Meta, Offline, Pubsub, RoomStore, Rosters, Slots,
};
use std::sync::Arc;

/// One of each store. A clone is a handle on the same stores.
#[derive(Clone)]
pub struct Stores {
    /// Accounts with their keys.
    pub accounts: Arc<dyn Accounts>,
    /// Contacts of accounts, with their subscriptions.
    pub rosters: Arc<dyn Rosters>,
    /// Messages that wait for offline users.
    pub offline: Arc<dyn Offline>,
    /// Small named documents of accounts.
    pub documents: Arc<dyn Documents>,
    /// Messages that accounts and rooms keep.
    pub archive: Arc<dyn Archive>,
    /// Tokens that admit a user without a password.
    pub invitations: Arc<dyn Invitations>,
    /// The last presence of offline users.
    pub last_presence: Arc<dyn LastPresence>,
    /// The nodes that others can subscribe to.
    pub pubsub: Arc<dyn Pubsub>,
    /// The rooms that outlive their occupants.
    pub rooms: Arc<dyn RoomStore>,
    /// The upload slots for files (XEP-0363).
    pub slots: Arc<dyn Slots>,
    /// The server's own few settings.
    pub meta: Arc<dyn Meta>,
}

impl Stores {
    /// Returns the bundle of a type that implements all traits.
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
            + RoomStore
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
