//! §9: requests of admins.

use super::*;

/// Examples 110 to 115.
#[test]
fn an_admin_bans() {
    let mut s = RoomScene::open_scene().all_in();
    let item = s.with_names("<item affiliation='outcast' jid='HAG/r'><reason>Treason</reason></item>");
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", &item)), "forbidden");
    s.crone.send(&format!(
        "<iq to='{COVEN}' type='set' id='ban1'><query xmlns='http://jabber.org/protocol/muc#admin'>{item}</query></iq>"
    ));
    s.hag_hears(&["thirdwitch presence/unavailable outcast/none jid=HAG/r actor=firstwitch reason=Treason 110 301"]);
    s.crone_hears(&[
        "ROOM iq/result",
        "thirdwitch presence/unavailable outcast/none jid=HAG/r actor=firstwitch reason=Treason 301",
    ]);
    s.wicca_hears(&["thirdwitch presence/unavailable outcast/none actor=firstwitch reason=Treason 301"]);
    let list = administer(&mut s.crone, "get", "<item affiliation='outcast'/>");
    let found = list.child("query", ns::MUC_ADMIN).unwrap().children().next().unwrap();
    assert_eq!((found.attr("jid"), found.attr("affiliation")), (Some(s.hag.bare()), Some("outcast")));
    assert_eq!(found.child_text("reason", ns::MUC_ADMIN).as_deref(), Some("Treason"));
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "get", "<item affiliation='outcast'/>")), "forbidden");
}

/// Example 116 and what follows it.
#[test]
fn some_are_not_banned() {
    let mut s = RoomScene::open_scene().all_in();
    let admin = s.with_names("<item affiliation='admin' jid='WICCA'/>");
    administer(&mut s.crone, "set", &admin);
    let ban = |jid: &str| format!("<item affiliation='outcast' jid='{jid}'/>");
    let (crone, wicca) = (s.crone.bare().to_owned(), s.wiccarocks.bare().to_owned());
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", &ban(&crone))), "not-allowed");
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", &ban(&wicca))), "conflict");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &ban(&crone))), "conflict");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &ban("@"))), "jid-malformed");
}

/// §9.2: if one user in a list can't be banned, nobody in it is.
#[test]
fn a_ban_list_is_applied_as_a_whole() {
    let mut s = RoomScene::open_scene().all_in();
    let items = s.with_names("<item affiliation='outcast' jid='HAG'/><item affiliation='outcast' jid='CRONE'/>");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &items)), "conflict");
    s.hag.expect_nothing();
    let both = "<item affiliation='outcast' jid='a@x.example' role='none' nick='thirdwitch'/>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", both)), "bad-request", "§17.4");
    let items =
        s.with_names("<item affiliation='outcast' jid='HAG'/><item affiliation='outcast' jid='earl@x.example'/>");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &items)), "result");
    let list = administer(&mut s.crone, "get", "<item affiliation='outcast'/>");
    assert_eq!(list.child("query", ns::MUC_ADMIN).unwrap().children().count(), 2);
}

/// Examples 121 to 130.
#[test]
fn membership_is_granted_and_revoked() {
    let mut s = RoomScene::open_scene().all_in();
    let member = s.with_names(
        "<item affiliation='member' jid='HAG' nick='thirdwitch'><reason>A worthy witch indeed!</reason></item>",
    );
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", &member)), "forbidden");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &member)), "result");
    s.wicca_hears(&["thirdwitch presence member/participant actor=firstwitch reason=A worthy witch indeed!"]);
    let none = s.with_names("<item affiliation='none' jid='HAG'/>");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &none)), "result");
    s.wicca_hears(&["thirdwitch presence none/participant actor=firstwitch"]);
}

/// Example 131: a user who is no longer a member must leave, and the others are told only that.
#[test]
fn a_former_member_leaves_a_members_only_room() {
    let mut s = RoomScene::configure_scene("membersonly=1");
    let members = s.with_names("<item affiliation='member' jid='HAG'/><item affiliation='member' jid='WICCA'/>");
    administer(&mut s.crone, "set", &members);
    // §9.5: new members are invited.
    assert!(s.hag.expect_element().child("x", ns::MUC_USER).unwrap().child("invite", ns::MUC_USER).is_some());
    let mut s = s.all_in();
    let none = s.with_names("<item affiliation='none' jid='HAG'/>");
    administer(&mut s.crone, "set", &none);
    s.hag_hears(&["thirdwitch presence/unavailable none/none jid=HAG/r actor=firstwitch 110 321"]);
    s.wicca_hears(&["thirdwitch presence/unavailable none/none actor=firstwitch 321"]);
}

/// §9.5: the users who may see the list.
#[test]
fn member_lists_are_shown_where_everybody_is_known() {
    for (fields, wanted) in
        [("", "forbidden"), ("whois=anyone", "result"), ("whois=anyone getmemberlist=moderator", "forbidden")]
    {
        let mut s = RoomScene::configure_scene(fields).all_in();
        for list in ["member", "admin", "owner"] {
            let item = format!("<item affiliation='{list}'/>");
            assert_eq!(outcome(&administer(&mut s.hag, "get", &item)), wanted, "{fields} {list}");
            assert_eq!(outcome(&administer(&mut s.crone, "get", &item)), "result");
        }
    }
}

/// Examples 140 to 147: roles, which decide who sees real addresses.
#[test]
fn moderators_are_made_and_unmade() {
    let mut s = RoomScene::open_scene().all_in();
    let grant = "<item nick='thirdwitch' role='moderator'/>";
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", grant)), "forbidden");
    assert_eq!(outcome(&administer(&mut s.crone, "set", grant)), "result");
    s.wicca_hears(&["thirdwitch presence none/moderator"]);
    let found = take_stanzas(&mut s.hag);
    let wanted = [
        "firstwitch presence owner/moderator jid=CRONE/r",
        "secondwitch presence none/participant jid=WICCA/r",
        "thirdwitch presence none/moderator jid=HAG/r 110",
    ];
    assert_eq!(found, wanted.map(|text| s.with_names(text)), "a moderator sees who the others are");
    let item = "<item nick='firstwitch' role='participant'/>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", item)), "not-allowed", "§9.7");
    assert_eq!(outcome(&administer(&mut s.hag, "get", "<item role='moderator'/>")), "forbidden");
    assert_eq!(outcome(&administer(&mut s.crone, "get", "<item role='moderator'/>")), "result");
    let revoke = "<item nick='thirdwitch' role='participant'/>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", revoke)), "result");
    s.wicca_hears(&["thirdwitch presence none/participant"]);
}

/// §17.1 and §10.6: a user who isn't in the room is told of a change with code 101. Occupants get a
/// message about it if they may know the user's affiliation.
#[test]
fn changes_of_who_is_not_there_are_told() {
    for (fields, all_know) in [("", false), ("whois=anyone", true), ("whois=anyone getmemberlist=moderator", false)] {
        // If the store takes part in it, the reply comes last, and `administer` discards the
        // stanzas before it; so the room isn't persistent.
        let mut s = RoomScene::with_options(vec![("default_persistent", Value::Switch(false))]).open(fields);
        join(&mut s.wiccarocks, "secondwitch");
        s.hush();
        for affiliation in ["member", "admin", "owner", "none"] {
            let item = s.with_names(&format!("<item affiliation='{affiliation}' jid='HAG'/>"));
            assert_eq!(outcome(&administer(&mut s.crone, "set", &item)), "result");
            let notice = format!("ROOM message {affiliation}/none jid=HAG");
            let told: &[&str] = &[&notice];
            s.crone_hears(told);
            s.wicca_hears(if all_know { told } else { &[] });
            s.hag_hears(&[&format!("{notice} 101")]);
        }
        // Only admins may know of bans, and of their end.
        for affiliation in ["outcast", "none"] {
            let item = s.with_names(&format!("<item affiliation='{affiliation}' jid='HAG'/>"));
            administer(&mut s.crone, "set", &item);
            s.crone.expect_nothing();
            s.wiccarocks.expect_nothing();
            s.hag_hears(&[&format!("ROOM message {affiliation}/none jid=HAG 101")]);
        }
        // A change that changes nothing isn't announced, and neither is a long list.
        let item = s.with_names("<item affiliation='none' jid='HAG'/>");
        administer(&mut s.crone, "set", &item);
        let items: String = (0..60).map(|n| format!("<item affiliation='member' jid='u{n}@x.example'/>")).collect();
        let items = s.with_names(&format!("{items}<item affiliation='member' jid='HAG'/>"));
        administer(&mut s.crone, "set", &items);
        s.crone.expect_nothing();
        s.hag.expect_nothing();
    }
}

#[test]
fn malformed_requests_are_refused() {
    let mut s = RoomScene::open_scene();
    for (type_, items) in [
        ("get", ""),
        ("get", "<item/>"),
        ("get", "<item affiliation='none'/>"),
        ("get", "<item role='king'/>"),
        ("get", "<item affiliation='member' role='participant'/>"),
        ("set", ""),
        ("set", "<item nick='x'/>"),
        ("set", "<item affiliation='king' jid='a@b.example'/>"),
        ("set", "<item affiliation='member'/>"),
        ("set", "<item role='visitor'/>"),
    ] {
        assert_eq!(outcome(&administer(&mut s.crone, type_, items)), "bad-request", "{type_} {items}");
    }
}
