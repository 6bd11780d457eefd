//! Rooms that remain when everybody has left, and when the server starts again.

use super::*;
use rookery_store::StoreError;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;

#[test]
fn a_persistent_room_survives_a_restart() {
    let mut s = RoomScene::configure_scene(
        "persistentroom=1 roomname=Cave moderatedroom=1 passwordprotectedroom=1 roomsecret=burn",
    );
    let items = s.with_names(
        "<item affiliation='member' jid='HAG' nick='thirdwitch'/><item affiliation='outcast' jid='WICCA'/>",
    );
    assert_eq!(outcome(&administer(&mut s.crone, "set", &items)), "result");
    s.crone.send(&format!("<message to='{COVEN}' type='groupchat'><subject>Spells</subject></message>"));
    s.crone.pump();
    s.server.restart();
    let names = [&s.crone, &s.wiccarocks, &s.hag].map(|client| client.full().to_owned());
    let [mut crone, mut wicca, mut hag] = names.map(|name| s.server.online(&name));
    join_with(&mut wicca, "thirdwitch", "<password>burn</password>");
    assert_eq!(take_stanzas(&mut wicca), ["thirdwitch presence/error forbidden"]);
    join(&mut hag, "thirdwitch");
    assert_eq!(take_stanzas(&mut hag), ["thirdwitch presence/error not-authorized"]);
    join_with(&mut hag, "thirdwitch", "<password>burn</password>");
    let found = take_stanzas(&mut hag);
    assert!(found[0].starts_with("thirdwitch presence member/participant") && found[0].ends_with(" 110"), "{found:?}");
    assert_eq!(found[1], "firstwitch message/groupchat subject=Spells late");
    join_with(&mut crone, "firstwitch", "<password>burn</password>");
    assert!(take_stanzas(&mut crone)[1].starts_with("firstwitch presence owner/moderator"));
    let info =
        ask(&mut wicca, "conference.example.org", "get", "<query xmlns='http://jabber.org/protocol/disco#items'/>");
    let item = info.child("query", ns::DISCO_ITEMS).unwrap().children().next().unwrap();
    assert_eq!(item.attr("name"), Some("Cave"));
}

/// §10.1: until its owner has configured a room, it doesn't exist for others.
#[test]
fn a_locked_room_stays_locked() {
    let mut s = RoomScene::with_options(vec![("default_public", Value::Switch(true))]);
    join(&mut s.crone, "firstwitch");
    say(&mut s.crone, "double, double");
    s.hush();
    s.server.restart();
    let [mut crone, mut hag] =
        [&s.crone, &s.hag].map(|client| client.full().to_owned()).map(|name| s.server.online(&name));
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let rooms = ask(&mut hag, "conference.example.org", "get", items);
    assert_eq!(rooms.child("query", ns::DISCO_ITEMS).unwrap().children().count(), 0);
    join(&mut hag, "thirdwitch");
    assert_eq!(take_stanzas(&mut hag), ["thirdwitch presence/error item-not-found"]);
    join(&mut crone, "firstwitch");
    let found = take_stanzas(&mut crone);
    assert!(found[0].ends_with(" 110 201"), "its owner is asked for a configuration again: {found:?}");
    assert_eq!(outcome(&configure(&mut crone, "")), "result");
    let rooms = ask(&mut hag, "conference.example.org", "get", items);
    assert_eq!(rooms.child("query", ns::DISCO_ITEMS).unwrap().children().count(), 1);
    join(&mut hag, "thirdwitch");
    assert_eq!(take_stanzas(&mut hag).last().map(String::as_str), Some("ROOM message/groupchat subject="), "she is in");
}

/// Returns whether a room of the first witch remains after a restart, with these options of the
/// server, this form of the room, and somebody speaking in it or not.
fn stays(options: Vec<(&'static str, Value)>, form: &str, speaks: bool) -> bool {
    let mut s = RoomScene::with_options(options).open(form);
    if speaks {
        say(&mut s.crone, "double, double");
    }
    leave(&mut s.crone, "firstwitch");
    s.hush();
    s.server.restart();
    let mut hag = s.server.online(s.hag.full());
    join(&mut hag, "thirdwitch");
    let found = take_stanzas(&mut hag);
    match found[0].ends_with(" 110 201") {
        true => false,
        false if found[0].ends_with(" 110") => true,
        false => panic!("{found:?}"),
    }
}

/// §10.1.2 lets the service decide what becomes of a room whose owner accepts the default
/// configuration.
#[test]
fn a_room_that_is_taken_as_it_was_made_stays_once_somebody_has_spoken_in_it() {
    assert!(!stays(vec![], "", false), "a mistyped address leaves nothing behind");
    assert!(stays(vec![], "", true));
    assert!(!stays(vec![("default_persistent", Value::Switch(false))], "", true), "as the operator wants it");
}

#[test]
fn a_room_that_was_configured_stays_unless_the_form_says_otherwise() {
    assert!(stays(vec![], "roomname=Cave", false));
    assert!(!stays(vec![], "roomname=Cave persistentroom=0", true));
    let by_default = || vec![("default_persistent", Value::Switch(false))];
    assert!(!stays(by_default(), "roomname=Cave", true));
    assert!(stays(by_default(), "persistentroom=1", false));
}

/// An empty persistent room is dropped from memory and comes back from the store, with the same
/// pseudonyms.
#[test]
fn an_empty_room_comes_back() {
    let mut s = RoomScene::configure_scene("persistentroom=1");
    let pseudonym = |client: &mut Client| {
        let all = client.all();
        let own = all.iter().find(|stanza| stanza.name() == "presence").unwrap();
        own.child("occupant-id", ns::OCCUPANT_ID).unwrap().attr("id").unwrap().to_owned()
    };
    leave(&mut s.crone, "firstwitch");
    s.crone.all();
    join(&mut s.hag, "thirdwitch");
    let first = pseudonym(&mut s.hag);
    leave(&mut s.hag, "thirdwitch");
    s.hag.all();
    join(&mut s.hag, "thirdwitch");
    assert_eq!(pseudonym(&mut s.hag), first);
    assert_eq!(outcome(&configure(&mut s.crone, "persistentroom=0")), "result");
    leave(&mut s.hag, "thirdwitch");
    s.hag.all();
    join(&mut s.hag, "thirdwitch");
    assert!(take_stanzas(&mut s.hag)[0].ends_with("110 201"), "it is a new one");
}

/// §7.2.13: the history belongs to the room, not to the process. Real addresses in it stay as
/// secret as they were, and messages that were retracted are gone.
#[test]
fn a_room_that_is_loaded_again_begins_with_the_newest_page_of_its_archive() {
    for dies in [true, false] {
        let options = vec![("rooms", "default_history", Value::Number(3))];
        let mut s = RoomScene::with(Config { options, ..Config::default() }).open("persistentroom=1").all_in();
        for body in ["forgotten", "one", "two", "slip"] {
            say(&mut s.hag, body);
        }
        s.crone.send(&format!("<message to='{COVEN}' type='groupchat'><subject>Spells</subject></message>"));
        let slip =
            s.crone.all().into_iter().find(|said| said.child_text("body", ns::CLIENT).as_deref() == Some("slip"));
        let slip = slip.and_then(|said| Some(said.child("stanza-id", ns::STANZA_ID)?.attr("id")?.to_owned())).unwrap();
        s.hush();
        s.hag.send(&format!(
            "<message to='{COVEN}' type='groupchat' id='r'><retract xmlns='urn:xmpp:message-retract:1' id='{slip}'/>\
             <store xmlns='urn:xmpp:hints'/></message>"
        ));
        s.hush();
        let before = history(&mut s);
        assert_eq!(before.len(), 3);
        let pseudonym = |stanza: &Element| stanza.child("occupant-id", ns::OCCUPANT_ID)?.attr("id").map(str::to_owned);
        match dies {
            true => {
                s.server.restart();
                let names = [&s.crone, &s.wiccarocks, &s.hag].map(|client| client.full().to_owned());
                [s.crone, s.wiccarocks, s.hag] = names.map(|name| s.server.online(&name));
            }
            false => {
                leave(&mut s.crone, "firstwitch");
                leave(&mut s.hag, "thirdwitch");
                s.hush();
            }
        }
        let after = history(&mut s);
        let told = |said: &[Element]| {
            said.iter()
                .map(|said| {
                    (said.child_text("body", ns::CLIENT), said.attr("from").map(str::to_owned), pseudonym(said))
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&after), told(&before), "dies: {dies}");
        assert_eq!(after, before, "dies: {dies}");
    }
}

/// Makes the second witch leave and enter again, and returns the history that it gets.
fn history(s: &mut RoomScene) -> Vec<Element> {
    leave(&mut s.wiccarocks, "secondwitch");
    s.hush();
    join(&mut s.wiccarocks, "secondwitch");
    let late =
        |stanza: &Element| stanza.child("delay", ns::DELAY).is_some() && stanza.child("subject", ns::CLIENT).is_none();
    s.wiccarocks.all().into_iter().filter(late).collect()
}

/// Stanzas that come while a room is being loaded wait, in their order. If the store is broken,
/// they get an error that says so.
#[test]
fn stanzas_wait_for_a_room_that_is_loaded() {
    let stores = Memory::stores();
    let s = RoomScene::with(Config { stores: stores.clone(), ..Config::default() }).open("persistentroom=1");
    let (crone, hag) = (s.crone.full().to_owned(), s.hag.full().to_owned());
    drop(s);
    let held = HeldStores::new(stores);
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    let (mut crone, mut hag) = (server.online(&crone), server.online(&hag));
    held.set_flowing(false);
    join(&mut crone, "firstwitch");
    say(&mut crone, "one");
    join(&mut hag, "thirdwitch");
    say(&mut hag, "two");
    hag.pump();
    crone.expect_nothing();
    while held.release_one() {
        server.settle();
    }
    let found = take_stanzas(&mut crone);
    let bodies: Vec<_> = found.iter().filter(|text| text.contains("body")).map(|text| text.as_str()).collect();
    assert_eq!(bodies, ["firstwitch message/groupchat body=one", "thirdwitch message/groupchat body=two"]);
    assert_eq!(hag.bodies(), ["one", "two"], "the first one as history");
}

#[test]
fn a_broken_store_is_told() {
    let stores = Memory::stores();
    let s = RoomScene::with(Config { stores: stores.clone(), ..Config::default() }).open("persistentroom=1");
    let crone = s.crone.full().to_owned();
    drop(s);
    let held = HeldStores::new(stores);
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    let mut crone = server.online(&crone);
    held.set_fault(Some(rookery_store::StoreError::Busy));
    join(&mut crone, "firstwitch");
    let refused = crone.expect_element();
    assert_eq!(short(&refused), "firstwitch presence/error resource-constraint");
    assert!(refused.child("x", ns::MUC).is_some(), "§7.2: by this clients know that they did not get in");
    held.set_fault(None);
    join(&mut crone, "firstwitch");
    assert_eq!(take_stanzas(&mut crone).len(), 2);
}

/// The next owner of a removed account's name has none of its rights in rooms.
#[test]
fn a_removed_account_leaves_nothing_behind() {
    for fields in ["", "persistentroom=1"] {
        let options = vec![("register", "allow_creation", Value::Switch(false))];
        let mut s = RoomScene::with(Config { options, ..Config::default() }).open(fields).all_in();
        let owner = s.with_names("<item affiliation='owner' jid='HAG'/>");
        administer(&mut s.crone, "set", &owner);
        s.hush();
        let name = s.hag.full().to_owned();
        s.hag.send("<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>");
        s.hag.pump();
        let mut heir = s.server.login(&name);
        heir.send("<presence/>");
        heir.all();
        join(&mut heir, "thirdwitch");
        let found = take_stanzas(&mut heir);
        assert!(found.iter().any(|text| text.starts_with("thirdwitch presence none/participant")), "{found:?}");
        let kept =
            s.server.finish(s.server.stores().rooms.load(rookery_jid::Jid::parse(COVEN).unwrap().as_ref())).unwrap();
        assert!(kept.is_none_or(|kept| kept.affiliations.len() == 1));
    }
}

/// Nor has the next owner its hats and its voice, although nobody was in the room and it was only
/// in the store.
#[test]
fn a_room_that_sleeps_forgets_a_removed_account() {
    let options = vec![("register", "allow_creation", Value::Switch(false))];
    let mut s =
        RoomScene::with(Config { options, ..Config::default() }).open("persistentroom=1 moderatedroom=1").all_in();
    let (title, uri) = (("title", "Host"), ("uri", "http://schemas.example.com/hats#host"));
    let (hag, wicca) = (s.hag.bare().to_owned(), s.wiccarocks.bare().to_owned());
    assert_eq!(outcome(&super::newer::command(&mut s.crone, "create", &[title, uri])), "result");
    for wearer in [&hag, &wicca] {
        assert_eq!(outcome(&super::newer::command(&mut s.crone, "assign", &[uri, ("jid", wearer)])), "result");
    }
    for nick in ["secondwitch", "thirdwitch"] {
        let item = format!("<item nick='{nick}' role='participant'/>");
        assert_eq!(outcome(&administer(&mut s.crone, "set", &item)), "result");
    }
    leave(&mut s.crone, "firstwitch");
    leave(&mut s.wiccarocks, "secondwitch");
    leave(&mut s.hag, "thirdwitch");
    s.hush();
    s.hag.send("<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>");
    s.hag.all_to_the_end();
    // The heir is the first to enter the room, so only the store can have forgotten the account.
    let own = |client: &mut Client| client.all().into_iter().find(|it| it.name() == "presence").unwrap();
    let mut heir = s.server.online(&format!("{hag}/other"));
    for (client, nick, role) in
        [(&mut heir, "thirdwitch", "visitor"), (&mut s.wiccarocks, "secondwitch", "participant")]
    {
        join(client, nick);
        let shown = own(client);
        let hats = shown.child("hats", ns::HATS).map_or(0, |hats| hats.children().count());
        assert!(short(&shown).contains(&format!("none/{role}")), "{shown:?}");
        assert_eq!(hats, usize::from(role == "participant"), "{shown:?}");
        leave(client, nick);
        client.all();
    }
}

/// A change that the store refuses counts, the user is told to wait, and it is stored in the end:
/// for a room that was changed, and for one that was destroyed.
#[test]
fn what_the_store_refuses_is_written_again() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let mut s = RoomScene::with(Config { stores: held.stores(), ..Config::default() }).open("persistentroom=1");
    let other = "other@conference.example.org";
    let submit = "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'>\
                  <field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query>";
    s.crone.send(&format!("<presence to='{other}/c'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    s.crone.all();
    assert_eq!(outcome(&ask(&mut s.crone, other, "set", submit)), "result");
    s.hush();

    held.set_fault(Some(StoreError::Closed));
    let item = s.with_names("<item affiliation='member' jid='HAG' nick='thirdwitch'/>");
    let refused = administer(&mut s.crone, "set", &item);
    let error = refused.child("error", ns::CLIENT).unwrap();
    assert_eq!((error.attr("type"), error.child("text", ns::STANZA_ERRORS).is_some()), (Some("wait"), true));
    assert_ne!(outcome(&configure(&mut s.crone, "persistentroom=1 roomname=Cave")), "result");
    let destroy = "<query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query>";
    assert_ne!(outcome(&ask(&mut s.crone, other, "set", destroy)), "result");
    // Everybody has left, and the change is still in memory.
    leave(&mut s.crone, "firstwitch");
    s.hush();
    s.server.advance(15_000);
    let list = "<query xmlns='http://jabber.org/protocol/muc#admin'><item affiliation='member'/></query>";
    let members = |client: &mut Client| {
        let list = ask(client, COVEN, "get", list);
        list.child("query", ns::MUC_ADMIN).unwrap().children().count()
    };
    assert_eq!(members(&mut s.crone), 1);

    held.set_fault(None);
    s.server.advance(30_000);
    let crone = s.crone.full().to_owned();
    drop(s);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    let mut crone = server.online(&crone);
    assert_eq!(members(&mut crone), 1);
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let rooms = ask(&mut crone, "conference.example.org", "get", items);
    let names =
        rooms.child("query", ns::DISCO_ITEMS).unwrap().children().map(|item| item.attr("name").unwrap().to_owned());
    assert_eq!(names.collect::<Vec<_>>(), ["Cave"]);
}

/// A request that changes many things is one write, and subjects can't change faster than a room
/// should be written.
#[test]
fn a_room_is_written_once_for_each_request() {
    let held = rookery_store::held::HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let config = Config { stores: held.stores(), ..Config::default() };
    let mut s = RoomScene::with(config).open("persistentroom=1 moderatedroom=1 enablearchiving=0").all_in();
    let settle = |s: &mut RoomScene| {
        let mut writes = 0;
        s.hush();
        while held.release_one() {
            writes += 1;
            s.hush();
        }
        writes
    };
    held.set_flowing(false);
    settle(&mut s);
    let items = "<item nick='secondwitch' role='participant'/><item nick='thirdwitch' role='participant'/>";
    s.crone.send(&format!(
        "<iq to='{COVEN}' type='set' id='a'><query xmlns='http://jabber.org/protocol/muc#admin'>{items}</query></iq>"
    ));
    assert_eq!(settle(&mut s), 1);
    s.server.advance(10_000);
    settle(&mut s);
    for number in 0..40 {
        s.crone.send(&format!("<message to='{COVEN}' type='groupchat'><subject>{number}</subject></message>"));
    }
    s.crone.pump();
    let writes = settle(&mut s);
    assert!((10..20).contains(&writes), "{writes}");
}
