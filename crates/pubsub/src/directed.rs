//! Capabilities that sessions announce in directed presence: they apply to the account that
//! received it (XEP-0163 §4.3.2).
//!
//! Some clients announce their capabilities after login in no other way; without this, they would
//! get no news of a new contact's nodes. If a session has announced nothing to an account, its
//! broadcast capabilities apply there; a later broadcast with capabilities replaces everything it
//! has announced.
//!
//! # Invariants
//!
//! * The memory of a session's capabilities is bounded in accounts and in different capabilities.
//! * An account is in at most one entry of a session, and no entry is without accounts.

use rookery_base::Map;
use std::collections::BTreeMap;
use std::rc::Rc;

use rookery_fanout::Link;
use rookery_jid::Jid;

use super::caps::{NodeIds, PresenceCaps};
use super::limits::MAX_ACCOUNTS;

/// The capabilities that the sessions of a shard have announced to single accounts.
#[derive(Debug, Default)]
pub(super) struct Directed(Map<Link, Vec<ToldCaps>>);

/// Capabilities, and the accounts to which a session has announced them.
#[derive(Debug)]
struct ToldCaps {
    caps: Rc<PresenceCaps>,
    /// `None` until the features behind them are known.
    nodes: Option<NodeIds>,
    /// The accounts, each with `true` once its last items have been requested.
    accounts: BTreeMap<Jid, bool>,
}

impl Directed {
    /// Notes that a session has announced its capabilities to an account; returns `false` if the
    /// session has reached the limit.
    pub fn tell(&mut self, link: Link, caps: &PresenceCaps, account: &Jid) -> bool {
        let told = self.0.entry(link).or_default();
        if told.iter().any(|told| *told.caps == *caps && told.accounts.contains_key(account)) {
            return true;
        }
        told.iter_mut().for_each(|told| {
            told.accounts.remove(account);
        });
        told.retain(|told| !told.accounts.is_empty());
        if told.iter().map(|told| told.accounts.len()).sum::<usize>() >= MAX_ACCOUNTS {
            return false;
        }
        match told.iter_mut().find(|told| *told.caps == *caps) {
            Some(told) => {
                told.accounts.insert(account.clone(), false);
            }
            None => {
                // The oldest make room: a client whose capabilities change announces them again.
                told.drain(..(told.len() + 1).saturating_sub(MAX_DIFFERENT));
                let accounts = BTreeMap::from([(account.clone(), false)]);
                told.push(ToldCaps { caps: Rc::new(caps.clone()), nodes: None, accounts });
            }
        }
        true
    }

    /// Notes the nodes that a session's capabilities stand for, and returns the accounts for which
    /// they are new.
    pub fn learn(&mut self, link: Link, caps: &Rc<PresenceCaps>, nodes: &NodeIds) -> Vec<Jid> {
        let told = self.0.get_mut(&link).and_then(|told| told.iter_mut().find(|told| told.caps == *caps));
        let Some(told) = told else { return Vec::new() };
        (told.caps, told.nodes) = (caps.clone(), Some(nodes.clone()));
        let new = told.accounts.iter_mut().filter(|(_, is_asked)| !**is_asked);
        new.map(|(account, is_asked)| (*is_asked = true, account.clone()).1).collect()
    }

    /// Returns the nodes that a session wants from an account by the capabilities announced to it,
    /// if there are any and they are known.
    pub fn nodes(&self, link: Link, account: &Jid) -> Option<&NodeIds> {
        let told = self.0.get(&link)?.iter().find(|told| told.accounts.contains_key(account))?;
        told.nodes.as_ref()
    }

    /// Returns the capabilities that a session has announced to single accounts, with the nodes
    /// that they stand for, if known, and those accounts.
    pub fn announced_by(
        &self,
        link: Link,
    ) -> impl Iterator<Item = (&PresenceCaps, Option<&NodeIds>, impl Iterator<Item = &Jid>)> {
        let told = self.0.get(&link).into_iter().flatten();
        told.map(|told| (&*told.caps, told.nodes.as_ref(), told.accounts.keys()))
    }

    /// Forgets the capabilities that a session has announced to an account.
    pub fn take_back(&mut self, link: Link, account: &Jid) {
        let Some(told) = self.0.get_mut(&link) else { return };
        told.iter_mut().for_each(|told| {
            told.accounts.remove(account);
        });
        told.retain(|told| !told.accounts.is_empty());
        if told.is_empty() {
            self.0.remove(&link);
        }
    }

    /// Forgets all capabilities that a session has announced.
    pub fn forget(&mut self, link: Link) {
        self.0.remove(&link);
    }
}

/// The most different capabilities that a session may have announced.
const MAX_DIFFERENT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: usize) -> Jid {
        Jid::parse(&format!("a{number}@example.org")).unwrap()
    }

    fn nodes(name: &str) -> NodeIds {
        Rc::from([Box::from(name)])
    }

    #[test]
    fn the_capabilities_that_a_session_announces_are_bounded() {
        let (mut directed, link) = (Directed::default(), Link(3));
        for number in 0..MAX_ACCOUNTS {
            assert!(directed.tell(link, &PresenceCaps::with_name("one"), &account(number)));
        }
        assert!(!directed.tell(link, &PresenceCaps::with_name("one"), &account(MAX_ACCOUNTS)));
        assert!(directed.tell(link, &PresenceCaps::with_name("one"), &account(0)), "again is nothing new");
        assert!(
            directed.tell(link, &PresenceCaps::with_name("two"), &account(0)),
            "in the place of what it was told before"
        );
        assert!(directed.tell(Link(4), &PresenceCaps::with_name("one"), &account(MAX_ACCOUNTS)), "others have room");
        for number in 1..=MAX_DIFFERENT {
            assert!(directed.tell(link, &PresenceCaps::with_name(&format!("more {number}")), &account(number)));
        }
        assert_eq!(directed.0[&link].len(), MAX_DIFFERENT);
    }

    #[test]
    fn known_capabilities_are_news_once() {
        let (mut directed, link) = (Directed::default(), Link(3));
        let caps = Rc::new(PresenceCaps::with_name("one"));
        directed.tell(link, &caps, &account(1));
        assert_eq!(directed.nodes(link, &account(1)), None);
        assert_eq!(directed.learn(link, &caps, &nodes("x")), [account(1)]);
        directed.tell(link, &caps, &account(1));
        directed.tell(link, &caps, &account(2));
        assert_eq!(directed.learn(link, &caps, &nodes("x")), [account(2)]);
        assert_eq!(directed.nodes(link, &account(2)), Some(&nodes("x")));
        directed.take_back(link, &account(2));
        assert_eq!(directed.nodes(link, &account(2)), None);
        directed.forget(link);
        assert!(directed.0.is_empty());
    }
}
