//! Passwords that a source has recently confirmed, as hashes under a random key that exists only in
//! this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use rookery_base::chance;
use rookery_base::lock::lock;
use rookery_hub::{Bound, Most, Per, Unit};
use rookery_jid::Jid;
use sha2::Sha256;

/// The confirmations of a source that still hold.
pub struct Remembered {
    /// The time for which a confirmation holds; none at all if it is zero.
    time: Duration,
    key: [u8; 32],
    known: Mutex<HashMap<String, KnownPassword>>,
}

/// The hash of a confirmed password, and the time until which it holds.
#[derive(Clone, Copy)]
struct KnownPassword {
    hash: [u8; 32],
    until: Instant,
}

impl Remembered {
    /// Returns an empty cache whose entries hold for a time.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn for_a(time: Duration) -> std::io::Result<Self> {
        let mut key = [0; 32];
        chance::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self { time, key, known: Mutex::default() })
    }

    /// Returns whether the source has recently confirmed this password.
    pub fn has(&self, account: &Jid, password: &str) -> bool {
        let known = lock(&self.known).get(account.as_str()).copied();
        let known = known.filter(|known| known.until > Instant::now());
        // In constant time.
        known.is_some_and(|known| self.mac(account, password).is_some_and(|mac| mac.verify_slice(&known.hash).is_ok()))
    }

    /// Remembers a confirmation, or forgets the last one if the source has said no.
    pub fn note(&self, account: &Jid, password: &str, is_right: bool) {
        if self.time.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut known = lock(&self.known);
        known.remove(account.as_str());
        if known.len() >= MOST {
            known.retain(|_, known| known.until > now);
        }
        if let Some(mac) = self.mac(account, password).filter(|_| is_right && known.len() < MOST) {
            let hash = mac.finalize().into_bytes().into();
            known.insert(account.as_str().to_owned(), KnownPassword { hash, until: now + self.time });
        }
    }

    fn mac(&self, account: &Jid, password: &str) -> Option<Hmac<Sha256>> {
        // HMAC takes keys of any length (RFC 2104 §2).
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.key).ok()?;
        mac.update(account.as_str().as_bytes());
        mac.update(b"\0");
        mac.update(password.as_bytes());
        Some(mac)
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered").field("time", &self.time).finish_non_exhaustive()
    }
}

/// The most accounts whose passwords are remembered.
const MOST: usize = 10_000;

/// The bounds of the cache, for the page of limits.
pub const BOUNDS: &[Bound] =
    &[Bound::on("passwords that a source outside has accepted", Per::Domain, Most::Fixed(MOST as u64), Unit::Number)
        .or("the source is asked again")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_holds_for_the_same_password_until_there_is_a_no() {
        let remembered = Remembered::for_a(Duration::from_secs(600)).unwrap();
        let account = |name: &str| Jid::parse(&format!("{name}@example.org")).unwrap();
        let (juliet, romeo) = (account("juliet"), account("romeo"));
        remembered.note(&juliet, "right", true);
        assert!(remembered.has(&juliet, "right"));
        assert!(!remembered.has(&juliet, "wrong") && !remembered.has(&romeo, "right"));
        remembered.note(&juliet, "wrong", false);
        assert!(!remembered.has(&juliet, "right"), "it may have been changed");
        for number in 0..MOST + 10 {
            remembered.note(&account(&format!("user{number}")), "right", true);
        }
        assert_eq!(lock(&remembered.known).len(), MOST);
        let never = Remembered::for_a(Duration::ZERO).unwrap();
        never.note(&juliet, "right", true);
        assert!(!never.has(&juliet, "right"));
    }
}
