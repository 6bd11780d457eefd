//! [`Pubsub`](rookery_store::Pubsub).

use super::samples::*;
use rookery_jid::Jid;
use rookery_store::pubsub::*;
use rookery_store::{Stores, Subscription};

const ALL: Kept = Kept { items: usize::MAX, since_ms: 0 };

pub fn a_node_is_created_once(stores: &Stores) {
    let (service, owner) = (jid("pubsub.a.example"), jid("hamlet@a.example/elsinore"));
    let create = |node: &str, limit| {
        done(stores.pubsub.create_node(service.as_ref(), node, b"config".to_vec(), owner.as_ref(), limit))
    };
    assert_eq!(done(stores.pubsub.node(service.as_ref(), "blog")), None);
    assert_eq!([create("blog", 2), create("blog", 2)], [Created::Done, Created::Exists]);
    assert_eq!([create("news", 2), create("more", 2)], [Created::Done, Created::Full]);
    let found = done(stores.pubsub.node(service.as_ref(), "blog")).expect("the node");
    assert_eq!(found.config, b"config");
    assert_eq!(found.affiliations, [(jid("hamlet@a.example"), Affiliation::Owner)]);
    assert_eq!(found.subscriptions, []);

    assert!(done(stores.pubsub.configure_node(service.as_ref(), "blog", b"other".to_vec(), ALL)));
    assert_eq!(done(stores.pubsub.node(service.as_ref(), "blog")).expect("the node").config, b"other");
    assert!(!done(stores.pubsub.configure_node(service.as_ref(), "nothing", vec![], ALL)));
    assert_eq!([0, 1].map(|_| done(stores.pubsub.delete_node(service.as_ref(), "blog"))), [true, false]);
    assert_eq!(done(stores.pubsub.node(service.as_ref(), "blog")), None);
}

pub fn an_account_has_nodes_only_while_it_exists(stores: &Stores) {
    let create = |owner: &Jid| done(stores.pubsub.create_node(owner.as_ref(), "tune", vec![], owner.as_ref(), 9));
    assert_eq!(create(&jid("nobody@a.example")), Created::NoAccount);
    let romeo = account(stores, "romeo@a.example");
    assert_eq!(create(&romeo), Created::Done);
    put(stores, &romeo, "tune", "x", 1, ALL);
    done(stores.accounts.remove(romeo.as_ref()));
    account(stores, "romeo@a.example");
    assert_eq!(done(stores.pubsub.node(romeo.as_ref(), "tune")), None);
    assert_eq!(create(&romeo), Created::Done);
    assert_eq!(ids(stores, &romeo, "tune", Wanted::Newest(9)), [""; 0]);
}

pub fn a_removed_account_has_no_part_in_nodes_of_others(stores: &Stores) {
    let service = jid("pubsub.a.example");
    let (romeo, juliet) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    for (node, owner) in [("his", &romeo), ("hers", &juliet)] {
        let created = stores.pubsub.create_node(service.as_ref(), node, vec![], owner.as_ref(), 9);
        assert_eq!(done(created), Created::Done);
    }
    let subscription = || Some(NodeSubscription::default());
    for subscriber in ["romeo@a.example", "romeo@a.example/r", "romeo@a.examples", "juliet@a.example"] {
        done(stores.pubsub.set_subscription(service.as_ref(), "hers", jid(subscriber).as_ref(), subscription()));
    }
    done(stores.pubsub.set_affiliation(service.as_ref(), "hers", romeo.as_ref(), Some(Affiliation::Owner)));
    done(stores.accounts.remove(romeo.as_ref()));

    assert_eq!(done(stores.pubsub.node(service.as_ref(), "his")), None, "nobody else owned it");
    let hers = done(stores.pubsub.node(service.as_ref(), "hers")).expect("the node");
    assert_eq!(hers.affiliations, [(juliet, Affiliation::Owner)]);
    let left: Vec<_> = hers.subscriptions.iter().map(|(subscriber, _)| subscriber.as_str()).collect();
    assert_eq!(left, ["juliet@a.example", "romeo@a.examples"]);
}

pub fn entities_find_their_own(stores: &Stores) {
    let (service, other) = (jid("pubsub.a.example"), jid("pubsub.b.example"));
    let (owner, romeo) = (jid("hamlet@a.example"), jid("romeo@a.example/r"));
    for host in [&service, &other] {
        for node in ["b", "a"] {
            done(stores.pubsub.create_node(host.as_ref(), node, vec![], owner.as_ref(), 9));
        }
    }
    let pending = NodeSubscription { pending: true, options: b"options".to_vec() };
    let set = |node: &str, subscriber: &str, subscription: Option<NodeSubscription>| {
        done(stores.pubsub.set_subscription(service.as_ref(), node, jid(subscriber).as_ref(), subscription))
    };
    assert!(set("a", "romeo@a.example/r", Some(pending.clone())));
    assert!(set("b", "romeo@a.example", Some(NodeSubscription::default())));
    assert!(set("b", "romeo@a.example", Some(pending.clone())), "it replaces");
    assert!(set("b", "romeo0@a.example", Some(pending.clone())));
    assert!(set("a", "juliet@a.example", Some(pending.clone())) && set("a", "juliet@a.example", None));
    assert!(!set("nothing", "romeo@a.example", Some(pending.clone())));
    let found = done(stores.pubsub.subscriptions_of(service.as_ref(), romeo.as_ref()));
    let expected = [("a", "romeo@a.example/r"), ("b", "romeo@a.example")];
    assert_eq!(found, expected.map(|(node, subscriber)| (node.to_owned(), jid(subscriber), pending.clone())));
    assert_eq!(done(stores.pubsub.subscriptions_of(other.as_ref(), romeo.as_ref())), []);

    for affiliation in Affiliation::ALL {
        let set = stores.pubsub.set_affiliation(service.as_ref(), "a", romeo.as_ref(), Some(affiliation));
        assert!(done(set));
        let found = done(stores.pubsub.affiliations_of(service.as_ref(), romeo.as_ref()));
        assert_eq!(found, [("a".to_owned(), affiliation)]);
    }
    let listed = done(stores.pubsub.nodes(service.as_ref(), romeo.as_ref(), "", 1));
    let expected = Listed { node: "a".into(), config: vec![], affiliation: Some(Affiliation::Outcast) };
    assert_eq!(listed, [expected]);
    let listed = done(stores.pubsub.nodes(service.as_ref(), romeo.as_ref(), "a", 9));
    assert_eq!(listed, [Listed { node: "b".into(), config: vec![], affiliation: None }]);
    done(stores.pubsub.set_affiliation(service.as_ref(), "a", romeo.as_ref(), None));
    assert_eq!(done(stores.pubsub.affiliations_of(service.as_ref(), romeo.as_ref())), []);
}

pub fn items_come_in_the_order_of_publication(stores: &Stores) {
    let service = node(stores);
    for (time, id) in (1..).zip(["a", "b", "c", "d", "e", "b"]) {
        put(stores, &service, "n", id, time, ALL);
    }
    let ids = |wanted| ids(stores, &service, "n", wanted);
    assert_eq!(ids(Wanted::Newest(9)), ["a", "c", "d", "e", "b"]);
    assert_eq!(ids(Wanted::Newest(2)), ["e", "b"]);
    assert_eq!(ids(Wanted::Ids(vec!["e".into(), "nothing".into(), "a".into()])), ["e", "a"]);
    assert_eq!(ids(Wanted::After(None, 2)), ["a", "c"]);
    assert_eq!(ids(Wanted::After(Some("c".into()), 2)), ["d", "e"]);
    assert_eq!(ids(Wanted::Before(None, 2)), ["e", "b"]);
    assert_eq!(ids(Wanted::Before(Some("e".into()), 2)), ["c", "d"]);
    assert_eq!(ids(Wanted::From(3, 9)), ["e", "b"]);
    assert_eq!(ids(Wanted::From(7, 9)), [""; 0]);

    let page = |wanted, since| done(stores.pubsub.items(service.as_ref(), "n", wanted, since)).expect("the node");
    let found = page(Wanted::Before(Some("b".into()), 2), 0);
    assert_eq!((found.index, found.total, found.lost), (2, 5, false));
    assert!(page(Wanted::After(Some("nothing".into()), 2), 0).lost);
    assert!(page(Wanted::Before(Some("nothing".into()), 2), 0).lost);
    assert_eq!(page(Wanted::After(None, 0), 0).items, []);
    let found = page(Wanted::Newest(9), 5);
    assert_eq!((found.items.len(), found.index, found.total), (2, 0, 2), "those before 5 are too old");
    assert_eq!(found.items[1], item("b", 6), "as it was published last");
    assert_eq!(done(stores.pubsub.items(service.as_ref(), "nothing", Wanted::Newest(1), 0)), None);
}

pub fn items_are_bounded(stores: &Stores) {
    let service = node(stores);
    for time in 1..=5 {
        put(stores, &service, "n", &format!("i{time}"), time, Kept { items: 3, since_ms: 0 });
    }
    let ids = |wanted| ids(stores, &service, "n", wanted);
    assert_eq!(ids(Wanted::Newest(9)), ["i3", "i4", "i5"]);
    put(stores, &service, "n", "i6", 6, Kept { items: 9, since_ms: 4 });
    assert_eq!(ids(Wanted::Newest(9)), ["i4", "i5", "i6"]);
    done(stores.pubsub.configure_node(service.as_ref(), "n", vec![], Kept { items: 1, since_ms: 0 }));
    assert_eq!(ids(Wanted::Newest(9)), ["i6"]);

    put(stores, &service, "n", "i7", 7, ALL);
    let retract = |ids: &[&str]| {
        done(stores.pubsub.retract(service.as_ref(), "n", ids.iter().map(|&id| id.to_owned()).collect()))
    };
    assert_eq!(retract(&["i7", "nothing", "i7"]), ["i7"]);
    put(stores, &service, "n", "i8", 8, ALL);
    assert_eq!(ids(Wanted::Newest(9)), ["i6", "i8"]);
    assert_eq!(done(stores.pubsub.purge(service.as_ref(), "n")), 2);
    assert_eq!(ids(Wanted::Newest(9)), [""; 0]);
    let publish = stores.pubsub.publish(service.as_ref(), "nothing", item("x", 1), ALL);
    assert_eq!(done(publish), Published::NoNode);
}

pub fn pages_of_items_are_bounded_in_bytes(stores: &Stores) {
    let service = node(stores);
    for id in ["a", "b", "c"] {
        let large = Item { payload: vec![b'x'; PAGE_BYTES / 2], ..item(id, 1) };
        done(stores.pubsub.publish(service.as_ref(), "n", large, ALL));
    }
    assert_eq!(ids(stores, &service, "n", Wanted::Newest(9)), ["b", "c"]);
    assert_eq!(ids(stores, &service, "n", Wanted::After(None, 9)), ["a", "b"]);
    assert_eq!(ids(stores, &service, "n", Wanted::Ids(["c", "b", "a"].map(str::to_owned).to_vec())), ["c", "b"]);
    let larger = Item { payload: vec![b'x'; PAGE_BYTES * 2], ..item("d", 1) };
    done(stores.pubsub.publish(service.as_ref(), "n", larger, ALL));
    let found = done(stores.pubsub.items(service.as_ref(), "n", Wanted::Newest(9), 0)).expect("the node");
    assert_eq!((found.items.len(), found.index, found.total), (1, 3, 4), "one that is larger comes alone");
}

pub fn news_know_how_the_asker_stands(stores: &Stores) {
    let (romeo, juliet, nurse) =
        (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"), jid("nurse@a.example"));
    for node in ["tune", "mood", "empty"] {
        let created = stores.pubsub.create_node(juliet.as_ref(), node, node.into(), juliet.as_ref(), 9);
        assert_eq!(done(created), Created::Done);
    }
    put(stores, &juliet, "tune", "old", 1, ALL);
    put(stores, &juliet, "tune", "new", 2, ALL);
    put(stores, &juliet, "mood", "m", 3, ALL);
    let mut contact = subscribed("romeo@a.example", Subscription::From);
    contact.groups = vec!["Friends".into()];
    super::samples::put(stores, &juliet, contact);
    done(stores.pubsub.set_affiliation(juliet.as_ref(), "mood", romeo.as_ref(), Some(Affiliation::Outcast)));

    let news = |asker: &Jid, nodes: &[&str]| {
        let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        let (found, is_cut) =
            done(stores.pubsub.news(asker.as_ref(), vec![nurse.clone(), juliet.clone()], nodes, None));
        assert!(!is_cut);
        found
    };
    let found = news(&romeo, &["tune", "empty", "mood", "nothing"]);
    let tune = News {
        host: juliet.clone(),
        node: "tune".into(),
        config: b"tune".to_vec(),
        affiliation: None,
        sees_presence: true,
        groups: vec!["Friends".into()],
        item: item("new", 2),
    };
    let mood = News {
        node: "mood".into(),
        config: b"mood".to_vec(),
        affiliation: Some(Affiliation::Outcast),
        item: item("m", 3),
        ..tune.clone()
    };
    assert_eq!(found, [tune.clone(), mood]);
    let stranger = News { sees_presence: false, groups: vec![], ..tune };
    assert_eq!(news(&nurse, &["tune"]), [stranger]);
}

pub fn news_come_in_portions(stores: &Stores) {
    let owners: Vec<Jid> = ["romeo@a.example", "juliet@a.example"].map(|name| account(stores, name)).into();
    let nodes: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
    let mut expected = Vec::new();
    for owner in &owners {
        for node in &nodes {
            done(stores.pubsub.create_node(owner.as_ref(), node, vec![], owner.as_ref(), 9));
            let large = Item { payload: vec![b'x'; PAGE_BYTES / 2], ..item(node, 1) };
            done(stores.pubsub.publish(owner.as_ref(), node, large, ALL));
            expected.push((owner.clone(), node.clone()));
        }
    }
    let (mut found, mut portions) = (Vec::<(Jid, String)>::new(), Vec::new());
    loop {
        let asked = stores.pubsub.news(owners[0].as_ref(), owners.clone(), nodes.clone(), found.last().cloned());
        let (news, is_cut) = done(asked);
        portions.push(news.len());
        found.extend(news.into_iter().map(|news| (news.host, news.node)));
        if !is_cut {
            break;
        }
    }
    assert_eq!(found, expected);
    assert_eq!(portions, [2, 2, 2]);
}

pub fn nodes_of_accounts_are_listed_page_by_page(stores: &Stores) {
    let service = node(stores);
    let mut expected = Vec::new();
    for name in ["romeo@a.example", "juliet@a.example"] {
        let account = account(stores, name);
        for node in ["tune", "mood"] {
            done(stores.pubsub.create_node(account.as_ref(), node, vec![], account.as_ref(), 9));
            expected.push((account.clone(), node.to_owned()));
        }
    }
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = done(stores.pubsub.accounts_nodes(after, 3));
        let Some((last, ..)) = page.last() else { break };
        assert!(page.is_sorted_by_key(|(number, ..)| *number) && page[0].0 > after);
        after = *last;
        found.extend(page.into_iter().map(|(_, host, node)| (host, node)));
    }
    assert_eq!(found, expected);
    assert!(found.iter().all(|(host, _)| *host != service));
}

/// A service with a node `n`.
fn node(stores: &Stores) -> Jid {
    let service = jid("pubsub.a.example");
    let created = stores.pubsub.create_node(service.as_ref(), "n", vec![], jid("hamlet@a.example").as_ref(), 9);
    assert_eq!(done(created), Created::Done);
    service
}

fn item(id: &str, unix_ms: u64) -> Item {
    Item { id: id.into(), publisher: jid("hamlet@a.example"), unix_ms, payload: format!("<p>{id}</p>").into_bytes() }
}

fn put(stores: &Stores, host: &Jid, node: &str, id: &str, unix_ms: u64, kept: Kept) {
    assert_eq!(done(stores.pubsub.publish(host.as_ref(), node, item(id, unix_ms), kept)), Published::Kept);
}

fn ids(stores: &Stores, host: &Jid, node: &str, wanted: Wanted) -> Vec<String> {
    let found = done(stores.pubsub.items(host.as_ref(), node, wanted, 0)).expect("the node");
    found.items.into_iter().map(|item| item.id).collect()
}
