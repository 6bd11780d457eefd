mod resent;

use std::rc::Rc;

use super::*;
use crate::wire::EntryHeader;

const HERE: NodeProcess = NodeProcess { node: 1, incarnation: 4 };
const THERE: NodeProcess = NodeProcess { node: 2, incarnation: 9 };
const SHARDS: u16 = 2;

fn letter(text: &str, share: &Rc<()>) -> CourierLetter<Rc<()>> {
    CourierLetter {
        kind: 0,
        from: 0,
        to: 1,
        body: text.as_bytes().to_vec(),
        outlives: true,
        until_read: false,
        share: Some(share.clone()),
    }
}

fn pair() -> (Courier<Rc<()>>, Courier<Rc<()>>) {
    let (mut here, mut there) = (Courier::new(HERE), Courier::new(THERE));
    here.meet(THERE, SHARDS);
    there.meet(HERE, SHARDS);
    (here, there)
}

/// Posts a letter, and returns the entry that is written with it.
fn write_letter(here: &mut Courier<Rc<()>>, text: &str, share: &Rc<()>) -> Vec<u8> {
    here.post(THERE, letter(text, share)).unwrap();
    let entry = here.appends(0, 0).remove(0).entry;
    here.appended(THERE, AppendOutcome::Taken, 0);
    entry
}

/// Reads an entry, and handles its letters.
fn take(there: &mut Courier<Rc<()>>, entry: &[u8]) -> Option<ArrivedPart> {
    let arrived = there.arrived(entry).unwrap()?;
    arrived.waits.into_iter().for_each(|seq| there.note_handled(arrived.from, seq));
    Some(arrived)
}

fn texts(arrived: Option<ArrivedPart>) -> Vec<String> {
    let letters = arrived.map(|arrived| arrived.letters).unwrap_or_default();
    letters.into_iter().map(|(.., body)| String::from_utf8(body).unwrap()).collect()
}

/// Returns the numbers of entries; 0 are those without letters.
fn seqs(appends: &[Append]) -> Vec<u64> {
    appends.iter().map(|append| wire::read(&append.entry).unwrap().0.seq).collect()
}

#[test]
fn letters_that_come_meanwhile_are_the_next_entry() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    assert!(here.post(THERE, letter("one", &share)).is_ok());
    let first = here.appends(0, 0);
    assert_eq!(first.len(), 1);
    here.post(THERE, letter("two", &share)).unwrap();
    here.post(THERE, letter("three", &share)).unwrap();
    assert_eq!(here.appends(0, 0), [], "one append at a time");
    here.appended(THERE, AppendOutcome::Taken, 0);
    let second = here.appends(0, 0);
    assert_eq!(texts(there.arrived(&first[0].entry).unwrap()), ["one"]);
    assert_eq!(texts(there.arrived(&second[0].entry).unwrap()), ["two", "three"]);
    assert_eq!(texts(there.arrived(&second[0].entry).unwrap()), [""; 0], "it was read before");
}

#[test]
fn shares_are_kept_until_the_other_side_has_handled_all() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    here.post(THERE, letter("one", &share)).unwrap();
    let entry = here.appends(0, 0).remove(0).entry;
    here.appended(THERE, AppendOutcome::Taken, 0);
    assert_eq!(Rc::strong_count(&share), 2, "the engine has it, which is not enough");
    here.post(THERE, letter("two", &share)).unwrap();
    let second = here.appends(0, 0).remove(0).entry;
    here.appended(THERE, AppendOutcome::Taken, 0);
    let waits = [entry, second].map(|entry| there.arrived(&entry).unwrap().unwrap().waits.unwrap());
    let told = there.appends(1_000, 1_000).remove(0);
    here.arrived(&told.entry).unwrap();
    there.appended(HERE, AppendOutcome::Taken, 1_000);
    assert_eq!(Rc::strong_count(&share), 3, "it has read both, which is not enough");
    assert_eq!(seqs(&here.appends(60_000, 60_000)), [0], "a reminder: they needn't be sent again");
    here.appended(THERE, AppendOutcome::Taken, 60_000);
    there.note_handled(NodeProcess { incarnation: 3, ..HERE }, waits[0]);
    assert_eq!(there.appends(2_000, 2_000), [], "that was another process");
    there.note_handled(HERE, waits[1]);
    let told = there.appends(1_010, 1_010).remove(0);
    here.arrived(&told.entry).unwrap();
    there.appended(HERE, AppendOutcome::Taken, 1_010);
    assert_eq!(Rc::strong_count(&share), 2, "the first is still at work");
    there.note_handled(HERE, waits[0]);
    assert_eq!(there.appends(1_010 + HURRY_MS - 1, 1_010), [], "it waits, since more may be handled soon");
    assert_eq!(there.next_ms(), Some(1_010 + HURRY_MS));
    let told = there.appends(1_010 + HURRY_MS, 1_010).remove(0);
    assert_eq!(told.to, HERE, "somebody waits for that");
    assert!(here.arrived(&told.entry).unwrap().is_none());
    assert_eq!(Rc::strong_count(&share), 1);
    assert!(here.is_idle());
    there.appended(HERE, AppendOutcome::Taken, 1_000);
    assert_eq!(there.appends(9_000, 1), [], "a confirmation isn't confirmed in turn");
}

/// The engine has lost what it was told, and nobody has anything else to write.
#[test]
fn a_confirmation_that_is_lost_is_repeated_when_its_writer_is_reminded() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    here.post(THERE, letter("one", &share)).unwrap();
    let entry = here.appends(0, 0).remove(0).entry;
    here.appended(THERE, AppendOutcome::Taken, 0);
    let waits = there.arrived(&entry).unwrap().unwrap().waits.unwrap();
    let read = there.appends(1_000, 1_000).remove(0);
    here.arrived(&read.entry).unwrap();
    there.appended(HERE, AppendOutcome::Taken, 1_000);
    there.note_handled(HERE, waits);
    assert_eq!(there.appends(2_000, 2_000).len(), 1, "which is lost");
    there.appended(HERE, AppendOutcome::Taken, 2_000);
    assert_eq!((there.appends(10_000, 10_000), Rc::strong_count(&share)), (Vec::new(), 2));
    let reminder = here.appends(10_000, 10_000).remove(0);
    here.appended(THERE, AppendOutcome::Taken, 10_000);
    assert!(there.arrived(&reminder.entry).unwrap().is_none());
    let repeated = there.appends(10_010, 10_010).remove(0);
    here.arrived(&repeated.entry).unwrap();
    assert!(here.is_idle());
    assert_eq!(Rc::strong_count(&share), 1);
}

/// Others send again, to the new homes, everything that the process isn't known to have handled.
#[test]
fn a_process_may_end_when_others_know_what_it_has_handled() {
    let (mut here, mut there) = pair();
    here.post(THERE, letter("one", &Rc::new(()))).unwrap();
    let entry = here.appends(0, 0).remove(0).entry;
    let seq = there.arrived(&entry).unwrap().unwrap().waits.unwrap();
    assert!(there.is_idle() && !there.may_end(), "it is at work");
    there.note_handled(HERE, seq);
    assert!(!there.may_end(), "nobody knows of it");
    assert_eq!(there.appends(HURRY_MS, 0).len(), 1);
    assert!(!there.may_end(), "it is on its way");
    there.appended(HERE, AppendOutcome::Taken, HURRY_MS);
    assert!(!there.may_end(), "the engine may lose it");
    there.reconnected();
    assert_eq!(there.appends(HURRY_MS, 0).len(), 1);
    there.appended(HERE, AppendOutcome::NoInbox, HURRY_MS);
    assert!(!there.may_end(), "the inbox will be there again");
    there.set_present(HERE, true, HURRY_MS);
    let told = there.appends(HURRY_MS, 0).remove(0).entry;
    there.appended(HERE, AppendOutcome::Taken, HURRY_MS);
    assert!(!there.may_end(), "nobody has read it");
    here.appended(THERE, AppendOutcome::Taken, HURRY_MS);
    here.arrived(&told).unwrap();
    assert!(here.is_idle());
    there.only_confirmed(&here.appends(1_000, 0).remove(0).entry).unwrap();
    assert!(there.may_end());
}

/// Neither of them has shards any more that could see a letter.
#[test]
fn processes_that_end_together_confirm_their_last_entries() {
    let (mut here, mut there) = pair();
    here.post(THERE, letter("one", &Rc::new(()))).unwrap();
    there.post(HERE, letter("two", &Rc::new(()))).unwrap();
    let (one, two) = (here.appends(0, 0).remove(0).entry, there.appends(0, 0).remove(0).entry);
    here.appended(THERE, AppendOutcome::Taken, 0);
    there.appended(HERE, AppendOutcome::Taken, 0);
    take(&mut there, &one);
    take(&mut here, &two);
    for now in (300..3_000).step_by(300) {
        if here.may_end() & there.may_end() {
            return;
        }
        let (from_here, from_there) = (here.appends(now, now), there.appends(now, now));
        for append in from_here {
            here.appended(THERE, AppendOutcome::Taken, now);
            there.only_confirmed(&append.entry).unwrap();
        }
        for append in from_there {
            there.appended(HERE, AppendOutcome::Taken, now);
            here.only_confirmed(&append.entry).unwrap();
        }
    }
    panic!("they wait for each other");
}

#[test]
fn a_process_that_handles_letters_slowly_holds_up_nothing() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    let (mut waits, mut got) = (Vec::new(), 0);
    for round in 0..2 * MOST_UNREAD {
        here.post(THERE, letter("more", &share)).unwrap();
        for append in here.appends(round, round) {
            here.appended(THERE, AppendOutcome::Taken, round);
            let arrived = there.arrived(&append.entry).unwrap().expect("news");
            got += arrived.letters.len() as u64;
            waits.extend(arrived.waits);
        }
        for append in there.appends(round, round) {
            there.appended(HERE, AppendOutcome::Taken, round);
            assert!(here.arrived(&append.entry).unwrap().is_none());
        }
    }
    assert_eq!((got, Rc::strong_count(&share) as u64), (2 * MOST_UNREAD, 2 * MOST_UNREAD + 1));
    let told = there.appends(60_000, 60_000).remove(0);
    here.arrived(&told.entry).unwrap();
    there.appended(HERE, AppendOutcome::Taken, 60_000);
    here.reconnected();
    let appends = here.appends(60_000, 60_000);
    let seqs: Vec<u64> = appends.iter().map(|append| wire::read(&append.entry).unwrap().0.seq).collect();
    assert_eq!(seqs, [0], "all of it was read, and isn't sent again");
    waits.into_iter().for_each(|seq| there.note_handled(HERE, seq));
    here.arrived(&there.appends(60_010, 60_010).remove(0).entry).unwrap();
    assert!(here.is_idle());
}

#[test]
fn letters_that_a_dead_process_had_not_handled_come_back() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    for text in ["handled", "read", "on its way"] {
        here.post(THERE, letter(text, &share)).unwrap();
        let entry = here.appends(0, 0).remove(0).entry;
        here.appended(THERE, AppendOutcome::Taken, 0);
        match text {
            "handled" => drop(take(&mut there, &entry)),
            "read" => drop(there.arrived(&entry).unwrap()),
            _ => {}
        }
        for told in there.appends(0, 0) {
            here.arrived(&told.entry).unwrap();
            there.appended(HERE, AppendOutcome::Taken, 0);
        }
    }
    // Its last entries confirm what it had handled, and their letters are ignored, since no shard
    // would see them.
    there.post(HERE, letter("last words", &Rc::new(()))).unwrap();
    here.only_confirmed(&there.appends(300, 300).remove(0).entry).unwrap();
    assert_eq!(here.peers[&2].read, 0);
    here.post(THERE, letter("not sent", &share)).unwrap();
    let back: Vec<_> = here.forget(2).into_iter().map(|letter| String::from_utf8(letter.body).unwrap()).collect();
    assert_eq!(back, ["read", "on its way", "not sent"]);
}

/// The process was frozen and continues with a backlog, but the database refuses its writes.
#[test]
fn a_process_that_others_took_over_from_accepts_and_confirms_nothing() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    let waits = there.arrived(&write_letter(&mut here, "before", &share)).unwrap().unwrap().waits.unwrap();
    let behind = write_letter(&mut here, "behind", &share);
    let own = Rc::new(());
    there.post(HERE, letter("an error for the sender", &own)).unwrap();
    there.end();
    assert_eq!(there.arrived(&behind).unwrap(), None);
    there.note_handled(HERE, waits);
    assert_eq!(there.appends(60_000, 60_000), []);
    there.set_present(HERE, false, 0);
    assert_eq!((there.take_expired(90_000).len(), Rc::strong_count(&own)), (0, 2), "nobody takes it for handled");
    let back: Vec<_> = here.forget(2).into_iter().map(|letter| String::from_utf8(letter.body).unwrap()).collect();
    assert_eq!(back, ["before", "behind"]);
}

#[test]
fn letters_that_a_process_may_have_read_come_back_when_its_node_has_another() {
    let (mut here, _) = pair();
    let share = Rc::new(());
    here.post(THERE, letter("mail", &share)).unwrap();
    here.post(THERE, CourierLetter { outlives: false, share: None, ..letter("frame", &share) }).unwrap();
    here.appends(0, 0);
    here.appended(THERE, AppendOutcome::Taken, 0);
    let next = NodeProcess { incarnation: 10, ..THERE };
    let back: Vec<_> = here.meet(next, SHARDS).into_iter().map(|letter| (letter.outlives, letter.body)).collect();
    assert_eq!(back, [(true, b"mail".to_vec()), (false, b"frame".to_vec())]);
    assert_eq!((here.appends(1, 1), here.waiting_bytes()), (vec![], 0));
    let late = here.post(THERE, letter("late", &share));
    assert!(matches!(late, Err(Unposted::Gone(_))), "it would come before what is given back");
    let mut old = Courier::<Rc<()>>::new(HERE);
    old.meet(next, SHARDS);
    let mut entry = Vec::new();
    wire::begin(&EntryHeader { from: THERE, seq: 1, first: 1, read: 0, is_urgent: false, unix_ms: 0 }, &mut entry);
    assert_eq!(old.arrived(&entry).unwrap(), None, "a process that has a successor says nothing any more");
}

/// A moving home is opened when everything for it has arrived. Until then its mail waits, and so
/// does the entry that contained the mail.
#[test]
fn a_letter_that_is_only_to_be_read_does_not_wait_for_others_of_its_entry() {
    let (mut here, mut there) = pair();
    let (card, mail) = (Rc::new(()), Rc::new(()));
    here.post(THERE, letter("mail that waits for the card", &mail)).unwrap();
    here.post(THERE, CourierLetter { until_read: true, ..letter("card", &card) }).unwrap();
    // With many waiting entries, the later handled ones can't all be named.
    for at in 0..=MOST_NAMED {
        for Append { entry, .. } in here.appends(0, 0) {
            there.arrived(&entry).unwrap();
            here.appended(THERE, AppendOutcome::Taken, 0);
        }
        here.post(THERE, letter(&format!("mail {at}"), &mail)).unwrap();
    }
    here.post(THERE, CourierLetter { until_read: true, ..letter("another card", &card) }).unwrap();
    for Append { entry, .. } in here.appends(0, 0) {
        there.arrived(&entry).unwrap();
    }
    assert_eq!((Rc::strong_count(&card), Rc::strong_count(&mail)), (3, MOST_NAMED + 3));
    for Append { entry, .. } in there.appends(TELL_MS, 0) {
        here.arrived(&entry).unwrap();
    }
    assert_eq!((Rc::strong_count(&card), Rc::strong_count(&mail)), (1, MOST_NAMED + 3));
}

#[test]
fn waiting_letters_are_bounded_in_bytes_and_in_time() {
    let (mut here, _) = pair();
    let share = Rc::new(());
    here.set_present(THERE, false, 100);
    let mut posted = 0;
    let text = "x".repeat(1 << 20);
    while here.post(THERE, letter(&text, &share)).is_ok() {
        posted += 1;
    }
    assert_eq!(posted, MOST_WAITING / (text.len() + OVERHEAD));
    assert_eq!(here.appends(200, 200), [], "it is away");
    assert_eq!(here.take_expired(100 + PATIENCE_MS - 1).len(), 0);
    assert_eq!(here.take_expired(100 + PATIENCE_MS).len(), posted);
    assert_eq!((here.waiting_bytes(), Rc::strong_count(&share)), (0, 1));
    let nobody = here.post(NodeProcess { node: 3, ..THERE }, letter("nobody", &share));
    assert!(matches!(nobody, Err(Unposted::Gone(_))), "there is no such node");
}

/// A node was frozen, and the letters for it were given up before an entry was made of them.
#[test]
fn a_node_that_was_away_learns_that_letters_were_given_up() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    here.set_present(THERE, false, 0);
    here.post(THERE, letter("lost", &share)).unwrap();
    assert_eq!(here.take_expired(PATIENCE_MS).len(), 1);
    here.set_present(THERE, true, PATIENCE_MS + 1);
    let entry = here.appends(PATIENCE_MS + 2, 2).remove(0).entry;
    assert!(take(&mut there, &entry).is_some_and(|arrived| arrived.is_torn), "its lines have a hole");
    here.appended(THERE, AppendOutcome::Taken, PATIENCE_MS + 3);
    here.post(THERE, letter("later", &share)).unwrap();
    let entry = here.appends(PATIENCE_MS + 4, 4).remove(0).entry;
    let arrived = take(&mut there, &entry).expect("news");
    assert!(!arrived.is_torn);
    assert_eq!(texts(Some(arrived)), ["later"]);
}

/// A node continues after a long silence: the replies to its first letters must reach it, and its
/// lease is seen a moment later.
#[test]
fn a_node_that_speaks_again_is_not_given_up_at_once() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    here.set_present(THERE, false, 0);
    assert_eq!(here.take_expired(2 * PATIENCE_MS).len(), 0);
    there.post(HERE, letter("question", &share)).unwrap();
    let entry = there.appends(2 * PATIENCE_MS, 1).remove(0).entry;
    assert_eq!(texts(take(&mut here, &entry)), ["question"]);
    here.post(THERE, letter("answer", &share)).unwrap();
    assert_eq!(here.take_expired(2 * PATIENCE_MS + 1_000).len(), 0, "it waits for the next look at leases");
    here.set_present(THERE, true, 2 * PATIENCE_MS + 1_000);
    let entry = here.appends(2 * PATIENCE_MS + 1_001, 2).remove(0).entry;
    assert_eq!(texts(take(&mut there, &entry)), ["answer"]);
}

/// A node was frozen for longer than letters wait, and Redis has lost the content of its inbox.
#[test]
fn letters_that_were_given_up_hold_nothing_back() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    here.post(THERE, letter("read", &share)).unwrap();
    there.arrived(&here.appends(0, 0).remove(0).entry).unwrap();
    here.appended(THERE, AppendOutcome::Taken, 0);
    here.post(THERE, letter("lost", &share)).unwrap();
    assert_eq!(here.appends(1, 1).len(), 1);
    here.appended(THERE, AppendOutcome::NoInbox, 1);
    let given_up = here.take_expired(1 + PATIENCE_MS);
    assert_eq!(given_up.len(), 2, "that the first was read was not told either");
    assert!(given_up.iter().all(|(of, _)| *of == THERE), "lines that went there have a hole on this side, too");
    drop(given_up);
    here.set_present(THERE, true, 2 + PATIENCE_MS);
    here.post(THERE, letter("later", &share)).unwrap();
    let entry = here.appends(3 + PATIENCE_MS, 3).remove(0).entry;
    let arrived = take(&mut there, &entry).expect("news");
    assert!(arrived.is_torn, "lines that went over it have a hole");
    assert_eq!(texts(Some(arrived)), ["later"]);
    here.appended(THERE, AppendOutcome::Taken, 4 + PATIENCE_MS);
    let told = there.appends(5 + PATIENCE_MS, 5).remove(0).entry;
    assert!(here.arrived(&told).unwrap().is_none());
    assert!(here.is_idle());
    here.post(THERE, letter("on", &share)).unwrap();
    let arrived = there.arrived(&here.appends(6 + PATIENCE_MS, 6).remove(0).entry).unwrap().expect("news");
    assert!(!arrived.is_torn);
}

/// The database of the other side is unavailable, or slow: the letters that it has read stay
/// unhandled.
#[test]
fn letters_that_were_read_are_kept_only_if_somebody_waits() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    here.post(THERE, letter("waits", &share)).unwrap();
    let mut round = 0;
    let mut exchange = |here: &mut Courier<_>| {
        round += TELL_MS;
        while let Some(append) = here.appends(round, round).pop() {
            here.appended(THERE, AppendOutcome::Taken, round);
            there.arrived(&append.entry).unwrap().expect("news");
        }
        for append in there.appends(round, round) {
            there.appended(HERE, AppendOutcome::Taken, round);
            here.arrived(&append.entry).unwrap();
        }
    };
    let text = "x".repeat(1 << 20);
    for at in 0..3 * MOST_WAITING / text.len() {
        let kind = CourierLetter { share: None, outlives: at % 2 == 0, ..letter(&text, &share) };
        // A frame of a line, or presence.
        assert!(here.post(THERE, kind).is_ok(), "the other side has read all before");
        if at % 3 == 0 {
            here.post(THERE, CourierLetter { outlives: false, ..letter(&text, &share) }).unwrap();
        }
        exchange(&mut here);
    }
    exchange(&mut here);
    assert_eq!(here.waiting_bytes(), "waits".len() + OVERHEAD, "only one of them would go to a new home");
    assert_eq!(Rc::strong_count(&share), 2);
    let back: Vec<_> = here.forget(2).into_iter().map(|letter| String::from_utf8(letter.body).unwrap()).collect();
    assert_eq!(back, ["waits"]);
}

/// One such letter is for an archive whose part of the database is slow, while many others aren't.
#[test]
fn one_letter_that_takes_long_keeps_no_other_waiting() {
    let (mut here, mut there) = pair();
    let share = Rc::new(());
    let mut slow = Vec::new();
    for round in 0..1_000 {
        here.post(THERE, letter(&round.to_string(), &share)).unwrap();
        for append in here.appends(round, round) {
            here.appended(THERE, AppendOutcome::Taken, round);
            let arrived = there.arrived(&append.entry).unwrap().expect("news");
            match round {
                7 | 500 => slow.extend(arrived.waits),
                _ => there.note_handled(HERE, arrived.waits.unwrap()),
            }
        }
        for append in there.appends(round, round) {
            there.appended(HERE, AppendOutcome::Taken, round);
            here.arrived(&append.entry).unwrap();
        }
    }
    assert_eq!(Rc::strong_count(&share), 1 + slow.len(), "the rest was handled, and that is known at once");
    assert_eq!(here.waiting_bytes(), "7".len() + "500".len() + 2 * OVERHEAD);
    for (seq, now_ms) in slow.into_iter().rev().zip((1_010..).step_by(HURRY_MS as usize)) {
        there.note_handled(HERE, seq);
        here.arrived(&there.appends(now_ms, 0).remove(0).entry).unwrap();
        there.appended(HERE, AppendOutcome::Taken, now_ms);
    }
    assert!(here.is_idle());
}
