//! [`LastPresence`](rookery_store::LastPresence).

use super::samples::*;
use rookery_store::{LastSeen, RosterItem, StoreError, Stores, Subscription, wait};

pub fn only_those_who_may_see_it_do(stores: &Stores) {
    let asker = jid("juliet@b.example/balcony");
    let subscriptions = [Subscription::None, Subscription::To, Subscription::From, Subscription::Both];
    let mut owners: Vec<_> = subscriptions
        .into_iter()
        .map(|subscription| {
            let owner = account(stores, &format!("{}@a.example", subscription.as_str()));
            put(stores, &owner, item_with("juliet@b.example", subscription));
            finish(stores.last_presence.put(owner.as_ref(), 7, owner.as_str().as_bytes().to_vec()));
            owner
        })
        .collect();
    let stranger = account(stores, "stranger@a.example");
    finish(stores.last_presence.put(stranger.as_ref(), 7, vec![]));
    let silent = account(stores, "silent@a.example");
    put(stores, &silent, item_with("juliet@b.example", Subscription::Both));
    owners.extend([stranger, silent, jid("nobody@a.example")]);
    owners.reverse();

    finish(stores.documents.put(jid("both@a.example").as_ref(), "conceals", Some(vec![1])));
    let seen = finish(stores.last_presence.of(asker.as_ref(), owners, "conceals"));
    let expected = [("both@a.example", Some(vec![1])), ("from@a.example", None)]
        .map(|(owner, document)| (LastSeen { owner: jid(owner), unix_ms: 7, stanza: owner.into() }, document));
    assert_eq!(seen, expected);
}

pub fn the_last_one_counts(stores: &Stores) {
    let (owner, asker) = (account(stores, "romeo@a.example"), jid("juliet@b.example"));
    put(stores, &owner, RosterItem { subscription: Subscription::From, ..RosterItem::new(asker.clone()) });
    finish(stores.last_presence.put(owner.as_ref(), 1, b"first".to_vec()));
    finish(stores.last_presence.put(owner.as_ref(), 2, b"second".to_vec()));
    let seen = finish(stores.last_presence.of(asker.as_ref(), vec![owner.clone()], "conceals"));
    let last = LastSeen { owner: owner.clone(), unix_ms: 2, stanza: b"second".to_vec() };
    assert_eq!(seen, [(last.clone(), None)]);
    assert_eq!(finish(stores.last_presence.last(owner.as_ref())), Some(last));
    assert_eq!(finish(stores.last_presence.last(asker.as_ref())), None);
    let nobody = jid("nobody@a.example");
    assert_eq!(wait(stores.last_presence.put(nobody.as_ref(), 1, vec![])), Err(StoreError::NoAccount));
}
