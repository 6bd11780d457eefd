//! Addresses and passwords for the tests, and short names for frequent steps.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::{Changed, Edit, Pending, RosterItem, Stores, Subscription, wait};

pub fn jid(text: &str) -> Jid {
    Jid::parse(text).expect("an address")
}

/// Credentials that cost nothing to derive.
pub fn password(text: &str) -> Credentials {
    Credentials::derive_with(text, 1, [[7; 16]; 3]).expect("a password")
}

pub fn finish<T>(pending: Pending<T>) -> T {
    wait(pending).expect("an operation that succeeds")
}

/// Creates an account in these stores.
pub fn account(stores: &Stores, text: &str) -> Jid {
    let account = jid(text);
    assert!(finish(stores.accounts.create(account.as_ref(), password("secret"))));
    account
}

pub fn put(stores: &Stores, owner: &Jid, item: RosterItem) -> Changed {
    let contact = item.jid.clone();
    finish(stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(move |_, _| Edit::Put(item.clone()))))
}

pub fn remove(stores: &Stores, owner: &Jid, contact: &Jid) -> Changed {
    finish(stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(|_, _| Edit::Remove)))
}

pub fn item_with(contact: &str, subscription: Subscription) -> RosterItem {
    RosterItem { subscription, ..RosterItem::new(jid(contact)) }
}
