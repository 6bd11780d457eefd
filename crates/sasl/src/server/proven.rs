//! Plain passwords that were recently right.
//!
//! Verifying a password takes a PBKDF2, thousands of hashes, and clients that use PLAIN send the
//! same password again after every lost connection. So a right password leaves a mark in memory: a
//! MAC of the account's stored key and the password, under a secret of this process. If a mark is
//! found, the PBKDF2 would give the same result.
//!
//! # Invariants
//!
//! - Only right passwords leave marks: a wrong one takes as long as it does without them, and as
//!   long as one for an account that doesn't exist.
//! - A changed password has no mark, since its stored key is another one.
//! - Marks are in memory only, and bounded. They tell nothing without the secret.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use rookery_base::chance;

use crate::{Hash, Keys};

/// Remembers passwords that were right.
pub(super) struct ProvenPasswords {
    /// `None` if the system has no random bytes: then nothing is remembered.
    secret: Option<[u8; 32]>,
    marks: Mutex<ProvenMarks>,
}

/// Marks in two generations: those that nobody has needed for a whole one are dropped.
#[derive(Default)]
struct ProvenMarks {
    young: BTreeSet<Vec<u8>>,
    old: BTreeSet<Vec<u8>>,
}

impl ProvenPasswords {
    /// Returns a memory without passwords, with a fresh secret.
    pub(super) fn new() -> ProvenPasswords {
        let mut secret = [0; 32];
        let secret = chance::fill(&mut secret).is_ok().then_some(secret);
        ProvenPasswords { secret, marks: Mutex::default() }
    }

    /// Returns whether a password is the one of these keys, by its mark or by `verify`.
    pub(super) fn is_right(&self, keys: &Keys, password: &str, verify: impl FnOnce() -> bool) -> bool {
        let Some(secret) = &self.secret else { return verify() };
        let mark = Hash::Sha256.hmac(secret, &[&keys.stored_key, password.as_bytes()]);
        if self.marks().has(&mark) {
            return true;
        }
        let is_right = verify();
        if is_right {
            self.marks().add(mark);
        }
        is_right
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, ProvenMarks> {
        // Sets of marks are consistent between any two calls.
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProvenMarks {
    fn has(&mut self, mark: &[u8]) -> bool {
        if self.young.contains(mark) {
            return true;
        }
        let found = self.old.take(mark);
        let is_known = found.is_some();
        found.into_iter().for_each(|mark| self.add(mark));
        is_known
    }

    fn add(&mut self, mark: Vec<u8>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(mark);
    }
}

impl fmt::Debug for ProvenPasswords {
    /// Writes nothing of its contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvenPasswords").finish_non_exhaustive()
    }
}

/// Marks of one generation: both together take 2 MB at most.
const GENERATION: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Credentials;
    use std::cell::Cell;

    #[test]
    fn a_right_password_is_verified_once() {
        let keys = Credentials::derive("pencil", 10).unwrap().sha256;
        let (proven, verified) = (ProvenPasswords::new(), Cell::new(0));
        let is_right = |keys: &Keys, password: &str| {
            proven.is_right(keys, password, || {
                verified.set(verified.get() + 1);
                keys.verify(password)
            })
        };
        assert!(is_right(&keys, "pencil") && is_right(&keys, "pencil"));
        assert_eq!(verified.get(), 1);
        assert!(!is_right(&keys, "crayon") && !is_right(&keys, "crayon"));
        assert_eq!(verified.get(), 3, "a wrong one takes the whole time each time");
        let changed = Credentials::derive("crayon", 10).unwrap().sha256;
        assert!(!is_right(&changed, "pencil"), "the account's password is another one now");
        assert!(is_right(&changed, "crayon"));
        assert_eq!(verified.get(), 5);
    }

    #[test]
    fn marks_are_bounded_and_those_in_use_stay() {
        let mut marks = ProvenMarks::default();
        let mark = |number: usize| number.to_be_bytes().to_vec();
        for number in 0..5 * GENERATION {
            marks.add(mark(number));
            assert!(marks.has(&mark(0)), "it is used all the time");
            assert!(marks.young.len() + marks.old.len() <= 2 * GENERATION);
        }
        assert!(!marks.has(&mark(1)) && marks.has(&mark(5 * GENERATION - 1)));
    }
}
