//! Rooms that move before their old home has loaded the list of rooms.

use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Config, Server};

use super::{at, room_there};

/// A stanza that waits for the list would come to a home that is none any more, and whose process
/// may end.
#[test]
fn a_room_moves_only_when_nothing_waits_for_the_list_of_rooms() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { shards: 4, nodes: 2, stores: held.stores(), ..Config::default() });
    let room = room_there(&server);
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    held.set_flowing(false);
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    romeo.send(&format!("<iq type='get' id='info' to='{room}'>{info}</iq>"));
    romeo.pump();
    server.remove(1);
    let is_there = || server.inspect(|world| world.acts_for(&room)).into_iter().skip(2).any(|acts| acts);
    assert!(is_there(), "a request waits");
    held.set_flowing(true);
    held.release_all();
    server.advance(100);
    assert!(!is_there(), "nothing waits any more");
    assert_eq!(romeo.all().iter().filter(|found| found.attr("id") == Some("info")).count(), 1);
}
