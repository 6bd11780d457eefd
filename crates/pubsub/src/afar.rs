//! Contacts of other servers, and of components: the nodes that they want, by the capabilities in
//! the presence that they show (XEP-0163 §4.3, XEP-0115).
//!
//! The home of such a contact is that of its domain: its presence arrives there, and news for it
//! leave from there. So it is treated like a session, with an address in place of a link.
//!
//! # Invariants
//!
//! * The account's home decides by its roster who is notified of the account's news. This module
//!   only remembers which of those contacts want them.
//! * The memory and the queries that remote contacts can cause on a shard are bounded, per domain
//!   and in total. A hash is queried once; a lie only affects the liar.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rookery_base::{Bucket, Map};
use rookery_jid::{Jid, JidRef};

use super::caps::{NodeIds, PresenceCaps, texts};

/// The wishes of remote contacts whose homes are here.
#[derive(Debug, Default)]
pub(super) struct Afar {
    resources: BTreeMap<Jid, ShownResource>,
    domains: Map<Box<str>, OfDomain>,
}

/// A resource, as its presence describes it.
#[derive(Debug)]
struct ShownResource {
    caps: Rc<PresenceCaps>,
    /// `None` until the features behind the capabilities are known.
    nodes: Option<NodeIds>,
    /// The accounts to which it has shown itself.
    accounts: BTreeSet<Jid>,
    seen_ms: u64,
}

/// The share that the resources of a domain have used up.
#[derive(Debug, Default)]
struct OfDomain {
    resources: usize,
    questions: Bucket,
    last_items: Bucket,
}

impl Afar {
    /// Notes that a resource has shown itself to an account; returns whether that is new, and
    /// whether the resource's wishes are known.
    pub(super) fn show(&mut self, resource: &Jid, caps: &PresenceCaps, account: Jid, now_ms: u64) -> (bool, bool) {
        if !self.resources.contains_key(resource) && !self.has_room(resource, now_ms) {
            return (false, false);
        }
        let shown = self.resources.entry(resource.clone()).or_insert_with(|| {
            self.domains.entry(resource.domain().into()).or_default().resources += 1;
            ShownResource { caps: Rc::new(caps.clone()), nodes: None, accounts: BTreeSet::new(), seen_ms: now_ms }
        });
        shown.seen_ms = now_ms;
        if *shown.caps != *caps {
            // The other accounts are notified as well.
            (shown.caps, shown.nodes) = (Rc::new(caps.clone()), None);
            shown.accounts.clear();
        }
        let is_new = shown.accounts.len() < MOST_ACCOUNTS && shown.accounts.insert(account);
        (is_new, shown.nodes.is_some())
    }

    fn has_room(&mut self, resource: &Jid, now_ms: u64) -> bool {
        let of_domain = self.domains.get(resource.domain()).map_or(0, |domain| domain.resources);
        if self.resources.len() >= MOST_RESOURCES {
            // Makes room: some servers die without sending unavailable presence.
            let old: Vec<_> = self.resources.iter().filter(|(_, shown)| shown.seen_ms + OLD_MS < now_ms).collect();
            let old: Vec<Jid> = old.into_iter().map(|(jid, _)| jid.clone()).collect();
            old.iter().for_each(|jid| self.forget(jid));
        }
        self.resources.len() < MOST_RESOURCES && of_domain < MOST_OF_DOMAIN
    }

    /// Notes that a resource has hidden itself from an account.
    pub(super) fn hide(&mut self, resource: &Jid, account: &Jid) {
        let Some(shown) = self.resources.get_mut(resource) else { return };
        shown.accounts.remove(account);
        if shown.accounts.is_empty() {
            self.forget(resource);
        }
    }

    /// Returns whether a resource has shown itself to an account.
    pub(super) fn is_shown(&self, resource: &Jid, account: &Jid) -> bool {
        self.resources.get(resource).is_some_and(|shown| shown.accounts.contains(account))
    }

    fn forget(&mut self, resource: &Jid) {
        if self.resources.remove(resource).is_some()
            && let Some(domain) = self.domains.get_mut(resource.domain())
        {
            debug_assert!(domain.resources > 0, "a resource that is known counts for its domain");
            domain.resources -= 1;
            if domain.resources == 0 {
                self.domains.remove(resource.domain());
            }
        }
    }

    /// Returns the resources of a contact, with what they have shown.
    fn of<'a>(&'a self, contact: JidRef<'_>) -> impl Iterator<Item = (&'a Jid, &'a ShownResource)> {
        let bare = contact.bare().to_jid();
        let within = bare.clone();
        let resources = self.resources.range(bare..);
        let resources = resources.take_while(move |(jid, _)| jid.as_str().starts_with(within.as_str()));
        let bare = contact.bare().to_jid();
        resources.filter(move |(jid, _)| jid.bare() == bare.as_ref())
    }

    /// Returns the resources of a contact that want a node of an account.
    pub(super) fn wanting(&self, contact: JidRef<'_>, account: &Jid, node: &str) -> Vec<Jid> {
        let wants = |shown: &ShownResource| {
            let nodes = shown.nodes.as_ref().filter(|_| shown.accounts.contains(account));
            nodes.is_some_and(|nodes| nodes.binary_search_by(|other| (**other).cmp(node)).is_ok())
        };
        self.of(contact).filter(|(_, shown)| wants(shown)).map(|(jid, _)| jid.clone()).collect()
    }

    /// Returns the nodes that each resource of a contact wants of an account.
    pub(super) fn nodes_of(&self, contact: JidRef<'_>, account: &Jid) -> Vec<(Jid, Vec<String>)> {
        let shown = self.of(contact).filter(|(_, shown)| shown.accounts.contains(account));
        shown.filter_map(|(jid, shown)| Some((jid.clone(), texts(shown.nodes.as_ref()?)))).collect()
    }

    /// Notes the nodes that a resource wants, if it still has these capabilities; returns the
    /// accounts for which they are new.
    pub(super) fn learn(&mut self, resource: &Jid, caps: &Rc<PresenceCaps>, nodes: &NodeIds) -> Vec<Jid> {
        let Some(shown) = self.resources.get_mut(resource).filter(|shown| shown.caps == *caps) else {
            return Vec::new();
        };
        let is_news = shown.nodes.is_none();
        (shown.caps, shown.nodes) = (caps.clone(), Some(nodes.clone()));
        if is_news { shown.accounts.iter().cloned().collect() } else { Vec::new() }
    }

    /// Returns the nodes that a resource wants, as far as that is known.
    pub(super) fn nodes(&self, resource: &Jid) -> Vec<String> {
        self.resources.get(resource).and_then(|shown| shown.nodes.as_ref()).map(texts).unwrap_or_default()
    }

    /// Returns whether a resource may be asked for its features.
    pub(super) fn may_ask(&mut self, resource: &Jid, now_ms: u64) -> bool {
        self.may(resource.domain(), |domain| &mut domain.questions, QUESTION, now_ms)
    }

    /// Returns whether a resource may get the last items of an account.
    pub(super) fn may_get(&mut self, resource: &Jid, now_ms: u64) -> bool {
        self.may(resource.domain(), |domain| &mut domain.last_items, LAST_ITEMS, now_ms)
    }

    /// Returns whether an act for a domain may happen, and takes its cost from the domain's bucket.
    fn may(&mut self, domain: &str, bucket: fn(&mut OfDomain) -> &mut Bucket, cost: AfarCost, now_ms: u64) -> bool {
        let Some(of_domain) = self.domains.get_mut(domain) else { return false };
        let bucket = bucket(of_domain);
        let fits = bucket.level(now_ms) + cost.ms <= cost.ms * cost.burst;
        if fits {
            bucket.put(cost.ms, now_ms);
        }
        fits
    }
}

/// The milliseconds after which one more is allowed, and the number allowed at once.
#[derive(Clone, Copy)]
struct AfarCost {
    ms: u64,
    burst: u64,
}

/// The most remote resources that a shard remembers, and the most of one domain.
pub(super) const MOST_RESOURCES: usize = 50_000;
pub(super) const MOST_OF_DOMAIN: usize = MOST_RESOURCES / 4;
/// The most accounts to which a resource may have shown itself.
pub(super) const MOST_ACCOUNTS: usize = 1000;
/// Milliseconds without presence after which a resource makes room for others.
const OLD_MS: u64 = 24 * 3600 * 1000;
/// The rate of queries about capabilities to the clients of a domain.
const QUESTION: AfarCost = AfarCost { ms: 1000, burst: 20 };
/// The rate of requests for the last items of an account by resources of a domain.
const LAST_ITEMS: AfarCost = AfarCost { ms: 50, burst: 500 };

#[cfg(test)]
mod tests {
    use super::*;

    fn jid(text: &str) -> Jid {
        Jid::parse(text).unwrap()
    }

    #[test]
    fn the_resources_of_a_domain_are_bounded() {
        let mut afar = Afar::default();
        let caps = PresenceCaps::with_name("one");
        for number in 0..MOST_OF_DOMAIN + 10 {
            afar.show(&jid(&format!("u{number}@far.example/x")), &caps, jid("a@example.org"), 0);
        }
        assert_eq!(afar.resources.len(), MOST_OF_DOMAIN);
        assert_eq!(afar.show(&jid("u@other.example/x"), &caps, jid("a@example.org"), 0), (true, false));
        for number in 0..MOST_ACCOUNTS + 10 {
            afar.show(&jid("u@other.example/x"), &caps, jid(&format!("a{number}@example.org")), 0);
        }
        assert_eq!(afar.resources[&jid("u@other.example/x")].accounts.len(), MOST_ACCOUNTS);
        afar.hide(&jid("u1@far.example/x"), &jid("a@example.org"));
        assert_eq!(afar.domains["far.example"].resources, MOST_OF_DOMAIN - 1);
    }

    #[test]
    fn questions_are_paced() {
        let mut afar = Afar::default();
        afar.show(&jid("u@far.example/x"), &PresenceCaps::with_name("one"), jid("a@example.org"), 0);
        let mut asked = |now_ms| afar.may("far.example", |domain| &mut domain.questions, QUESTION, now_ms);
        assert_eq!((0..100).filter(|_| asked(0)).count() as u64, QUESTION.burst);
        assert!(asked(QUESTION.ms) && !asked(QUESTION.ms));
    }
}
