//! The past of a room: archives (XEP-0313 §5.1.2) and logs.

use super::*;

fn query(client: &mut Client, content: &str) -> (Vec<Element>, Element) {
    let id = "<iq to='coven@conference.example.org' type='set' id='q'><query xmlns='urn:xmpp:mam:2'>";
    client.send(&format!("{id}{content}</query></iq>"));
    let mut all = client.all();
    let answer = all.pop().unwrap();
    let results = all.iter().filter_map(|message| message.child("result", ns::MAM).cloned());
    (results.collect(), answer)
}

fn message(result: &Element) -> Element {
    let forwarded = result.child("forwarded", ns::FORWARD).unwrap();
    forwarded.child("message", ns::CLIENT).unwrap().clone()
}

/// The archive has the messages under the ids that all occupants got. Real addresses are only for
/// those who may see them.
#[test]
fn a_room_has_an_archive() {
    let mut s = RoomScene::open_scene().all_in();
    say(&mut s.hag, "one");
    s.hag.send(&format!(
        "<message to='{COVEN}' type='groupchat'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>"
    ));
    say(&mut s.wiccarocks, "two");
    let heard = s.crone.all();
    let ids: Vec<_> = heard
        .iter()
        .filter(|found| found.child("body", ns::CLIENT).is_some())
        .map(|found| found.child("stanza-id", ns::STANZA_ID).unwrap().attr("id").unwrap().to_owned())
        .collect();
    s.hush();
    let (results, answer) = query(&mut s.wiccarocks, "");
    assert_eq!(outcome(&answer), "result");
    assert_eq!(results.iter().map(|result| result.attr("id").unwrap()).collect::<Vec<_>>(), ids);
    let found = message(&results[0]);
    assert_eq!(found.attr("from"), Some(format!("{COVEN}/thirdwitch").as_str()));
    assert!(found.child("x", ns::MUC_USER).is_none(), "who that is, is not for everybody");
    let (results, _) = query(&mut s.crone, "");
    let item = message(&results[0]).child("x", ns::MUC_USER).unwrap().children().next().unwrap().clone();
    assert_eq!(item.attr("jid"), Some(s.hag.full()));
    let info = ask(&mut s.hag, COVEN, "get", "<query xmlns='http://jabber.org/protocol/disco#info'/>");
    let query_found = info.child("query", ns::DISCO_INFO).unwrap();
    assert!(query_found.children().any(|child| child.attr("var") == Some(ns::MAM)));
}

/// The shorter of the times that the owner and the operator set counts.
#[test]
fn messages_leave_the_archive_of_a_room_when_its_owner_or_the_operator_says() {
    let said = |s: &mut RoomScene, bodies: &[&str]| {
        s.hush();
        let (results, _) = query(&mut s.crone, "");
        let found: Vec<_> =
            results.iter().map(|result| message(result).child_text("body", ns::CLIENT).unwrap()).collect();
        assert_eq!(found, bodies);
    };
    let of_operator = || vec![("archive", "room_expire_days", Value::Number(1))];
    for (fields, options) in [
        ("persistentroom=1 x-archive_days=1", vec![]),
        ("persistentroom=1 x-archive_days=30", of_operator()),
        // A room that ends with its last occupant, and isn't in the store.
        ("x-archive_days=1", vec![]),
        ("x-archive_days=30", of_operator()),
    ] {
        let mut s = RoomScene::with(Config { options, ..Config::default() }).open(fields);
        say(&mut s.crone, "old");
        s.server.advance(23 * HOUR_MS);
        say(&mut s.crone, "new");
        s.server.advance(3 * HOUR_MS);
        said(&mut s, &["new"]);
    }
    let mut s = RoomScene::configure_scene("persistentroom=1 x-archive_days=1");
    assert_eq!(outcome(&configure(&mut s.crone, "x-archive_days=soon")), "not-acceptable");
    say(&mut s.crone, "old");
    s.server.advance(23 * HOUR_MS);
    s.crone.all();
    configure(&mut s.crone, "x-archive_days=");
    s.server.advance(3 * HOUR_MS);
    said(&mut s, &["old"]);
}

const HOUR_MS: u64 = 60 * 60 * 1000;

/// XEP-0313 §4.1.1: occupants who may know real addresses find the messages of a user under all of
/// the user's nicks. For others, such an address has sent nothing.
#[test]
fn archives_are_asked_for_real_addresses_by_those_who_know_them() {
    for (fields, all_know) in [("", false), ("whois=anyone", true)] {
        let mut s = RoomScene::configure_scene(fields).all_in();
        say(&mut s.hag, "one");
        say(&mut s.wiccarocks, "not mine");
        s.hag.send(&format!("<presence to='{COVEN}/oldhag'/>"));
        say(&mut s.hag, "two");
        s.hush();
        let texts = |client: &mut Client, with: &str| {
            let (results, answer) = query(client, &with_field(with));
            assert_eq!(outcome(&answer), "result");
            let fin = answer.child("fin", ns::MAM).unwrap();
            assert_eq!(fin.attr("complete"), Some("true"));
            results.iter().map(|result| message(result).child_text("body", ns::CLIENT).unwrap()).collect::<Vec<_>>()
        };
        let (bare, full) = (s.hag.bare().to_owned(), s.hag.full().to_owned());
        let known = ["one", "two"];
        for with in [&bare, &full] {
            assert_eq!(texts(&mut s.crone, with), known);
            assert_eq!(texts(&mut s.wiccarocks, with), if all_know { &known[..] } else { &[] }, "{fields}");
        }
        assert_eq!(texts(&mut s.crone, &format!("{bare}/elsewhere")), [""; 0]);
        // A nick is known to everybody.
        assert_eq!(texts(&mut s.wiccarocks, &format!("{COVEN}/thirdwitch")), ["one"]);
        assert_eq!(texts(&mut s.wiccarocks, &format!("{COVEN}/oldhag")), ["two"]);
    }
}

fn with_field(with: &str) -> String {
    format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field>\
         <field var='with'><value>{with}</value></field></x>"
    )
}

/// Two states of the room decide who may see a real address, the one when the message was sent and
/// the present one: the stricter of them counts.
#[test]
fn archives_show_real_addresses_to_those_who_could_see_them_then() {
    let mut s = RoomScene::open_scene().all_in();
    for (fields, body) in
        [("whois=moderators", "veiled"), ("whois=anyone", "open"), ("whois=moderators", "veiled again")]
    {
        configure(&mut s.crone, fields);
        say(&mut s.hag, body);
        s.hush();
    }
    let bare = s.hag.bare().to_owned();
    let told = |client: &mut Client, fields: &str| {
        let (results, _) = query(client, fields);
        let noted = |stanza: &Element| {
            stanza.child("x", ns::MUC_USER)?.child("item", ns::MUC_USER)?.attr("jid").map(str::to_owned)
        };
        results.iter().map(|result| noted(&message(result)).is_some()).collect::<Vec<_>>()
    };
    let by = with_field(&bare);
    assert_eq!(told(&mut s.wiccarocks, ""), [false, false, false]);
    assert_eq!(told(&mut s.wiccarocks, &by), [false; 0]);
    assert_eq!(
        (told(&mut s.crone, ""), told(&mut s.crone, &by)),
        (vec![true; 3], vec![true; 3]),
        "moderators always could"
    );
    configure(&mut s.crone, "whois=anyone");
    s.hush();
    assert_eq!(told(&mut s.wiccarocks, ""), [false, true, false]);
    assert_eq!(told(&mut s.wiccarocks, &by), [true], "nor does a search tell who said the others");
    assert_eq!(told(&mut s.crone, ""), [true, true, true]);
}

#[test]
fn archives_are_for_those_who_may_enter() {
    let mut s = RoomScene::configure_scene("membersonly=1");
    say(&mut s.crone, "secret");
    s.crone.all();
    assert_eq!(outcome(&query(&mut s.hag, "").1), "forbidden");
    configure(&mut s.crone, "membersonly=0 passwordprotectedroom=1 roomsecret=x");
    s.hush();
    assert_eq!(outcome(&query(&mut s.hag, "").1), "forbidden");
    configure(&mut s.crone, "passwordprotectedroom=0");
    s.hush();
    assert_eq!(query(&mut s.hag, "").0.len(), 1);
    let outcast = s.with_names("<item affiliation='outcast' jid='HAG'/>");
    administer(&mut s.crone, "set", &outcast);
    assert_eq!(outcome(&query(&mut s.hag, "").1), "forbidden");
    configure(&mut s.crone, "enablearchiving=0");
    s.hush();
    assert_eq!(outcome(&query(&mut s.crone, "").1), "service-unavailable");
}

/// The creator of a room whose name was free again gets none of its old messages.
#[test]
fn a_new_room_has_no_past() {
    let mut s = RoomScene::configure_scene("persistentroom=0");
    say(&mut s.crone, "secret");
    s.crone.all();
    leave(&mut s.crone, "firstwitch");
    s.crone.all();
    join(&mut s.hag, "thirdwitch");
    configure(&mut s.hag, "");
    s.hag.all();
    assert_eq!(query(&mut s.hag, "").0.len(), 0);
}

#[test]
fn rooms_are_logged_where_owners_and_operators_want_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let mut s = RoomScene::with_options(vec![("logs", Value::Text(path.clone()))]).open("enablelogging=1 lang=de");
    join(&mut s.hag, "third&lt;witch");
    let own = take_stanzas(&mut s.hag).into_iter().find(|text| text.contains(" 110")).unwrap();
    assert!(own.ends_with("110 170"), "{own}");
    say(&mut s.hag, "1 &lt; 2");
    s.hag.send(&format!("<message to='{COVEN}/firstwitch' type='chat'><body>psst</body></message>"));
    s.hush();
    leave(&mut s.hag, "third&lt;witch");
    s.hush();
    let logs = folder.path().join("conference.example.org").join("coven");
    let mut files: Vec<_> = std::fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let [html, text] = files.as_slice() else { panic!("{files:?}") };
    let text = std::fs::read_to_string(text).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(lines, ["* third<witch enters", "<third<witch> 1 < 2", "* third<witch leaves"]);
    let html = std::fs::read_to_string(html).unwrap();
    assert!(
        html.starts_with("<!DOCTYPE html>\n<html lang=\"de\">")
            && html.contains("third&lt;witch")
            && html.contains("1 &lt; 2"),
        "{html}"
    );
}

/// Each logged room has a file of each kind for each day. The log has the actions of moderators,
/// but no real addresses.
#[test]
fn logs_are_daily_and_of_those_rooms_only_that_want_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let mut s = RoomScene::with_options(vec![("logs", Value::Text(path))]).open("").all_in();
    say(&mut s.hag, "between us");
    s.hush();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "off until the owner wants it");
    configure(&mut s.crone, "enablelogging=1");
    s.hush();
    say(&mut s.hag, "first day");
    s.hush();
    s.crone.send(&format!("<message to='{COVEN}' type='groupchat'><subject>Spells</subject></message>"));
    s.hush();
    s.server.advance(24 * 3_600_000);
    for client in [&mut s.crone, &mut s.hag, &mut s.wiccarocks] {
        client.all();
    }
    s.hag.send(&format!("<presence to='{COVEN}/oldhag'/>"));
    s.hush();
    administer(&mut s.crone, "set", "<item nick='oldhag' role='none'><reason>enough</reason></item>");
    s.hush();
    configure(&mut s.crone, "enablelogging=0");
    s.hush();
    say(&mut s.crone, "unwritten");
    s.hush();
    let logs = folder.path().join("conference.example.org").join("coven");
    let mut files: Vec<_> = std::fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 4, "{files:?}");
    let texts: Vec<_> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let lines = |text: &str| text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&texts[1]), ["<thirdwitch> first day", "* firstwitch sets the subject to: Spells"]);
    assert_eq!(lines(&texts[3]), ["* thirdwitch is now known as oldhag", "* oldhag is kicked: enough"]);
    let all = texts.concat();
    assert!(!all.contains("between us") && !all.contains("unwritten") && !all.contains(s.hag.bare()));
}

/// §18.2.
#[test]
fn who_is_in_a_room_hears_that_the_server_stops() {
    let mut s = RoomScene::open_scene().all_in();
    s.server.stop();
    let found: Vec<_> = std::iter::from_fn(|| s.crone.take())
        .filter_map(|item| match item {
            rookery_testkit::wire::Item::Element(element) => Some(short(&element)),
            _ => None,
        })
        .collect();
    assert!(found.iter().any(|text| text.ends_with("110 332")), "{found:?}");
}
