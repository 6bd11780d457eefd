//! Entries that are written again: what a reader misses, and nothing else.

use proptest::prelude::*;

use super::*;

/// Lets a courier append what it can at a time.
fn append_all(here: &mut Courier<Rc<()>>, now_ms: u64) -> Vec<Append> {
    let mut all = Vec::new();
    loop {
        let appends = here.appends(now_ms, now_ms);
        if appends.is_empty() {
            return all;
        }
        here.appended(THERE, AppendOutcome::Taken, now_ms);
        all.extend(appends);
    }
}

/// Over a slow link, for example, whatever comes twice delays the rest.
#[test]
fn a_slow_reader_gets_nothing_twice() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    let mut inbox = Vec::new();
    for text in ["one", "two", "three"] {
        here.post(THERE, letter(text, &share)).unwrap();
        inbox.extend(append_all(&mut here, 0));
    }
    assert_eq!(seqs(&inbox), [1, 2, 3]);
    for now_ms in (0..600_000).step_by(500) {
        inbox.extend(append_all(&mut here, now_ms));
    }
    let reminders = inbox.split_off(3);
    assert!(seqs(&reminders).iter().all(|seq| *seq == 0), "{:?}", seqs(&reminders));
    let bytes: usize = reminders.iter().map(|append| append.entry.len()).sum();
    assert!(bytes < 120 * 100, "{bytes} bytes in ten minutes");
    let got: Vec<_> =
        inbox.iter().chain(&reminders).flat_map(|append| texts(take(&mut there, &append.entry))).collect();
    assert_eq!(got, ["one", "two", "three"]);
    here.arrived(&there.appends(600_000, 0).remove(0).entry).unwrap();
    assert!(here.is_idle());
}

/// Somebody has removed entries from its inbox.
#[test]
fn entries_that_a_reader_misses_are_sent_again() {
    for lost in 0..3 {
        let (mut here, mut there) = pair();
        let share = Rc::new(());
        let (mut inbox, mut got) = (Vec::new(), Vec::new());
        for text in ["one", "two", "three"] {
            here.post(THERE, letter(text, &share)).unwrap();
            inbox.extend(append_all(&mut here, 0));
        }
        inbox.remove(lost);
        let mut again = 0;
        for now_ms in (0..30_000).step_by(10) {
            inbox.drain(..).for_each(|append| got.extend(texts(take(&mut there, &append.entry))));
            for append in there.appends(now_ms, now_ms) {
                there.appended(HERE, AppendOutcome::Taken, now_ms);
                here.arrived(&append.entry).unwrap();
            }
            inbox.extend(append_all(&mut here, now_ms));
            again += seqs(&inbox).iter().filter(|seq| **seq != 0).count();
        }
        assert_eq!(got, ["one", "two", "three"], "without entry {lost}");
        assert_eq!(again, 3 - lost, "and those after it, once");
        assert!(here.is_idle());
    }
}

/// Redis has lost everything, and the reader has made its inbox again.
#[test]
fn entries_of_an_inbox_that_is_gone_are_sent_again() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    for text in ["one", "two"] {
        here.post(THERE, letter(text, &share)).unwrap();
        append_all(&mut here, 0);
    }
    here.post(THERE, letter("three", &share)).unwrap();
    assert_eq!(here.appends(10, 10).len(), 1);
    here.appended(THERE, AppendOutcome::NoInbox, 10);
    here.set_present(THERE, true, 1_000);
    let inbox = append_all(&mut here, 1_000);
    let got: Vec<_> = inbox.iter().flat_map(|append| texts(take(&mut there, &append.entry))).collect();
    assert_eq!(got, ["one", "two", "three"]);
}

#[test]
fn missing_entries_are_sent_although_another_is_on_its_way() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    let append = |here: &mut Courier<Rc<()>>, text: &str| {
        here.post(THERE, letter(text, &share)).unwrap();
        here.appends(0, 0).remove(0).entry
    };
    append(&mut here, "one");
    here.appended(THERE, AppendOutcome::Taken, 0);
    let second = append(&mut here, "two");
    here.appended(THERE, AppendOutcome::Taken, 0);
    let third = append(&mut here, "three");
    assert_eq!(texts(there.arrived(&second).unwrap()), [""; 0], "the first one is lost");
    here.arrived(&there.appends(HURRY_MS, 0).remove(0).entry).unwrap();
    here.appended(THERE, AppendOutcome::Taken, HURRY_MS);
    assert_eq!(texts(there.arrived(&third).unwrap()), [""; 0]);
    let inbox = append_all(&mut here, HURRY_MS);
    let got: Vec<_> = inbox.iter().flat_map(|append| texts(take(&mut there, &append.entry))).collect();
    assert_eq!(got, ["one", "two", "three"]);
}

#[test]
fn a_node_that_comes_back_gets_nothing_by_the_numbers_of_its_shards() {
    for shards in [SHARDS - 1, SHARDS, SHARDS + 1] {
        let (mut here, mut there) = pair();
        let share = Rc::new(());
        there.arrived(&write_letter(&mut here, "read", &share)).unwrap();
        write_letter(&mut here, "on its way", &share);
        here.arrived(&there.appends(TELL_MS, 0).remove(0).entry).unwrap();
        here.post(THERE, letter("not sent", &share)).unwrap();
        let next = NodeProcess { incarnation: 10, ..THERE };
        let back: Vec<_> =
            here.meet(next, shards).into_iter().map(|letter| String::from_utf8(letter.body).unwrap()).collect();
        assert_eq!(back, ["read", "on its way", "not sent"]);
        let late = here.post(THERE, letter("late", &share));
        assert!(matches!(late, Err(Unposted::Gone(_))), "a shard has written it that still went by the old homes");
        assert_eq!((here.appends(1, 1), here.waiting_bytes()), (vec![], 0));
        here.post(next, letter("to the new", &share)).unwrap();
        assert_eq!(here.appends(1, 1).remove(0).to, next);
        let third = NodeProcess { incarnation: 11, ..THERE };
        let back: Vec<_> = here.meet(third, shards).into_iter().map(|letter| letter.body).collect();
        assert_eq!(back, [b"to the new".to_vec()]);
    }
}

proptest! {
    /// An engine that loses answers, connections and all of its memory neither loses nor reorders
    /// letters, and repeats none.
    #[test]
    fn letters_arrive_once_and_in_order(steps in prop::collection::vec(0u8..8, 1..400)) {
        let (mut here, mut there) = pair();
        let share = Rc::new(());
        let (mut posted, mut got) = (Vec::new(), Vec::new());
        // The engine's entries for each side, and appends that wait for their answers.
        let (mut to_there, mut to_here) = (VecDeque::new(), VecDeque::new());
        let (mut now, mut at_work) = (0, Vec::new());
        let settle = steps.len();
        for step in steps.into_iter().chain(std::iter::repeat_n(255, settle + 50)) {
            now += if step == 255 { REMIND_MS } else { 50 };
            if step < 3 {
                posted.push(posted.len().to_string());
                here.post(THERE, letter(posted.last().unwrap(), &share)).unwrap();
            }
            for (courier, inbox, to) in [(&mut here, &mut to_there, THERE), (&mut there, &mut to_here, HERE)] {
                for append in courier.appends(now, now) {
                    prop_assert_eq!(append.to, to);
                    let outcome = match step {
                        3 => AppendOutcome::Unsure,
                        4 => {
                            inbox.push_back(append.entry);
                            AppendOutcome::Unsure
                        }
                        _ => {
                            inbox.push_back(append.entry);
                            AppendOutcome::Taken
                        }
                    };
                    courier.appended(to, outcome, now);
                    if outcome == AppendOutcome::Unsure {
                        courier.reconnected();
                    }
                }
            }
            if step == 5 {
                to_there.clear();
                to_here.clear();
            }
            if step >= 6 {
                while let Some(entry) = to_there.pop_front() {
                    let arrived = there.arrived(&entry).unwrap();
                    at_work.extend(arrived.iter().filter_map(|arrived| arrived.waits));
                    got.extend(texts(arrived));
                }
                prop_assert!(Rc::strong_count(&share) > at_work.len(), "what is at work is kept");
                while let Some(entry) = to_here.pop_front() {
                    here.arrived(&entry).unwrap();
                }
            }
            if step >= 7 {
                // In the opposite order.
                at_work.drain(..).rev().for_each(|seq| there.note_handled(HERE, seq));
            }
        }
        prop_assert_eq!(got, posted);
        prop_assert!(here.is_idle(), "all of it was read, and that was told");
        prop_assert_eq!((Rc::strong_count(&share), here.waiting_bytes()), (1, 0));
    }
}
