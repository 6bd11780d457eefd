//! The rules by which an account lets stanzas in and out: its privacy lists (XEP-0016 §2.1); the
//! default one is its block list too (XEP-0191 §5).
//!
//! # Invariants
//!
//! * The items of a list are in the order of their `order`, which is unique; a list has at least
//!   one.
//! * The default list exists.
//! * Finding the deciding item costs a look-up for each address that names the contact, for
//!   each of the contact's groups, and two more, however many items a list has.

use rookery_base::{Map, Set};
use std::borrow::Borrow;
use std::hash::Hash;
use std::rc::Rc;

use rookery_jid::{Jid, JidRef};
use rookery_store::Subscription;
use rookery_xml::{Element, Writer, ns};

/// All rules of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivacyRules {
    /// The name of the list that applies to sessions without an active one.
    pub default: Option<String>,
    /// The lists, in the order of their creation.
    pub lists: Vec<PrivacyList>,
}

/// A named list of rules, in the order in which they are tried (XEP-0016 §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivacyList {
    /// Its name, unique in the account.
    pub name: String,
    items: Vec<PrivacyRule>,
    index: Index,
}

/// The positions of the first matching items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Index {
    by_jid: Map<Jid, FirstRules>,
    by_group: Map<String, FirstRules>,
    by_subscription: Map<&'static str, FirstRules>,
    everybody: FirstRules,
    /// The first items that depend on the roster.
    by_roster: FirstRules,
}

/// The position of the first item about each kind of stanza; [`NONE`] if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FirstRules([usize; KINDS]);

/// Allows or denies kinds of stanzas from or to the addresses that it names (XEP-0016 §2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivacyRule {
    /// Its position among the others.
    pub order: u32,
    /// The addresses that it is about.
    pub test: Test,
    /// True if a stanza that matches is stopped.
    pub deny: bool,
    /// The kinds of stanzas that it applies to; [`StanzaSet::ALL`] if it names none.
    pub stanzas: StanzaSet,
}

/// The addresses that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// A full JID, all resources of an account, a resource of a domain, or a whole domain.
    Jid(Jid),
    /// Contacts in a group of the roster.
    Group(String),
    /// Contacts with exactly this subscription; with none, also those not in the roster.
    Subscription(Subscription),
    /// All other addresses.
    Everybody,
}

/// The kind of a stanza, as rules distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassingStanza {
    /// An incoming message.
    Message = 1,
    /// An incoming IQ.
    Iq = 2,
    /// Incoming available or unavailable presence.
    PresenceIn = 4,
    /// Outgoing available or unavailable presence.
    PresenceOut = 8,
    /// Everything else: only rules about all stanzas apply.
    Other = 16,
}

/// A set of [`PassingStanza`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StanzaSet(u8);

/// A contact's entry in the roster, as far as rules use it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acquaintance {
    /// The state of the subscription between account and contact.
    pub subscription: Subscription,
    /// The groups that the contact is in.
    pub groups: Rc<[String]>,
}

impl StanzaSet {
    /// All kinds.
    pub const ALL: Self = Self(31);

    /// Returns all kinds in the set, as positions in [`FirstRules`].
    fn kinds(self) -> impl Iterator<Item = usize> {
        (0..KINDS).filter(move |kind| self.0 & 1 << kind != 0)
    }

    fn has(self, passing: PassingStanza) -> bool {
        self.0 & passing as u8 != 0
    }

    /// Returns the set with one more kind.
    #[must_use]
    pub fn with(self, passing: PassingStanza) -> Self {
        Self(self.0 | passing as u8)
    }

    /// Returns whether no kind was put into the set: a rule that names none applies to all.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl PrivacyRules {
    /// Reads rules that [`PrivacyRules::write`] wrote.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let query = Element::parse(bytes).ok().filter(|query| query.is("query", ns::PRIVACY))?;
        let lists = query.children().filter(|child| child.name() == "list");
        let lists = lists.map(PrivacyList::read).collect::<Option<Vec<_>>>()?;
        let default = query.child("default", ns::PRIVACY).and_then(|default| default.attr("name")).map(str::to_owned);
        let rules = Self { default, lists };
        (rules.default.is_none() || rules.default_list().is_some()).then_some(rules)
    }

    /// Returns the form in which the store keeps the rules, which is also what XEP-0227 §4.8
    /// exports; `None` if there are no rules.
    pub fn write(&self) -> Option<Vec<u8>> {
        if self.lists.is_empty() {
            return None;
        }
        let mut query = Writer::with_ns("query", ns::PRIVACY);
        if let Some(name) = &self.default {
            query.start("default").attr("name", name).end();
        }
        for list in &self.lists {
            list.write(&mut query);
        }
        Some(query.finish().bytes().to_vec())
    }

    /// Returns the list with a name.
    pub fn list(&self, name: &str) -> Option<&PrivacyList> {
        self.lists.iter().find(|list| list.name == name)
    }

    /// Returns the list that applies to sessions without an active one.
    pub fn default_list(&self) -> Option<&PrivacyList> {
        self.list(self.default.as_deref()?)
    }

    /// Returns the number of items in all lists together.
    pub fn items(&self) -> usize {
        self.lists.iter().map(|list| list.items.len()).sum()
    }

    /// Returns the number of items that name no address.
    pub fn relative_items(&self) -> usize {
        let items = self.lists.iter().flat_map(|list| &list.items);
        items.filter(|item| !matches!(item.test, Test::Jid(_))).count()
    }

    /// Returns whether any rule depends on the roster.
    pub fn need_roster(&self) -> bool {
        self.lists.iter().any(PrivacyList::needs_roster)
    }

    /// Replaces the list of the same name, or appends a new one.
    pub fn put(&mut self, list: PrivacyList) {
        match self.lists.iter_mut().find(|other| other.name == list.name) {
            Some(other) => *other = list,
            None => self.lists.push(list),
        }
    }

    /// Removes a list.
    pub fn remove(&mut self, name: &str) {
        self.lists.retain(|list| list.name != name);
        self.default.take_if(|default| default == name);
    }

    /// Returns the block list: the contacts to which the default list denies everything (XEP-0191
    /// §5).
    pub fn block_list(&self) -> Vec<&Jid> {
        self.default_list().map(PrivacyList::denied_addresses).unwrap_or_default()
    }

    /// Blocks addresses: they come first in the default list, which is created if necessary.
    pub fn block(&mut self, jids: &[Jid]) {
        let old = self.default_list();
        let name = old.map_or_else(|| self.unused_name(), |list| list.name.clone());
        let all: Set<&Jid> = jids.iter().collect();
        let kept = old.into_iter().flat_map(|list| &list.items).filter(|item| !item.blocks(&all)).cloned();
        let mut seen = Set::default();
        let new = jids.iter().filter(|jid| seen.insert(*jid));
        let new =
            new.map(|jid| PrivacyRule { order: 0, test: Test::Jid(jid.clone()), deny: true, stanzas: StanzaSet::ALL });
        let items = new.chain(kept).collect();
        self.put(PrivacyList::from_items(name.clone(), items));
        self.default = Some(name);
    }

    /// Unblocks addresses. A default list that is empty then is removed.
    pub fn unblock(&mut self, jids: &[Jid]) {
        let Some(old) = self.default_list() else { return };
        let name = old.name.clone();
        let all: Set<&Jid> = jids.iter().collect();
        let left: Vec<PrivacyRule> = old.items.iter().filter(|item| !item.blocks(&all)).cloned().collect();
        match left.is_empty() {
            true => self.remove(&name),
            false => self.put(PrivacyList::from_items(name, left)),
        }
    }

    fn unused_name(&self) -> String {
        let names = (1..).map(|number| if number == 1 { BLOCKED.to_owned() } else { format!("{BLOCKED} {number}") });
        names.into_iter().find(|name| self.list(name).is_none()).unwrap_or_default()
    }
}

impl PrivacyList {
    /// Returns a list of these items; `None` if two have the same order or there are no items
    /// (XEP-0016 §2.1).
    pub fn new(name: String, mut items: Vec<PrivacyRule>) -> Option<Self> {
        items.sort_by_key(|item| item.order);
        let is_unique = items.windows(2).all(|pair| !matches!(pair, [a, b] if a.order == b.order));
        (is_unique && !items.is_empty()).then(|| Self::with_index(name, items))
    }

    /// Returns a list with these items, numbered in their order.
    fn from_items(name: String, mut items: Vec<PrivacyRule>) -> Self {
        for (item, order) in items.iter_mut().zip(1..) {
            item.order = order;
        }
        Self::with_index(name, items)
    }

    fn with_index(name: String, items: Vec<PrivacyRule>) -> Self {
        let index = Index::of(&items);
        Self { name, items, index }
    }

    /// Returns the rules, in their order.
    pub fn items(&self) -> &[PrivacyRule] {
        &self.items
    }

    /// Returns whether the list stops a stanza from or to a contact. The first matching rule
    /// decides; without one, the stanza passes (XEP-0016 §2.2).
    pub fn denies(&self, contact: JidRef<'_>, passing: PassingStanza, known: impl FnOnce() -> Acquaintance) -> bool {
        let first = self.index.find(contact, passing, known);
        self.items.get(first).is_some_and(|item| item.deny)
    }

    /// Returns the addresses to which everything is denied.
    pub fn denied_addresses(&self) -> Vec<&Jid> {
        let blocked = self.items.iter().filter(|item| item.deny && item.stanzas == StanzaSet::ALL);
        blocked.filter_map(|item| if let Test::Jid(jid) = &item.test { Some(jid) } else { None }).collect()
    }

    /// Returns the addresses that any rule names.
    pub fn named_addresses(&self) -> impl Iterator<Item = &Jid> {
        self.index.by_jid.keys()
    }

    fn needs_roster(&self) -> bool {
        self.items.iter().any(|item| matches!(item.test, Test::Group(_) | Test::Subscription(_)))
    }

    fn read(element: &Element) -> Option<Self> {
        let items = element.children().map(|item| PrivacyRule::read(item).ok()).collect::<Option<Vec<_>>>()?;
        Self::new(element.attr("name")?.to_owned(), items)
    }

    /// Writes `<list/>` with its items.
    pub fn write(&self, out: &mut Writer) {
        out.start("list").attr("name", &self.name);
        for item in &self.items {
            item.write(out);
        }
        out.end();
    }
}

/// The reason for refusing an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleFault {
    /// It doesn't follow the schema.
    Malformed,
    /// It names an invalid address.
    Jid,
}

impl PrivacyRule {
    /// Reads an `<item/>` (XEP-0016 §2.1).
    pub fn read(element: &Element) -> Result<Self, RuleFault> {
        if element.name() != "item" {
            return Err(RuleFault::Malformed);
        }
        let order = element.attr("order").and_then(|order| order.trim().parse().ok()).ok_or(RuleFault::Malformed)?;
        let deny = match element.attr("action") {
            Some("deny") => true,
            Some("allow") => false,
            _ => return Err(RuleFault::Malformed),
        };
        let mut stanzas = StanzaSet::default();
        for child in element.children() {
            let (_, passing) = GRANULES.iter().find(|(name, _)| *name == child.name()).ok_or(RuleFault::Malformed)?;
            stanzas = stanzas.with(*passing);
        }
        // All four kinds together don't include other stanzas: that differs from naming none.
        let stanzas = if stanzas.is_empty() { StanzaSet::ALL } else { stanzas };
        Ok(Self { order, test: Test::read(element)?, deny, stanzas })
    }

    fn write(&self, out: &mut Writer) {
        out.start("item");
        let (type_, value) = match &self.test {
            Test::Jid(jid) => (Some("jid"), Some(jid.as_str())),
            Test::Group(group) => (Some("group"), Some(group.as_str())),
            Test::Subscription(subscription) => (Some("subscription"), Some(subscription.as_str())),
            Test::Everybody => (None, None),
        };
        out.opt_attr("type", type_).opt_attr("value", value);
        out.attr("action", if self.deny { "deny" } else { "allow" }).attr("order", &self.order.to_string());
        if self.stanzas != StanzaSet::ALL {
            for (name, _) in GRANULES.iter().filter(|(_, passing)| self.stanzas.has(*passing)) {
                out.start(name).end();
            }
        }
        out.end();
    }

    /// Returns whether the item blocks one of these addresses.
    fn blocks(&self, jids: &Set<&Jid>) -> bool {
        let is_block = self.deny && self.stanzas == StanzaSet::ALL;
        is_block && matches!(&self.test, Test::Jid(jid) if jids.contains(jid))
    }
}

impl Test {
    fn read(element: &Element) -> Result<Self, RuleFault> {
        let value = element.attr("value");
        Ok(match (element.attr("type"), value) {
            (None, _) => Self::Everybody,
            (Some("jid"), Some(value)) => Self::Jid(Jid::parse(value).map_err(|_| RuleFault::Jid)?),
            (Some("group"), Some(value)) if !value.is_empty() => Self::Group(value.to_owned()),
            (Some("subscription"), Some(value)) => {
                let all = [Subscription::None, Subscription::To, Subscription::From, Subscription::Both];
                let found = all.into_iter().find(|subscription| subscription.as_str() == value);
                Self::Subscription(found.ok_or(RuleFault::Malformed)?)
            }
            _ => return Err(RuleFault::Malformed),
        })
    }
}

impl Index {
    fn of(items: &[PrivacyRule]) -> Self {
        let mut index = Self::default();
        for (at, item) in items.iter().enumerate() {
            let first = match &item.test {
                Test::Jid(jid) => index.by_jid.entry(jid.clone()).or_default(),
                Test::Group(group) => index.by_group.entry(group.clone()).or_default(),
                Test::Subscription(subscription) => index.by_subscription.entry(subscription.as_str()).or_default(),
                Test::Everybody => &mut index.everybody,
            };
            first.note(at, item.stanzas);
            if matches!(item.test, Test::Group(_) | Test::Subscription(_)) {
                index.by_roster.note(at, item.stanzas);
            }
        }
        index
    }

    /// Returns the position of the deciding item; [`NONE`] if there is none.
    fn find(&self, contact: JidRef<'_>, passing: PassingStanza, known: impl FnOnce() -> Acquaintance) -> usize {
        let named = [contact.as_str(), contact.bare_str(), contact.domain()];
        let named = named.into_iter().map(|jid| of(&self.by_jid, jid, passing));
        let first = named.min().unwrap_or(NONE).min(self.everybody.of(passing));
        if self.by_roster.of(passing) > first {
            return first;
        }
        let known = known();
        let groups = known.groups.iter().map(|group| of(&self.by_group, group.as_str(), passing));
        let by_group = groups.min().unwrap_or(NONE);
        first.min(by_group).min(of(&self.by_subscription, known.subscription.as_str(), passing))
    }
}

fn of<K: Borrow<str> + Hash + Eq>(index: &Map<K, FirstRules>, name: &str, passing: PassingStanza) -> usize {
    index.get(name).map_or(NONE, |first| first.of(passing))
}

impl Default for FirstRules {
    fn default() -> Self {
        Self([NONE; KINDS])
    }
}

impl FirstRules {
    /// Notes an item, after all earlier ones.
    fn note(&mut self, at: usize, stanzas: StanzaSet) {
        for kind in stanzas.kinds() {
            if let Some(first) = self.0.get_mut(kind) {
                *first = at.min(*first);
            }
        }
    }

    fn of(&self, passing: PassingStanza) -> usize {
        self.0.get((passing as u8).trailing_zeros() as usize).copied().unwrap_or(NONE)
    }
}

/// The number of kinds of stanzas, see [`PassingStanza`].
const KINDS: usize = 5;
/// The position of a missing item, after all others.
const NONE: usize = usize::MAX;

/// The stanzas that an item may name, in the order in which they are written.
const GRANULES: [(&str, PassingStanza); 4] = [
    ("message", PassingStanza::Message),
    ("presence-in", PassingStanza::PresenceIn),
    ("presence-out", PassingStanza::PresenceOut),
    ("iq", PassingStanza::Iq),
];

/// The name of the default list that the first block creates.
const BLOCKED: &str = "blocked";

#[cfg(test)]
mod tests;
