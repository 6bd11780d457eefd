//! Rooms outlive the server's process: in a restart in good order, no occupant leaves.

use rookery_hub::Card;
use rookery_jid::Jid;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_store::{RoomDocument, StoreError};

use super::*;

/// The milliseconds that a restart takes.
const AWAY_MS: u64 = 3000;

fn resume(client: &mut Client, id: &str) {
    let mut again = client.again();
    again.resume(client.jid.as_ref().expect("bound"), id, 0);
    *client = again;
}

impl RoomScene {
    /// Restarts the server, and makes all three resume their sessions.
    fn over_a_restart(mut self) -> Self {
        self.hush();
        let ids = [&mut self.crone, &mut self.wiccarocks, &mut self.hag].map(Client::enable);
        self.server.hand_over(AWAY_MS);
        self.back(ids)
    }

    /// Makes all three resume their sessions.
    fn back(mut self, ids: [String; 3]) -> Self {
        self = self.back_but_one(&ids);
        resume(&mut self.hag, &ids[2]);
        self
    }

    /// Makes the first two resume their sessions.
    fn back_but_one(mut self, ids: &[String; 3]) -> Self {
        resume(&mut self.crone, &ids[0]);
        resume(&mut self.wiccarocks, &ids[1]);
        self
    }
}

#[test]
fn who_is_in_a_room_stays_and_hears_nothing() {
    for fields in ["", "persistentroom=1", "moderatedroom=1 whois=moderators"] {
        let mut s = RoomScene::configure_scene(fields).all_in();
        say(&mut s.crone, "before");
        s.hush();
        let mut s = s.over_a_restart();
        s.crone_hears(&[]);
        s.wicca_hears(&[]);
        s.hag_hears(&[]);
        say(&mut s.crone, "after");
        for client in [&mut s.crone, &mut s.wiccarocks, &mut s.hag] {
            assert_eq!(client.bodies(), ["after"], "{fields}");
        }
        // A newcomer gets all occupants, and the earlier messages.
        let mut other = s.server.online("other/x");
        join(&mut other, "fourthwitch");
        let heard = other.all();
        let here: Vec<_> = heard.iter().filter(|found| found.name() == "presence").collect();
        assert!(here.len() >= 4, "{fields}: {heard:?}");
        let bodies: Vec<_> = heard.iter().filter_map(|found| found.child_text("body", ns::CLIENT)).collect();
        assert_eq!(bodies, ["before", "after"], "{fields}");
        s.hush();
        // The owner is still the owner, and has an owner's rights.
        assert_eq!(
            administer(&mut s.crone, "set", "<item nick='thirdwitch' role='none'/>").attr("type"),
            Some("result")
        );
        let kicked = s.hag.all();
        assert!(kicked.iter().any(|found| found.attr("type") == Some("unavailable")), "{fields}: {kicked:?}");
    }
}

/// Sessions that can't continue leave before the stop. Sessions whose client doesn't come back
/// leave when their time is over.
#[test]
fn who_does_not_outlive_the_restart_leaves() {
    let mut s = RoomScene::open_scene().all_in();
    s.hush();
    let id = s.crone.enable();
    s.wiccarocks.enable();
    s.server.hand_over(AWAY_MS);
    let mut crone = s.crone.again();
    crone.resume(s.crone.jid.as_ref().expect("bound"), &id, 0);
    let heard = crone.all();
    let gone = |nick: &str, heard: &[Element]| {
        let from = format!("{COVEN}/{nick}");
        heard
            .iter()
            .filter(|found| found.attr("from") == Some(&from) && found.attr("type") == Some("unavailable"))
            .count()
    };
    assert_eq!((gone("thirdwitch", &heard), gone("secondwitch", &heard)), (1, 0), "{heard:?}");
    let mut other = s.server.online("other/x");
    join(&mut other, "fourthwitch");
    other.all();
    s.server.advance(600_000);
    let heard = other.all();
    assert_eq!((gone("thirdwitch", &heard), gone("secondwitch", &heard)), (0, 1), "{heard:?}");
}

/// Occupants who don't come back leave, even if the store is unavailable or the process is late.
#[test]
fn who_does_not_come_back_leaves_whatever_the_store_does() {
    for (fault, is_late) in [(None, true), (Some(StoreError::Busy), false), (Some(StoreError::Busy), true)] {
        let held = HeldStores::new(Memory::stores());
        held.set_flowing(true);
        let mut s = RoomScene::with(Config { stores: held.stores(), ..Config::default() }).open("").all_in();
        s.hush();
        let ids = [&mut s.crone, &mut s.wiccarocks, &mut s.hag].map(Client::enable);
        s.server.hand_over(AWAY_MS);
        resume(&mut s.crone, &ids[0]);
        if is_late {
            s.server.move_clock(s.server.now() + 650_000);
        }
        held.set_fault(fault.clone());
        s.server.advance(700_000);
        held.set_fault(None);
        s.server.advance(60_000);
        let heard = s.crone.all();
        let is_gone = |found: &&Element| found.name() == "presence" && found.attr("type") == Some("unavailable");
        assert_eq!(heard.iter().filter(is_gone).count(), 2, "{fault:?}, late: {is_late}: {heard:?}");
    }
}

/// If the store is unavailable for a while, no occupant leaves; those who send something meanwhile
/// get an error.
#[test]
fn rooms_wait_for_a_store_that_is_away() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let mut s =
        RoomScene::with(Config { stores: held.stores(), ..Config::default() }).open("persistentroom=1").all_in();
    s.hush();
    let ids = [&mut s.crone, &mut s.wiccarocks, &mut s.hag].map(Client::enable);
    for _ in 0..2 {
        // The second restart begins before the first one is complete.
        assert!(!s.server.hand_over_early(AWAY_MS, || held.set_fault(Some(StoreError::Busy))));
        s.server.advance(60_000);
    }
    held.set_fault(None);
    s.server.advance(20_000);
    let mut s = s.back(ids);
    s.crone_hears(&[]);
    say(&mut s.hag, "after");
    for client in [&mut s.crone, &mut s.wiccarocks, &mut s.hag] {
        assert_eq!(client.bodies(), ["after"]);
    }
}

/// An occupant leaves whose session is lost because its card was damaged or can't be read.
#[test]
fn ghosts_leave() {
    for is_unreadable in [false, true] {
        let mut s = RoomScene::open_scene().all_in();
        s.hush();
        let ids = [&mut s.crone, &mut s.wiccarocks, &mut s.hag].map(Client::enable);
        let hag = s.hag.full().to_owned();
        s.server.hand_over_with(AWAY_MS, |cards| {
            let of_hag = |card: &[u8]| {
                matches!(Card::decode(card), Ok(Card::Session(_)))
                    && card.windows(hag.len()).any(|at| at == hag.as_bytes())
            };
            let cards = cards.into_iter().filter_map(|card| match of_hag(&card) {
                true => is_unreadable.then(|| crate::restart::unreadable(&card)),
                false => Some(card),
            });
            cards.collect()
        });
        assert_eq!(s.server.sessions(), 2);
        let mut s = s.back_but_one(&ids);
        s.crone_hears(&["thirdwitch presence/unavailable none/none jid=HAG/r"]);
    }
}

/// If the store didn't have a room, a room of the same name that it has by now isn't taken for it.
/// A room that was removed doesn't come back. In both cases the occupants are told that they are
/// out.
#[test]
fn who_was_in_a_room_that_is_gone_hears_it() {
    let s = RoomScene::configure_scene("persistentroom=1");
    let stored = s.server.finish(s.server.stores().rooms.load(Jid::parse(COVEN).unwrap().as_ref())).unwrap();
    let stored = stored.expect("a room").document;
    // Each room has a secret of its own.
    let config = String::from_utf8(stored.config.clone()).unwrap().replace("<secret>", "<secret>another");
    let other = RoomDocument { config: config.into_bytes(), ..stored };
    for fields in ["", "persistentroom=1"] {
        let mut s = RoomScene::configure_scene(fields).all_in();
        s.hush();
        let ids = [&mut s.crone, &mut s.wiccarocks, &mut s.hag].map(Client::enable);
        let (stores, room) = (s.server.stores(), Jid::parse(COVEN).unwrap());
        s.server.hand_over_with(AWAY_MS, |cards| {
            match fields {
                "" => s.server.finish(stores.rooms.put(room.as_ref(), other.clone())).unwrap(),
                _ => assert!(s.server.finish(stores.rooms.remove(room.as_ref())).unwrap()),
            }
            cards
        });
        let mut s = s.back(ids);
        s.crone_hears(&["firstwitch presence/unavailable none/none 110 333"]);
        s.hag_hears(&["thirdwitch presence/unavailable none/none 110 333"]);
        say(&mut s.crone, "hello?");
        assert!(take_stanzas(&mut s.crone)[0].starts_with("ROOM message/error"), "{fields}");
    }
}

/// The occupants have seen a change that isn't stored yet: it counts in the next process, which
/// stores it (RFC 6120 §8.3.3.18: "wait").
#[test]
fn a_change_that_the_store_has_not_taken_outlives_a_restart() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let config = Config { stores: held.stores(), ..Config::default() };
    let mut s = RoomScene::with(config).open("persistentroom=1").all_in();
    say(&mut s.crone, "before");
    s.hush();
    let ids = [&mut s.crone, &mut s.wiccarocks, &mut s.hag].map(Client::enable);
    held.set_fault(Some(StoreError::Busy));
    let hag = s.hag.bare().to_owned();
    let answer = administer(&mut s.crone, "set", &format!("<item jid='{hag}' affiliation='admin'/>"));
    assert_eq!(answer.attr("type"), Some("error"), "it is not kept yet");
    s.hush();
    s.server.hand_over_early(AWAY_MS, || held.set_fault(None));
    let mut s = s.back(ids.clone());
    let seen = |s: &RoomScene, name: &str| {
        let mut other = s.server.online(name);
        join(&mut other, "fourthwitch");
        let from = format!("{COVEN}/thirdwitch");
        let heard = other.all();
        let hag = heard.iter().find(|found| found.attr("from") == Some(&from)).expect("she is there");
        let user = hag.child("x", ns::MUC_USER).expect("an occupant");
        let item = user.children().find(|child| child.name() == "item").expect("an item");
        other.close();
        item.attr("affiliation").map(str::to_owned)
    };
    assert_eq!(seen(&s, "other/x").as_deref(), Some("admin"));
    s.server.advance(30_000);
    s.hush();
    s.server.hand_over(AWAY_MS);
    let s = s.back(ids);
    assert_eq!(seen(&s, "other/y").as_deref(), Some("admin"), "the store has it");
}
