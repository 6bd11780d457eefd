//! A store in which every account exists: as many as a benchmark needs, without a stored byte.
//!
//! All accounts have the same password. Each has the same number of contacts, whose numbers lie on
//! either side of its own, and nothing else.

use std::future::ready;
use std::sync::Arc;

use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;
use rookery_store::memory::Memory;
use rookery_store::{
    Accounts, Browsed, Changed, Changes, Choice, EditRoster, LastPresence, LastSeen, Pending, Roster, RosterItem,
    Rosters, StoreError, Stores, Subscription,
};

use crate::chat;

/// The store.
pub struct Everyone {
    credentials: Credentials,
    accounts: usize,
    contacts: usize,
}

impl Everyone {
    /// Returns stores with accounts from zero up, in a ring: each sees, and is seen by, the
    /// `contacts` accounts that are nearest to it.
    pub fn stores(credentials: Credentials, accounts: usize, contacts: usize) -> Stores {
        let everyone = Arc::new(Everyone { credentials, accounts, contacts });
        Stores { accounts: everyone.clone(), rosters: everyone.clone(), last_presence: everyone, ..Memory::stores() }
    }

    fn contacts_of(&self, owner: JidRef<'_>) -> Vec<Jid> {
        let digits = owner.local().unwrap_or_default().trim_start_matches(|c: char| !c.is_ascii_digit());
        let own: usize = digits.parse().unwrap_or_default();
        let count = self.accounts.max(1);
        let around = (1..=self.contacts.div_ceil(2)).flat_map(|step| [own + step, own + count - step % count]);
        let names = around.take(self.contacts).map(|number| chat::account(number % count, owner.domain()));
        names.filter_map(|name| Jid::parse(&name).ok()).collect()
    }
}

impl Accounts for Everyone {
    fn credentials(&self, _account: JidRef<'_>) -> Pending<Option<Credentials>> {
        ready_with(Some(self.credentials.clone()))
    }

    fn create(&self, _account: JidRef<'_>, _credentials: Credentials) -> Pending<bool> {
        ready_with(false)
    }

    fn create_many(&self, accounts: Vec<(Jid, Credentials)>) -> Pending<Vec<bool>> {
        ready_with(vec![false; accounts.len()])
    }

    fn set_credentials(&self, _account: JidRef<'_>, _credentials: Credentials) -> Pending<bool> {
        ready_with(true)
    }

    fn remove(&self, _account: JidRef<'_>) -> Pending<bool> {
        ready_with(false)
    }

    fn exists(&self, _account: JidRef<'_>) -> Pending<bool> {
        ready_with(true)
    }

    fn list(&self, _domain: &str, _after: Option<JidRef<'_>>, _limit: usize) -> Pending<Vec<Jid>> {
        ready_with(Vec::new())
    }

    fn set_disabled(&self, _account: JidRef<'_>, _disabled: bool) -> Pending<bool> {
        ready_with(false)
    }

    fn is_disabled(&self, _account: JidRef<'_>) -> Pending<bool> {
        ready_with(false)
    }

    fn list_disabled(&self, _domain: &str, _after: Option<JidRef<'_>>, _limit: usize) -> Pending<Vec<Jid>> {
        ready_with(Vec::new())
    }

    fn browse(&self, _domain: &str, _choice: Choice) -> Pending<Browsed> {
        ready_with(Browsed::default())
    }

    fn iterations(&self) -> Pending<Vec<(u32, u64)>> {
        ready_with(vec![(self.credentials.sha256.iterations, self.accounts as u64)])
    }

    fn count_disabled(&self, _domain: &str) -> Pending<u64> {
        ready_with(0)
    }

    fn count(&self, _domain: Option<&str>) -> Pending<u64> {
        ready_with(self.accounts as u64)
    }
}

impl Rosters for Everyone {
    fn get(&self, owner: JidRef<'_>) -> Pending<Roster> {
        let item = |jid| RosterItem { subscription: Subscription::Both, ..RosterItem::new(jid) };
        ready_with(Roster { version: 1, items: self.contacts_of(owner).into_iter().map(item).collect() })
    }

    fn since(&self, _owner: JidRef<'_>, _version: u64) -> Pending<Option<Changes>> {
        ready_with(None)
    }

    fn contacts(&self, owner: JidRef<'_>) -> Pending<Vec<(Jid, Subscription)>> {
        ready_with(self.contacts_of(owner).into_iter().map(|jid| (jid, Subscription::Both)).collect())
    }

    fn item(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Pending<Option<RosterItem>> {
        let jid = self.contacts_of(owner).into_iter().find(|jid| jid.as_ref() == contact);
        ready_with(jid.map(|jid| RosterItem { subscription: Subscription::Both, ..RosterItem::new(jid) }))
    }

    fn change(&self, _owner: JidRef<'_>, _contact: JidRef<'_>, _edit: EditRoster) -> Pending<Changed> {
        Box::pin(ready(Err(StoreError::NoAccount)))
    }

    fn put_many(&self, _owner: JidRef<'_>, _items: Vec<RosterItem>) -> Pending<()> {
        Box::pin(ready(Err(StoreError::NoAccount)))
    }

    fn pending_in(&self, _owner: JidRef<'_>, _after: Option<Jid>, _limit: usize) -> Pending<Vec<(Jid, Vec<u8>)>> {
        ready_with(Vec::new())
    }
}

impl LastPresence for Everyone {
    fn put(&self, _owner: JidRef<'_>, _unix_ms: u64, _stanza: Vec<u8>) -> Pending<()> {
        ready_with(())
    }

    fn last(&self, _owner: JidRef<'_>) -> Pending<Option<LastSeen>> {
        ready_with(None)
    }

    fn of(&self, _asker: JidRef<'_>, _owners: Vec<Jid>, _document: &str) -> Pending<Vec<(LastSeen, Option<Vec<u8>>)>> {
        ready_with(Vec::new())
    }
}

fn ready_with<T: Send + 'static>(answer: T) -> Pending<T> {
    Box::pin(ready(Ok(answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_sees_another_is_seen() {
        let credentials = Credentials::derive_with("x", 1, [[0; 16]; 3]).unwrap();
        let everyone = Everyone { credentials, accounts: 7, contacts: 4 };
        let of = |number| {
            let jid = Jid::parse(&chat::account(number, "example.org")).unwrap();
            everyone.contacts_of(jid.as_ref())
        };
        for number in 0..7 {
            let own = Jid::parse(&chat::account(number, "example.org")).unwrap();
            assert_eq!(of(number).len(), 4);
            assert!((0..7).all(|other| {
                let name = Jid::parse(&chat::account(other, "example.org")).unwrap();
                of(number).contains(&name) == of(other).contains(&own)
            }));
        }
    }
}
