use super::*;
use proptest::prelude::*;

fn jid(text: &str) -> Jid {
    Jid::parse(text).unwrap()
}

fn rules(lists: &str) -> PrivacyRules {
    PrivacyRules::read(format!("<query xmlns='jabber:iq:privacy'>{lists}</query>").as_bytes()).expect("rules")
}

fn denies(list: &PrivacyList, contact: &str, passing: PassingStanza) -> bool {
    list.denies(jid(contact).as_ref(), passing, Acquaintance::default)
}

#[test]
fn an_address_matches_as_the_standard_says() {
    for (item, yes, no) in [
        ("a@x.example/r", vec!["a@x.example/r"], vec!["a@x.example", "a@x.example/s", "x.example"]),
        ("a@x.example", vec!["a@x.example", "a@x.example/r"], vec!["b@x.example", "x.example", "x.example/r"]),
        ("x.example/r", vec!["x.example/r"], vec!["x.example", "a@x.example/r", "x.example/s"]),
        ("x.example", vec!["x.example", "x.example/r", "a@x.example", "a@x.example/r"], vec!["y.x.example"]),
    ] {
        let mut rules = PrivacyRules::default();
        rules.block(&[jid(item)]);
        let list = rules.default_list().unwrap();
        assert!(yes.iter().all(|contact| denies(list, contact, PassingStanza::Message)), "{item}");
        assert!(!no.iter().any(|contact| denies(list, contact, PassingStanza::Message)), "{item}");
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = rules(
        "<list name='special'>\
            <item action='deny' order='666'/>\
            <item type='jid' value='a@x.example' action='allow' order='6'/>\
            <item type='jid' value='x.example' action='deny' order='5'><message/></item>\
            <item type='group' value='Friends' action='allow' order='50'/></list>",
    );
    let list = rules.list("special").unwrap();
    assert!(denies(list, "a@x.example/r", PassingStanza::Message));
    assert!(!denies(list, "a@x.example/r", PassingStanza::Iq));
    assert!(denies(list, "b@y.example", PassingStanza::Other));
    let friend = || Acquaintance { subscription: Subscription::To, groups: ["Friends".into()].into() };
    assert!(!list.denies(jid("b@y.example").as_ref(), PassingStanza::Other, friend));
    assert!(rules.need_roster());
}

/// The roster is looked up at most once for any number of items, and not at all if an earlier item
/// decides.
#[test]
fn the_roster_is_looked_up_only_if_it_decides() {
    let groups = |from: usize| -> String {
        let item = |n: usize| format!("<item type='group' value='g{n}' action='deny' order='{n}'/>");
        (from..from + 1000).map(item).collect()
    };
    let asked = std::cell::Cell::new(0);
    let known = || {
        asked.set(asked.get() + 1);
        Acquaintance { groups: (2000..2050).map(|n| format!("g{n}")).collect(), ..Acquaintance::default() }
    };
    let rules = rules(&format!(
        "<list name='l'>{}<item type='jid' value='a@x.example' action='allow' order='0'/>\
         <item type='jid' value='b@x.example' action='allow' order='1500'/></list>",
        groups(1)
    ));
    let list = rules.list("l").unwrap();
    assert!(!list.denies(jid("a@x.example").as_ref(), PassingStanza::Message, known));
    assert_eq!(asked.get(), 0);
    assert!(!list.denies(jid("b@x.example").as_ref(), PassingStanza::Message, known));
    assert_eq!((asked.get(), list.index.by_group.len(), rules.relative_items()), (1, 1000, 1000));
    let friend = || Acquaintance { groups: ["g77".into()].into(), ..Acquaintance::default() };
    assert!(list.denies(jid("b@x.example").as_ref(), PassingStanza::Iq, friend));
}

#[test]
fn an_item_stops_only_the_kinds_that_it_names() {
    let rules = rules("<list name='l'><item action='deny' order='1'><presence-out/></item></list>");
    let list = rules.list("l").unwrap();
    let all = [
        PassingStanza::Message,
        PassingStanza::Iq,
        PassingStanza::PresenceIn,
        PassingStanza::PresenceOut,
        PassingStanza::Other,
    ];
    let denied: Vec<_> = all.into_iter().filter(|passing| denies(list, "a@x.example", *passing)).collect();
    assert_eq!(denied, [PassingStanza::PresenceOut]);
}

#[test]
fn blocking_leaves_the_other_rules_behind_it() {
    let mut rules = rules(
        "<default name='mine'/><list name='blocked'><item action='deny' order='1'/></list>\
         <list name='mine'><item type='jid' value='a@x.example' action='allow' order='0'/></list>",
    );
    rules.block(&[jid("a@x.example"), jid("b@x.example"), jid("a@x.example")]);
    rules.block(&[jid("c@x.example")]);
    let blocked: Vec<_> = rules.block_list().into_iter().map(Jid::as_str).collect();
    assert_eq!(blocked, ["c@x.example", "a@x.example", "b@x.example"]);
    assert!(denies(rules.default_list().unwrap(), "a@x.example", PassingStanza::Iq));
    rules.unblock(&[jid("a@x.example"), jid("b@x.example"), jid("c@x.example")]);
    assert_eq!(rules.default_list().unwrap().items().len(), 1);
    rules.default = None;
    rules.block(&[jid("c@x.example")]);
    assert_eq!(rules.default.as_deref(), Some("blocked 2"), "another list has the name");
    rules.unblock(&[jid("c@x.example")]);
    assert_eq!((rules.default.as_deref(), rules.lists.len()), (None, 2));
}

#[test]
fn invalid_lists_are_refused() {
    for item in [
        "<item action='deny'/>",
        "<item action='deny' order='-1'/>",
        "<item action='deny' order='4294967296'/>",
        "<item action='drop' order='1'/>",
        "<item order='1'/>",
        "<item action='deny' order='1' type='jid'/>",
        "<item action='deny' order='1' type='jid' value='@'/>",
        "<item action='deny' order='1' type='group' value=''/>",
        "<item action='deny' order='1' type='subscription' value='remove'/>",
        "<item action='deny' order='1' type='colour' value='red'/>",
        "<item action='deny' order='1'><presence/></item>",
        "<item action='deny' order='1'/><item action='allow' order='1'/>",
        "",
    ] {
        let bytes = format!("<query xmlns='jabber:iq:privacy'><list name='l'>{item}</list></query>");
        assert_eq!(PrivacyRules::read(bytes.as_bytes()), None, "{item}");
    }
    assert_eq!(PrivacyRules::read(b"<query xmlns='jabber:iq:privacy'><default name='l'/></query>"), None);
}

fn any_test() -> impl Strategy<Value = Test> {
    prop_oneof![
        "[a-c]@[x-z]\\.example(/r)?".prop_map(|jid| Test::Jid(Jid::parse(&jid).unwrap())),
        "[A-Z' <&]{1,2}".prop_map(Test::Group),
        Just(Test::Subscription(Subscription::None)),
        Just(Test::Everybody),
    ]
}

/// Returns whether an item is about a contact, as the standard says (XEP-0016 §2.1).
fn is_about(test: &Test, contact: &Jid, known: &Acquaintance) -> bool {
    match test {
        Test::Jid(jid) => jid == contact || *jid == contact.to_bare() || jid.as_str() == contact.domain(),
        Test::Group(group) => known.groups.contains(group),
        Test::Subscription(subscription) => known.subscription == *subscription,
        Test::Everybody => true,
    }
}

proptest! {
    #[test]
    fn rules_are_read_as_they_were_written(
        items in prop::collection::vec((any_test(), any::<bool>(), 1u8..16), 1..12), is_default: bool
    ) {
        let items = items.into_iter().zip(0u32..).map(|((test, deny, stanzas), order)| {
            let stanzas = if stanzas == 15 { StanzaSet::ALL } else { StanzaSet(stanzas) };
            PrivacyRule { order: order * 3, test, deny, stanzas }
        });
        let list = PrivacyList::new("a 'list'".into(), items.collect()).unwrap();
        let default = is_default.then(|| list.name.clone());
        let rules = PrivacyRules { default, lists: vec![list] };
        prop_assert_eq!(PrivacyRules::read(&rules.write().unwrap()), Some(rules));
    }

    /// The index finds the same item as a walk over all items.
    #[test]
    fn the_index_finds_the_same_item_as_the_list(
        items in prop::collection::vec((any_test(), any::<bool>(), 1u8..32), 1..12),
        contact in "[a-c]@[x-z]\\.example(/r)?",
        groups in prop::collection::vec("[A-Z' <&]{1,2}", 0..4),
        passing in prop::sample::select(vec![PassingStanza::Message, PassingStanza::Iq, PassingStanza::PresenceOut, PassingStanza::Other]),
    ) {
        let items = items.into_iter().zip(0u32..).map(|((test, deny, stanzas), order)| {
            PrivacyRule { order, test, deny, stanzas: StanzaSet(stanzas) }
        });
        let list = PrivacyList::new("l".into(), items.collect()).unwrap();
        let contact = Jid::parse(&contact).unwrap();
        let known = Acquaintance { groups: groups.into(), ..Acquaintance::default() };
        let matches = |item: &&PrivacyRule| item.stanzas.has(passing) && is_about(&item.test, &contact, &known);
        let expected = list.items().iter().find(matches).is_some_and(|item| item.deny);
        prop_assert_eq!(list.denies(contact.as_ref(), passing, || known.clone()), expected);
    }
}
