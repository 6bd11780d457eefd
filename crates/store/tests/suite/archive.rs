//! [`Archive`](rookery_store::Archive).

use super::samples::*;
use rookery_jid::Jid;
use rookery_store::{
    ArchiveOf, ArchivePage, ArchiveQuery, ArchivedMessage, BYTES_PER_MESSAGE, Expiry, Retention, RoomDocument, Stores,
    Subscription,
};

pub fn pages_go_both_ways(stores: &Stores) {
    let romeo = fill(stores);
    let page = |query: ArchiveQuery| ids(finish(stores.archive.page(romeo.as_ref(), query)));
    let query = || ArchiveQuery { limit: 3, max_bytes: 1000, ..ArchiveQuery::default() };
    assert_eq!(page(query()), Some((vec![10, 20, 30], true)));
    assert_eq!(page(ArchiveQuery { after: 30, ..query() }), Some((vec![40, 50, 60], false)));
    assert_eq!(page(ArchiveQuery { after: 60, ..query() }), Some((vec![], false)));
    assert_eq!(page(ArchiveQuery { last: true, ..query() }), Some((vec![40, 50, 60], true)));
    assert_eq!(page(ArchiveQuery { last: true, before: 40, ..query() }), Some((vec![10, 20, 30], false)));
    assert_eq!(page(ArchiveQuery { after: 10, before: 50, ..query() }), Some((vec![20, 30, 40], false)));
    assert_eq!(page(ArchiveQuery { after: 15, before: 35, limit: 0, ..query() }), Some((vec![], true)));
    assert_eq!(page(ArchiveQuery { after: 50, before: 20, ..query() }), Some((vec![], false)));
    assert_eq!(page(ArchiveQuery { max_bytes: 25, ..query() }), Some((vec![10, 20], true)), "ten bytes each");
    assert_eq!(page(ArchiveQuery { max_bytes: 1, ..query() }), Some((vec![10], true)), "one at least");
}

pub fn conversations_are_told_apart(stores: &Stores) {
    let romeo = fill(stores);
    let page = |with: &str, last| {
        let query = ArchiveQuery { with: Some(jid(with)), limit: 2, max_bytes: 1000, last, ..ArchiveQuery::default() };
        ids(finish(stores.archive.page(romeo.as_ref(), query)))
    };
    assert_eq!(page("juliet@b.example", false), Some((vec![10, 30], true)));
    assert_eq!(page("juliet@b.example", true), Some((vec![30, 50], true)));
    assert_eq!(page("juliet@b.example/1", false), Some((vec![30], false)));
    assert_eq!(page("nurse@b.example", false), Some((vec![20, 40], true)));
    assert_eq!(page("nobody@b.example", true), Some((vec![], false)));
}

/// Checks it for nicks: those of a room's occupants, who are looked for by them.
pub fn nicks_that_end_with_a_space_are_others(stores: &Stores) {
    let room = jid("coven@chat.a.example");
    finish(stores.rooms.put(room.as_ref(), RoomDocument::default()));
    let occupants = ["bat", "bat ", "bat  "].map(|nick| room.with_resource(nick).expect("an occupant"));
    let said =
        |(id, with): (u64, &Jid)| ArchivedMessage { of: ArchiveOf::Room, with: with.clone(), ..message(&room, id) };
    finish(stores.archive.append((1..).zip(occupants.iter().cycle()).take(6).map(said).collect()));
    for (id, with) in (1..).zip(&occupants) {
        for last in [false, true] {
            let with = Some(with.clone());
            let query = ArchiveQuery { with, limit: 9, max_bytes: 1000, count_to: 9, last, ..ArchiveQuery::default() };
            let page = finish(stores.archive.page(room.as_ref(), query));
            assert_eq!(page.as_ref().and_then(|page| page.count), Some(2));
            assert_eq!(ids(page), Some((vec![id, id + 3], false)));
        }
    }
}

pub fn ids_must_be_there(stores: &Stores) {
    let romeo = fill(stores);
    let page = |ids_wanted: Option<Vec<u64>>, known: Vec<u64>| {
        let query = ArchiveQuery { ids: ids_wanted, known, limit: 9, max_bytes: 1000, ..ArchiveQuery::default() };
        ids(finish(stores.archive.page(romeo.as_ref(), query))).map(|(ids, _)| ids)
    };
    assert_eq!(page(Some(vec![20, 50]), vec![]), Some(vec![20, 50]));
    assert_eq!(page(Some(vec![20, 21]), vec![]), None);
    assert_eq!(page(Some(vec![]), vec![]), Some(vec![]));
    let within =
        ArchiveQuery { after: 20, limit: 1, max_bytes: 99, ids: Some(vec![20, 30, 40]), ..ArchiveQuery::default() };
    assert_eq!(ids(finish(stores.archive.page(romeo.as_ref(), within.clone()))), Some((vec![30], true)));
    let last = ArchiveQuery { last: true, ..within };
    assert_eq!(ids(finish(stores.archive.page(romeo.as_ref(), last))), Some((vec![40], true)));
    assert_eq!(page(None, vec![10, 60]).map(|ids| ids.len()), Some(6));
    assert_eq!(page(None, vec![10, 61]), None);
    let nobody = jid("nobody@a.example");
    let known = ArchiveQuery { known: vec![10], ..ArchiveQuery::default() };
    assert_eq!(finish(stores.archive.page(nobody.as_ref(), known)), None);
    let counted = ArchiveQuery { count_to: 5, ..ArchiveQuery::default() };
    let empty = ArchivePage { count: Some(0), ..ArchivePage::default() };
    assert_eq!(finish(stores.archive.page(nobody.as_ref(), counted)), Some(empty));
}

pub fn counts_are_bounded(stores: &Stores) {
    let romeo = fill(stores);
    let count = |with: Option<&str>, count_to| {
        let query = ArchiveQuery { with: with.map(jid), count_to, after: 10, ..ArchiveQuery::default() };
        finish(stores.archive.page(romeo.as_ref(), query)).expect("a page").count
    };
    assert_eq!([count(None, 0), count(None, 4), count(None, 5), count(None, 6)], [None, None, Some(5), Some(5)]);
    assert_eq!(count(Some("juliet@b.example"), 9), Some(2));
    assert_eq!(count(Some("juliet@b.example/1"), 9), Some(1));
}

pub fn archives_have_ends_and_can_be_emptied(stores: &Stores) {
    let romeo = fill(stores);
    assert_eq!(finish(stores.archive.ends(romeo.as_ref())), Some((10, 60)));
    finish(stores.archive.purge(romeo.as_ref()));
    assert_eq!(finish(stores.archive.ends(romeo.as_ref())), None);
    append(stores, &romeo, &[70]);
    assert_eq!(finish(stores.archive.ends(romeo.as_ref())), Some((70, 70)));
    while finish(stores.archive.clear(4)) {}
    while finish(stores.archive.sweep(0, Retention::default(), 4)).removed > 0 {}
    assert_eq!(finish(stores.archive.ends(romeo.as_ref())), Some((70, 70)), "what is not asked for stays");
}

pub fn removed_archives_are_cleared_in_steps(stores: &Stores) {
    let (romeo, room) = (fill(stores), jid("room@conference.a.example"));
    let juliet = account(stores, "juliet@a.example");
    append(stores, &juliet, &[10]);
    finish(stores.archive.append(vec![ArchivedMessage { of: ArchiveOf::Room, ..message(&room, 10) }].into()));
    assert!(!finish(stores.archive.clear(4)), "nothing is gone");
    assert!(finish(stores.accounts.remove(romeo.as_ref())));
    finish(stores.archive.purge(room.as_ref()));
    // The next owner of the name has an archive of its own, even while the old one is still being
    // cleared.
    account(stores, romeo.as_str());
    append(stores, &romeo, &[20]);
    while finish(stores.archive.clear(4)) {}
    assert_eq!(finish(stores.archive.ends(romeo.as_ref())), Some((20, 20)));
    assert_eq!(finish(stores.archive.ends(juliet.as_ref())), Some((10, 10)));
    assert_eq!(finish(stores.archive.ends(room.as_ref())), None);
}

pub fn a_message_can_be_replaced_and_stretches_follow_each_other(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    // Ids so far apart that they lie in different stretches, with gaps.
    let ids = [10, 30, (1 << 43) - 1, 1 << 43, 1 << 51, (1 << 51) + 1, 5 << 51, 9 << 51, (1 << 63) - 2];
    let with_juliet = |id: u64| ArchivedMessage { with: jid("juliet@b.example/1"), ..message(&romeo, id) };
    finish(stores.archive.append(ids.iter().map(|id| with_juliet(*id)).collect()));
    append(stores, &romeo, &[3 << 51]);
    let page = |last, after, limit| {
        let with = Some(jid("juliet@b.example"));
        let query = ArchiveQuery { with, last, after, limit, max_bytes: 1000, count_to: 10, ..ArchiveQuery::default() };
        let page = finish(stores.archive.page(romeo.as_ref(), query)).expect("a page");
        let ids: Vec<_> = page.messages.into_iter().map(|(id, _)| id).collect();
        (ids, page.more, page.count)
    };
    assert_eq!(page(false, 0, 9), (ids.to_vec(), false, Some(9)));
    assert_eq!(page(false, 0, 2), (ids[..2].to_vec(), true, Some(9)));
    assert_eq!(page(false, 10, 3), (ids[1..4].to_vec(), true, Some(8)));
    assert_eq!(page(true, 30, 3), (ids[6..].to_vec(), true, Some(7)));
    assert_eq!(page(true, 1 << 51, 9), (ids[5..].to_vec(), false, Some(4)));
    assert!(finish(stores.archive.replace(romeo.as_ref(), 30, b"gone".to_vec())));
    assert!(!finish(stores.archive.replace(romeo.as_ref(), 31, b"gone".to_vec())));
    assert!(!finish(stores.archive.replace(jid("nobody@a.example").as_ref(), 30, b"gone".to_vec())));
    let replaced = ArchiveQuery { ids: Some(vec![30]), limit: 1, max_bytes: 99, ..ArchiveQuery::default() };
    let page = finish(stores.archive.page(romeo.as_ref(), replaced)).expect("a page");
    assert_eq!(page.messages, [(30, b"gone".to_vec())]);
}

pub fn only_accounts_and_rooms_have_archives(stores: &Stores) {
    let nobody = jid("nobody@a.example");
    append(stores, &nobody, &[10]);
    assert_eq!(finish(stores.archive.ends(nobody.as_ref())), None);
    let room = jid("room@conference.a.example");
    let said = ArchivedMessage { of: ArchiveOf::Room, ..message(&room, 10) };
    finish(stores.archive.append(vec![said.clone(), said].into()));
    assert_eq!(finish(stores.archive.ends(room.as_ref())), Some((10, 10)));
    // Only messages from contacts, if the archive is only for those.
    let juliet = account(stores, "juliet@a.example");
    let contacts_only = |id| ArchivedMessage { contacts_only: true, ..message(&juliet, id) };
    finish(stores.archive.append(vec![contacts_only(10)].into()));
    put(stores, &juliet, item_with("juliet@b.example", Subscription::Both));
    finish(stores.archive.append(vec![contacts_only(20), contacts_only(30)].into()));
    assert_eq!(finish(stores.archive.ends(juliet.as_ref())), Some((30, 30)));
    // A later account of the same name sees nothing of an earlier one.
    let romeo = fill(stores);
    assert!(finish(stores.accounts.remove(romeo.as_ref())));
    assert_eq!(finish(stores.archive.ends(romeo.as_ref())), None);
    account(stores, "romeo@a.example");
    append(stores, &romeo, &[20]);
    assert_eq!(finish(stores.archive.ends(romeo.as_ref())), Some((20, 20)));
}

pub fn groups_of_any_size_are_written_once(stores: &Stores) {
    let (romeo, juliet) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    append(stores, &romeo, &[70]);
    // More than one statement takes, of two owners in turn, with one that is already there and one
    // that occurs twice.
    let ids = (1..=100).chain([33]);
    let messages = ids.flat_map(|id| [message(&romeo, id), message(&juliet, id)]);
    finish(stores.archive.append(messages.collect()));
    for owner in [&romeo, &juliet] {
        let query = ArchiveQuery { limit: 200, max_bytes: usize::MAX, ..ArchiveQuery::default() };
        let page = ids_of(finish(stores.archive.page(owner.as_ref(), query)));
        assert_eq!(page, (1..=100).collect::<Vec<_>>());
    }
}

fn ids_of(page: Option<ArchivePage>) -> Vec<u64> {
    ids(page).expect("a page").0
}

pub fn a_sweep_goes_through_all_archives_in_steps(stores: &Stores) {
    let owners: Vec<_> = (0..3).map(|n| account(stores, &format!("user{n}@a.example"))).collect();
    let kept = account(stores, "user@b.example");
    for owner in owners.iter().chain([&kept]) {
        append(stores, owner, &[10, 20, 30, 40]);
    }
    let (mut after, mut steps) = (0, 0);
    loop {
        let swept = finish(stores.archive.sweep(after, retention(30), 3));
        assert!(swept.removed <= 3);
        steps += 1;
        match swept.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert!(steps >= 2);
    for owner in &owners {
        assert_eq!(finish(stores.archive.ends(owner.as_ref())), Some((30, 40)));
    }
    assert_eq!(finish(stores.archive.ends(kept.as_ref())), Some((10, 40)));
}

/// Returns a retention by which messages of accounts below an id are removed.
fn retention(before: u64) -> Retention {
    Retention { domains: vec![Expiry { domain: "a.example".into(), before }], ..Retention::default() }
}

pub fn one_archive_expires_in_steps(stores: &Stores) {
    let [romeo, juliet] = ["romeo@a.example", "juliet@a.example"].map(|name| account(stores, name));
    [&romeo, &juliet].into_iter().for_each(|owner| append(stores, owner, &[10, 20, 30, 40]));
    let expire = |before, limit| finish(stores.archive.expire(romeo.as_ref(), before, limit));
    assert_eq!([expire(0, 9), expire(10, 9), expire(40, 2), expire(40, 2), expire(40, 2)], [0, 0, 2, 1, 0]);
    assert_eq!((all(stores, &romeo), all(stores, &juliet).len()), (vec![40], 4));
    assert_eq!(finish(stores.archive.expire(jid("nobody@a.example").as_ref(), 99, 9)), 0);
}

pub fn a_sweep_takes_little_at_a_time(stores: &Stores) {
    let owners: Vec<_> = (0..40).map(|n| account(stores, &format!("user{n}@a.example"))).collect();
    owners.iter().for_each(|owner| append(stores, owner, &[10, 20]));
    let (mut after, mut steps) = (Some(0), 0);
    while let Some(at) = after {
        let swept = finish(stores.archive.sweep(at, retention(20), 1000));
        assert!(swept.removed <= 40, "{swept:?}");
        (after, steps) = (swept.next, steps + 1);
        assert!(steps < 10);
    }
    assert!(owners.iter().all(|owner| all(stores, owner) == [20]));
}

pub fn rooms_say_how_long_messages_stay(stores: &Stores) {
    const DAY: u64 = 1000;
    let [short, long, quiet, gone] = ["short", "long", "quiet", "gone"].map(|name| jid(&format!("{name}@c.example")));
    let say_days = |room: &Jid, archive_days| {
        finish(stores.rooms.put(room.as_ref(), RoomDocument { archive_days, ..RoomDocument::default() }));
        let kept = finish(stores.rooms.load(room.as_ref())).expect("a room").document.archive_days;
        assert_eq!(kept, archive_days);
    };
    for (room, days) in [(&short, 2), (&long, 50), (&quiet, 0), (&gone, 2)] {
        say_days(room, days);
        let said = |day| ArchivedMessage { of: ArchiveOf::Room, ..message(room, day * DAY) };
        finish(stores.archive.append((80..100).map(said).collect()));
    }
    assert!(finish(stores.rooms.remove(gone.as_ref())));
    let sweep = |before_day: u64| {
        let domains = vec![Expiry { domain: "c.example".into(), before: before_day * DAY }];
        let retention = Retention { domains, now: 100 * DAY, day: DAY };
        let mut after = Some(0);
        while let Some(at) = after {
            after = finish(stores.archive.sweep(at, retention.clone(), 7)).next;
        }
        [&short, &long, &quiet, &gone].map(|room| finish(stores.archive.ends(room.as_ref())).expect("messages").0 / DAY)
    };
    assert_eq!(sweep(0), [98, 80, 80, 80]);
    // The domain's setting applies to all rooms without one, and to those that set more.
    assert_eq!(sweep(85), [98, 85, 85, 85]);
    say_days(&quiet, 5);
    say_days(&short, 0);
    assert_eq!(sweep(86), [98, 86, 95, 86]);
    say_days(&long, 1);
    assert_eq!(sweep(0), [98, 99, 95, 86]);
}

/// Creates an account with six messages: with Juliet without and with a resource, and with her
/// nurse.
fn fill(stores: &Stores) -> Jid {
    let romeo = account(stores, "romeo@a.example");
    append(stores, &romeo, &[10, 20, 30, 40, 50, 60]);
    append(stores, &romeo, &[20]);
    romeo
}

fn append(stores: &Stores, owner: &Jid, ids: &[u64]) {
    finish(stores.archive.append(ids.iter().map(|&id| message(owner, id)).collect()));
}

fn message(owner: &Jid, id: u64) -> ArchivedMessage {
    let with = match id {
        30 => "juliet@b.example/1",
        10 | 50 => "juliet@b.example/2",
        _ => "nurse@b.example",
    };
    let stanza = format!("{id:010}").into_bytes();
    ArchivedMessage {
        owner: owner.clone(),
        of: ArchiveOf::Account,
        id,
        with: jid(with),
        contacts_only: false,
        stanza,
        most: 0,
    }
}

/// Returns the ids on a page, whose stanzas must match, and whether there is more.
fn ids(page: Option<ArchivePage>) -> Option<(Vec<u64>, bool)> {
    let page = page?;
    for (id, stanza) in &page.messages {
        assert_eq!(stanza, format!("{id:010}").as_bytes());
    }
    Some((page.messages.iter().map(|(id, _)| *id).collect(), page.more))
}

/// Returns a query for everything.
fn all(stores: &Stores, owner: &Jid) -> Vec<u64> {
    let query = ArchiveQuery { limit: usize::MAX, max_bytes: usize::MAX, ..ArchiveQuery::default() };
    let page = finish(stores.archive.page(owner.as_ref(), query)).expect("a page");
    page.messages.into_iter().map(|(id, _)| id).collect()
}

/// Returns a message of the conversation with `with` that counts as 1000 bytes, where the archive
/// has room for 100 of them.
fn large(owner: &Jid, id: u64, with: &str) -> ArchivedMessage {
    let stanza = vec![b'x'; 1000 - BYTES_PER_MESSAGE as usize];
    ArchivedMessage { with: jid(with), stanza, most: 100_000, ..message(owner, id) }
}

pub fn a_full_archive_loses_what_its_excess_is_of(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    let say = |ids: std::ops::Range<u64>, with: &str| {
        // Some are written together, some one by one, and counted alike.
        let (one, many) = (ids.start..ids.start + 3, ids.start + 3..ids.end);
        for id in one {
            finish(stores.archive.append(vec![large(&romeo, id, with)].into()));
        }
        finish(stores.archive.append(many.map(|id| large(&romeo, id, with)).collect()));
    };
    say(1..61, "juliet@b.example/1");
    say(101..131, "nurse@b.example");
    assert_eq!(all(stores, &romeo).len(), 90);
    // A flood displaces no more of others than it needs to fill an eighth of the archive.
    say(1001..1201, "tybalt@b.example");
    let left = all(stores, &romeo);
    let of = |from: u64, to: u64| left.iter().filter(|id| (from..to).contains(id)).count();
    assert_eq!((left.len(), of(101, 131)), (100, 30));
    assert!((55..=60).contains(&of(1, 61)), "{left:?}");
    assert_eq!(left.last(), Some(&1200), "the newest stay");
    // The conversations are still found.
    for (with, count) in
        [("tybalt@b.example", of(1001, 1201)), ("juliet@b.example", of(1, 61)), ("nurse@b.example", 30)]
    {
        let query =
            ArchiveQuery { with: Some(jid(with)), limit: 200, max_bytes: usize::MAX, ..ArchiveQuery::default() };
        let page = finish(stores.archive.page(romeo.as_ref(), query)).expect("a page");
        assert_eq!(page.messages.len(), count, "{with}");
    }
    // A writer who continues a large conversation loses the beginning of that one.
    say(2001..2011, "juliet@b.example/2");
    let left = all(stores, &romeo);
    assert_eq!(left.len(), 100);
    assert_eq!(left.iter().filter(|id| (101..131).contains(*id)).count(), 30);
    assert_eq!(left.first().copied(), Some(61 - of(1, 61) as u64 + 10));
}

pub fn many_small_conversations_share_an_archive(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    let messages = (1..=500).map(|id| large(&romeo, id, &format!("user{id}@b.example")));
    finish(stores.archive.append(messages.collect()));
    assert_eq!(all(stores, &romeo).len(), 100);
    for id in 501..=510 {
        finish(stores.archive.append(vec![large(&romeo, id, &format!("user{id}@b.example"))].into()));
    }
    assert_eq!(all(stores, &romeo).len(), 100);
}

pub fn what_leaves_an_archive_makes_room(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    let say = |id| finish(stores.archive.append(vec![large(&romeo, id, "juliet@b.example")].into()));
    (1..=100).for_each(say);
    assert_eq!(all(stores, &romeo).len(), 100);
    assert_eq!(finish(stores.archive.sweep(0, retention(11), 1000)).removed, 10);
    for id in [50, 100] {
        assert!(finish(stores.archive.replace(romeo.as_ref(), id, b"gone".to_vec())));
    }
    // Eleven thousand bytes are free.
    (101..=111).for_each(say);
    assert_eq!((all(stores, &romeo).len(), all(stores, &romeo)[0]), (101, 11));
    say(112);
    assert_eq!((all(stores, &romeo).len(), all(stores, &romeo)[0]), (101, 12));
    // A late message counts like any other.
    finish(stores.archive.append(vec![large(&romeo, 49, "juliet@b.example")].into()));
    assert_eq!(all(stores, &romeo)[0], 12, "it is there already");
    finish(
        stores.archive.append(vec![ArchivedMessage { id: 20_000, ..large(&romeo, 20_000, "juliet@b.example") }].into()),
    );
    finish(stores.archive.append(vec![large(&romeo, 10_000, "nurse@b.example")].into()));
    assert_eq!((all(stores, &romeo).len(), all(stores, &romeo)[0]), (101, 14));
}

pub fn an_archive_larger_than_its_bound_only_stops_growing(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    let unbounded = (1..=300).map(|id| ArchivedMessage { most: 0, ..large(&romeo, id, "juliet@b.example") });
    finish(stores.archive.append(unbounded.collect()));
    finish(stores.archive.append((301..=305).map(|id| large(&romeo, id, "nurse@b.example")).collect()));
    let left = all(stores, &romeo);
    assert_eq!((left.len(), left[0]), (300, 6));
}
