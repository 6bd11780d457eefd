//! The last DNS answers about domains, for times when no name server answers (RFC 8767).

use std::time::{Duration, Instant};

use rookery_base::Map;
use rookery_federation::{Address, Found, NotFound};

/// The last good answer about each domain.
#[derive(Debug, Default)]
pub(crate) struct KnownAnswers(Map<Box<str>, (Instant, Vec<Address>)>);

impl KnownAnswers {
    /// Returns a new result or, if that isn't an answer, the last answer, unless it is too old. Any
    /// answer replaces the last one, even the answer that there is no server.
    pub(crate) fn or_older(&mut self, domain: &str, found: Found, now: Instant) -> Found {
        match found {
            Ok(addresses) => {
                if self.0.len() >= MOST_KNOWN {
                    self.0.retain(|_, (since, _)| now.duration_since(*since) < LONGEST);
                }
                if self.0.len() < MOST_KNOWN || self.0.contains_key(domain) {
                    self.0.insert(domain.into(), (now, addresses.clone()));
                }
                Ok(addresses)
            }
            Err(NotFound::NoServer) => {
                self.0.remove(domain);
                Err(NotFound::NoServer)
            }
            Err(NotFound::NoAnswer) => match self.0.get(domain) {
                Some((since, addresses)) if now.duration_since(*since) < LONGEST => Ok(addresses.clone()),
                _ => Err(NotFound::NoAnswer),
            },
        }
    }
}

/// The most domains whose answers are kept.
pub(crate) const MOST_KNOWN: usize = 10_000;
/// The greatest age of an answer that is used.
const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_is_replaced_by_the_last_one_for_an_hour() {
        let mut known = KnownAnswers::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let found = Ok(vec![Address::new("192.0.2.1:5269".parse().unwrap(), false)]);
        let silent = || Err(NotFound::NoAnswer);
        assert_eq!(known.or_older("a.example", silent(), at(0)), silent());
        assert_eq!(known.or_older("a.example", found.clone(), at(0)), found);
        assert_eq!(known.or_older("a.example", silent(), at(3599)), found);
        assert_eq!(known.or_older("b.example", silent(), at(1)), silent(), "another domain");
        assert_eq!(known.or_older("a.example", silent(), at(3600)), silent(), "too old");
        known.or_older("a.example", found, at(4000)).unwrap();
        known.or_older("a.example", Err(NotFound::NoServer), at(4001)).unwrap_err();
        assert_eq!(known.or_older("a.example", silent(), at(4002)), silent(), "it was said to be gone");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = KnownAnswers::default();
        let now = Instant::now();
        for number in 0..2 * MOST_KNOWN {
            _ = known.or_older(&number.to_string(), Ok(Vec::new()), now);
        }
        assert_eq!(known.0.len(), MOST_KNOWN);
        _ = known.or_older("x", Ok(Vec::new()), now + LONGEST);
        assert_eq!(known.0.len(), 1);
    }
}
