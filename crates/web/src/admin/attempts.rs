//! How often somebody may try to sign in.
//!
//! An attempt counts as failed from its beginning until it succeeds, so that many at once count as well. After some within the last minutes the next one has
//! to wait, longer each time. An address waits long; an account only for a moment, since its owner must not be kept out by somebody else's guesses. The tables
//! are bounded: the oldest knowledge goes first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Who has tried of late.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<HashMap<Key, Failures>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Address(IpAddr),
    Account(String),
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last_ms: u64,
}

impl Attempts {
    /// Begins an attempt from an address at an account.
    ///
    /// # Errors
    /// How many milliseconds it has to wait first.
    pub fn begin(&self, address: IpAddr, account: &str, now_ms: u64) -> Result<(), u64> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = keys(address, account);
        let wait = |(key, free, most): &(Key, u32, u64)| {
            let failures = table.get(key).filter(|failures| now_ms.saturating_sub(failures.last_ms) < WINDOW_MS)?;
            let beyond = failures.count.checked_sub(*free)?;
            let wait = (1000u64 << beyond.min(20)).min(*most);
            (failures.last_ms + wait).checked_sub(now_ms).filter(|left| *left > 0)
        };
        if let Some(left) = keys.iter().filter_map(wait).max() {
            return Err(left);
        }
        if table.len() + keys.len() > MOST {
            let median = table.values().map(|failures| failures.last_ms).sum::<u64>() / table.len() as u64;
            table.retain(|_, failures| failures.last_ms > median);
        }
        for (key, ..) in keys {
            let failures = table.entry(key).or_insert(Failures { count: 0, last_ms: now_ms });
            let is_old = now_ms.saturating_sub(failures.last_ms) >= WINDOW_MS;
            *failures = Failures { count: if is_old { 1 } else { failures.count.saturating_add(1) }, last_ms: now_ms };
        }
        Ok(())
    }

    /// An attempt has succeeded: it and those before are forgotten.
    pub fn succeeded(&self, address: IpAddr, account: &str) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, ..) in keys(address, account) {
            table.remove(&key);
        }
    }
}

/// What counts, how many failures are free, and how long the longest wait is.
fn keys(address: IpAddr, account: &str) -> [(Key, u32, u64); 2] {
    // One customer has the first 64 bits of an IPv6 address for himself.
    let network = match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    };
    let account = Key::Account(account.chars().take(200).collect());
    [(Key::Address(network), FREE_OF_ADDRESS, 300_000), (account, FREE_OF_ACCOUNT, 5_000)]
}

/// Failures of an address before the first wait.
const FREE_OF_ADDRESS: u32 = 5;
/// Failures at an account before the first wait.
const FREE_OF_ACCOUNT: u32 = 10;
/// How long a failure is remembered, milliseconds.
const WINDOW_MS: u64 = 900_000;
/// Entries of the table.
const MOST: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn guessing_gets_slower() {
        let attempts = Attempts::default();
        for _ in 0..FREE_OF_ADDRESS {
            assert_eq!(attempts.begin(address(1), "a", 1000), Ok(()));
        }
        assert_eq!(attempts.begin(address(1), "b", 1000), Err(1000));
        assert_eq!(attempts.begin(address(1), "b", 2000), Ok(()));
        assert_eq!(attempts.begin(address(1), "b", 2000), Err(2000));
        assert_eq!(attempts.begin(address(2), "b", 2000), Ok(()), "others don't wait");
        attempts.succeeded(address(1), "b");
        assert_eq!(attempts.begin(address(1), "b", 2000), Ok(()));
    }

    #[test]
    fn an_account_is_slowed_down_but_not_closed() {
        let attempts = Attempts::default();
        let mut now = 1000;
        for last in 0..200 {
            let wait = attempts.begin(address(last), "a", now).err().unwrap_or(0);
            assert!(wait <= 5000);
            now += wait;
        }
        assert!(now > 60_000);
    }

    #[test]
    fn memory_is_bounded_and_forgets() {
        let attempts = Attempts::default();
        for number in 0..50_000u32 {
            let _ = attempts.begin(IpAddr::from(number.to_be_bytes()), "a", u64::from(number) + 1000);
        }
        assert!(attempts.0.lock().unwrap().len() <= MOST);
        let attempts = Attempts::default();
        for _ in 0..9 {
            let _ = attempts.begin(address(1), "a", 1000);
        }
        assert_eq!(attempts.begin(address(1), "a", 1000 + WINDOW_MS), Ok(()));
    }
}
