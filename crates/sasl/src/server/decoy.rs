//! Decoys: challenges of accounts that don't exist.

use std::fmt;
use std::sync::Arc;

use super::proven::ProvenPasswords;
use crate::credentials::{SALT_BYTES, VERIFY_HASH};
use crate::{Credentials, Hash, Keys};
use rookery_base::hex;

/// Makes up credentials for accounts that don't exist, always the same for the same name.
///
/// SCRAM shows the salt before it asks for the proof. A server that refuses unknown names at that
/// point, or shows a fresh random salt each time, tells anyone which accounts exist (directory
/// harvesting, RFC 6120 §13.11). A decoy salt is `HMAC(secret, name)`, cut to a real salt's length.
///
/// The iteration count is visible as well, and accounts keep the count with which their passwords
/// were set. Decoys therefore have the counts that accounts have, each as often: a count doesn't
/// reveal whether there is an account.
#[derive(Clone)]
pub struct Decoy {
    secret: [u8; 32],
    iterations: u32,
    /// The iteration counts of accounts, each with the number of accounts that have it: today's
    /// last.
    counts: Vec<(u32, u64)>,
    /// Passwords that were recently right.
    proven: Arc<ProvenPasswords>,
}

impl Decoy {
    /// Makes decoys from a secret that has to outlive restarts (real salts do, so decoy salts must
    /// too), and the iteration count of newly made credentials.
    pub fn new(secret: [u8; 32], iterations: u32) -> Decoy {
        Decoy { secret, iterations, counts: Vec::new(), proven: Arc::new(ProvenPasswords::new()) }
    }

    /// Sets the iteration counts of accounts for decoys, each with the number of accounts that have
    /// it. While older counts become rarer, names change from them to today's and never back.
    pub fn among(self, counts: &[(u32, u64)]) -> Decoy {
        let mut counts = counts.to_vec();
        counts.sort_unstable_by_key(|&(count, _)| (count == self.iterations, count));
        Decoy { counts, ..self }
    }

    /// Returns the iteration count that a name seems to have.
    fn iterations_of(&self, name: &str) -> u32 {
        let total: u128 = self.counts.iter().map(|&(_, accounts)| u128::from(accounts)).sum();
        let digest = Hash::Sha256.hmac(&self.secret, &[b"iterations", name.as_bytes()]);
        let drawn = digest.iter().take(8).fold(0u128, |drawn, byte| drawn << 8 | u128::from(*byte));
        let mut place = (drawn * total) >> 64;
        for &(count, accounts) in &self.counts {
            match place.checked_sub(u128::from(accounts)) {
                Some(further) => place = further,
                None => return count,
            }
        }
        self.iterations
    }

    /// Checks a plain password against the account's credentials, `None` being an unknown account;
    /// takes the same time either way: one PBKDF2, milliseconds. Only a right password that was
    /// verified recently takes less.
    pub fn verify(&self, found: Option<&Credentials>, username: &str, password: &str) -> bool {
        let decoy = self.keys(username, VERIFY_HASH);
        let keys = found.map_or(&decoy, Credentials::to_verify);
        // Both sides of `&`: nobody knows a password for the decoy's random keys, but a short cut
        // would be quicker.
        self.proven.is_right(keys, password, || keys.verify(password) & found.is_some())
    }

    /// Returns a name for something that these texts together stand for: always the same, and
    /// nobody can tell the texts by it. 16 letters and digits.
    pub fn name_of(&self, texts: &[&str]) -> String {
        let lengths: Vec<_> = texts.iter().map(|text| (text.len() as u64).to_be_bytes()).collect();
        let mut parts: Vec<&[u8]> = vec![b"name"];
        for (length, text) in lengths.iter().zip(texts) {
            parts.extend([&length[..], text.as_bytes()]);
        }
        let digest = Hash::Sha256.hmac(&self.secret, &parts);
        hex::encode(digest.get(..8).unwrap_or(&digest))
    }

    /// Returns the keys that `username` seems to have.
    pub(super) fn keys(&self, username: &str, hash: Hash) -> Keys {
        // A real account has one salt for all spellings of its name.
        let name = stringprep::nodeprep(username).unwrap_or(username.into());
        let derive = |purpose: &[u8]| {
            let tag = [hash.size() as u8];
            Hash::Sha512.hmac(&self.secret, &[purpose, &tag, name.as_bytes()])
        };
        let mut keys = Keys {
            hash,
            salt: derive(b"salt"),
            iterations: self.iterations_of(&name),
            stored_key: derive(b"stored"),
            server_key: derive(b"server"),
        };
        keys.salt.truncate(SALT_BYTES);
        keys.stored_key.truncate(hash.size());
        keys.server_key.truncate(hash.size());
        keys
    }
}

impl fmt::Debug for Decoy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoy").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_like_an_account() {
        let real = Credentials::derive("x", 10).unwrap();
        let decoy = Decoy::new([7; 32], 10);
        for hash in Hash::ALL {
            let (real, made_up) = (real.keys(hash), decoy.keys("nobody", hash));
            assert_eq!((real.salt.len(), real.iterations), (made_up.salt.len(), made_up.iterations));
            assert_eq!((real.stored_key.len(), real.server_key.len()), (hash.size(), made_up.server_key.len()));
            assert_eq!(made_up.stored_key.len(), hash.size());
        }
    }

    #[test]
    fn steady_per_name_and_different_between_them() {
        let decoy = Decoy::new([7; 32], 10);
        assert_eq!(decoy.keys("Nobody", Hash::Sha1), decoy.keys("nobody", Hash::Sha1));
        assert_ne!(decoy.keys("nobody", Hash::Sha1).salt, decoy.keys("noone", Hash::Sha1).salt);
        assert_ne!(decoy.keys("nobody", Hash::Sha1).salt, decoy.keys("nobody", Hash::Sha256).salt);
        assert_ne!(decoy.keys("nobody", Hash::Sha1).salt, Decoy::new([8; 32], 10).keys("nobody", Hash::Sha1).salt);
    }

    #[test]
    fn decoys_have_the_iteration_counts_of_accounts() {
        let names: Vec<String> = (0..2000).map(|number| format!("name{number}")).collect();
        let with = |decoy: &Decoy, count: u32| -> Vec<bool> {
            names.iter().map(|name| decoy.keys(name, Hash::Sha256).iterations == count).collect()
        };
        let share = |all: &[bool]| all.iter().filter(|is_it| **is_it).count();
        let before = Decoy::new([7; 32], 20).among(&[(20, 250), (10, 750)]);
        let old = with(&before, 10);
        assert!((1400..1600).contains(&share(&old)), "{}", share(&old));
        assert_eq!(share(&old) + share(&with(&before, 20)), names.len());
        let later = with(&Decoy::new([7; 32], 20).among(&[(10, 100), (20, 900)]), 10);
        assert!((130..270).contains(&share(&later)), "{}", share(&later));
        assert!(later.iter().zip(&old).all(|(later, old)| *old || !later), "nobody goes back");
        // All three hashes of a name have the same, as those of an account have.
        let counts: Vec<u32> = Hash::ALL.iter().map(|hash| before.keys("somebody", *hash).iterations).collect();
        assert!(counts.iter().all(|count| *count == counts[0]));
        assert!(with(&Decoy::new([7; 32], 20).among(&[]), 20).iter().all(|is_it| *is_it));
    }

    #[test]
    fn no_password_fits_a_missing_account() {
        let decoy = Decoy::new([7; 32], 10);
        assert!(!decoy.verify(None, "nobody", "x"));
        let real = Credentials::derive("x", 10).unwrap();
        assert!(decoy.verify(Some(&real), "somebody", "x"));
        assert!(!decoy.verify(Some(&real), "somebody", "y"));
    }
}
