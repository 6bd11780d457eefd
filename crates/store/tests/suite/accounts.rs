//! [`Accounts`](rookery_store::Accounts) and [`Meta`](rookery_store::Meta).

use super::samples::*;
use rookery_jid::Jid;
use rookery_store::{
    Added, Browsed, Choice, OfflineRoom, Only, Order, Pushed, Reserved, RosterItem, Slot, SlotQuota, SlotStage,
    StoreError, Stores, Subscription, wait,
};

pub fn an_account_is_created_once(stores: &Stores) {
    let romeo = jid("romeo@montague.example");
    assert_eq!(finish(stores.accounts.credentials(romeo.as_ref())), None);
    assert!(finish(stores.accounts.create(romeo.as_ref(), password("first"))));
    assert!(!finish(stores.accounts.create(romeo.as_ref(), password("second"))));
    assert_eq!(finish(stores.accounts.credentials(romeo.as_ref())), Some(password("first")));
    assert!(finish(stores.accounts.exists(romeo.as_ref())));
    assert!(!finish(stores.accounts.exists(jid("romeo@capulet.example").as_ref())), "another domain");
}

pub fn a_resource_is_ignored(stores: &Stores) {
    let full = jid("romeo@montague.example/orchard");
    assert!(finish(stores.accounts.create(full.as_ref(), password("x"))));
    assert!(finish(stores.accounts.exists(full.bare())));
    assert_eq!(finish(stores.accounts.list("montague.example", None, 9)), [full.to_bare()]);
    assert_eq!(
        finish(stores.offline.push(full.as_ref(), full.as_ref(), b"<message/>".to_vec(), 1, OfflineRoom::of(9))),
        Pushed::Kept
    );
    assert_eq!(finish(stores.offline.count(full.bare())), 1);
}

pub fn passwords_change(stores: &Stores) {
    let romeo = jid("romeo@montague.example");
    assert!(!finish(stores.accounts.set_credentials(romeo.as_ref(), password("new"))));
    assert!(!finish(stores.accounts.exists(romeo.as_ref())));
    account(stores, romeo.as_str());
    assert!(finish(stores.accounts.set_credentials(romeo.as_ref(), password("new"))));
    assert_eq!(finish(stores.accounts.credentials(romeo.as_ref())), Some(password("new")));
    account(stores, "juliet@montague.example");
    let iterations = password("new").sha256.iterations;
    assert_eq!(finish(stores.accounts.iterations()), [(iterations, 2)]);
}

pub fn many_are_created_in_order(stores: &Stores) {
    let keys = password("x");
    account(stores, "user3@a.example");
    let accounts: Vec<(Jid, _)> = (0..500).map(|n| (jid(&format!("user{n}@a.example")), keys.clone())).collect();
    let twice = [accounts.clone(), accounts[..2].to_vec()].concat();
    let created = finish(stores.accounts.create_many(twice));
    assert_eq!(created.len(), 502);
    for (n, created) in created.into_iter().enumerate() {
        assert_eq!(created, n != 3 && n < 500, "account {n}");
    }
    assert_eq!(finish(stores.accounts.count(None)), 500);
    assert_eq!(finish(stores.accounts.credentials(accounts[499].0.as_ref())), Some(keys));
    assert_eq!(finish(stores.accounts.create_many(Vec::new())), Vec::<bool>::new());
}

pub fn disabled_accounts_are_listed(stores: &Stores) {
    let names = ["a", "b", "c"].map(|local| account(stores, &format!("{local}@a.example")));
    let elsewhere = account(stores, "a@b.example");
    for account in names[1..].iter().chain([&elsewhere]) {
        assert!(finish(stores.accounts.set_disabled(account.as_ref(), true)));
        assert!(finish(stores.accounts.set_disabled(account.as_ref(), true)));
        assert!(finish(stores.accounts.is_disabled(account.as_ref())));
    }
    let list = |after, limit| finish(stores.accounts.list_disabled("a.example", after, limit));
    assert_eq!((list(None, 9).as_slice(), list(None, 1).as_slice()), (&names[1..], &names[1..2]));
    assert_eq!(list(Some(names[1].as_ref()), 9), names[2..]);
    assert_eq!(finish(stores.accounts.count_disabled("a.example")), 2);
    assert!(finish(stores.accounts.set_disabled(names[1].as_ref(), false)));
    assert!(!finish(stores.accounts.is_disabled(names[1].as_ref())));
    assert!(!finish(stores.accounts.set_disabled(jid("x@a.example").as_ref(), true)));
    assert!(!finish(stores.accounts.is_disabled(jid("x@a.example").as_ref())));
    // A successor of the same name may log in.
    assert!(finish(stores.accounts.remove(names[2].as_ref())));
    account(stores, "c@a.example");
    assert!(!finish(stores.accounts.is_disabled(names[2].as_ref())));
    assert_eq!(finish(stores.accounts.count_disabled("a.example")), 0);
}

pub fn operators_browse_them(stores: &Stores) {
    let names = ["a_b", "axb", "b!", "c"].map(|local| account(stores, &format!("{local}@a.example")));
    account(stores, "elsewhere@b.example");
    for (account, unix_ms) in [(&names[0], 5), (&names[2], 9)] {
        finish(stores.last_presence.put(account.as_ref(), unix_ms, b"<presence/>".to_vec()));
    }
    for account in &names[1..3] {
        assert!(finish(stores.accounts.set_disabled(account.as_ref(), true)));
    }
    let all = Choice { limit: 9, ..Choice::default() };
    let browse = |choice: Choice| {
        let Browsed { total, accounts } = finish(stores.accounts.browse("a.example", choice));
        (
            total,
            accounts.iter().filter_map(|account| account.jid.local().map(str::to_owned)).collect::<Vec<_>>().join(" "),
        )
    };
    let found = |total: u64, names: &str| (total, names.to_owned());
    assert_eq!(browse(all.clone()), found(4, "a_b axb b! c"));
    assert_eq!(browse(Choice { order: Order::Newest, ..all.clone() }), found(4, "b! a_b axb c"));
    assert_eq!(browse(Choice { order: Order::Oldest, ..all.clone() }), found(4, "axb c a_b b!"));
    assert_eq!(browse(Choice { order: Order::Newest, skip: 1, limit: 2, ..all.clone() }), found(4, "a_b axb"));
    assert_eq!(browse(Choice { skip: 9, ..all.clone() }), found(4, ""));
    for order in [Order::Name, Order::Oldest] {
        assert_eq!(browse(Choice { only: Only::NeverSeen, order, ..all.clone() }), found(2, "axb c"));
    }
    assert_eq!(browse(Choice { only: Only::Disabled, ..all.clone() }), found(2, "axb b!"));
    assert_eq!(browse(Choice { only: Only::Disabled, order: Order::Newest, ..all.clone() }), found(2, "b! axb"));
    assert_eq!(browse(Choice { only: Only::Disabled, order: Order::Oldest, ..all.clone() }), found(2, "axb b!"));
    for (contains, names) in [("_", "a_b"), ("!", "b!"), ("%", ""), ("b", "a_b axb b!")] {
        let counted = names.split_whitespace().count() as u64;
        assert_eq!(
            browse(Choice { contains: contains.to_owned(), ..all.clone() }),
            found(counted, names),
            "{contains}"
        );
    }
    let [newest] =
        &finish(stores.accounts.browse("a.example", Choice { order: Order::Newest, limit: 1, ..all })).accounts[..]
    else {
        panic!("one account");
    };
    assert_eq!((newest.is_disabled, newest.last_seen_ms), (true, Some(9)));
}

pub fn operators_see_what_accounts_store(stores: &Stores) {
    let [small, none, large] = ["a", "b", "c"].map(|local| account(stores, &format!("{local}@a.example")));
    finish(stores.offline.push(small.as_ref(), none.as_ref(), vec![b'x'; 7], 1, OfflineRoom::of(9)));
    finish(stores.offline.push(large.as_ref(), none.as_ref(), vec![b'x'; 5], 1, OfflineRoom::of(9)));
    for (token, size) in [("one", 1000), ("two", 3_000_000_000)] {
        let slot = Slot {
            token: token.into(),
            owner: large.clone(),
            name: "a.png".into(),
            size,
            content_type: None,
            expires_ms: 1000,
            keep_ms: 1000,
            stage: SlotStage::Reserved,
        };
        let quota = SlotQuota { bytes: u64::MAX, files: 9, waiting: 9 };
        assert_eq!(finish(stores.slots.reserve(slot, quota)), Reserved::Done);
    }
    let choice = Choice { limit: 9, order: Order::Largest, ..Choice::default() };
    let found = finish(stores.accounts.browse("a.example", choice)).accounts;
    let found: Vec<_> = found.iter().map(|found| (found.jid.clone(), found.bytes)).collect();
    assert_eq!(found, [(large, 3_000_001_005), (small, 7), (none, 0)]);
}

/// The newest come first; a store without a clock has no times.
pub fn operators_see_when_accounts_were_made(stores: &Stores) {
    for local in ["a", "b"] {
        account(stores, &format!("{local}@a.example"));
    }
    let choice = Choice { limit: 9, order: Order::Youngest, ..Choice::default() };
    let found = finish(stores.accounts.browse("a.example", choice)).accounts;
    let times: Vec<_> = found.iter().map(|found| found.created_ms).collect();
    assert!(times.is_sorted_by(|one, other| one >= other) && times.len() == 2, "{times:?}");
    // The first of January 2020, in milliseconds rather than seconds.
    assert!(times.iter().flatten().all(|unix_ms| *unix_ms > 1_577_836_800_000), "{times:?}");
}

pub fn lists_go_on_behind_an_account(stores: &Stores) {
    for local in ["b", "é", "a", "aa", "日本"] {
        account(stores, &format!("{local}@a.example"));
    }
    account(stores, "b@b.example");
    account(stores, "a@a.exampl");
    let expected = ["a", "aa", "b", "é", "日本"].map(|local| jid(&format!("{local}@a.example")));
    assert_eq!(finish(stores.accounts.list("a.example", None, 100)), expected);
    let mut listed = Vec::new();
    loop {
        let page = finish(stores.accounts.list("a.example", listed.last().map(Jid::as_ref), 2));
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed, expected);
    assert!(finish(stores.accounts.list("nowhere.example", None, 100)).is_empty());
    assert!(finish(stores.accounts.list("a.example", None, 0)).is_empty());
    assert_eq!(finish(stores.accounts.count(Some("a.example"))), 5);
    assert_eq!(finish(stores.accounts.count(Some("nowhere.example"))), 0);
    assert_eq!(finish(stores.accounts.count(None)), 7);
}

pub fn a_removed_account_leaves_nothing(stores: &Stores) {
    let (romeo, juliet) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    put(stores, &romeo, item_with(juliet.as_str(), Subscription::Both));
    put(stores, &romeo, RosterItem::new(jid("nurse@a.example")));
    remove(stores, &romeo, &jid("nurse@a.example"));
    put(stores, &juliet, item_with(romeo.as_str(), Subscription::Both));
    finish(stores.offline.push(romeo.as_ref(), romeo.as_ref(), b"<message/>".to_vec(), 1, OfflineRoom::of(9)));
    finish(stores.last_presence.put(romeo.as_ref(), 1, b"<presence/>".to_vec()));

    finish(stores.documents.put(romeo.as_ref(), "vcard", Some(vec![1])));
    finish(stores.accounts.set_disabled(romeo.as_ref(), true));

    assert!(finish(stores.accounts.remove(romeo.as_ref())));
    assert!(!finish(stores.accounts.remove(romeo.as_ref())));
    assert!(!finish(stores.accounts.exists(romeo.as_ref())));
    assert_eq!(finish(stores.offline.count(romeo.as_ref())), 0);
    assert_eq!(wait(stores.rosters.get(romeo.as_ref())), Err(StoreError::NoAccount));

    account(stores, romeo.as_str());
    assert!(!finish(stores.accounts.is_disabled(romeo.as_ref())));
    assert_eq!(finish(stores.documents.starting(romeo.as_ref(), "")), []);
    assert_eq!(finish(stores.last_presence.last(romeo.as_ref())), None);
    assert_eq!(finish(stores.rosters.get(romeo.as_ref())).items, []);
    assert_eq!(finish(stores.offline.load(romeo.as_ref(), 0, usize::MAX)), []);
    put(stores, &romeo, item_with(juliet.as_str(), Subscription::Both));
    assert_eq!(finish(stores.last_presence.of(juliet.as_ref(), vec![romeo.clone()], "")), []);
    assert_eq!(finish(stores.rosters.contacts(juliet.as_ref())), [(romeo, Subscription::Both)], "others' rosters stay");
}

pub fn settings_are_kept(stores: &Stores) {
    assert_eq!(finish(stores.meta.get("secret")), None);
    finish(stores.meta.put("secret", vec![0, 1, 255]));
    finish(stores.meta.put("Secret", vec![]));
    assert_eq!(finish(stores.meta.get("secret")), Some(vec![0, 1, 255]));
    finish(stores.meta.put("secret", vec![2]));
    assert_eq!(finish(stores.meta.get("secret")), Some(vec![2]));
    assert_eq!(finish(stores.meta.get("Secret")), Some(vec![]));
}

pub fn lists_change_by_entries(stores: &Stores) {
    let meta = &stores.meta;
    let entries = |list: &str| finish(meta.entries(list)).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(finish(meta.add_entry("tokens", "b", vec![1], 2)), Added::Done);
    assert_eq!(finish(meta.add_entry("tokens", "b", vec![2], 2)), Added::Exists);
    assert_eq!(finish(meta.add_entry("tokens", "a", vec![3], 2)), Added::Done);
    assert_eq!(finish(meta.add_entry("tokens", "c", vec![4], 2)), Added::Full);
    assert_eq!(finish(meta.entries("tokens")), [("a".into(), vec![3]), ("b".into(), vec![1])]);
    finish(meta.put_entry("tokens", "b", vec![5]));
    finish(meta.put_entry("tokens", "c", vec![6]));
    assert_eq!(entries("tokens"), ["a", "b", "c"]);
    assert_eq!((finish(meta.remove_entry("tokens", "a")), finish(meta.remove_entry("tokens", "a"))), (true, false));
    let replaced = |before: u8, after: Option<u8>| {
        finish(meta.replace_entry("tokens", "b", vec![before], after.map(|byte| vec![byte])))
    };
    assert!(!replaced(1, Some(7)) && !replaced(7, None), "it has other bytes");
    assert_eq!(finish(meta.entries("tokens")), [("b".into(), vec![5]), ("c".into(), vec![6])]);
    assert!(replaced(5, Some(8)) && replaced(8, None));
    assert!(!replaced(8, Some(9)), "there is none any more");
    assert_eq!(entries("tokens"), ["c"]);
    finish(meta.put_entry("tokens", "b", vec![5]));
    finish(meta.set_entries("admins", vec![("y".into(), vec![]), ("x".into(), vec![])]));
    finish(meta.set_entries("admins", vec![("z".into(), vec![])]));
    assert_eq!((entries("tokens"), entries("admins")), (vec!["b".to_owned(), "c".to_owned()], vec!["z".to_owned()]));
    assert_eq!(finish(meta.get("tokens")), None, "settings are something else");
}
