//! Counts of tokens and names that somebody tried in vain, so that nobody tries them by the
//! thousand.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_hub::household;

/// The recent misses, by the place that they came from.
#[derive(Debug, Default)]
pub struct Guesses(Mutex<HashMap<IpAddr, RecentGuesses>>);

#[derive(Debug, Clone, Copy)]
struct RecentGuesses {
    misses: u32,
    until_ms: u64,
}

impl Guesses {
    /// Returns the milliseconds for which somebody has to wait; `None` if they needn't.
    pub fn wait_ms(&self, address: IpAddr, now_ms: u64) -> Option<u64> {
        let places = self.lock();
        let recent = places.get(&household(address)).filter(|recent| recent.counts(now_ms))?;
        (recent.misses >= MOST).then(|| recent.until_ms - now_ms)
    }

    /// Counts something that wasn't there, or was taken.
    pub fn missed(&self, address: IpAddr, now_ms: u64) {
        let mut places = self.lock();
        if places.len() >= MOST_PLACES {
            places.retain(|_, recent| recent.counts(now_ms));
        }
        let new = RecentGuesses { misses: 0, until_ms: now_ms + WINDOW_MS };
        let place = household(address);
        if places.len() >= MOST_PLACES
            && !places.contains_key(&place)
            && let Some(some) = places.keys().next().copied()
        {
            places.remove(&some);
        }
        let recent = places.entry(place).or_insert(new);
        if !recent.counts(now_ms) {
            *recent = new;
        }
        recent.misses += 1;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, RecentGuesses>> {
        lock(&self.0)
    }
}

impl RecentGuesses {
    /// Returns whether its time isn't over; a clock that was put back ends it.
    fn counts(self, now_ms: u64) -> bool {
        now_ms < self.until_ms && self.until_ms <= now_ms + WINDOW_MS
    }
}

/// Misses of one place in a window.
pub const MOST: u32 = 20;
/// The window, in milliseconds.
const WINDOW_MS: u64 = 600_000;
/// Places that are remembered, some 50 bytes each.
const MOST_PLACES: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_waits_after_its_misses() {
        let guesses = Guesses::default();
        let here = "192.0.2.1".parse().unwrap();
        (0..MOST).for_each(|at| {
            assert_eq!(guesses.wait_ms(here, 5), None, "{at}");
            guesses.missed(here, 5);
        });
        assert_eq!(guesses.wait_ms(here, 6), Some(WINDOW_MS - 1));
        assert_eq!(guesses.wait_ms("192.0.2.2".parse().unwrap(), 6), None);
        assert_eq!(guesses.wait_ms(here, 5 + WINDOW_MS), None);
        guesses.missed(here, 5 + WINDOW_MS);
        assert_eq!(guesses.wait_ms(here, 5 + WINDOW_MS), None, "a window begins again");
    }

    #[test]
    fn places_are_bounded() {
        let guesses = Guesses::default();
        (0..MOST_PLACES as u32 + 10).for_each(|at| guesses.missed(std::net::Ipv4Addr::from(at).into(), 0));
        assert_eq!(guesses.lock().len(), MOST_PLACES);
    }
}
