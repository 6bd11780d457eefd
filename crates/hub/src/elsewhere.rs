//! The presence of contacts on other servers, for components that may see it (XEP-0356 §7.2).
//!
//! The home shard of a contact's address has the last presence of each of its resources. So
//! presence that comes for several accounts is shown to a component only once, and a component that
//! connects later gets what it has missed. If no component has the right, nothing is remembered.
//!
//! # Invariants
//!
//! * Only presence for an account that sees the contact by its roster is shown.
//! * The memory that others can cause on a shard is bounded, in number and in bytes. Presence
//!   beyond that is shown as it arrives.
//! * A server that dies says no goodbye for its users: a contact that has been silent for a day is
//!   probed, and forgotten if there is no reply. That isn't reported as unavailable, since only the
//!   contact's own server knows (RFC 6121 §4.3).

use std::collections::BTreeMap;
use std::ops::Bound as End;

use rookery_fanout::{Packet, StanzaType};
use rookery_jid::Jid;
use rookery_observe::bound::{Bound, Most, Per, Unit};

pub(crate) mod showing;

/// The contacts elsewhere whose home a shard is, by their full addresses.
#[derive(Debug, Default)]
pub(crate) struct ElsewhereContacts {
    /// The available ones.
    seen: BTreeMap<Box<str>, SeenResource>,
    /// The bytes of all presence that is kept.
    bytes: usize,
    /// True if silent contacts will be looked for.
    is_watched: bool,
}

/// A resource of a contact that is available.
#[derive(Debug)]
struct SeenResource {
    /// Its last presence; `None` if there was no room for it.
    presence: Option<Packet>,
    /// The account that got the last presence, on whose behalf the contact may be probed.
    account: Jid,
    heard_ms: u64,
    /// True if it was probed after that.
    is_asked: bool,
}

impl SeenResource {
    fn bytes(&self) -> usize {
        self.presence.as_ref().map_or(0, |packet| packet.bytes().len())
    }
}

impl ElsewhereContacts {
    /// Takes presence of a contact that is for an account. Returns whether it is new to components.
    fn is_new(&mut self, from: &Jid, packet: &Packet, account: Jid, now_ms: u64) -> bool {
        let is_full = self.seen.len() >= MOST_CONTACTS;
        if packet.type_() != StanzaType::Available {
            return self.forget_all_of(from) || is_full;
        }
        let known = self.forget(from.as_str());
        if known.is_none() && is_full {
            return true;
        }
        let has_room = packet.bytes().len() <= MOST_BYTES && self.bytes + packet.bytes().len() <= MOST_BYTES_OF_ALL;
        let presence = has_room.then(|| packet.clone());
        let last = known.and_then(|known| known.presence);
        let is_same = last.zip(presence.as_ref()).is_some_and(|(last, new)| last.bytes() == new.bytes());
        let seen = SeenResource { presence, account, heard_ms: now_ms, is_asked: false };
        self.bytes += seen.bytes();
        self.seen.insert(from.as_str().into(), seen);
        !is_same
    }

    /// Forgets a resource of a contact, or all of them if the contact says by its bare address that
    /// none is left (RFC 6121 §4.3.2). Returns whether there were any.
    fn forget_all_of(&mut self, from: &Jid) -> bool {
        if from.resource().is_some() {
            return self.forget(from.as_str()).is_some();
        }
        let resources = format!("{from}/");
        let beginning = (End::Included(resources.as_str()), End::Unbounded);
        let all = self.seen.range::<str, _>(beginning).map(|(full, _)| full);
        let all: Vec<_> = all.take_while(|full| full.starts_with(&resources)).cloned().collect();
        all.iter().for_each(|full| _ = self.forget(full));
        !all.is_empty()
    }

    fn forget(&mut self, full: &str) -> Option<SeenResource> {
        let seen = self.seen.remove(full)?;
        self.bytes -= seen.bytes();
        Some(seen)
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        self.bytes = 0;
    }

    /// Returns the presence of all that are available.
    pub(crate) fn available_presence(&self) -> impl Iterator<Item = &Packet> {
        self.seen.values().filter_map(|seen| seen.presence.as_ref())
    }

    /// Forgets contacts that were probed and didn't reply. Returns some that have to be probed,
    /// each with the account on whose behalf this is done.
    fn silent(&mut self, now_ms: u64) -> Vec<(Jid, Jid)> {
        let is_older = |seen: &SeenResource, age_ms| now_ms.saturating_sub(seen.heard_ms) >= age_ms;
        let is_lost = |seen: &SeenResource| seen.is_asked && is_older(seen, QUIET_MS + ANSWER_MS);
        let lost = self.seen.iter().filter(|(_, seen)| is_lost(seen)).map(|(full, _)| full.clone());
        lost.collect::<Vec<_>>().iter().for_each(|full| _ = self.forget(full));
        let quiet = self.seen.iter_mut().filter(|(_, seen)| !seen.is_asked && is_older(seen, QUIET_MS));
        let asked = quiet.take(ASKED_AT_ONCE).filter_map(|(full, seen)| {
            seen.is_asked = true;
            // A contact that waited longer for its turn gets as much time to reply.
            seen.heard_ms = now_ms.saturating_sub(QUIET_MS);
            Some((Jid::parse(full).ok()?.to_bare(), seen.account.clone()))
        });
        let mut asked: Vec<_> = asked.collect();
        asked.dedup();
        asked
    }
}

/// Resources of contacts elsewhere that a shard remembers.
const MOST_CONTACTS: usize = 20_000;
/// Bytes of a presence that is remembered.
const MOST_BYTES: usize = 4096;
/// Bytes of all presence that is remembered.
const MOST_BYTES_OF_ALL: usize = 16 << 20;
/// Milliseconds after which a silent contact is probed.
const QUIET_MS: u64 = 24 * 3_600_000;
/// Milliseconds within which the reply to a probe has to come.
const ANSWER_MS: u64 = 3_600_000;
/// Contacts that are probed at a time, and milliseconds until the next.
const ASKED_AT_ONCE: usize = 50;
const LOOK_MS: u64 = 60_000;
/// The bounds of what is remembered.
pub const BOUNDS: &[Bound] = &[
    Bound::on(
        "contacts elsewhere whose presence is remembered for components that may see it",
        Per::Shard,
        Most::Fixed(MOST_CONTACTS as u64),
        Unit::Number,
    )
    .or("further presence is shown whenever it arrives, and not to a component that connects later"),
    Bound::on("such a presence", Per::Other("contact"), Most::Fixed(MOST_BYTES as u64), Unit::Bytes)
        .or("longer presence is shown whenever it arrives, and not to a component that connects later"),
    Bound::on("all such presence", Per::Shard, Most::Fixed(MOST_BYTES_OF_ALL as u64), Unit::Bytes)
        .or("further presence is shown whenever it arrives, and not to a component that connects later"),
    Bound::on(
        "the time for which such a contact may be silent",
        Per::Other("contact"),
        Most::Fixed((QUIET_MS + ANSWER_MS) / 1000),
        Unit::Seconds,
    )
    .or("it is probed after a day, and forgotten if its server doesn't answer"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(attributes: &str, status: &str) -> Packet {
        Packet::from_bytes(format!("<presence{attributes}><status>{status}</status></presence>").as_bytes()).unwrap()
    }

    fn jid(text: &str) -> Jid {
        Jid::parse(text).unwrap()
    }

    fn is_new(elsewhere: &mut ElsewhereContacts, from: &str, packet: &Packet) -> bool {
        is_new_at(elsewhere, from, packet, 0)
    }

    fn is_new_at(elsewhere: &mut ElsewhereContacts, from: &str, packet: &Packet, now_ms: u64) -> bool {
        let is_new = elsewhere.is_new(&jid(from), packet, jid("romeo@a.example"), now_ms);
        let bytes: usize = elsewhere.available_presence().map(|packet| packet.bytes().len()).sum();
        assert_eq!(elsewhere.bytes, bytes, "{from}");
        is_new
    }

    #[test]
    fn what_was_seen_is_not_new() {
        let mut elsewhere = ElsewhereContacts::default();
        let (here, away) = (presence("", "here"), presence("", "away"));
        let seen = [&here, &here, &away, &away, &here].map(|packet| is_new(&mut elsewhere, "a@b.example/c", packet));
        assert_eq!(seen, [true, false, true, false, true]);
        assert!(is_new(&mut elsewhere, "a@b.example/d", &here), "another resource");
        let gone = presence(" type='unavailable'", "");
        assert_eq!([(); 2].map(|()| is_new(&mut elsewhere, "a@b.example/c", &gone)), [true, false]);
        assert_eq!(elsewhere.available_presence().count(), 1);
    }

    #[test]
    fn a_bare_address_says_that_all_resources_are_gone() {
        let mut elsewhere = ElsewhereContacts::default();
        let here = presence("", "here");
        for full in ["a@b.example/c", "a@b.example/d", "a@b.example.org/c", "a@b.exampl/c", "aa@b.example/c"] {
            is_new(&mut elsewhere, full, &here);
        }
        let gone = presence(" type='unavailable'", "");
        assert_eq!([(); 2].map(|()| is_new(&mut elsewhere, "a@b.example", &gone)), [true, false]);
        assert_eq!(elsewhere.available_presence().count(), 3);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_all_is_shown() {
        let mut elsewhere = ElsewhereContacts::default();
        let long = presence("", &"x".repeat(MOST_BYTES));
        assert!([(); 2].iter().all(|()| is_new(&mut elsewhere, "long@b.example/c", &long)));
        assert_eq!(elsewhere.available_presence().count(), 0);
        let here = presence("", "here");
        for number in 0..=MOST_CONTACTS {
            assert!(elsewhere.is_new(&jid(&format!("{number}@b.example/c")), &here, jid("romeo@a.example"), 0));
        }
        assert_eq!(elsewhere.seen.len(), MOST_CONTACTS);
        assert!(is_new(&mut elsewhere, "more@b.example/c", &presence(" type='unavailable'", "")));
    }

    #[test]
    fn the_bytes_of_all_are_bounded() {
        let mut elsewhere = ElsewhereContacts::default();
        let large = presence("", &"x".repeat(MOST_BYTES - 100));
        for number in 0..MOST_BYTES_OF_ALL / (MOST_BYTES - 100) + 10 {
            elsewhere.is_new(&jid(&format!("{number}@b.example/c")), &large, jid("romeo@a.example"), 0);
        }
        assert!(elsewhere.bytes <= MOST_BYTES_OF_ALL && elsewhere.bytes > MOST_BYTES_OF_ALL - MOST_BYTES);
        assert!([(); 2].iter().all(|()| is_new(&mut elsewhere, "more@b.example/c", &large)), "it is shown");
        // Removing an entry makes room.
        is_new(&mut elsewhere, "0@b.example/c", &presence(" type='unavailable'", ""));
        assert_eq!([(); 2].map(|()| is_new(&mut elsewhere, "more@b.example/c", &large)), [true, false]);
    }

    /// A contact that is silent but still available stays, and one that is gone doesn't.
    #[test]
    fn who_is_silent_for_a_day_is_asked_for_once_and_forgotten_without_an_answer() {
        let mut elsewhere = ElsewhereContacts::default();
        let here = presence("", "here");
        for full in ["a@b.example/c", "a@b.example/d", "z@b.example/c"] {
            is_new_at(&mut elsewhere, full, &here, 1000);
        }
        let (a, z, romeo) = (jid("a@b.example"), jid("z@b.example"), jid("romeo@a.example"));
        assert_eq!(elsewhere.silent(QUIET_MS), []);
        assert_eq!(elsewhere.silent(QUIET_MS + 1000), [(a.clone(), romeo.clone()), (z, romeo.clone())]);
        assert_eq!(elsewhere.silent(QUIET_MS + 1000 + LOOK_MS), [], "once");
        // One of them replies, and its time of silence begins again.
        assert!(!is_new_at(&mut elsewhere, "a@b.example/c", &here, QUIET_MS + 2000));
        assert_eq!(elsewhere.silent(QUIET_MS + 1000 + ANSWER_MS), []);
        let left: Vec<_> = elsewhere.seen.keys().map(|full| &**full).collect();
        assert_eq!(left, ["a@b.example/c"]);
        assert_eq!(elsewhere.silent(2 * QUIET_MS + 2000), [(a, romeo)]);
    }

    #[test]
    fn few_are_asked_for_at_a_time_and_all_in_the_end() {
        let mut elsewhere = ElsewhereContacts::default();
        let here = presence("", "here");
        for number in 0..ASKED_AT_ONCE * 5 / 2 {
            is_new(&mut elsewhere, &format!("{number}@b.example/c"), &here);
        }
        let asked: Vec<_> = (0..4).map(|turn| elsewhere.silent(QUIET_MS + turn * LOOK_MS).len()).collect();
        assert_eq!(asked, [ASKED_AT_ONCE, ASKED_AT_ONCE, ASKED_AT_ONCE / 2, 0]);
        // The last have as long to reply as the first.
        elsewhere.silent(QUIET_MS + ANSWER_MS);
        assert_eq!(elsewhere.seen.len(), ASKED_AT_ONCE * 3 / 2);
        elsewhere.silent(QUIET_MS + ANSWER_MS + 2 * LOOK_MS);
        assert_eq!(elsewhere.seen.len(), 0);
    }
}
