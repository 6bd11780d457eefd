//! Remote senders whose presence went through the service, and its recipients.
//!
//! For users of this server, the hub ends directed presence by itself. For all others the service
//! has to remember: it must repeat unavailable presence to all who saw the originator available.

use rookery_base::Map;
use std::collections::BTreeSet;

use rookery_jid::{Jid, JidRef};

/// The originators of one shard. Everything is bounded.
#[derive(Debug, Default)]
pub(super) struct Originators {
    seen_by: Map<Jid, BTreeSet<Jid>>,
    /// The number of senders of each domain, so that none takes up all the space.
    domains: Map<String, usize>,
}

impl Originators {
    /// Remembers the recipients of available presence. Returns `false` if there is no room; then
    /// nothing is remembered.
    pub(super) fn available<'a>(&mut self, who: &Jid, to: impl Iterator<Item = JidRef<'a>>) -> bool {
        let known = self.seen_by.get(who);
        let of_domain = self.domains.get(who.domain()).copied().unwrap_or_default();
        if known.is_none() && (self.seen_by.len() >= ORIGINATORS || of_domain >= OF_ONE_DOMAIN) {
            return false;
        }
        let mut all = known.cloned().unwrap_or_default();
        all.extend(to.map(JidRef::to_jid));
        if all.len() > RECIPIENTS {
            return false;
        }
        if self.seen_by.insert(who.clone(), all).is_none() {
            *self.domains.entry(who.domain().to_owned()).or_default() += 1;
        }
        true
    }

    /// Forgets recipients who have been told that the originator is unavailable.
    pub(super) fn unavailable<'a>(&mut self, who: &Jid, to: impl Iterator<Item = JidRef<'a>>) {
        let Some(seen_by) = self.seen_by.get_mut(who) else { return };
        to.for_each(|to| {
            seen_by.remove(&to.to_jid());
        });
        if seen_by.is_empty() {
            self.forget(who);
        }
    }

    /// Forgets an originator that is gone; returns those who have to be told.
    pub(super) fn forget(&mut self, who: &Jid) -> BTreeSet<Jid> {
        let Some(seen_by) = self.seen_by.remove(who) else { return BTreeSet::new() };
        if let Some(count) = self.domains.get_mut(who.domain()) {
            debug_assert!(*count > 0, "an originator counts for its domain");
            *count -= 1;
            if *count == 0 {
                self.domains.remove(who.domain());
            }
        }
        seen_by
    }
}

/// The most senders that a shard remembers.
const ORIGINATORS: usize = 10_000;
/// The most of them from one domain.
const OF_ONE_DOMAIN: usize = 1000;
/// The most recipients that are remembered per sender.
const RECIPIENTS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_domain_leaves_room_for_others() {
        let jid = |text: &str| Jid::parse(text).unwrap();
        let (mut originators, friend) = (Originators::default(), jid("a@here"));
        let to = || std::iter::once(friend.as_ref());
        for number in 0..OF_ONE_DOMAIN {
            assert!(originators.available(&jid(&format!("u{number}@greedy/r")), to()));
        }
        assert!(!originators.available(&jid("more@greedy/r"), to()));
        assert!(originators.available(&jid("u0@greedy/r"), to()), "a known originator may have further recipients");
        assert!(originators.available(&jid("u@modest/r"), to()));
        assert_eq!(originators.forget(&jid("u1@greedy/r")), [friend.clone()].into());
        assert!(originators.available(&jid("more@greedy/r"), to()));
        originators.unavailable(&jid("u@modest/r"), to());
        assert!(!originators.domains.contains_key("modest"));
    }
}
