//! [`Pubsub`](rookery_store::Pubsub).

use super::samples::*;
use rookery_jid::Jid;
use rookery_store::pubsub::*;
use rookery_store::{Stores, Subscription};

const ALL: ItemsKept = ItemsKept { items: usize::MAX, since_ms: 0 };

pub fn a_node_is_created_once(stores: &Stores) {
    let (service, owner) = (jid("pubsub.a.example"), jid("hamlet@a.example/elsinore"));
    let create = |node: &str, limit| {
        finish(stores.pubsub.create_node(
            service.as_ref(),
            node,
            b"config".to_vec(),
            owner.as_ref(),
            NodeRoom { host_nodes: limit, ..NodeRoom::ANY },
        ))
    };
    assert_eq!(finish(stores.pubsub.node(service.as_ref(), "blog")), None);
    assert_eq!([create("blog", 2), create("blog", 2)], [Created::Done, Created::Exists]);
    assert_eq!([create("news", 2), create("more", 2)], [Created::Done, Created::Full]);
    let found = finish(stores.pubsub.node(service.as_ref(), "blog")).expect("the node");
    assert_eq!(found.config, b"config");
    assert_eq!(found.affiliations, [(jid("hamlet@a.example"), NodeAffiliation::Owner)]);
    assert_eq!(found.subscriptions, []);

    assert!(finish(stores.pubsub.configure_node(service.as_ref(), "blog", b"other".to_vec(), ALL)));
    assert_eq!(finish(stores.pubsub.node(service.as_ref(), "blog")).expect("the node").config, b"other");
    assert!(!finish(stores.pubsub.configure_node(service.as_ref(), "nothing", vec![], ALL)));
    assert_eq!([0, 1].map(|_| finish(stores.pubsub.delete_node(service.as_ref(), "blog"))), [true, false]);
    assert_eq!(finish(stores.pubsub.node(service.as_ref(), "blog")), None);
}

/// Nodes, items and resources may end with spaces, which collations of databases often ignore.
pub fn keys_that_end_with_a_space_are_others(stores: &Stores) {
    let (service, owner) = (jid("pubsub.a.example"), jid("hamlet@a.example"));
    let names = ["n", "n ", "n  "];
    for name in names {
        let created = stores.pubsub.create_node(service.as_ref(), name, name.into(), owner.as_ref(), NodeRoom::ANY);
        assert_eq!(finish(created), Created::Done, "{name:?}");
    }
    for name in names {
        assert_eq!(finish(stores.pubsub.node(service.as_ref(), name)).expect("the node").config, name.as_bytes());
    }
    for (at, id) in ["i", "i ", "i  "].into_iter().enumerate() {
        put(stores, &service, "n", id, at as u64 + 1, ALL);
        let subscriber = jid(&format!("romeo@a.example/{id}"));
        let subscription = NodeSubscription { pending: false, options: id.into() };
        let set = stores.pubsub.set_subscription(service.as_ref(), "n", subscriber.as_ref(), Some(subscription), 9);
        finish(set);
    }
    assert_eq!(finish(stores.pubsub.retract(service.as_ref(), "n", vec!["i ".into()])), ["i "]);
    let mut left = ids(stores, &service, "n", WantedItems::Newest(9));
    left.sort_unstable();
    assert_eq!(left, ["i", "i  "]);
    assert_eq!(ids(stores, &service, "n ", WantedItems::Newest(9)), [""; 0]);
    let removed = jid("romeo@a.example/i ");
    finish(stores.pubsub.set_subscription(service.as_ref(), "n", removed.as_ref(), None, 9));
    let found = finish(stores.pubsub.subscriptions_of(service.as_ref(), jid("romeo@a.example").as_ref()));
    let mut of: Vec<_> = found.into_iter().map(|(_, subscriber, set)| (subscriber, set.options)).collect();
    of.sort_unstable();
    let expected = ["i", "i  "].map(|id| (jid(&format!("romeo@a.example/{id}")), id.as_bytes().to_vec()));
    assert_eq!(of, expected);
}

pub fn an_account_has_nodes_only_while_it_exists(stores: &Stores) {
    let create =
        |owner: &Jid| finish(stores.pubsub.create_node(owner.as_ref(), "tune", vec![], owner.as_ref(), NodeRoom::ANY));
    assert_eq!(create(&jid("nobody@a.example")), Created::NoAccount);
    let romeo = account(stores, "romeo@a.example");
    assert_eq!(create(&romeo), Created::Done);
    put(stores, &romeo, "tune", "x", 1, ALL);
    finish(stores.accounts.remove(romeo.as_ref()));
    account(stores, "romeo@a.example");
    assert_eq!(finish(stores.pubsub.node(romeo.as_ref(), "tune")), None);
    assert_eq!(create(&romeo), Created::Done);
    assert_eq!(ids(stores, &romeo, "tune", WantedItems::Newest(9)), [""; 0]);
}

pub fn a_removed_account_has_no_part_in_nodes_of_others(stores: &Stores) {
    let service = jid("pubsub.a.example");
    let (romeo, juliet) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    for (node, owner) in [("his", &romeo), ("hers", &juliet)] {
        let created = stores.pubsub.create_node(service.as_ref(), node, vec![], owner.as_ref(), NodeRoom::ANY);
        assert_eq!(finish(created), Created::Done);
    }
    let subscription = || Some(NodeSubscription::default());
    for subscriber in ["romeo@a.example", "romeo@a.example/r", "romeo@a.examples", "juliet@a.example"] {
        finish(stores.pubsub.set_subscription(
            service.as_ref(),
            "hers",
            jid(subscriber).as_ref(),
            subscription(),
            usize::MAX,
        ));
    }
    finish(stores.pubsub.set_affiliation(
        service.as_ref(),
        "hers",
        romeo.as_ref(),
        Some(NodeAffiliation::Owner),
        NodeRoom::ANY,
    ));
    finish(stores.accounts.remove(romeo.as_ref()));

    assert_eq!(finish(stores.pubsub.node(service.as_ref(), "his")), None, "nobody else owned it");
    let hers = finish(stores.pubsub.node(service.as_ref(), "hers")).expect("the node");
    assert_eq!(hers.affiliations, [(juliet, NodeAffiliation::Owner)]);
    let left: Vec<_> = hers.subscriptions.iter().map(|(subscriber, _)| subscriber.as_str()).collect();
    assert_eq!(left, ["juliet@a.example", "romeo@a.examples"]);
}

pub fn entities_find_their_own(stores: &Stores) {
    let (service, other) = (jid("pubsub.a.example"), jid("pubsub.b.example"));
    let (owner, romeo) = (jid("hamlet@a.example"), jid("romeo@a.example/r"));
    for host in [&service, &other] {
        for node in ["b", "a"] {
            finish(stores.pubsub.create_node(host.as_ref(), node, vec![], owner.as_ref(), NodeRoom::ANY));
        }
    }
    let pending = NodeSubscription { pending: true, options: b"options".to_vec() };
    let set = |node: &str, subscriber: &str, subscription: Option<NodeSubscription>| {
        finish(stores.pubsub.set_subscription(
            service.as_ref(),
            node,
            jid(subscriber).as_ref(),
            subscription,
            usize::MAX,
        ))
    };
    assert_eq!(set("a", "romeo@a.example/r", Some(pending.clone())), SetOutcome::Done);
    assert_eq!(set("b", "romeo@a.example", Some(NodeSubscription::default())), SetOutcome::Done);
    assert_eq!(set("b", "romeo@a.example", Some(pending.clone())), SetOutcome::Done, "it replaces");
    assert_eq!(set("b", "romeo0@a.example", Some(pending.clone())), SetOutcome::Done);
    assert_eq!([Some(pending.clone()), None].map(|new| set("a", "juliet@a.example", new)), [SetOutcome::Done; 2]);
    assert_eq!(set("nothing", "romeo@a.example", Some(pending.clone())), SetOutcome::NoNode);
    let found = finish(stores.pubsub.subscriptions_of(service.as_ref(), romeo.as_ref()));
    let expected = [("a", "romeo@a.example/r"), ("b", "romeo@a.example")];
    assert_eq!(found, expected.map(|(node, subscriber)| (node.to_owned(), jid(subscriber), pending.clone())));
    assert_eq!(finish(stores.pubsub.subscriptions_of(other.as_ref(), romeo.as_ref())), []);

    for affiliation in NodeAffiliation::ALL {
        let set =
            stores.pubsub.set_affiliation(service.as_ref(), "a", romeo.as_ref(), Some(affiliation), NodeRoom::ANY);
        assert_eq!(finish(set), SetOutcome::Done);
        let found = finish(stores.pubsub.affiliations_of(service.as_ref(), romeo.as_ref()));
        assert_eq!(found, [("a".to_owned(), affiliation)]);
    }
    let listed = finish(stores.pubsub.nodes(service.as_ref(), romeo.as_ref(), "", 1));
    let expected = NodeListed { node: "a".into(), config: vec![], affiliation: Some(NodeAffiliation::Outcast) };
    assert_eq!(listed, [expected]);
    let listed = finish(stores.pubsub.nodes(service.as_ref(), romeo.as_ref(), "a", 9));
    assert_eq!(listed, [NodeListed { node: "b".into(), config: vec![], affiliation: None }]);
    finish(stores.pubsub.set_affiliation(service.as_ref(), "a", romeo.as_ref(), None, NodeRoom::ANY));
    assert_eq!(finish(stores.pubsub.affiliations_of(service.as_ref(), romeo.as_ref())), []);
}

pub fn items_come_in_the_order_of_publication(stores: &Stores) {
    let service = node(stores);
    for (time, id) in (1..).zip(["a", "b", "c", "d", "e", "b"]) {
        put(stores, &service, "n", id, time, ALL);
    }
    let ids = |wanted| ids(stores, &service, "n", wanted);
    assert_eq!(ids(WantedItems::Newest(9)), ["a", "c", "d", "e", "b"]);
    assert_eq!(ids(WantedItems::Newest(2)), ["e", "b"]);
    assert_eq!(ids(WantedItems::Ids(vec!["e".into(), "nothing".into(), "a".into()])), ["e", "a"]);
    assert_eq!(ids(WantedItems::After(None, 2)), ["a", "c"]);
    assert_eq!(ids(WantedItems::After(Some("c".into()), 2)), ["d", "e"]);
    assert_eq!(ids(WantedItems::Before(None, 2)), ["e", "b"]);
    assert_eq!(ids(WantedItems::Before(Some("e".into()), 2)), ["c", "d"]);
    assert_eq!(ids(WantedItems::From(3, 9)), ["e", "b"]);
    assert_eq!(ids(WantedItems::From(7, 9)), [""; 0]);

    let page = |wanted, since| finish(stores.pubsub.items(service.as_ref(), "n", wanted, since)).expect("the node");
    let found = page(WantedItems::Before(Some("b".into()), 2), 0);
    assert_eq!((found.index, found.total, found.lost), (2, 5, false));
    assert!(page(WantedItems::After(Some("nothing".into()), 2), 0).lost);
    assert!(page(WantedItems::Before(Some("nothing".into()), 2), 0).lost);
    assert_eq!(page(WantedItems::After(None, 0), 0).items, []);
    let found = page(WantedItems::Newest(9), 5);
    assert_eq!((found.items.len(), found.index, found.total), (2, 0, 2), "those before 5 are too old");
    assert_eq!(found.items[1], item("b", 6), "as it was published last");
    assert_eq!(finish(stores.pubsub.items(service.as_ref(), "nothing", WantedItems::Newest(1), 0)), None);
}

pub fn items_are_bounded(stores: &Stores) {
    let service = node(stores);
    for time in 1..=5 {
        put(stores, &service, "n", &format!("i{time}"), time, ItemsKept { items: 3, since_ms: 0 });
    }
    let ids = |wanted| ids(stores, &service, "n", wanted);
    assert_eq!(ids(WantedItems::Newest(9)), ["i3", "i4", "i5"]);
    put(stores, &service, "n", "i6", 6, ItemsKept { items: 9, since_ms: 4 });
    assert_eq!(ids(WantedItems::Newest(9)), ["i4", "i5", "i6"]);
    finish(stores.pubsub.configure_node(service.as_ref(), "n", vec![], ItemsKept { items: 1, since_ms: 0 }));
    assert_eq!(ids(WantedItems::Newest(9)), ["i6"]);

    put(stores, &service, "n", "i7", 7, ALL);
    let retract = |ids: &[&str]| {
        finish(stores.pubsub.retract(service.as_ref(), "n", ids.iter().map(|&id| id.to_owned()).collect()))
    };
    assert_eq!(retract(&["i7", "nothing", "i7"]), ["i7"]);
    put(stores, &service, "n", "i8", 8, ALL);
    assert_eq!(ids(WantedItems::Newest(9)), ["i6", "i8"]);
    assert_eq!(finish(stores.pubsub.purge(service.as_ref(), "n")), 2);
    assert_eq!(ids(WantedItems::Newest(9)), [""; 0]);
    let publish = stores.pubsub.publish(service.as_ref(), "nothing", item("x", 1), ALL, NodeRoom::ANY);
    assert_eq!(finish(publish), Published::NoNode);
}

pub fn who_makes_nodes_answers_for_them(stores: &Stores) {
    let (service, other) = (jid("pubsub.a.example"), jid("pubsub.b.example"));
    let (hamlet, horatio) = (account(stores, "hamlet@a.example"), account(stores, "horatio@a.example"));
    let two = NodeRoom { creator_nodes: 2, ..NodeRoom::ANY };
    let create = |host: &Jid, node: &str, owner: &Jid, room| {
        finish(stores.pubsub.create_node(host.as_ref(), node, vec![b'c'; 50], owner.as_ref(), room))
    };
    assert_eq!(
        ["a", "b", "c"].map(|node| create(&service, node, &hamlet, two))[1..],
        [Created::Done, Created::OwnerFull]
    );
    assert_eq!(create(&other, "c", &hamlet, two), Created::Done, "at another host");
    assert_eq!(create(&service, "c", &horatio, two), Created::Done);
    let creator = |node| finish(stores.pubsub.node(service.as_ref(), node)).expect("the node").creator;
    assert_eq!((creator("a"), creator("c")), (Some(hamlet.clone()), Some(horatio.clone())));
    let few = NodeRoom { creator_bytes: 497, ..NodeRoom::ANY };
    assert_eq!(create(&service, "d", &hamlet, few), Created::OwnerFull, "3 times 50 and the owner's affiliation");

    // Nodes of a removed account that others also own are left to one of those.
    finish(stores.pubsub.set_affiliation(
        service.as_ref(),
        "c",
        hamlet.as_ref(),
        Some(NodeAffiliation::Owner),
        NodeRoom::ANY,
    ));
    finish(stores.accounts.remove(horatio.as_ref()));
    assert_eq!(creator("c"), Some(hamlet.clone()));
    assert_eq!(create(&service, "d", &hamlet, NodeRoom { creator_nodes: 3, ..NodeRoom::ANY }), Created::OwnerFull);
}

pub fn bytes_are_counted(stores: &Stores) {
    let service = jid("pubsub.a.example");
    let owner = account(stores, "hamlet@a.example");
    let own = (owner.as_str().len() as u64) + OVERHEAD;
    for name in ["n", "m"] {
        assert_eq!(
            finish(stores.pubsub.create_node(service.as_ref(), name, vec![], owner.as_ref(), NodeRoom::ANY)),
            Created::Done
        );
    }
    let sized = |id: &str, bytes: usize| Item {
        payload: vec![b'x'; bytes],
        publisher: owner.clone(),
        ..item(id, id[1..].parse().expect("a time"))
    };
    let size = |bytes: usize| sized("i1", bytes).bytes();
    let publish = |node: &str, id: &str, bytes: usize, kept: ItemsKept, room: NodeRoom| {
        finish(stores.pubsub.publish(service.as_ref(), node, sized(id, bytes), kept, room))
    };
    // Room for the owner and three items of 1000 bytes, to the byte.
    let room = NodeRoom { node_bytes: own + 3 * size(1000), creator_bytes: 2 * own + 4 * size(1000), ..NodeRoom::ANY };
    for id in ["i1", "i2", "i3"] {
        assert_eq!(publish("n", id, 1000, ALL, room), Published::Kept);
    }
    assert_eq!(publish("n", "i4", 0, ALL, room), Published::NodeFull);
    assert_eq!(publish("n", "i3", 1001, ALL, room), Published::NodeFull, "in the place of one, it may have as many");
    assert_eq!(ids(stores, &service, "n", WantedItems::Newest(9)), ["i1", "i2", "i3"], "nothing has changed");
    assert_eq!(publish("n", "i1", 1000, ALL, room), Published::Kept);
    // Removed items make room.
    let three = ItemsKept { items: 3, since_ms: 0 };
    assert_eq!(publish("n", "i4", 1000, three, room), Published::Kept);
    assert_eq!(ids(stores, &service, "n", WantedItems::Newest(9)), ["i3", "i1", "i4"]);
    assert_eq!(publish("n", "i5", 1000, ItemsKept { items: 9, since_ms: 5 }, room), Published::Kept);
    assert_eq!(ids(stores, &service, "n", WantedItems::Newest(9)), ["i5"], "the others were too old");
    for id in ["i6", "i7"] {
        assert_eq!(publish("n", id, 1000, ALL, room), Published::Kept);
    }
    // The same account's other node.
    assert_eq!(publish("m", "i1", 1000, ALL, room), Published::Kept);
    assert_eq!(publish("m", "i2", 1, ALL, room), Published::CreatorFull);
    let affiliate = |affiliation, room| {
        let somebody = jid("somebody@a.example");
        finish(stores.pubsub.set_affiliation(service.as_ref(), "m", somebody.as_ref(), affiliation, room))
    };
    assert_eq!(affiliate(Some(NodeAffiliation::Member), room), SetOutcome::Full);
    assert_eq!(finish(stores.pubsub.retract(service.as_ref(), "n", vec!["i6".into(), "x".into()])), ["i6"]);
    assert_eq!(affiliate(Some(NodeAffiliation::Member), room), SetOutcome::Done);
    assert_eq!(affiliate(Some(NodeAffiliation::Publisher), room), SetOutcome::Done, "it is there");
    assert_eq!(publish("n", "i6", 1000, ALL, room), Published::CreatorFull);
    assert_eq!(affiliate(None, room), SetOutcome::Done);
    assert_eq!(publish("n", "i6", 1000, ALL, room), Published::Kept);
    assert_eq!(finish(stores.pubsub.purge(service.as_ref(), "n")), 3);
    assert_eq!(
        publish("n", "i1", 3 * 1000 + 2 * 100, ALL, room),
        Published::Kept,
        "all but the ids' and publishers' of three"
    );
    assert!(finish(stores.pubsub.configure_node(service.as_ref(), "n", vec![0; 1000], ALL)));
    assert_eq!(publish("n", "i1", 3 * 1000, ALL, room), Published::Kept, "less than before is never refused");
    assert_eq!(publish("n", "i2", 0, ALL, room), Published::NodeFull, "its configuration counts");
    finish(stores.pubsub.delete_node(service.as_ref(), "n"));
    assert_eq!(publish("m", "i2", 2000, ALL, room), Published::Kept);
}

pub fn subscriptions_of_an_account_are_bounded(stores: &Stores) {
    let service = node(stores);
    let set = |subscriber: &str, subscription: Option<NodeSubscription>| {
        finish(stores.pubsub.set_subscription(service.as_ref(), "n", jid(subscriber).as_ref(), subscription, 2))
    };
    let new = || Some(NodeSubscription::default());
    for subscriber in ["romeo@a.example/1", "romeo@a.example/2", "romeo@a.example/1", "romeo0@a.example"] {
        assert_eq!(set(subscriber, new()), SetOutcome::Done, "{subscriber}");
    }
    assert_eq!([set("romeo@a.example/3", new()), set("romeo@a.example", new())], [SetOutcome::Full; 2]);
    assert_eq!([set("romeo@a.example/2", None), set("romeo@a.example", new())], [SetOutcome::Done; 2]);
}

pub fn pages_of_items_are_bounded_in_bytes(stores: &Stores) {
    let service = node(stores);
    for id in ["a", "b", "c"] {
        let large = Item { payload: vec![b'x'; PAGE_BYTES as usize / 2 - 200], ..item(id, 1) };
        finish(stores.pubsub.publish(service.as_ref(), "n", large, ALL, NodeRoom::ANY));
    }
    assert_eq!(ids(stores, &service, "n", WantedItems::Newest(9)), ["b", "c"]);
    assert_eq!(ids(stores, &service, "n", WantedItems::After(None, 9)), ["a", "b"]);
    assert_eq!(ids(stores, &service, "n", WantedItems::Ids(["c", "b", "a"].map(str::to_owned).to_vec())), ["c", "b"]);
    let larger = Item { payload: vec![b'x'; PAGE_BYTES as usize * 2], ..item("d", 1) };
    finish(stores.pubsub.publish(service.as_ref(), "n", larger, ALL, NodeRoom::ANY));
    let found = finish(stores.pubsub.items(service.as_ref(), "n", WantedItems::Newest(9), 0)).expect("the node");
    assert_eq!((found.items.len(), found.index, found.total), (1, 3, 4), "one that is larger comes alone");
}

pub fn news_know_how_the_asker_stands(stores: &Stores) {
    let (romeo, juliet, nurse) =
        (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"), jid("nurse@a.example"));
    for node in ["tune", "mood", "empty"] {
        let created = stores.pubsub.create_node(juliet.as_ref(), node, node.into(), juliet.as_ref(), NodeRoom::ANY);
        assert_eq!(finish(created), Created::Done);
    }
    put(stores, &juliet, "tune", "old", 1, ALL);
    put(stores, &juliet, "tune", "new", 2, ALL);
    put(stores, &juliet, "mood", "m", 3, ALL);
    let mut contact = item_with("romeo@a.example", Subscription::From);
    contact.groups = vec!["Friends".into()];
    super::samples::put(stores, &juliet, contact);
    finish(stores.pubsub.set_affiliation(
        juliet.as_ref(),
        "mood",
        romeo.as_ref(),
        Some(NodeAffiliation::Outcast),
        NodeRoom::ANY,
    ));

    let news = |asker: &Jid, nodes: &[&str]| {
        let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        let (found, is_cut) =
            finish(stores.pubsub.news(asker.as_ref(), vec![nurse.clone(), juliet.clone()], nodes, None));
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
        affiliation: Some(NodeAffiliation::Outcast),
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
            finish(stores.pubsub.create_node(owner.as_ref(), node, vec![], owner.as_ref(), NodeRoom::ANY));
            let large = Item { payload: vec![b'x'; PAGE_BYTES as usize / 2], ..item(node, 1) };
            finish(stores.pubsub.publish(owner.as_ref(), node, large, ALL, NodeRoom::ANY));
            expected.push((owner.clone(), node.clone()));
        }
    }
    let (mut found, mut portions) = (Vec::<(Jid, String)>::new(), Vec::new());
    loop {
        let asked = stores.pubsub.news(owners[0].as_ref(), owners.clone(), nodes.clone(), found.last().cloned());
        let (news, is_cut) = finish(asked);
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
            finish(stores.pubsub.create_node(account.as_ref(), node, vec![], account.as_ref(), NodeRoom::ANY));
            expected.push((account.clone(), node.to_owned()));
        }
    }
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = finish(stores.pubsub.accounts_nodes(after, 3));
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
    let created =
        stores.pubsub.create_node(service.as_ref(), "n", vec![], jid("hamlet@a.example").as_ref(), NodeRoom::ANY);
    assert_eq!(finish(created), Created::Done);
    service
}

fn item(id: &str, unix_ms: u64) -> Item {
    Item { id: id.into(), publisher: jid("hamlet@a.example"), unix_ms, payload: format!("<p>{id}</p>").into_bytes() }
}

fn put(stores: &Stores, host: &Jid, node: &str, id: &str, unix_ms: u64, kept: ItemsKept) {
    assert_eq!(
        finish(stores.pubsub.publish(host.as_ref(), node, item(id, unix_ms), kept, NodeRoom::ANY)),
        Published::Kept
    );
}

fn ids(stores: &Stores, host: &Jid, node: &str, wanted: WantedItems) -> Vec<String> {
    let found = finish(stores.pubsub.items(host.as_ref(), node, wanted, 0)).expect("the node");
    found.items.into_iter().map(|item| item.id).collect()
}
