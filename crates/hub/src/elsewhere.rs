//! The presence of contacts on other servers, for components that may see it (XEP-0356 §7.2).
//!
//! The home shard of a contact's address has the last presence of each of its resources: so a
//! component gets what comes for several accounts once, and one that connects later gets what it
//! has missed. Where no component has the right, nothing is remembered.
//!
//! # Invariants
//!
//! * Only what is for an account that sees the contact by its roster is shown.
//! * What others make a shard remember is bounded, in number and in bytes. What isn't remembered is
//!   shown as it comes.

use rookery_base::Map;
use rookery_fanout::{Packet, StanzaType};
use rookery_observe::bound::{Bound, Most, Per, Unit};

pub(crate) mod showing;

/// The contacts elsewhere whose home a shard is, by their full addresses.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// The last presence of each that is available; `None` for one that is too long to be kept.
    last: Map<Box<str>, Option<Packet>>,
}

impl Elsewhere {
    /// Takes presence of a contact, and tells whether a component hasn't seen it yet.
    fn is_new(&mut self, from: &str, packet: &Packet) -> bool {
        if packet.type_() != StanzaType::Available {
            return self.last.remove(from).is_some() || self.last.len() >= MOST_CONTACTS;
        }
        let kept = (packet.bytes().len() <= MOST_BYTES).then(|| packet.clone());
        if let Some(known) = self.last.get_mut(from) {
            let is_same = known.as_ref().zip(kept.as_ref()).is_some_and(|(one, other)| one.bytes() == other.bytes());
            *known = kept;
            return !is_same;
        }
        if self.last.len() < MOST_CONTACTS {
            self.last.insert(from.into(), kept);
        }
        true
    }

    /// Returns the presence of all that are available.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Packet> {
        self.last.values().flatten()
    }
}

/// Resources of contacts elsewhere that a shard remembers.
const MOST_CONTACTS: usize = 20_000;
/// Bytes of a presence that is remembered.
const MOST_BYTES: usize = 4096;
/// The bounds of what is remembered.
pub const BOUNDS: &[Bound] = &[
    Bound::on(
        "contacts elsewhere whose presence is remembered for components that may see it",
        Per::Shard,
        Most::Fixed(MOST_CONTACTS as u64),
        Unit::Number,
    )
    .or("that of one more is shown as often as it comes, and not to a component that connects later"),
    Bound::on("such a presence", Per::Other("contact"), Most::Fixed(MOST_BYTES as u64), Unit::Bytes)
        .or("a longer one is shown as often as it comes, and not to a component that connects later"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(attributes: &str, status: &str) -> Packet {
        Packet::scanned(format!("<presence{attributes}><status>{status}</status></presence>").as_bytes()).unwrap()
    }

    #[test]
    fn what_was_seen_is_not_new() {
        let mut elsewhere = Elsewhere::default();
        let (here, away) = (presence("", "here"), presence("", "away"));
        let seen = [&here, &here, &away, &away, &here].map(|packet| elsewhere.is_new("a@b.example/c", packet));
        assert_eq!(seen, [true, false, true, false, true]);
        assert!(elsewhere.is_new("a@b.example/d", &here), "another resource");
        let gone = presence(" type='unavailable'", "");
        assert_eq!([(); 2].map(|()| elsewhere.is_new("a@b.example/c", &gone)), [true, false]);
        assert_eq!(elsewhere.shown().count(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_all_is_shown() {
        let mut elsewhere = Elsewhere::default();
        let long = presence("", &"x".repeat(MOST_BYTES));
        assert!(elsewhere.is_new("long@b.example/c", &long) && elsewhere.is_new("long@b.example/c", &long));
        assert_eq!(elsewhere.shown().count(), 0);
        let here = presence("", "here");
        for number in 0..=MOST_CONTACTS {
            assert!(elsewhere.is_new(&format!("{number}@b.example/c"), &here));
        }
        assert_eq!(elsewhere.last.len(), MOST_CONTACTS);
        assert!(elsewhere.is_new("more@b.example/c", &presence(" type='unavailable'", "")));
    }
}
