//! Each thread's source of randomness: random bytes, and the keys of hash tables.
//!
//! Both come from the operating system, unless the thread was given a seed. Then everything drawn
//! on it follows from the seed, so that a simulation, which runs a whole server on one thread,
//! repeats itself for the same seed. All randomness comes from here: crates below `shard` draw
//! nothing by themselves (`clippy.toml` forbids it).

use std::cell::Cell;
use std::fmt;

thread_local! {
    /// The thread's place in the sequence of its seed.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes everything that this thread draws from now on follow from a seed. For tests and
/// simulations only: anyone who knows the seed knows every token and nonce.
pub fn seed(seed: u64) {
    SEED.set(Some(seed));
}

/// Returns the next number of the thread's sequence, if it has a seed.
pub(crate) fn next_of_seed() -> Option<u64> {
    let mut sequence = Sequence::new(SEED.get()?);
    let number = sequence.number();
    SEED.set(Some(sequence.0));
    Some(number)
}

/// A sequence of numbers that follows from its seed, the same on every machine (SplitMix64): for
/// tests and simulations.
#[derive(Debug, Clone)]
pub struct Sequence(u64);

impl Sequence {
    /// Returns the sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 if that is 0.
    pub const fn below(&mut self, end: usize) -> usize {
        let end = if end == 0 { 1 } else { end as u64 };
        (self.number() % end) as usize
    }
}

/// Fills a buffer with bytes that nobody can guess.
///
/// # Errors
/// [`NoChance`] if the operating system gives none.
pub fn fill(bytes: &mut [u8]) -> Result<(), NoChance> {
    if SEED.get().is_none() {
        return getrandom::fill(bytes).map_err(|_| NoChance);
    }
    for chunk in bytes.chunks_mut(8) {
        let drawn = next_of_seed().unwrap_or_default().to_le_bytes();
        chunk.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
    }
    Ok(())
}

/// Returns `length` letters and digits that nobody can guess, each of which has 5 random bits.
///
/// # Errors
/// [`NoChance`] if the operating system provides no random bytes.
pub fn text(length: usize) -> Result<String, NoChance> {
    let mut bytes = vec![0; length];
    fill(&mut bytes)?;
    Ok(bytes.into_iter().map(letter).collect())
}

/// Returns the letter or digit for the lowest five bits. The alphabet has no characters that
/// people confuse.
#[inline]
pub fn letter(bits: u8) -> char {
    LETTERS.get(usize::from(bits & 31)).copied().map_or('x', char::from)
}

/// The lower-case letters and digits, except `l`, `o`, `0` and `1`.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The operating system gives no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoChance;

impl fmt::Display for NoChance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the operating system provides no random bytes")
    }
}

impl std::error::Error for NoChance {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Set;

    fn draw() -> ([u8; 21], Vec<u32>) {
        let mut bytes = [0; 21];
        fill(&mut bytes).unwrap();
        (bytes, (0..100).collect::<Set<u32>>().into_iter().collect())
    }

    #[test]
    fn what_a_thread_draws_follows_from_its_seed() {
        let with = |number| {
            let drawn = move || {
                seed(number);
                (draw(), draw())
            };
            std::thread::spawn(drawn).join().unwrap()
        };
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
        let (first, second) = with(3);
        assert_ne!(first.0, second.0);
    }

    #[test]
    fn texts_have_their_length_and_all_letters() {
        let text = text(10_000).unwrap();
        let letters: std::collections::BTreeSet<char> = text.chars().collect();
        assert_eq!((text.len(), letters.len()), (10_000, 32));
    }

    #[test]
    fn without_a_seed_nothing_repeats() {
        let drawn = || std::thread::spawn(draw).join().unwrap();
        let (one, other) = (drawn(), drawn());
        assert_ne!(one, other);
    }
}
