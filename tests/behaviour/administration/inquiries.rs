//! Inquiries about accounts: §4.8 to §4.22.

use rookery_testkit::befriend;
use rookery_xml::{Element, ns};

use super::{AdministrationScene, complete, condition, error_note, execute, expect_completed, values};

#[test]
fn rosters_are_shown() {
    for at in [0, 1] {
        let mut scene = AdministrationScene::new();
        let mut user = scene.server.online(&format!("{}/r", scene.names[at]));
        let mut romeo = scene.server.online("romeo/orchard");
        befriend(&mut user, &mut romeo);
        let jid = scene.jid(at);
        let found = scene.succeed("get-user-roster", &[("accountjids", &[&jid])]);
        assert_eq!(values(&found, "accountjids"), [jid.as_str()]);
        let query = found.child("x", ns::DATA_FORMS).and_then(|x| x.child("query", ns::ROSTER)).expect("a roster");
        let item = query.children().next().expect("a contact");
        assert_eq!((item.attr("jid"), item.attr("subscription")), (Some("romeo@example.org"), Some("both")));
        assert_eq!(
            error_note(&scene.run("get-user-roster", &[("accountjids", &["nobody@example.org"])])),
            "there is no account nobody@example.org"
        );
        assert_eq!(
            error_note(&scene.run("get-user-roster", &[("accountjids", &["a@other.example"])])),
            "a@other.example is not an account of example.org"
        );
    }
}

#[test]
fn lists_say_what_is_missing() {
    let mut scene = AdministrationScene::new();
    let _users = scene.names.clone().map(|name| scene.server.online(&format!("{name}/r")));
    let all = values(&scene.succeed("get-online-users-num", &[]), "onlineusersnum");
    assert_eq!(all, ["3"], "with the administrator");
    let away = 1 - scene.server.home_of("bard");
    scene.server.stall(Some(away));
    scene.admin.send(&execute("get-online-users-num"));
    scene.server.advance(10_000);
    let answer = scene.admin.expect_element();
    assert_eq!(values(expect_completed(&answer), "onlineusersnum"), ["2"]);
    let note = expect_completed(&answer).child("note", ns::COMMANDS).expect("a note");
    assert_eq!(note.attr("type"), Some("warn"), "{note:?}");

    let form = scene.admin.ask(&execute("get-online-users-list"));
    let form = form.child("command", ns::COMMANDS).expect("a form");
    scene.admin.send(&complete(form, &[]));
    scene.server.advance(10_000);
    let answer = scene.admin.expect_element();
    assert_eq!(
        values(expect_completed(&answer), "onlineuserjids"),
        ["bard@example.org".to_owned(), scene.jid(1 - away)]
    );
    let note = expect_completed(&answer).child("note", ns::COMMANDS).expect("a note");
    assert_eq!(note.attr("type"), Some("warn"), "{note:?}");
}

#[test]
fn who_asks_for_what_nobody_does_is_told_so() {
    let mut scene = AdministrationScene::new();
    let away = 1 - scene.server.home_of("bard");
    let mut user = scene.server.online(&format!("{}/r", scene.names[away]));
    let form = scene.admin.ask(&execute("end-user-session"));
    let form = form.child("command", ns::COMMANDS).expect("a form");
    scene.server.stall(Some(away));
    scene.admin.send(&complete(form, &[("accountjids", &[&scene.jid(away)])]));
    scene.server.advance(10_000);
    assert_eq!(condition(&scene.admin.expect_element()), "resource-constraint");
    // The command still takes effect once the shard comes to it.
    scene.server.stall(None);
    user.expect_stream_error("policy-violation");
    scene.admin.expect_nothing();
}

#[test]
fn the_last_login_is_known() {
    for at in [0, 1] {
        let mut scene = AdministrationScene::new();
        let jid = scene.jid(at);
        let never = scene.succeed("get-user-lastlogin", &[("accountjids", &[&jid])]);
        assert!(never.child("note", ns::COMMANDS).is_some());
        let mut user = scene.server.online(&format!("{}/r", scene.names[at]));
        scene.server.advance(60_000);
        let now = scene.succeed("get-user-lastlogin", &[("accountjids", &[&jid])]);
        assert_eq!(values(&now, "lastlogin"), ["2026-01-01T00:01:00Z"]);
        user.close();
        scene.server.advance(60_000);
        let before = scene.succeed("get-user-lastlogin", &[("accountjids", &[&jid])]);
        assert_eq!(values(&before, "lastlogin"), ["2026-01-01T00:01:00Z"]);
    }
}

#[test]
fn statistics_tell_where_somebody_is() {
    for at in [0, 1] {
        let mut scene = AdministrationScene::new();
        let _user = scene.server.online(&format!("{}/r", scene.names[at]));
        let jid = scene.jid(at);
        let found = scene.succeed("user-stats", &[("accountjid", &[&jid])]);
        assert_eq!(values(&found, "ipaddresses"), ["192.0.2.1"]);
        assert_eq!(values(&found, "rostersize"), ["0"]);
        assert_eq!(values(&found, "onlineresources"), ["r"]);
    }
}

#[test]
fn accounts_are_counted_and_listed_over_all_shards() {
    let mut scene = AdministrationScene::new();
    let (a, b) = (scene.jid(0), scene.jid(1));
    scene.server.account("off");
    scene.succeed("disable-user", &[("accountjids", &["off@example.org"])]);
    let _here = scene.server.online(&format!("{}/r", scene.names[0]));
    let mut away = scene.server.online(&format!("{}/r", scene.names[1]));
    away.send("<presence><show>away</show></presence>");
    away.all();
    let mut count = |what: &str| {
        let found = scene.succeed(&format!("get-{what}-users-num"), &[]);
        values(&found, &format!("{what}usersnum")).remove(0)
    };
    // The administrator has a session that isn't available.
    let counts = ["registered", "disabled", "online", "active", "idle"].map(&mut count);
    assert_eq!(counts, ["4", "1", "3", "1", "1"]);

    let mut list = |what: &str, var: &str, max: &str| {
        let found = scene.succeed(what, &[("max_items", &[max])]);
        (values(&found, var), found.child("note", ns::COMMANDS).is_some())
    };
    let mut online = vec![a.clone(), b.clone(), "bard@example.org".to_owned()];
    online.sort();
    assert_eq!(list("get-online-users-list", "onlineuserjids", "none"), (online.clone(), false));
    assert_eq!(list("get-online-users-list", "onlineuserjids", "2"), (online[..2].to_vec(), true));
    assert_eq!(list("get-active-users", "activeuserjids", "25"), (vec![a], false));
    assert_eq!(list("get-idle-users", "activeuserjids", "25"), (vec![b], false));
    assert_eq!(list("get-disabled-users-list", "disableduserjids", "25"), (vec!["off@example.org".into()], false));
    let (registered, cut) = list("get-registered-users-list", "registereduserjids", "3");
    assert_eq!((registered.len(), cut), (3, true));
    let found = scene.succeed("get-registered-users-list", &[("max_items", &["3"]), ("after", &[&registered[2]])]);
    assert_eq!(values(&found, "registereduserjids").len(), 1);
}

#[test]
fn absurd_numbers_do_no_harm() {
    let mut scene = AdministrationScene::new();
    for max in ["0", "-1", "99999999999999999999", "x'; DROP TABLE accounts"] {
        scene.succeed("get-registered-users-list", &[("max_items", &[max])]);
    }
}

/// Users may choose long names: a list of them comes in parts, each of which fits the session and
/// says if more follow.
#[test]
fn a_list_of_long_names_comes_in_parts() {
    let mut scene = AdministrationScene::new();
    let local = "u".repeat(1000);
    for number in 0..400 {
        scene.server.account(&format!("{local}{number:03}"));
    }
    let (mut found, mut after) = (0, String::new());
    loop {
        let fields: [(&str, &[&str]); 2] = [("max_items", &["none"]), ("after", &[&after])];
        let list = scene.succeed("get-registered-users-list", &fields);
        assert!(rookery_xml::Writer::write(&list).bytes().len() < 256 * 1024);
        let form = list.child("x", ns::DATA_FORMS).expect("a form");
        let field = form.children().find(|field| field.attr("var") == Some("registereduserjids")).expect("a list");
        let names: Vec<_> = field.children().filter(|value| value.name() == "value").map(Element::text).collect();
        found += names.iter().filter(|name| name.starts_with(&local)).count();
        if !list.children().any(|note| note.name() == "note") {
            break;
        }
        after = names.last().expect("names").clone();
    }
    assert_eq!(found, 400);
}

/// A long roster is shown as far as it fits, and the reply says that there is more.
#[test]
fn a_long_roster_is_cut() {
    let mut scene = AdministrationScene::new();
    let mut user = scene.server.login(&format!("{}/r", scene.names[0]));
    for contact in 0..14 {
        let group = |number: usize| format!("<group>{number:02}{}</group>", "g".repeat(990));
        let groups: String = (0..45).map(group).collect();
        let answer = user.ask(&format!(
            "<iq type='set' id='{contact}'><query xmlns='jabber:iq:roster'><item jid='c{contact}@far.example'>{groups}</item></query></iq>"
        ));
        assert_eq!(answer.attr("type"), Some("result"), "{contact}");
    }
    let jid = scene.jid(0);
    let found = scene.succeed("get-user-roster", &[("accountjids", &[&jid])]);
    let query = found.child("x", ns::DATA_FORMS).and_then(|x| x.child("query", ns::ROSTER)).expect("a roster");
    assert!((8..14).contains(&query.children().count()));
    assert!(found.child("note", ns::COMMANDS).expect("a note").text().contains("left out"));
}
