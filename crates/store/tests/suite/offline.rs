//! [`Offline`](rookery_store::Offline).

use super::samples::*;
use rookery_jid::Jid;
use rookery_store::{OfflineRoom, Pushed, Stores};

pub fn messages_wait_in_order(stores: &Stores) {
    let (romeo, juliet) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    for n in 0..6_u8 {
        push(stores, if n % 2 == 0 { &romeo } else { &juliet }, &[n]);
    }
    let waiting = finish(stores.offline.load(romeo.as_ref(), 0, usize::MAX));
    let stanzas: Vec<_> = waiting.iter().map(|message| message.stanza.as_slice()).collect();
    assert_eq!(stanzas, [[0], [2], [4]]);
    assert!(waiting.iter().all(|message| message.unix_ms == 1_700_000_000_123 && message.id > 0));
    assert!(waiting.is_sorted_by(|one, next| one.id < next.id));

    assert_eq!(finish(stores.offline.remove(romeo.as_ref(), waiting[1].id)), 2);
    assert_eq!(finish(stores.offline.remove(romeo.as_ref(), waiting[1].id)), 0);
    assert_eq!(finish(stores.offline.load(romeo.as_ref(), 0, usize::MAX)), waiting[2..]);
    assert_eq!(finish(stores.offline.count(romeo.as_ref())), 1);
    assert_eq!(finish(stores.offline.count(juliet.as_ref())), 3, "others' messages stay");
}

pub fn a_limit_holds(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    let (one, two, three) = (jid("one@b.example"), jid("two@b.example"), jid("three@b.example"));
    let push_bytes = |sender: &Jid, bytes: usize, room| {
        finish(stores.offline.push(romeo.as_ref(), sender.as_ref(), vec![b'x'; bytes], 1, room))
    };
    let push = |sender, messages| push_bytes(sender, 10, OfflineRoom::of(messages));
    assert_eq!([push(&one, 0), push(&one, 2)], [Pushed::Full, Pushed::Kept]);
    assert_eq!([push(&one, 2), push(&two, 2), push(&three, 2)], [Pushed::Full, Pushed::Kept, Pushed::Full]);
    assert_eq!(finish(stores.offline.count(romeo.as_ref())), 2);
    let oldest = finish(stores.offline.load(romeo.as_ref(), 0, 1))[0].id;
    finish(stores.offline.remove(romeo.as_ref(), oldest));
    assert_eq!([push(&two, 2), push(&three, 2)], [Pushed::Full, Pushed::Kept]);
    // A flooding sender gets half of the room, each further one half of what is left, so there is
    // always some for one more.
    finish(stores.offline.remove(romeo.as_ref(), u64::MAX));
    let flood =
        |sender: &Jid, bytes, room| (0..200).filter(|_| push_bytes(sender, bytes, room) == Pushed::Kept).count();
    let by_number = OfflineRoom::of(120);
    assert_eq!([&one, &two, &three, &one].map(|sender| flood(sender, 10, by_number)), [60, 30, 15, 0]);
    finish(stores.offline.remove(romeo.as_ref(), u64::MAX));
    let by_bytes = OfflineRoom { bytes: 12_000, ..OfflineRoom::UNBOUNDED };
    assert_eq!([&one, &two, &three, &one].map(|sender| flood(sender, 100, by_bytes)), [60, 30, 15, 0]);
    assert_eq!(push_bytes(&jid("four@b.example"), 1500, by_bytes), Pushed::Kept);
    assert_eq!(push_bytes(&jid("five@b.example"), 1, by_bytes), Pushed::Full);

    let nobody = jid("nobody@a.example");
    assert_eq!(
        finish(stores.offline.push(nobody.as_ref(), nobody.as_ref(), vec![], 1, OfflineRoom::of(9))),
        Pushed::NoAccount
    );
    assert_eq!(finish(stores.offline.load(nobody.as_ref(), 0, 9)), []);
    assert_eq!(finish(stores.offline.remove(nobody.as_ref(), u64::MAX)), 0);
    assert_eq!(finish(stores.offline.count(nobody.as_ref())), 0);
}

pub fn pages_are_bounded_in_bytes(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    for length in [10, 10, 10, 50, 1] {
        push(stores, &romeo, &vec![b'x'; length]);
    }
    let page = |after, bytes| {
        let page = finish(stores.offline.load(romeo.as_ref(), after, bytes));
        (page.iter().map(|message| message.stanza.len()).collect::<Vec<_>>(), page.last().map_or(after, |last| last.id))
    };
    let (first, end) = page(0, 25);
    assert_eq!(first, [10, 10]);
    let (second, end) = page(end, 25);
    assert_eq!(second, [10]);
    let (third, end) = page(end, 25);
    assert_eq!(third, [50], "one that is larger comes alone");
    let (fourth, end) = page(end, 25);
    assert_eq!((fourth, page(end, 25).0), (vec![1], vec![]));
}

pub fn ids_are_never_given_again(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    push(stores, &romeo, b"old");
    let old = finish(stores.offline.load(romeo.as_ref(), 0, 9))[0].id;
    finish(stores.offline.remove(romeo.as_ref(), old));
    push(stores, &romeo, b"new");
    assert_eq!(finish(stores.offline.remove(romeo.as_ref(), old)), 0, "a late acknowledgement");
    assert_eq!(finish(stores.offline.count(romeo.as_ref())), 1);
}

fn push(stores: &Stores, to: &Jid, stanza: &[u8]) {
    let pushed = finish(stores.offline.push(
        to.as_ref(),
        to.as_ref(),
        stanza.to_vec(),
        1_700_000_000_123,
        OfflineRoom::UNBOUNDED,
    ));
    assert_eq!(pushed, Pushed::Kept);
}
