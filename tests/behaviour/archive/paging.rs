//! Queries: §4, and §5 on what an archive spans.

use rookery_hub::Value;
use rookery_testkit::Config;
use rookery_xml::ns;

use super::{ArchiveScene, expect_refusal, page, query, read_page, set};

fn scene() -> ArchiveScene {
    let mut scene = ArchiveScene::new();
    scene.romeo_says_many(6);
    scene
}

#[test]
fn pages_go_forward_until_the_end() {
    let mut scene = scene();
    let first = page(&mut scene.juliet, &[], &set("<max>4</max>"));
    assert_eq!((first.bodies(), first.is_complete()), (vec!["1", "2", "3", "4"], false));
    assert_eq!(first.rsm("count").as_deref(), Some("6"));
    let after = set(&format!("<max>4</max><after>{}</after>", first.id(3)));
    let second = page(&mut scene.juliet, &[], &after);
    assert_eq!((second.bodies(), second.is_complete()), (vec!["5", "6"], true));
    let after = set(&format!("<after>{}</after>", second.id(1)));
    let end = page(&mut scene.juliet, &[], &after);
    assert_eq!((end.bodies().len(), end.is_complete(), end.rsm("first")), (0, true, None));
}

#[test]
fn pages_go_backward_from_the_end() {
    let mut scene = scene();
    let last = page(&mut scene.juliet, &[], &set("<max>4</max><before/>"));
    assert_eq!((last.bodies(), last.is_complete()), (vec!["3", "4", "5", "6"], false));
    let before = set(&format!("<max>4</max><before>{}</before>", last.id(0)));
    let first = page(&mut scene.juliet, &[], &before);
    assert_eq!((first.bodies(), first.is_complete()), (vec!["1", "2"], true));
    let flipped = page(&mut scene.juliet, &[], &format!("{}<flip-page/>", set("<max>2</max><before/>")));
    assert_eq!(flipped.bodies(), ["6", "5"], "§4.3.4");
    assert_eq!(flipped.rsm("first").as_deref(), Some(flipped.id(1)), "the order is that of the transmission only");
}

#[test]
fn times_ids_and_addresses_filter() {
    let mut scene = scene();
    let all = page(&mut scene.juliet, &[], "");
    // One message in each second from the start of the epoch.
    let time = |second| format!("2026-01-01T00:00:{second:02}Z");
    let (start, end) = (time(2), time(4));
    assert_eq!(page(&mut scene.juliet, &[("start", &start), ("end", &end)], "").bodies(), ["3", "4", "5"]);
    assert_eq!(page(&mut scene.juliet, &[("end", &end)], &set("<max>2</max><before/>")).bodies(), ["4", "5"]);
    let (one, five) = (all.id(0).to_owned(), all.id(4).to_owned());
    assert_eq!(page(&mut scene.juliet, &[("after-id", &one), ("before-id", &five)], "").bodies(), ["2", "3", "4"]);
    let romeo = scene.romeo.bare().to_owned();
    assert_eq!(page(&mut scene.juliet, &[("with", &romeo)], "").bodies().len(), 6);
    assert_eq!(page(&mut scene.juliet, &[("with", scene.romeo.full())], "").bodies().len(), 6);
    assert_eq!(page(&mut scene.juliet, &[("with", &format!("{romeo}/elsewhere"))], "").bodies().len(), 0);
    assert_eq!(page(&mut scene.juliet, &[("with", "nurse@example.org")], "").bodies().len(), 0);
    // §4.1.1: only what she has sent to herself.
    let own = scene.juliet.bare().to_owned();
    assert_eq!(page(&mut scene.juliet, &[("with", &own)], "").bodies().len(), 0);
    scene.juliet.send(&format!("<message to='{own}' type='chat'><body>note</body></message>"));
    scene.juliet.all();
    assert_eq!(page(&mut scene.juliet, &[("with", &own)], "").bodies(), ["note"]);
}

/// §4.1.5: there is no groupchat, whether it is wanted or not; in the archives of rooms nobody asks
/// that.
#[test]
fn groupchat_may_be_asked_for() {
    let mut scene = scene();
    for wanted in ["true", "false"] {
        assert_eq!(page(&mut scene.juliet, &[("include-groupchat", wanted)], "").bodies().len(), 6);
    }
    expect_refusal(&mut scene.juliet, &query(&[("include-groupchat", "perhaps")], ""), "bad-request");
    let own = scene.juliet.bare().to_owned();
    let info = scene
        .juliet
        .ask(&format!("<iq type='get' id='1' to='{own}'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>"));
    let features = info.child("query", ns::DISCO_INFO).expect("features");
    assert!(features.children().any(|child| child.attr("var") == Some("urn:xmpp:mam:2#groupchat-field")));
}

#[test]
fn single_messages_are_fetched_by_their_ids() {
    let mut scene = scene();
    let all = page(&mut scene.juliet, &[], "");
    let ids = format!("{}</value><value>{}", all.id(4), all.id(1));
    let some = page(&mut scene.juliet, &[("ids", &ids)], "");
    assert_eq!((some.bodies(), some.is_complete()), (vec!["2", "5"], true));
    let unknown = format!("{}</value><value>0000000000001", all.id(4));
    expect_refusal(&mut scene.juliet, &query(&[("ids", &unknown)], ""), "item-not-found");
}

#[test]
fn words_are_searched_for() {
    let mut scene = ArchiveScene::new();
    for body in ["A rose by any other name", "would smell as sweet", "O Romeo, Romeo", "any NAME, Rose"] {
        scene.romeo_says(body);
    }
    let text = "{urn:xmpp:fulltext:0}fulltext";
    let found = page(&mut scene.juliet, &[(text, "name rose")], "");
    assert_eq!((found.bodies(), found.is_complete()), (vec!["A rose by any other name", "any NAME, Rose"], true));
    let one = page(&mut scene.juliet, &[(text, "name rose")], &set("<max>1</max>"));
    assert_eq!((one.bodies(), one.is_complete()), (vec!["A rose by any other name"], false));
    let next = page(&mut scene.juliet, &[(text, "name rose")], &set(&format!("<after>{}</after>", one.id(0))));
    assert_eq!((next.bodies(), next.is_complete()), (vec!["any NAME, Rose"], true));
    let last = page(&mut scene.juliet, &[(text, "rose")], &set("<max>1</max><before/>"));
    assert_eq!((last.bodies(), last.is_complete()), (vec!["any NAME, Rose"], false));
    assert_eq!(page(&mut scene.juliet, &[(text, "%' OR 1=1")], "").bodies().len(), 0);
}

#[test]
fn a_page_has_limits() {
    let options = vec![("archive", "page", Value::Number(3))];
    let mut scene = ArchiveScene::with(Config { options, ..Config::default() });
    scene.romeo_says_many(5);
    for rest in [String::new(), set("<max>1000000000000000000000000</max>")] {
        let page = page(&mut scene.juliet, &[], &rest);
        assert_eq!((page.bodies(), page.is_complete()), (vec!["1", "2", "3"], false));
    }
    let nothing = page(&mut scene.juliet, &[], &set("<max>0</max>"));
    assert_eq!((nothing.bodies().len(), nothing.rsm("count").as_deref()), (0, Some("5")));
}

#[test]
fn a_page_of_large_messages_leaves_room_in_the_outbox() {
    let mut scene = ArchiveScene::new();
    for number in 0..8 {
        scene.romeo_says(&format!("{number}{}", "x".repeat(100_000)));
    }
    let first = page(&mut scene.juliet, &[], "");
    assert_eq!((first.messages.len(), first.is_complete()), (2, false), "a quarter of the outbox at most");
    let next = page(&mut scene.juliet, &[], &set(&format!("<after>{}</after>", first.id(1))));
    assert!(next.bodies()[0].starts_with('2'));
}

/// A client acknowledges a page when it has read it.
#[test]
fn a_page_has_half_of_the_stanzas_that_may_be_unacknowledged() {
    let options = vec![("stream_management", "max_stanzas", Value::Number(10))];
    let mut scene = ArchiveScene::with(Config { options, ..Config::default() });
    scene.romeo_says_many(12);
    let first = page(&mut scene.juliet, &[], "");
    assert_eq!((first.messages.len(), first.is_complete()), (5, false));
}

#[test]
fn an_archive_tells_what_it_spans() {
    let mut scene = ArchiveScene::new();
    let ask = "<iq type='get' id='1'><metadata xmlns='urn:xmpp:mam:2'/></iq>";
    let empty = scene.juliet.ask(ask);
    assert_eq!(empty.child("metadata", ns::MAM).expect("metadata").children().count(), 0);
    scene.romeo_says_many(3);
    let all = page(&mut scene.juliet, &[], "");
    let answer = scene.juliet.ask(ask);
    let metadata = answer.child("metadata", ns::MAM).expect("metadata");
    for (name, id, stamp) in
        [("start", all.id(0), "2026-01-01T00:00:00.000Z"), ("end", all.id(2), "2026-01-01T00:00:02.000Z")]
    {
        let end = metadata.child(name, ns::MAM).expect("an end");
        assert_eq!((end.attr("id"), end.attr("timestamp")), (Some(id), Some(stamp)));
    }
}

#[test]
fn the_fields_of_a_query_can_be_asked_for() {
    let mut scene = ArchiveScene::new();
    let answer = scene.juliet.ask("<iq type='get' id='form1'><query xmlns='urn:xmpp:mam:2'/></iq>");
    let form = answer.child("query", ns::MAM).and_then(|query| query.child("x", ns::DATA_FORMS)).expect("a form");
    let types: Vec<_> =
        form.children().map(|field| (field.attr("var").unwrap(), field.attr("type").unwrap())).collect();
    for wanted in [
        ("FORM_TYPE", "hidden"),
        ("with", "jid-single"),
        ("start", "text-single"),
        ("ids", "list-multi"),
        ("include-groupchat", "boolean"),
    ] {
        assert!(types.contains(&wanted), "{wanted:?} in {types:?}");
    }
    assert!(form.children().all(|field| field.child("required", ns::DATA_FORMS).is_none()));
}

#[test]
fn what_is_wrong_has_its_error() {
    let mut scene = scene();
    let known = page(&mut scene.juliet, &[], "").id(0).to_owned();
    for (fields, rest, condition) in [
        (vec![("mood", "lonely")], String::new(), "feature-not-implemented"),
        (vec![("start", "yesterday")], String::new(), "bad-request"),
        (vec![("before-id", "0000000000001")], String::new(), "item-not-found"),
        (vec![], set("<after>09af3-cc343-b409f</after>"), "item-not-found"),
        (vec![], set("<before>0000000000001</before>"), "item-not-found"),
        (vec![], set("<max>ten</max>"), "bad-request"),
        (vec![], set("<index>2</index>"), "feature-not-implemented"),
        (vec![], set(&format!("<after>{known}</after><before/>")), "bad-request"),
    ] {
        expect_refusal(&mut scene.juliet, &query(&fields, &rest), condition);
    }
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:other</value></field></x>";
    let iq = format!("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'>{form}</query></iq>");
    expect_refusal(&mut scene.juliet, &iq, "bad-request");
    expect_refusal(&mut scene.juliet, "<iq type='set' id='q'><nonsense xmlns='urn:xmpp:mam:2'/></iq>", "bad-request");
    // The archive of a user who has none yet knows no ids either.
    let mut nurse = scene.server.online("nurse/1");
    expect_refusal(&mut nurse, &query(&[], &set(&format!("<after>{known}</after>"))), "item-not-found");
}

#[test]
fn the_next_page_may_be_asked_for_before_the_first_has_come() {
    let mut scene = scene();
    let one = query(&[], &set("<max>1</max>"));
    scene.juliet.send(&one.replace("id='q'", "id='q1'"));
    scene.juliet.send(&one.replace("id='q'", "id='q2'"));
    scene.juliet.send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
    let order: Vec<_> = scene.juliet.all().into_iter().map(|stanza| stanza.attr("id").map(str::to_owned)).collect();
    let expected = [None, Some("q1"), None, Some("q2"), Some("p")].map(|id| id.map(str::to_owned));
    assert_eq!(order, expected);
    assert_eq!(read_page(&mut scene.juliet, &one).bodies(), ["1"]);
}
