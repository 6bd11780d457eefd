//! [`RoomStore`](rookery_store::RoomStore).

use super::samples::*;
use rookery_store::{Affiliated, Affiliation, RoomDocument, Stores};

pub fn rooms_read_as_written(stores: &Stores) {
    let room = jid("coven@chat.a.example");
    assert_eq!(finish(stores.rooms.load(room.as_ref())), None);
    for document in [document("A Dark Cave", true, None), document("", false, Some(b"<message/>"))] {
        finish(stores.rooms.put(room.as_ref(), document.clone()));
        let loaded = finish(stores.rooms.load(jid("coven@chat.a.example/nick").as_ref())).unwrap();
        assert_eq!((loaded.document, loaded.affiliations), (document, vec![]));
    }
    assert!(finish(stores.rooms.remove(room.as_ref())));
    assert!(!finish(stores.rooms.remove(room.as_ref())));
    assert_eq!(finish(stores.rooms.load(room.as_ref())), None);
}

pub fn services_list_their_own_rooms(stores: &Stores) {
    for (room, is_public) in [("b@chat.a.example", true), ("a@chat.a.example", false), ("c@chat.b.example", true)] {
        finish(stores.rooms.put(jid(room).as_ref(), document(room, is_public, None)));
    }
    let listed = finish(stores.rooms.list("chat.a.example"));
    let listed: Vec<_> = listed.iter().map(|room| (room.room.as_str(), room.name.as_str(), room.is_public)).collect();
    assert_eq!(
        listed,
        [("a@chat.a.example", "a@chat.a.example", false), ("b@chat.a.example", "b@chat.a.example", true)]
    );
    assert_eq!(finish(stores.rooms.list("chat.c.example")), []);
    let creators = finish(stores.rooms.list("chat.b.example")).into_iter().map(|room| room.creator);
    assert_eq!(creators.collect::<Vec<_>>(), [Some(jid("founder@x"))]);
}

pub fn affiliations_change_and_outlive_the_document(stores: &Stores) {
    let room = jid("coven@chat.a.example");
    assert!(
        !finish(stores.rooms.affiliate(room.as_ref(), vec![affiliation("a@x", Affiliation::Owner)])),
        "no such room"
    );
    finish(stores.rooms.put(room.as_ref(), document("old", true, None)));
    let all = [Affiliation::Owner, Affiliation::Admin, Affiliation::Member, Affiliation::Outcast];
    let changes = ["a@x", "b@x", "c@x", "d@x"].iter().zip(all).map(|(user, what)| affiliation(user, what));
    assert!(finish(stores.rooms.affiliate(room.as_ref(), changes.collect())));
    finish(stores.rooms.put(room.as_ref(), document("new", true, None)));
    let named = Affiliated {
        nick: Some("crone".into()),
        reason: Some("a worthy witch".into()),
        ..affiliation("b@x", Affiliation::Owner)
    };
    let changes = vec![affiliation("a@x", Affiliation::None), named.clone()];
    assert!(finish(stores.rooms.affiliate(room.as_ref(), changes)));
    let found = finish(stores.rooms.load(room.as_ref())).unwrap().affiliations;
    assert_eq!(found, [named, affiliation("c@x", Affiliation::Member), affiliation("d@x", Affiliation::Outcast)]);
}

pub fn reserved_nicks_keep_the_spaces_at_their_ends(stores: &Stores) {
    let room = jid("coven@chat.a.example");
    finish(stores.rooms.put(room.as_ref(), document("", true, None)));
    let reserved = [("a@x", "crone"), ("b@x", "crone "), ("c@x", "crone  ")];
    let members = reserved.map(|(user, nick)| {
        let member = affiliation(user, Affiliation::Member);
        Affiliated { nick: Some(nick.into()), ..member }
    });
    assert!(finish(stores.rooms.affiliate(room.as_ref(), members.to_vec())));
    assert_eq!(finish(stores.rooms.load(room.as_ref())).unwrap().affiliations, members);
}

pub fn a_user_is_forgotten_everywhere(stores: &Stores) {
    let rooms = ["a@chat.a.example", "b@chat.a.example", "c@chat.b.example"].map(jid);
    let of_users = ["gone@x", "other@x", "gone@x"].map(|user| (jid(user), user.as_bytes().to_vec())).to_vec();
    for room in &rooms {
        let said = RoomDocument { of_users: of_users.clone(), ..document("", true, None) };
        finish(stores.rooms.put(room.as_ref(), document("", true, None)));
        finish(stores.rooms.put(room.as_ref(), said.clone()));
        assert_eq!(finish(stores.rooms.load(room.as_ref())).unwrap().document, said);
        finish(stores.rooms.affiliate(room.as_ref(), vec![affiliation("other@x", Affiliation::Owner)]));
    }
    let gone = account(stores, "gone@x");
    assert_eq!(finish(stores.rooms.known_in(gone.as_ref())), 3, "they say something of that user");
    for room in [&rooms[0], &rooms[2]] {
        finish(stores.rooms.affiliate(room.as_ref(), vec![affiliation("gone@x", Affiliation::Member)]));
    }
    assert_eq!(finish(stores.rooms.known_in(gone.as_ref())), 3, "each counts once");
    assert_eq!(finish(stores.rooms.known_in(jid("nobody@x").as_ref())), 0);
    let created = RoomDocument { creator: Some(gone.clone()), ..document("", true, None) };
    finish(stores.rooms.put(jid("d@chat.a.example").as_ref(), created));
    assert!(finish(stores.accounts.remove(gone.as_ref())));
    for room in &rooms {
        let found = finish(stores.rooms.load(room.as_ref())).unwrap();
        assert_eq!(found.affiliations, [affiliation("other@x", Affiliation::Owner)]);
        assert_eq!(found.document.of_users, of_users[1..2]);
    }
    assert_eq!(finish(stores.rooms.known_in(gone.as_ref())), 0);
    let left = finish(stores.rooms.load(jid("d@chat.a.example").as_ref())).unwrap();
    assert_eq!(left.document.creator, None, "the room stays, for nobody");
}

fn document(name: &str, is_public: bool, subject: Option<&[u8]>) -> RoomDocument {
    let subject = subject.map(<[u8]>::to_vec);
    RoomDocument {
        name: name.into(),
        is_public,
        config: name.as_bytes().to_vec(),
        vcard: subject.clone(),
        subject,
        of_users: vec![],
        creator: Some(jid("founder@x")),
        archive_days: 30,
    }
}

fn affiliation(user: &str, affiliation: Affiliation) -> Affiliated {
    Affiliated { user: jid(user), affiliation, nick: None, reason: None }
}
