//! Archives at the end of a run, compared with acknowledged and received messages (XEP-0313).

use std::collections::{BTreeMap, BTreeSet};

use crate::book::{Book, BookedRecipient};
use crate::device::{Archived, room};
use crate::run::SimulatedRun;

/// Makes devices read the archives of addresses to their end.
fn read(run: &mut SimulatedRun, readers: &[(usize, String)]) {
    for (reader, address) in readers {
        run.devices[*reader].begin_archive(address, &mut run.book);
    }
    for _ in 0..1000 {
        run.settle();
        let mut goes_on = false;
        for (reader, _) in readers {
            goes_on |= run.devices[*reader].go_on_with_archive(&mut run.book);
        }
        if !goes_on {
            break;
        }
    }
}

/// Reads the archives of all accounts. Each acknowledged message is in them once (XEP-0313 §3).
pub(crate) fn archives(run: &mut SimulatedRun) {
    let mut readers: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, device) in run.devices.iter().enumerate() {
        readers.entry(device.plan.account).or_insert(index);
    }
    let of_accounts: Vec<_> = readers.values().map(|&reader| (reader, run.devices[reader].bare.clone())).collect();
    read(run, &of_accounts);
    for (&account, &reader) in &readers {
        let archived = &run.devices[reader].archived;
        let ids: BTreeSet<&String> = archived.iter().map(|message| &message.id).collect();
        if ids.len() < archived.len() {
            return run.book.break_rule(format!("u{account}'s archive has an id twice (XEP-0313 §3)"));
        }
        let mut numbers = BTreeMap::<usize, usize>::new();
        archived.iter().for_each(|message| *numbers.entry(message.number).or_default() += 1);
        let mut broken = wrong_id(&run.book, account, archived);
        for (number, message) in run.book.messages.iter().enumerate() {
            let is_for =
                matches!(message.to, BookedRecipient::Account(to) | BookedRecipient::Device(to, _) if to == account);
            let is_own = message.account == account && !matches!(message.to, BookedRecipient::Room(_));
            let copies = numbers.get(&number).copied().unwrap_or_default();
            if copies > 0 && run.book.forgotten.contains(&(account, number)) {
                broken.get_or_insert(format!(
                    "u{account}'s archive has message {number} of a removed account of that name (XEP-0077 §3.2)"
                ));
            }
            if copies > 0 && !is_for && !is_own {
                broken.get_or_insert(format!("u{account}'s archive has message {number}, which is not its own"));
            }
            if copies > 1 && !run.book.may_have_other_ids(number) {
                broken.get_or_insert(format!("u{account}'s archive has message {number} {copies} times"));
            }
            let pair = (account, message.account);
            let may_be_blocked = run.book.blockers.contains(&pair)
                || matches!(message.to, BookedRecipient::Account(to) | BookedRecipient::Device(to, _)
                    if run.book.blockers.contains(&(to, message.account)) || run.book.blockers.contains(&(message.account, to)));
            // An account that is removed can't be told any more what the store has refused.
            let is_untold = run.book.store_refused && run.book.removed.contains(&message.account);
            let may_be_gone = run.book.removed.contains(&account) || is_untold;
            let is_owed = message.is_handled && !message.is_refused && (is_for || is_own);
            let is_owed = is_owed && !may_be_blocked && !may_be_gone && !message.is_receipt && !message.is_unkept;
            if is_owed && copies == 0 {
                broken.get_or_insert(format!(
                    "message {number} was acknowledged, and u{account}'s archive does not have it (XEP-0198 §4)"
                ));
            }
        }
        broken.into_iter().for_each(|broken| run.book.break_rule(broken));
    }
}

/// Returns the rule that is broken if a message's id in an archive differs from the id that its
/// recipients got (XEP-0313 §3, XEP-0359 §3).
fn wrong_id(book: &Book, account: usize, archived: &[Archived]) -> Option<String> {
    if book.removed.contains(&account) {
        return None;
    }
    let ids: BTreeMap<usize, &str> = archived.iter().map(|message| (message.number, &*message.id)).collect();
    let told = book.archive_ids.range((account, 0)..(account + 1, 0));
    // The server retries writes that the store can't take for a while.
    let is_uncertain = book.deaths > 0 || book.store_refused;
    told.filter_map(|(&(_, number), told)| match ids.get(&number) {
        Some(id) if id != told && !book.may_have_other_ids(number) => Some(format!(
            "message {number} is {id} in u{account}'s archive and {told} to those who got it (XEP-0359 §3)"
        )),
        None if !is_uncertain => {
            Some(format!("u{account}'s archive lacks message {number}, which it told the id of (XEP-0313 §5.1.1)"))
        }
        _ => None,
    })
    .next()
}

/// Reads the archives of occupied rooms. Each message that occupants got is in them once, in the
/// order of arrival, with the ids that they got (XEP-0313 §3, XEP-0045 §7.4); and so is each that
/// was acknowledged.
pub(crate) fn room_archives(run: &mut SimulatedRun) {
    if run.book.store_refused {
        return;
    }
    for number in 0..run.people.rooms {
        let reader = run.devices.iter().position(|device| device.seats[number].nick.is_some());
        let Some(reader) = reader else { continue };
        read(run, &[(reader, room(number))]);
        let broken = wrong_in_room(&run.book, number, &run.devices[reader].archived);
        broken.into_iter().for_each(|broken| run.book.break_rule(broken));
    }
}

fn wrong_in_room(book: &Book, room: usize, archived: &[Archived]) -> Option<String> {
    // When a process dies, a room that isn't configured yet may be lost together with its archive.
    let from = if book.deaths > 0 { book.first_in_room(room) } else { 0 };
    let mut places = BTreeMap::new();
    for (place, message) in archived.iter().enumerate() {
        let was_there = places.insert(message.number, place).is_some();
        if was_there && !book.may_have_other_ids(message.number) {
            return Some(format!("the archive of room {room} has message {} twice (XEP-0313 §3)", message.number));
        }
    }
    let ids: BTreeMap<usize, &String> = archived.iter().map(|message| (message.number, &message.id)).collect();
    for ((_, number), told) in book.room_ids.range((room, 0)..(room + 1, 0)) {
        let may_differ = *number < from || book.may_have_other_ids(*number);
        if ids.get(number).is_some_and(|id| *id != told) && !may_differ {
            return Some(format!("the archive of room {room} has another id for message {number} (XEP-0359 §3)"));
        }
    }
    for stay in book.stays.iter().filter(|stay| stay.room == room) {
        let mut last = None;
        for number in stay.heard.iter().filter(|number| **number >= from) {
            let place = places.get(number).copied();
            if place.is_none() && book.may_lack_in_room(*number) {
                continue;
            }
            if place.is_none() {
                return Some(format!(
                    "the archive of room {room} lacks message {number}, which was heard (XEP-0313 §3)"
                ));
            }
            // A message that is sent again keeps its first place.
            if place < last && book.deaths == 0 && !(book.jumped && book.was_replaced) {
                return Some(format!("message {number} is elsewhere in the archive of room {room} (XEP-0045 §7.4)"));
            }
            last = place;
        }
    }
    let messages = book.messages.iter().enumerate().skip(book.first_in_room(room));
    let mut owed = messages.filter(|(_, message)| book.is_owed_in_room(room, message));
    let (lacking, _) = owed.find(|(number, _)| !places.contains_key(number))?;
    Some(format!("message {lacking} was acknowledged, and the archive of room {room} does not have it (XEP-0198 §4)"))
}

/// Asks for the archives of other accounts, which must be refused (XEP-0313), and for the lists of
/// their nodes, which must leave out those with a whitelist (XEP-0060 §5.2).
pub(crate) fn privacy(run: &mut SimulatedRun) {
    let accounts = run.people.accounts;
    for device in &mut run.devices {
        let other = crate::device::bare((device.plan.account + 1) % accounts);
        device.pry(&other, &mut run.book);
    }
    run.settle();
}
