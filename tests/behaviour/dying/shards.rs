//! The journal of a node, to which shards and rooms hand over at different times.

use super::{WRITTEN_MS, at, back, enter, ids, kill, nodes, room_there};

/// The room's shard has just handed something over, so its next data lingers; the shard of the
/// session, which gets the room's message next, could hand over at once.
#[test]
fn no_client_gets_anything_whose_cause_the_journal_lacks() {
    let server = nodes();
    let mut juliet = at(&server, "juliet", 2, 0, "balcony");
    let mut nurse = at(&server, "nurse", 3, 3, "kitchen");
    let rooms = (0..).map(|number| format!("room{number}@conference.example.org"));
    let room = rooms.into_iter().find(|room| server.home_of(room) == 3).expect("some room is at home there");
    enter(&mut juliet, &room, "juliet");
    let (id, jid) = (juliet.enable(), juliet.jid.clone().expect("bound"));
    nurse.enable();
    server.linger(3);
    server.advance(WRITTEN_MS);
    juliet.all();
    nurse.send(&format!("<message type='headline' to='{}'><body>ah</body></message>", nurse.full()));
    assert_eq!(nurse.bodies(), ["ah"]);
    let text = format!("<message type='groupchat' id='g1' to='{room}'><body>hear</body></message>");
    juliet.send(&text);
    assert_eq!(ids(&mut juliet), [""; 0], "the journal has to have the room's note first");
    server.advance(3);
    assert_eq!(ids(&mut juliet).len(), 1);
    kill(&server);
    let (_, handled) = back(&server, &jid, &id, 0, 1);
    assert_eq!(handled, 1, "nothing has to be said again");
}

/// A room's messages may be written a second later, but a change of its occupants may not: the
/// client waits for its acknowledgement.
#[test]
fn an_entry_is_acknowledged_at_once_although_the_room_has_just_had_a_message() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let room = room_there(&server);
    enter(&mut romeo, &room, "romeo");
    juliet.enable();
    server.advance(WRITTEN_MS);
    romeo.send(&format!("<message type='groupchat' to='{room}'><body>hear</body></message>"));
    assert_eq!(romeo.bodies(), ["hear"]);
    juliet.send(&format!("<presence to='{room}/juliet'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    juliet.all();
    server.advance(60);
    juliet.send("<r xmlns='urn:xmpp:sm:3'/>");
    let got = juliet.all();
    let handled = got.iter().filter(|got| got.name() == "a").filter_map(|a| a.attr("h")).next_back();
    assert_eq!(handled, Some("1"));
}
