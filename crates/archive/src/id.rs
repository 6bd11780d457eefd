//! Ids of archived messages: increasing numbers, written as text that reveals nothing.
//!
//! The upper bits are the time in milliseconds, so that an archive is in the order of time and
//! needs no other key for it. The lower bits are random: an id can't be guessed, nor does it tell
//! how much others write.

use rookery_base::Keyed;
use std::hash::BuildHasher;

/// Assigns ids, each above all previous ones.
#[derive(Debug, Default)]
pub(super) struct Ids {
    last: u64,
    drawn: u64,
    keys: Keyed,
}

impl Ids {
    /// Returns an id for a message that arrives now. If the clock was set back, or two messages
    /// share a millisecond, it is a little above the last one.
    pub(super) fn next(&mut self, unix_ms: u64) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        let random = self.keys.hash_one(self.drawn);
        let new = at(unix_ms) | random & (SPAN / 2 - 1);
        // Until the clock has caught up, a home that has died and the next one may go on from the
        // same id.
        let step = if time(self.last) > unix_ms { LONG_STEP } else { STEP };
        let above_last = self.last + 1 + (random >> 32 & step);
        self.last = new.max(above_last);
        self.last
    }

    /// Makes all further ids larger than one that another shard has assigned.
    pub(super) fn raise(&mut self, above: u64) {
        self.last = self.last.max(above);
    }

    /// Returns the last id; 0 if none was assigned.
    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

/// Returns the lowest id of a millisecond.
pub fn at(unix_ms: u64) -> u64 {
    unix_ms.min(u64::MAX >> (BITS + 1)) << BITS
}

/// Returns when the message with an id arrived, in milliseconds since 1970.
pub fn time(id: u64) -> u64 {
    id >> BITS
}

/// Returns the id as clients see it: thirteen letters and digits.
pub fn text(id: u64) -> String {
    let mut text = String::with_capacity(LENGTH as usize);
    text.extend((0..LENGTH).rev().map(|at| char::from(DIGITS[(id >> (5 * at)) as usize & 31])));
    text
}

/// Reads an id that [`text`] wrote; `None` if the text is anything else.
pub fn read(text: &str) -> Option<u64> {
    if text.len() != LENGTH as usize {
        return None;
    }
    let digit = |byte| DIGITS.iter().position(|&digit| digit == byte).map(|value| value as u64);
    let value = text.bytes().try_fold(0_u64, |value, byte| value.checked_mul(32)?.checked_add(digit(byte)?))?;
    (value > 0 && value <= i64::MAX as u64).then_some(value)
}

/// The number of random bits of an id.
const BITS: u32 = 21;
/// The number of ids of one millisecond.
const SPAN: u64 = 1 << BITS;
/// The largest distance between two ids of one millisecond.
const STEP: u64 = 255;
/// The largest distance between two ids while the clock is behind the last one. Ids don't run away
/// from the clock by it below 64 messages in a millisecond.
const LONG_STEP: u64 = (1 << 16) - 1;
/// The number of digits, of five bits each, of an id as text.
const LENGTH: u32 = 13;
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_grow_whatever_the_clock_does() {
        let mut ids = Ids::default();
        let mut last = 0;
        for unix_ms in [1_767_225_600_000, 1_767_225_600_000, 1_767_225_600_001, 1_767_225_000_000, 1_767_225_600_005] {
            for _ in 0..100 {
                let id = ids.next(unix_ms);
                assert!(id > last && id <= i64::MAX as u64);
                last = id;
            }
        }
        let id = ids.next(1_767_225_700_000);
        assert_eq!(time(id), 1_767_225_700_000);
    }

    #[test]
    fn ids_are_above_those_of_the_shard_that_had_the_archive_before() {
        let (mut before, mut now) = (Ids::default(), Ids::default());
        let id = before.next(1_767_225_620_000);
        now.raise(id);
        now.raise(5);
        assert!(now.next(1_767_225_600_000) > id);
        assert_eq!(before.last(), id);
    }

    #[test]
    fn shards_that_go_on_from_the_same_id_give_different_ones() {
        rookery_base::chance::seed(1);
        let mut shards = [Ids::default(), Ids::default()];
        let [one, other] = shards.each_mut().map(|ids| {
            ids.raise(at(1_767_225_600_000));
            (0..1000).map(|_| ids.next(1_767_225_500_000)).collect::<std::collections::BTreeSet<_>>()
        });
        assert_eq!(one.intersection(&other).count(), 0, "an archive would lose a message");
        assert!(time(*one.last().expect("an id")) < 1_767_225_600_100, "few take little time");
    }

    proptest! {
        #[test]
        fn an_id_is_read_as_written(id in 1..i64::MAX as u64, other in 1..i64::MAX as u64) {
            prop_assert_eq!(read(&text(id)), Some(id));
            prop_assert_eq!(text(id) < text(other), id < other);
        }

        #[test]
        fn other_text_is_no_id(wild in "\\PC{0,20}") {
            if let Some(id) = read(&wild) {
                prop_assert_eq!(text(id), wild);
            }
        }
    }
}
