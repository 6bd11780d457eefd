//! An account is removed whose rights in rooms other nodes have in memory or in a journal. They
//! aren't those of the next account of that name.

use rookery_store::StoreError;
use rookery_testkit::{Client, Server};

use super::{WRITTEN_MS, at, enter, nodes, nodes_with_a_store, room_there};

/// Makes an account an administrator of a room.
fn appoint(owner: &mut Client, room: &str, account: &str) {
    owner.send(&format!(
        "<iq type='set' id='a' to='{room}'><query xmlns='http://jabber.org/protocol/muc#admin'>\
         <item affiliation='admin' jid='{account}'/></query></iq>"
    ));
    owner.all();
}

/// Returns the administrators of a room.
fn administrators(owner: &mut Client, room: &str) -> Vec<String> {
    owner.send(&format!(
        "<iq type='get' id='l' to='{room}'><query xmlns='http://jabber.org/protocol/muc#admin'>\
         <item affiliation='admin'/></query></iq>"
    ));
    let all = owner.all();
    let list = all.iter().filter(|found| found.attr("id") == Some("l"));
    let lists: Vec<_> = list.filter_map(|found| found.child("query", "http://jabber.org/protocol/muc#admin")).collect();
    assert_eq!(lists.len(), 1, "{all:?}");
    lists[0].children().filter_map(|item| item.attr("jid")).map(str::to_owned).collect()
}

/// Removes an account whose home is the first shard, and creates another one of that name.
fn replace_account(server: &Server, name: &str) {
    let account = server.address(name);
    server.run_at(0, move |world| world.remove_account(account, |_, removed| assert_eq!(removed, Ok(true))));
    server.account(name);
}

/// Enters a room and speaks there, after which the store has it.
fn begin(owner: &mut Client, room: &str) {
    enter(owner, room, "romeo");
    owner.send(&format!("<message type='groupchat' to='{room}'><body>hear</body></message>"));
    owner.all();
}

#[test]
fn rooms_of_other_nodes_forget_a_removed_account() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let (room, nurse) = (room_there(&server), server.name_at("nurse", 0));
    let account = server.account(&nurse).to_string();
    begin(&mut romeo, &room);
    appoint(&mut romeo, &room, &account);
    assert_eq!(administrators(&mut romeo, &room), [&*account]);
    replace_account(&server, &nurse);
    assert_eq!(administrators(&mut romeo, &room), [""; 0]);
}

/// The database has not taken the rights, and the room's node dies.
#[test]
fn rights_that_only_a_journal_has_end_with_their_account() {
    let (held, server) = nodes_with_a_store();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let (room, [nurse, friar]) = (room_there(&server), ["nurse", "friar"].map(|stem| server.name_at(stem, 0)));
    let [nurse_jid, friar_jid] = [&nurse, &friar].map(|name| server.account(name).to_string());
    begin(&mut romeo, &room);
    server.advance(WRITTEN_MS);
    held.set_fault(Some(StoreError::Busy));
    appoint(&mut romeo, &room, &nurse_jid);
    appoint(&mut romeo, &room, &friar_jid);
    server.advance(WRITTEN_MS);
    server.silence(1);
    held.set_fault(None);
    replace_account(&server, &nurse);
    server.bury(1);
    romeo.all();
    assert_eq!(administrators(&mut romeo, &room), [&*friar_jid]);
}
