//! Rooms with many occupants.

use super::*;

/// A newcomer gets more presence than an outbox holds, all of it, in order, and before the messages
/// that others send in the meantime.
#[test]
fn a_room_may_show_more_than_an_outbox_takes() {
    let mut config = Config { federates: true, ..Config::default() };
    config.settings.outbox.hard = 64 * 1024;
    let mut s = RoomScene::with(config).open("");
    let status = "x".repeat(2000);
    for number in 0..200 {
        s.server.incoming(&format!(
            "<presence from='u{number}@far.example/r' to='{COVEN}/n{number}'><status>{status}</status>\
             <x xmlns='http://jabber.org/protocol/muc'/></presence>"
        ));
        s.crone.all();
        s.server.take_left();
    }
    for (client, nick) in [(&mut s.wiccarocks, "secondwitch"), (&mut s.hag, "thirdwitch")] {
        client.set_reading(false);
        client.send(&format!("<presence to='{COVEN}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        client.pump();
        s.crone.all();
        say(&mut s.crone, "hello");
        s.crone.all();
        client.set_reading(true);
        let mut found = Vec::new();
        for _ in 0..100 {
            found.extend(take_stanzas(client));
            s.server.advance(10);
        }
        let own = found.iter().position(|text| text.contains(" 110")).unwrap();
        assert!(own >= 201, "{own}");
        assert_eq!(
            found[found.len() - 2..],
            ["ROOM message/groupchat subject=", "firstwitch message/groupchat body=hello"]
        );
        leave(client, nick);
        s.server.take_left();
        client.all();
    }
}

/// An occupant only sees moderators if only their presence is broadcast.
#[test]
fn presence_can_be_limited_to_roles() {
    let mut s = RoomScene::configure_scene("presencebroadcast=moderator");
    join(&mut s.wiccarocks, "secondwitch");
    join(&mut s.hag, "thirdwitch");
    let subject = "ROOM message/groupchat subject=";
    s.hag_hears(&[
        "firstwitch presence owner/moderator",
        "thirdwitch presence none/participant jid=HAG/r 110",
        subject,
    ]);
    s.crone.expect_nothing();
    s.wiccarocks.all();
    say(&mut s.hag, "hello");
    assert_eq!(s.wiccarocks.bodies(), ["hello"]);
    s.hush();
    // An occupant who becomes a moderator appears, and disappears when that ends.
    administer(&mut s.crone, "set", "<item nick='thirdwitch' role='moderator'/>");
    s.wicca_hears(&["thirdwitch presence none/moderator"]);
    administer(&mut s.crone, "set", "<item nick='thirdwitch' role='participant'/>");
    s.wicca_hears(&["thirdwitch presence/unavailable none/none"]);
    s.hush();
    leave(&mut s.hag, "thirdwitch");
    s.wiccarocks.expect_nothing();
    s.crone.expect_nothing();
}
