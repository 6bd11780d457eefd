//! Roster versions (RFC 6121 §2.6).

use super::samples::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rookery_jid::Jid;
use rookery_store::rosters::REMEMBERED_REMOVALS;
use rookery_store::{Changes, Edit, Roster, RosterChange, RosterItem, Stores, Subscription};
use std::cell::Cell;
use std::collections::BTreeMap;

pub fn versions_count_what_clients_see(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let start = finish(stores.rosters.get(owner.as_ref())).version;
    let contact = jid("juliet@b.example");
    let hidden = RosterItem::for_request(contact.clone(), b"1".to_vec());
    let shown = RosterItem { listed: true, ..hidden.clone() };
    let steps = [
        (hidden.clone(), start, "a request is hidden"),
        (RosterItem { pending_in: Some(b"2".to_vec()), ..hidden.clone() }, start, "and so is another one"),
        (shown.clone(), start + 1, "shown"),
        (shown.clone(), start + 1, "no change"),
        (RosterItem { pending_in: None, ..shown.clone() }, start + 1, "clients don't see requests"),
        (RosterItem { ask: true, ..shown.clone() }, start + 2, "asked"),
        (RosterItem { name: Some("J".into()), ..shown.clone() }, start + 3, "named"),
        (hidden.clone(), start + 4, "hidden: vanished for clients"),
        (hidden.clone(), start + 4, "no change"),
    ];
    for (item, version, why) in steps {
        assert_eq!(put(stores, &owner, item).version, version, "{why}");
    }
    assert_eq!(remove(stores, &owner, &contact).version, start + 4, "it had vanished before");
    assert_eq!(since(stores, &owner, start), Some(changes(start + 4, [(start + 4, RosterChange::Removed(contact))])));
}

pub fn a_vanished_contact_is_reported_until_it_comes_back(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let start = finish(stores.rosters.get(owner.as_ref())).version;
    let (one, two) = (RosterItem::new(jid("one@b.example")), RosterItem::new(jid("two@b.example")));
    put(stores, &owner, one.clone());
    put(stores, &owner, two.clone());
    remove(stores, &owner, &one.jid);
    let expected = [(start + 2, RosterChange::Put(two.clone())), (start + 3, RosterChange::Removed(one.jid.clone()))];
    assert_eq!(since(stores, &owner, start), Some(changes(start + 3, expected.clone())));
    assert_eq!(since(stores, &owner, start + 2), Some(changes(start + 3, expected[1..].to_vec())));
    assert_eq!(since(stores, &owner, start + 3), Some(changes(start + 3, [])));
    put(stores, &owner, one.clone());
    let expected = [(start + 2, RosterChange::Put(two)), (start + 4, RosterChange::Put(one))];
    assert_eq!(since(stores, &owner, start), Some(changes(start + 4, expected)));
}

pub fn unknown_versions_get_everything(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let start = finish(stores.rosters.get(owner.as_ref())).version;
    assert_eq!(since(stores, &owner, start), Some(changes(start, [])));
    for unknown in [0, start + 1, u64::MAX] {
        assert_eq!(since(stores, &owner, unknown), None, "version {unknown}");
    }
}

pub fn removals_are_remembered_within_bounds(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let start = finish(stores.rosters.get(owner.as_ref())).version;
    let change = |edit: Edit, n: usize| {
        let contact = jid(&format!("c{n}@b.example"));
        stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(move |_, _| edit.clone()))
    };
    // The test doesn't wait for each operation, to keep the disk out of it; none waits so long that
    // it is refused.
    let mut version = start;
    for n in 0..REMEMBERED_REMOVALS + 2 {
        drop(change(Edit::Put(RosterItem::new(owner.clone())), n));
        let removed = change(Edit::Remove, n);
        if n % 50 == 0 || n == REMEMBERED_REMOVALS + 1 {
            version = finish(removed).version;
        }
    }
    assert_eq!(version, start + 2 * (REMEMBERED_REMOVALS as u64 + 2));
    assert_eq!(since(stores, &owner, start), None, "two removals are forgotten");
    assert_eq!(since(stores, &owner, start + 3), None);
    let known = since(stores, &owner, start + 4).expect("all removals since are remembered");
    assert_eq!(known.changes.len(), REMEMBERED_REMOVALS);
}

pub fn a_successor_never_matches_an_old_cache(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let old = put(stores, &owner, RosterItem::new(jid("juliet@b.example"))).version;
    finish(stores.accounts.remove(owner.as_ref()));
    account(stores, owner.as_str());
    assert_eq!(since(stores, &owner, old), None);
    put(stores, &owner, RosterItem::new(jid("rosaline@b.example")));
    assert_eq!(since(stores, &owner, old), None);
    let other = account(stores, "mercutio@a.example");
    let version = finish(stores.rosters.get(other.as_ref())).version;
    assert!(version > old, "{version} is new to every client");
}

/// After any changes, the changes since any version turn a copy of that version into the current
/// roster.
pub fn replayed_changes_give_the_roster(stores: &Stores) {
    let mut runner = TestRunner::new(Config { cases: 48, source_file: Some(file!()), ..Config::default() });
    let case = Cell::new(0);
    let steps = proptest::collection::vec((0_u8..5, edit()), 0..40);
    let outcome = runner.run(&steps, |steps| {
        case.set(case.get() + 1);
        let owner = account(stores, &format!("owner{}@a.example", case.get()));
        let mut copies = vec![finish(stores.rosters.get(owner.as_ref()))];
        let mut pending = Vec::new();
        for (contact, edit) in steps {
            let contact = jid(&format!("c{contact}@b.example"));
            drop(stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(move |_, _| edit.clone())));
            pending.push(stores.rosters.get(owner.as_ref()));
        }
        copies.extend(pending.into_iter().map(finish));
        let now = visible(copies.last().expect("at least the first"));
        for copy in &copies {
            let changes = since(stores, &owner, copy.version);
            let changes = changes.ok_or_else(|| TestCaseError::fail("a recent version is unknown"))?;
            prop_assert_eq!(replay(visible(copy), changes, copy.version), now.clone());
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

fn edit() -> impl Strategy<Value = Edit> {
    let item = (any::<[bool; 6]>(), "[ab]?", proptest::collection::vec("[gh]", 0..2));
    let item = item.prop_map(|([to, from, ask, approved, pending, listed], name, groups)| RosterItem {
        name: Some(name).filter(|name| !name.is_empty()),
        groups,
        subscription: Subscription::new(to, from),
        ask,
        approved,
        pending_in: pending.then(|| b"<presence/>".to_vec()),
        listed,
        ..RosterItem::new(jid("overwritten@b.example"))
    });
    let request = Just(RosterItem::for_request(jid("overwritten@b.example"), vec![1])).prop_map(Edit::Put);
    prop_oneof![4 => item.prop_map(Edit::Put), 2 => Just(Edit::Remove), 2 => request, 1 => Just(Edit::Keep)]
}

/// The part of a roster that a client has.
type Copy = BTreeMap<Jid, RosterItem>;

fn visible(roster: &Roster) -> Copy {
    let seen = roster.items.iter().filter(|item| item.visible());
    // Clients never see requests, or the reason why an item exists.
    seen.map(|item| (item.jid.clone(), RosterItem { pending_in: None, listed: true, ..item.clone() })).collect()
}

fn replay(mut copy: Copy, changes: Changes, from: u64) -> Copy {
    let mut version = from;
    for (changed, change) in changes.changes {
        assert!(changed > version && changed <= changes.version, "versions ascend");
        version = changed;
        match change {
            RosterChange::Put(item) => {
                assert!(item.visible());
                copy.insert(item.jid.clone(), RosterItem { pending_in: None, listed: true, ..item });
            }
            RosterChange::Removed(jid) => {
                copy.remove(&jid);
            }
        }
    }
    copy
}

fn since(stores: &Stores, owner: &Jid, version: u64) -> Option<Changes> {
    finish(stores.rosters.since(owner.as_ref(), version))
}

fn changes(version: u64, changes: impl Into<Vec<(u64, RosterChange)>>) -> Changes {
    Changes { version, changes: changes.into() }
}
