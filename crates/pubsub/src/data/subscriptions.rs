//! The subscriptions of all shards: for the limit per account, and for lists of them.
//!
//! A look-up takes a lock. It happens only when a user subscribes, or when a session with a
//! subscription of its own ends.

use rookery_base::Map;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_jid::{Jid, JidRef};

use super::source::Topic;

/// By account: the nodes, each with the subscribed address.
type SubscriptionTable = Map<Jid, BTreeSet<(Arc<Topic>, Jid)>>;

/// The subscriptions of all accounts.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    by_account: Mutex<SubscriptionTable>,
    /// The number of subscriptions of full JIDs.
    sessions: AtomicUsize,
}

impl Subscriptions {
    pub fn add(&self, subscriber: &Jid, topic: &Arc<Topic>) {
        if subscriber.resource().is_some() {
            self.sessions.fetch_add(1, Ordering::Relaxed);
        }
        self.table().entry(subscriber.to_bare()).or_default().insert((topic.clone(), subscriber.clone()));
    }

    pub fn remove(&self, subscriber: &Jid, topic: &Topic) {
        if subscriber.resource().is_some() {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
        }
        let (account, mut table) = (subscriber.to_bare(), self.table());
        let Some(own) = table.get_mut(&account) else { return };
        own.retain(|(of, jid)| **of != *topic || jid != subscriber);
        if own.is_empty() {
            table.remove(&account);
        }
    }

    /// Returns the number of an account's subscriptions.
    pub fn count(&self, account: &Jid) -> usize {
        self.table().get(account).map_or(0, BTreeSet::len)
    }

    /// Returns whether an account has any subscription.
    pub fn has(&self, account: JidRef<'_>) -> bool {
        self.table().contains_key(&account.to_jid().to_bare())
    }

    /// Returns whether there is any subscription of a full JID.
    pub fn has_sessions(&self) -> bool {
        self.sessions.load(Ordering::Relaxed) > 0
    }

    /// Returns whether this full JID has a subscription.
    pub fn has_session(&self, session: &Jid) -> bool {
        self.table().get(&session.to_bare()).is_some_and(|own| own.iter().any(|(_, jid)| jid == session))
    }

    /// Returns the subscriptions of an account to the nodes of a host.
    pub fn of(&self, account: &Jid, host: &str) -> Vec<(Arc<Topic>, Jid)> {
        let table = self.table();
        let own = table.get(account).into_iter().flatten();
        own.filter(|(topic, _)| topic.host == host).cloned().collect()
    }

    fn table(&self) -> MutexGuard<'_, SubscriptionTable> {
        lock(&self.by_account)
    }
}
