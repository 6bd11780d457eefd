//! [`Rosters`](rookery_store::Rosters), except for versions.

use super::samples::*;
use rookery_store::{Changed, Edit, RosterItem, RosterSize, StoreError, Stores, Subscription, wait};
use std::sync::Arc;
use std::sync::mpsc;

pub fn items_read_as_written(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let plain = RosterItem::new(jid("abraham@a.example"));
    let rich = RosterItem {
        name: Some("Giulietta ♥ 'x' \t".into()),
        groups: vec!["1:Friends".into(), "".into(), "ü, \n".into()],
        subscription: Subscription::Both,
        ask: true,
        approved: true,
        pending_in: Some(b"<presence type='subscribe'/>".to_vec()),
        ..RosterItem::new(jid("juliet@b.example"))
    };
    let gateway = RosterItem { name: Some(String::new()), ..RosterItem::new(jid("sms.example/registered")) };
    let hidden = RosterItem::for_request(jid("tybalt@b.example"), b"<presence/>".to_vec());
    let items = vec![plain, rich, gateway, hidden];
    for item in &items {
        assert_eq!(put(stores, &owner, item.clone()).after.as_ref(), Some(item));
    }
    assert_eq!(finish(stores.rosters.get(owner.as_ref())).items, items);
    for item in &items {
        assert_eq!(finish(stores.rosters.item(owner.as_ref(), item.jid.as_ref())).as_ref(), Some(item));
    }
    // Addresses are used as they are.
    assert_eq!(finish(stores.rosters.item(owner.as_ref(), jid("sms.example").as_ref())), None);
}

pub fn an_edit_decides_on_what_is_there(stores: &Stores) {
    let (owner, contact) = (account(stores, "romeo@a.example"), jid("juliet@b.example"));
    let change =
        |edit: rookery_store::EditRoster| finish(stores.rosters.change(owner.as_ref(), contact.as_ref(), edit));
    let start = finish(stores.rosters.get(owner.as_ref())).version;

    let seen = change(Box::new(|item, count| {
        assert_eq!((item, count().items), (None, 0));
        Edit::Keep
    }));
    assert_eq!(seen, Changed { version: start, before: None, after: None });

    let item = RosterItem { name: Some("Juliet".into()), ..RosterItem::new(contact.clone()) };
    let misnamed = RosterItem { jid: jid("other@b.example"), ..item.clone() };
    let put = change(Box::new(move |_, _| Edit::Put(misnamed.clone())));
    assert_eq!(
        put,
        Changed { version: start + 1, before: None, after: Some(item.clone()) },
        "the contact's own address"
    );

    let expected = item.clone();
    let kept = change(Box::new(move |found, count| {
        assert_eq!((found, count().items), (Some(&expected), 1));
        Edit::Keep
    }));
    assert_eq!(kept, Changed { version: start + 1, before: Some(item.clone()), after: Some(item.clone()) });

    let removed = change(Box::new(|_, _| Edit::Remove));
    assert_eq!(removed, Changed { version: start + 2, before: Some(item), after: None });
    let again = change(Box::new(|item, count| {
        assert_eq!((item, count().items), (None, 0));
        Edit::Remove
    }));
    assert_eq!(again, Changed { version: start + 2, before: None, after: None });
}

pub fn owners_must_be_accounts(stores: &Stores) {
    let (nobody, contact) = (jid("nobody@a.example"), jid("juliet@b.example"));
    let rosters = &stores.rosters;
    assert_eq!(wait(rosters.get(nobody.as_ref())), Err(StoreError::NoAccount));
    assert_eq!(wait(rosters.since(nobody.as_ref(), 1)), Err(StoreError::NoAccount));
    assert_eq!(wait(rosters.contacts(nobody.as_ref())), Err(StoreError::NoAccount));
    assert_eq!(wait(rosters.pending_in(nobody.as_ref(), None, 9)), Err(StoreError::NoAccount));
    assert_eq!(wait(rosters.item(nobody.as_ref(), contact.as_ref())), Err(StoreError::NoAccount));
    let (asked, was_asked) = mpsc::channel();
    let edit = Box::new(move |_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| {
        asked.send(()).expect("the test listens");
        Edit::Keep
    });
    assert_eq!(wait(rosters.change(nobody.as_ref(), contact.as_ref(), edit)), Err(StoreError::NoAccount));
    assert!(was_asked.recv().is_err(), "the edit must not be asked");
}

pub fn contacts_have_a_subscription(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    put(stores, &owner, item_with("d@b.example", Subscription::From));
    put(stores, &owner, item_with("a@b.example", Subscription::None));
    put(stores, &owner, item_with("c@b.example", Subscription::Both));
    put(stores, &owner, item_with("b@b.example", Subscription::To));
    put(stores, &owner, RosterItem::for_request(jid("e@b.example"), vec![]));
    let expected = [("b", Subscription::To), ("c", Subscription::Both), ("d", Subscription::From)];
    let expected = expected.map(|(local, subscription)| (jid(&format!("{local}@b.example")), subscription));
    assert_eq!(finish(stores.rosters.contacts(owner.as_ref())), expected);
}

pub fn requests_are_kept_but_not_shown(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let request = RosterItem::for_request(jid("juliet@b.example"), b"<presence type='subscribe'/>".to_vec());
    let both = RosterItem { pending_in: Some(b"<presence/>".to_vec()), ..RosterItem::new(jid("nurse@b.example")) };
    put(stores, &owner, request.clone());
    put(stores, &owner, both.clone());
    put(stores, &owner, RosterItem::new(jid("peter@b.example")));
    let pending = finish(stores.rosters.pending_in(owner.as_ref(), None, 9));
    let expected = [request.clone(), both.clone()].map(|item| (item.jid, item.pending_in.expect("a request")));
    assert_eq!(pending, expected);
    // In portions of one.
    let page = |after: Option<&str>| finish(stores.rosters.pending_in(owner.as_ref(), after.map(jid), 1));
    assert_eq!(page(None), expected[..1]);
    assert_eq!(page(Some("juliet@b.example")), expected[1..]);
    assert_eq!(page(Some("nurse@b.example")), []);
    let items = finish(stores.rosters.get(owner.as_ref())).items;
    let visible: Vec<_> = items.iter().map(RosterItem::visible).collect();
    assert_eq!(visible, [false, true, true]);
}

pub fn sizes_tell_contacts_from_strangers(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let size = || {
        let (told, found) = std::sync::mpsc::channel();
        let edit: rookery_store::EditRoster = Box::new(move |_, size| {
            told.send(size()).expect("somebody who waits");
            rookery_store::Edit::Keep
        });
        finish(stores.rosters.change(owner.as_ref(), jid("x@b.example").as_ref(), edit));
        found.recv().expect("a size")
    };
    assert_eq!(size(), RosterSize::default());
    put(stores, &owner, RosterItem::for_request(jid("juliet@b.example"), b"<presence type='subscribe'/>".to_vec()));
    put(stores, &owner, RosterItem::for_request(jid("nurse@b.example"), b"<presence/>".to_vec()));
    let mut peter = RosterItem::new(jid("peter@b.example"));
    put(stores, &owner, peter.clone());
    assert_eq!(size(), RosterSize { items: 1, requests: 2, bytes: 15 });
    peter.name = Some("Péter".into());
    peter.groups = vec!["ä".into(), "Long enough for two digits".into()];
    put(stores, &owner, peter.clone());
    put(stores, &owner, item_with("tybalt@b.example", Subscription::To));
    let bytes = 15 + 6 + (2 + 2) + (3 + 26) + 16;
    assert_eq!(size(), RosterSize { items: 2, requests: 2, bytes });
    assert_eq!(peter.bytes() + 16, bytes);
}

pub fn a_panicking_edit_changes_nothing(stores: &Stores) {
    let (owner, contact) = (account(stores, "romeo@a.example"), jid("juliet@b.example"));
    put(stores, &owner, RosterItem::new(contact.clone()));
    let before = finish(stores.rosters.get(owner.as_ref()));
    let edit = Box::new(|_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| panic!("a bug in a caller"));
    let error = wait(stores.rosters.change(owner.as_ref(), contact.as_ref(), edit));
    assert_eq!(error, Err(StoreError::Panicked("a bug in a caller".into())));
    assert_eq!(finish(stores.rosters.get(owner.as_ref())), before, "and the store goes on");
}

pub fn concurrent_edits_all_count(stores: &Stores) {
    let (owner, contact) = (account(stores, "romeo@a.example"), jid("juliet@b.example"));
    let append = |item: Option<&RosterItem>, contact: &rookery_jid::Jid| {
        let mut item = item.cloned().unwrap_or_else(|| RosterItem::new(contact.clone()));
        item.groups.push("x".into());
        Edit::Put(item)
    };
    let shared = Arc::new((stores.clone(), owner.clone(), contact));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let (stores, owner, contact) = &*shared;
                for _ in 0..25 {
                    let jid = contact.clone();
                    let edit =
                        Box::new(move |item: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| append(item, &jid));
                    finish(stores.rosters.change(owner.as_ref(), contact.as_ref(), edit));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("an editing thread"));
    assert_eq!(finish(stores.rosters.get(owner.as_ref())).items[0].groups.len(), 100);
}

pub fn many_items_at_once_are_as_many_changes(stores: &Stores) {
    let named = |at: usize, name: &str| RosterItem {
        name: Some(name.into()),
        groups: vec![format!("{}", at % 7)],
        subscription: Subscription::Both,
        ..RosterItem::new(jid(&format!("contact{at:03}@b.example")))
    };
    let (all, some) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    let start = |owner: &rookery_jid::Jid| {
        let request = RosterItem::for_request(named(3, "").jid, b"<presence type='subscribe'/>".to_vec());
        [named(1, "as it was"), named(2, "vanished"), request].into_iter().for_each(|item| {
            put(stores, owner, item);
        });
        finish(stores.rosters.change(owner.as_ref(), named(2, "").jid.as_ref(), Box::new(|_, _| Edit::Remove)));
        finish(stores.rosters.get(owner.as_ref())).version
    };
    let (start_of_all, start_of_some) = (start(&all), start(&some));

    // More than a statement takes; one exists and stays, one had vanished, one has a request, and
    // one is hidden from clients.
    let mut items: Vec<_> = (0..300).map(|at| named(at, "new")).collect();
    items[1] = named(1, "as it was");
    items[4] = RosterItem { listed: false, subscription: Subscription::None, ..named(4, "hidden") };
    finish(stores.rosters.put_many(all.as_ref(), [vec![named(299, "written over")], items.clone()].concat()));
    for item in items {
        let contact = item.jid.clone();
        let edit = move |before: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| {
            let pending_in = before.and_then(|before| before.pending_in.clone());
            Edit::Put(RosterItem { pending_in, ..item.clone() })
        };
        finish(stores.rosters.change(some.as_ref(), contact.as_ref(), Box::new(edit)));
    }

    let items = |owner: &rookery_jid::Jid| finish(stores.rosters.get(owner.as_ref())).items;
    assert_eq!(items(&all).len(), 300);
    assert_eq!(items(&all), items(&some));
    let seen = |owner: &rookery_jid::Jid, start: u64| {
        let changes = finish(stores.rosters.since(owner.as_ref(), start)).expect("the latest changes are known");
        let changed = changes.changes.into_iter().map(move |(version, change)| (version - start, change));
        (changes.version - start, changed.collect::<Vec<_>>())
    };
    assert_eq!(seen(&all, start_of_all), seen(&some, start_of_some));
    // Writing no items is no change, and without an account there is no roster.
    finish(stores.rosters.put_many(all.as_ref(), Vec::new()));
    assert_eq!(seen(&all, start_of_all), seen(&some, start_of_some));
    let nobody = stores.rosters.put_many(jid("nobody@a.example").as_ref(), Vec::new());
    assert_eq!(wait(nobody), Err(StoreError::NoAccount));
}
