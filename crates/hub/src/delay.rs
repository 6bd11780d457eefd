//! Stamps of delayed delivery (XEP-0203), and the time at which a copy was accepted.

use std::collections::VecDeque;

use rookery_base::date;
use rookery_xml::{Built, Writer, ns};

/// Returns the `<delay/>` that says when `from` received a stanza that is delivered only now.
pub fn element(from: &str, unix_ms: u64) -> Built {
    let mut delay = Writer::with_ns("delay", ns::DELAY);
    delay.attr("from", from).attr("stamp", &date::timestamp(unix_ms));
    delay.finish()
}

/// The times at which the outboxes of a shard took copies, to a second, so that a copy need not
/// carry its own.
#[derive(Debug, Default)]
pub(crate) struct TakenTimes(VecDeque<(u64, u64)>);

impl TakenTimes {
    /// Notes that `number` copies have been taken so far.
    pub fn note(&mut self, number: u64, unix_ms: u64) {
        match self.0.back_mut() {
            Some((last, at)) if *last == number => *at = unix_ms,
            Some((_, at)) if unix_ms.saturating_sub(*at) < RESOLUTION_MS => {}
            _ => self.0.push_back((number, unix_ms)),
        }
        if self.0.len() > MOST_NOTES {
            self.0.pop_front();
        }
    }

    /// Notes that the copies from this number on were taken at another time, because they belong to
    /// sessions that came from another process. The numbers grow, but the times need not.
    pub fn recall(&mut self, number: u64, unix_ms: u64) {
        if self.0.back().is_none_or(|&(_, at)| at.abs_diff(unix_ms) >= RESOLUTION_MS) {
            self.0.push_back((number, unix_ms));
        }
        if self.0.len() > MOST_NOTES {
            self.0.pop_front();
        }
    }

    /// Returns when a copy with that number was taken; `None` if that is too long ago.
    pub fn when(&self, number: u64) -> Option<u64> {
        let later = self.0.partition_point(|&(first, _)| first <= number);
        self.0.get(later.checked_sub(1)?).map(|&(_, at)| at)
    }
}

/// Milliseconds between two notes.
const RESOLUTION_MS: u64 = 1000;
/// Notes that are kept: more than an hour of seconds.
const MOST_NOTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_their_time() {
        let mut taken = TakenTimes::default();
        assert_eq!(taken.when(0), None);
        for (number, at) in [(0, 1000), (0, 5000), (7, 5500), (9, 6100), (9, 9000)] {
            taken.note(number, at);
        }
        assert_eq!(
            [0, 6, 7, 8, 9, 100].map(|number| taken.when(number)),
            [5000, 5000, 5000, 5000, 9000, 9000].map(Some)
        );
        for at in 0..10_000 {
            taken.note(10 + at, 10_000 + at * 2000);
        }
        assert_eq!(taken.when(0), None);
        assert_eq!(taken.when(10_009), Some(10_000 + 9_999 * 2000));
    }
}
