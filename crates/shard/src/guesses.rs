//! Counts the failed attempts at tokens and names on the web, so that nobody tries thousands of
//! them. The counts are in this crate because the nodes of a cluster report them to each other
//! together with failed logins.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_hub::household;

/// The recent misses, by the place from which they came.
#[derive(Debug, Default)]
pub struct Guesses(Mutex<GuessTable>);

#[derive(Debug, Default)]
struct GuessTable {
    places: HashMap<IpAddr, RecentGuesses>,
    /// Misses that other nodes are to be told of, if there are any.
    news: Option<HashMap<IpAddr, u32>>,
}

#[derive(Debug, Clone, Copy)]
struct RecentGuesses {
    misses: u32,
    until_ms: u64,
}

impl Guesses {
    /// Returns the milliseconds for which a place has to wait; `None` if it needn't.
    pub fn wait_ms(&self, address: IpAddr, now_ms: u64) -> Option<u64> {
        let table = self.lock();
        let recent = table.places.get(&household(address)).filter(|recent| recent.counts(now_ms))?;
        (recent.misses >= MOST).then(|| recent.until_ms - now_ms)
    }

    /// Counts a miss: a token that doesn't exist, or a name that is taken.
    pub fn count_miss(&self, address: IpAddr, now_ms: u64) {
        let mut table = self.lock();
        let place = household(address);
        if let Some(news) = &mut table.news
            && (news.len() < MOST_TOLD || news.contains_key(&place))
        {
            *news.entry(place).or_default() += 1;
        }
        table.count(place, 1, now_ms);
    }

    /// Begins to collect the misses for other nodes.
    pub(crate) fn gather_news(&self) {
        self.lock().news.get_or_insert_default();
    }

    /// Takes the misses for other nodes: places with their numbers.
    pub(crate) fn take_news(&self) -> Vec<(IpAddr, u32)> {
        self.lock().news.as_mut().map(std::mem::take).into_iter().flatten().collect()
    }

    /// Counts the misses that another node reports.
    pub(crate) fn hear(&self, news: &[(IpAddr, u32)], now_ms: u64) {
        let mut table = self.lock();
        news.iter().take(MOST_TOLD).for_each(|(place, misses)| table.count(household(*place), *misses, now_ms));
    }

    fn lock(&self) -> MutexGuard<'_, GuessTable> {
        lock(&self.0)
    }
}

impl GuessTable {
    fn count(&mut self, place: IpAddr, misses: u32, now_ms: u64) {
        let places = &mut self.places;
        if places.len() >= MOST_PLACES {
            places.retain(|_, recent| recent.counts(now_ms));
        }
        let new = RecentGuesses { misses: 0, until_ms: now_ms + WINDOW_MS };
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
        recent.misses = recent.misses.saturating_add(misses);
    }
}

impl RecentGuesses {
    /// Returns whether the window isn't over; a clock that was put back ends it.
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
/// Places in one report to other nodes.
const MOST_TOLD: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_waits_after_its_misses() {
        let guesses = Guesses::default();
        let here = "192.0.2.1".parse().unwrap();
        (0..MOST).for_each(|at| {
            assert_eq!(guesses.wait_ms(here, 5), None, "{at}");
            guesses.count_miss(here, 5);
        });
        assert_eq!(guesses.wait_ms(here, 6), Some(WINDOW_MS - 1));
        assert_eq!(guesses.wait_ms("192.0.2.2".parse().unwrap(), 6), None);
        assert_eq!(guesses.wait_ms(here, 5 + WINDOW_MS), None);
        guesses.count_miss(here, 5 + WINDOW_MS);
        assert_eq!(guesses.wait_ms(here, 5 + WINDOW_MS), None, "a window begins again");
    }

    #[test]
    fn misses_at_all_nodes_count_together() {
        let (one, other) = (Guesses::default(), Guesses::default());
        one.gather_news();
        let here = "2001:db8::1".parse().unwrap();
        (0..MOST).for_each(|_| one.count_miss(here, 5));
        assert_eq!(other.wait_ms(here, 5), None);
        other.hear(&one.take_news(), 5);
        assert_eq!(other.wait_ms(here, 5), Some(WINDOW_MS));
        assert!(one.take_news().is_empty(), "they hear of each miss once");
        (0..2 * MOST_TOLD as u32).for_each(|at| one.count_miss(std::net::Ipv4Addr::from(at).into(), 0));
        assert_eq!(one.take_news().len(), MOST_TOLD);
        other.hear(&[(here, u32::MAX)], 5);
        assert_eq!(other.wait_ms(here, 5), Some(WINDOW_MS));
    }

    #[test]
    fn places_are_bounded() {
        let guesses = Guesses::default();
        (0..MOST_PLACES as u32 + 10).for_each(|at| guesses.count_miss(std::net::Ipv4Addr::from(at).into(), 0));
        assert_eq!(guesses.lock().places.len(), MOST_PLACES);
    }
}
