//! The reports between the nodes of a cluster about attempts to log in, so that somebody who
//! guesses has as many guesses with many nodes as with one.
//!
//! Each node counts for itself, and tells the others after a moment by how much its counts have
//! changed. A successful attempt is usually subtracted within that moment, so logins cost the
//! others nothing; they get only sums about an attack on an account or from an address.
//!
//! # Invariants
//!
//! * A report can't charge a rate beyond what attempts here could.
//! * The changes that wait to be reported are bounded, and so are those that are accepted. A change
//!   without room is counted only on its own node; the rates of pairs, which are the most numerous,
//!   leave half of the places to those of accounts and addresses.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::rates::RateName;

/// Changes of rates, and places where accounts have logged in.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptNews {
    /// Attempts that a rate was charged with, minus those that were subtracted again.
    pub(super) rates: Vec<(RateName, u64, i32)>,
    /// Accounts, each with a place where it has logged in.
    pub(super) known: Vec<(u64, u64)>,
}

/// The changes that others have still to be told; none are gathered unless `is_told`.
#[derive(Debug, Default)]
pub(super) struct GatheredAttempts {
    pub(super) is_told: bool,
    pub(super) rates: HashMap<(RateName, u64), i32>,
    pub(super) known: Vec<(u64, u64)>,
}

impl AttemptNews {
    /// Returns whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty() && self.known.is_empty()
    }
}

impl GatheredAttempts {
    /// Notes that an account has logged in from a place.
    pub fn note_known(&mut self, account: u64, place: u64) {
        if self.is_told && self.known.len() < MOST_TOLD {
            self.known.push((account, place));
        }
    }

    pub(super) fn note_charge(&mut self, name: RateName, key: u64, times: i32) {
        if !self.is_told {
            return;
        }
        let most = if name == RateName::Pair { MOST_TOLD / 2 } else { MOST_TOLD };
        if self.rates.len() >= most && !self.rates.contains_key(&(name, key)) {
            return;
        }
        let sum = self.rates.entry((name, key)).or_default();
        *sum = sum.saturating_add(times);
        if *sum == 0 {
            self.rates.remove(&(name, key));
        }
    }
}

/// Rates, and places, in one report.
pub(super) const MOST_TOLD: usize = 8192;

#[cfg(test)]
mod tests {
    use super::super::rates::{LONGEST_WAIT_MS, MOST, PAIR};
    use super::super::tests::{guess, log_in, whence};
    use super::super::{AttemptCause, DEFAULT_A_DAY, LoginAttempts};
    use super::*;
    use rookery_base::AddressHash;

    /// Returns the attempts of this number of nodes.
    fn nodes(count: usize) -> Vec<LoginAttempts> {
        let mut nodes: Vec<_> = (0..count).map(|_| LoginAttempts::new(AddressHash::of_cluster([7; 16]))).collect();
        nodes.iter_mut().for_each(LoginAttempts::gather_news);
        nodes
    }

    /// Lets each node tell all others.
    fn tell(nodes: &mut [LoginAttempts], now_ms: u64) {
        for from in 0..nodes.len() {
            let bytes = postcard::to_allocvec(&nodes[from].take_news()).unwrap();
            let news: AttemptNews = postcard::from_bytes(&bytes).unwrap();
            for (to, node) in nodes.iter_mut().enumerate() {
                if to != from {
                    node.hear(&news, DEFAULT_A_DAY, now_ms);
                }
            }
        }
    }

    /// Guesses at all nodes in turn, a number of times at each between two reports; returns the
    /// number of guesses that were checked.
    fn looked_at(count: usize, between: usize, whence: impl Fn(usize) -> (String, String)) -> usize {
        let mut nodes = nodes(count);
        let mut looked_at = 0;
        for at in 0..3000 {
            let (address, account) = whence(at);
            looked_at += usize::from(guess(&mut nodes[at % count], self::whence(&address, &account), 0).is_ok());
            if at % (count * between) == 0 {
                tell(&mut nodes, 0);
            }
        }
        looked_at
    }

    #[test]
    fn who_guesses_has_as_many_guesses_at_three_nodes_as_at_one() {
        let one_pair = |_| ("192.0.2.1".to_owned(), "romeo@a.example".to_owned());
        let one_account = |at: usize| (format!("10.{}.{}.1", at / 250, at % 250), "romeo@a.example".to_owned());
        let one_address = |at: usize| ("192.0.2.1".to_owned(), format!("user{at}@a.example"));
        let at_once = |whence: &dyn Fn(usize) -> (String, String)| (looked_at(1, 1, whence), looked_at(3, 1, whence));
        for (alone, together) in [at_once(&one_pair), at_once(&one_account), at_once(&one_address)] {
            assert!((alone..=alone + 4).contains(&together), "{together} and not {alone}");
        }
    }

    #[test]
    fn a_login_tells_others_nothing_but_where_it_came_from() {
        let mut nodes = nodes(2);
        assert_eq!(log_in(&mut nodes[0], whence("192.0.2.1", "romeo@a.example"), 0), Ok(0));
        let news = nodes[0].take_news();
        assert_eq!((news.rates.len(), news.known.len()), (0, 1));
        nodes[1].hear(&news, DEFAULT_A_DAY, 0);
        // The owner has the rate of a known place at the other node, too.
        let tried = (0..200).filter(|_| guess(&mut nodes[1], whence("192.0.2.1", "romeo@a.example"), 0).is_ok());
        assert!(tried.count() > 100);
        assert_eq!(log_in(&mut nodes[0], whence("192.0.2.1", "romeo@a.example"), 10), Ok(0));
        assert!(nodes[0].take_news().is_empty(), "that was told today");
        assert_eq!(log_in(&mut nodes[0], whence("192.0.2.1", "romeo@a.example"), 86_400_000), Ok(0));
        assert_eq!(nodes[0].take_news().known.len(), 1, "who has started since hears of it tomorrow");
    }

    #[test]
    fn an_attempt_that_succeeds_late_is_taken_back_everywhere() {
        let mut nodes = nodes(2);
        let mut begun = Vec::new();
        for _ in 0..20 {
            begun.push(nodes[0].begin(whence("192.0.2.1", "romeo@a.example"), DEFAULT_A_DAY, 0).unwrap().0);
        }
        tell(&mut nodes, 0);
        assert_eq!(guess(&mut nodes[1], whence("192.0.2.1", "romeo@a.example"), 0), Err(AttemptCause::Pair));
        begun.iter().for_each(|attempt| nodes[0].take_back(attempt, 0));
        tell(&mut nodes, 0);
        assert!(nodes.iter().all(|node| node.accounts.0.is_empty() && node.addresses.0.is_empty()));
        assert_eq!(guess(&mut nodes[1], whence("192.0.2.1", "romeo@a.example"), 0), Ok(0));
    }

    #[test]
    fn what_is_told_and_taken_is_bounded() {
        let mut nodes = nodes(2);
        for at in 0..3 * MOST_TOLD {
            let address = format!("10.{}.{}.{}", at >> 16, at >> 8 & 255, at & 255);
            let _ = guess(&mut nodes[0], whence(&address, &format!("user{at}@a.example")), 0);
        }
        assert!(nodes[0].news.rates.len() <= MOST_TOLD);
        let of_pairs = nodes[0].news.rates.keys().filter(|(name, _)| *name == RateName::Pair).count();
        assert!(of_pairs <= MOST_TOLD / 2, "{of_pairs}");
        // Impossible values count as the highest possible ones, with which nobody gets a turn.
        let key = 5;
        let rates = vec![(RateName::Pair, key, i32::MAX), (RateName::Account, key, i32::MIN)];
        nodes[1].hear(&AttemptNews { rates, known: Vec::new() }, DEFAULT_A_DAY, 1000);
        assert_eq!(nodes[1].pairs.0[&key], 1000 + PAIR.burst * PAIR.each_ms + LONGEST_WAIT_MS);
        let rates = (0..2 * MOST as u64).map(|key| (RateName::Pair, key, 1)).collect();
        nodes[1].hear(&AttemptNews { rates, known: Vec::new() }, DEFAULT_A_DAY, 1000);
        assert!(nodes[1].pairs.0.len() <= MOST_TOLD + 1);
    }

    #[test]
    fn nobody_gathers_what_nobody_is_told() {
        let mut alone = LoginAttempts::default();
        let _ = guess(&mut alone, whence("192.0.2.1", "romeo@a.example"), 0);
        assert!(alone.take_news().is_empty());
    }
}
