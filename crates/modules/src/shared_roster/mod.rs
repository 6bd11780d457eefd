//! Shared roster groups: contacts that the operator gives to accounts. Whoever is in a group finds its members in the roster and sees their presence,
//! without asking anybody.
//!
//! # Layout
//!
//! [`groups`]: the groups as they are written, and who sees whom, pure. [`directory`]: which accounts there are, and which are here, for the groups of
//! everybody. Here: what the hub asks ([`SharedContacts`]), and what clients hear when it changes.
//!
//! # Invariants
//!
//! * Nothing here asks the store for an account's sake: membership is in memory, the same for all shards. The accounts of a domain are listed once
//!   in a while, by one shard, and only if a group has them all.
//! * The audience of a presence is kept ready for all members who are in the same groups.
//!
//! # What is left out
//!
//! Members of other servers. A group of all that are there goes by sessions that take messages. Whoever is in the own roster too has the name that
//! is kept there.

pub mod directory;
pub mod groups;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rookery_fanout::{Link, StanzaType};
use rookery_hub::{
    Circle, Delivery, Hooks, Module, OptionSpec, Phase, Roll, Settings, SharedContacts, Stanzas, Value, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_store::{RosterItem, Subscription};
use rookery_xml::Kind;
use tracing::error;

use crate::option;
use directory::Directories;
use groups::{Groups, Members};

/// What all shards have in common.
#[derive(Debug, Clone, Default)]
pub struct Common {
    directories: Directories,
    compiled: Arc<Mutex<Option<Compiled>>>,
}

/// The groups of all domains, made of one generation of settings.
#[derive(Debug, Clone)]
struct Compiled {
    settings: Arc<Settings>,
    groups: Arc<HashMap<String, Groups>>,
}

/// Gives accounts the contacts that the operator wants.
#[derive(Debug)]
pub struct SharedRoster {
    state: Rc<State>,
}

#[derive(Debug)]
struct State {
    common: Common,
    now: RefCell<Option<Compiled>>,
    /// What the clients of this shard have been told.
    told: RefCell<Option<Compiled>>,
    /// How far they have been told of the directories.
    seen: RefCell<HashMap<String, u64>>,
    circles: RefCell<Circles>,
}

/// The audiences: by domain, whether of those who see an account, and its groups.
type Circles = HashMap<(String, bool, Vec<usize>), Circle>;

impl SharedRoster {
    /// The module of one shard.
    pub fn new(common: Common) -> Self {
        let (now, told, seen, circles) = Default::default();
        Self { state: Rc::new(State { common, now, told, seen, circles }) }
    }
}

impl Module for SharedRoster {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "the operator gives users contacts, by groups"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("RFC 6121", "rosters by groups of the operator")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.shared_contacts(Contacts(self.state.clone()));
        let state = self.state.clone();
        hooks.reachable(move |world, link| state.came(world, link));
        let state = self.state.clone();
        hooks.session_ended(move |world, link| state.went(world, link));
        let state = self.state.clone();
        hooks.every(ROUND_MS, move |world| state.round(world));
        let state = self.state.clone();
        let subscribe = Stanzas::of(Kind::Presence, &[StanzaType::Subscribe]);
        // Who is a contact by group needn't be asked.
        hooks.before_route(Phase::Act, subscribe, move |world, packet, to| {
            let relation = packet.sender().map(|sender| state.relation(world, sender.bare(), to.bare()));
            if relation.is_some_and(Subscription::to) { Delivery::Taken } else { Delivery::Pass }
        });
    }
}

impl State {
    /// The groups of the settings in force.
    fn groups(&self, world: &World) -> Compiled {
        let settings = world.settings();
        if let Some(now) = self.now.borrow().as_ref().filter(|now| Arc::ptr_eq(&now.settings, settings)) {
            return now.clone();
        }
        let mut compiled = self.common.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let now = match compiled.take().filter(|compiled| Arc::ptr_eq(&compiled.settings, settings)) {
            Some(compiled) => compiled,
            None => Compiled::new(settings.clone()),
        };
        *compiled = Some(now.clone());
        self.circles.take();
        self.now.replace(Some(now.clone()));
        now
    }

    fn relation(&self, world: &World, owner: JidRef<'_>, contact: JidRef<'_>) -> Subscription {
        let groups = self.groups(world);
        groups.groups.get(owner.domain()).map_or(Subscription::None, |groups| groups.relation(owner, contact))
    }

    /// The audience of an account, or those whom it sees.
    fn circle(&self, world: &World, owner: JidRef<'_>, of_watchers: bool) -> Option<Circle> {
        let compiled = self.groups(world);
        let groups = compiled.groups.get(owner.domain())?;
        let key = (owner.domain().to_owned(), of_watchers, groups.key(owner));
        if let Some(circle) = self.circles.borrow().get(&key) {
            return Some(circle.clone()).filter(|circle| !is_empty(circle));
        }
        let members = if of_watchers { groups.watchers(owner) } else { groups.watched(owner) };
        let circle = circle(world, owner.domain(), &members);
        self.circles.borrow_mut().insert(key, circle.clone());
        Some(circle).filter(|circle| !is_empty(circle))
    }

    /// What a roster has of a contact by group.
    fn item(&self, groups: &Groups, owner: JidRef<'_>, contact: JidRef<'_>) -> Option<RosterItem> {
        let (is_account, is_online) = self.common.directories.with(owner.domain(), |directory| {
            (directory.all().contains(contact.as_str()), directory.online().contains(contact.as_str()))
        });
        let has = |named: &BTreeSet<Jid>, all: bool, online: bool| {
            named.contains(contact.as_str()) || all && is_account || online && is_online
        };
        let shown = groups.shown(owner).filter(|&(_, named, all, online)| has(named, all, online));
        let names: Vec<String> = shown.map(|(name, ..)| name.to_owned()).collect();
        let subscription = groups.relation(owner, contact);
        (!names.is_empty()).then(|| RosterItem { groups: names, subscription, ..RosterItem::new(contact.to_jid()) })
    }

    fn items(&self, groups: &Groups, owner: JidRef<'_>) -> BTreeMap<Jid, RosterItem> {
        let (all, online) =
            self.common.directories.with(owner.domain(), |directory| (directory.all(), directory.online()));
        let mut items = BTreeMap::<Jid, RosterItem>::new();
        for (name, named, has_all, has_online) in groups.shown(owner) {
            let all = has_all.then_some(&*all).into_iter().flatten();
            let online = has_online.then_some(&*online).into_iter().flatten();
            for jid in named.iter().chain(all).chain(online).filter(|jid| **jid != owner) {
                let item = items.entry(jid.clone()).or_insert_with(|| {
                    let subscription = groups.relation(owner, jid.as_ref());
                    RosterItem { subscription, ..RosterItem::new(jid.clone()) }
                });
                if item.groups.last().is_none_or(|last| last != name) {
                    item.groups.push(name.to_owned());
                }
            }
        }
        items
    }

    fn came(&self, world: &World, link: Link) {
        let Some(account) = world.outboxes.address(link).map(Jid::to_bare) else { return };
        if self.has_everybody(world, account.domain()) {
            self.common.directories.with(account.domain(), |directory| directory.came(&account));
        }
    }

    fn went(&self, world: &World, link: Link) {
        let Some(account) = world.outboxes.address(link).map(Jid::to_bare) else { return };
        let others = world.links_of(account.as_ref()).into_iter().filter(|&other| other != link);
        let mut others = others.filter_map(|link| world.session_at(link));
        if self.has_everybody(world, account.domain()) && !others.any(|session| session.takes_messages()) {
            self.common.directories.with(account.domain(), |directory| directory.went(&account));
        }
    }

    fn has_everybody(&self, world: &World, domain: &str) -> bool {
        self.groups(world).groups.get(domain).is_some_and(|groups| groups.need_all() || groups.need_online())
    }

    /// Tells the clients of this shard what has changed since the last round.
    fn round(&self, world: &mut World) {
        let now = self.groups(world);
        let told = self.told.replace(Some(now.clone()));
        if let Some(told) = told.filter(|told| !Arc::ptr_eq(&told.groups, &now.groups)) {
            self.regroup(world, &told, &now);
        }
        for (domain, groups) in now.groups.iter() {
            if groups.need_all() && world.shard() == 0 {
                self.list_accounts(world, domain);
            }
            if groups.need_all() || groups.need_online() {
                self.tell_changes(world, domain, groups);
            }
        }
    }

    /// The groups are others now: rosters and presence follow.
    fn regroup(&self, world: &mut World, before: &Compiled, now: &Compiled) {
        let none = Groups::default();
        for account in world.accounts_here() {
            let (before, now) = (before.groups.get(account.domain()), now.groups.get(account.domain()));
            let (before, now) = (before.unwrap_or(&none), now.unwrap_or(&none));
            let (old, new) = (self.items(before, account.as_ref()), self.items(now, account.as_ref()));
            let contacts: BTreeSet<&Jid> = old.keys().chain(new.keys()).collect();
            let changed = contacts.into_iter().filter(|contact| old.get(*contact) != new.get(*contact));
            for contact in changed.cloned().collect::<Vec<_>>() {
                self.tell(world, &account, &contact, new.get(&contact).cloned());
            }
            self.show_and_hide(world, &account, before, now);
        }
    }

    /// Who sees an account now that did not, or no longer does.
    fn show_and_hide(&self, world: &mut World, account: &Jid, before: &Groups, now: &Groups) {
        let is_seen = |groups: &Groups, by: &Jid| groups.relation(account.as_ref(), by.as_ref()).from();
        let online = self.common.directories.with(account.domain(), |directory| directory.online());
        let (old, new) = (before.watchers(account.as_ref()), now.watchers(account.as_ref()));
        let everybody = (old.everybody || new.everybody).then_some(&*online).into_iter().flatten();
        let all: BTreeSet<&Jid> = old.named.into_iter().chain(new.named).chain(everybody).collect();
        let own = |world: &World, by: &Jid| {
            world.own_subscription(account.as_ref(), by.as_ref()).is_some_and(Subscription::from)
        };
        for by in all.into_iter().filter(|by| *by != account) {
            let (was, is) = (is_seen(before, by), is_seen(now, by));
            if was == is || own(world, by) {
                continue;
            }
            for link in world.links_of(account.as_ref()) {
                if is { world.show_session_to(link, by.as_ref()) } else { world.hide_session_from(link, by.as_ref()) }
            }
        }
    }

    /// Asks for the accounts of a domain, once in a while.
    fn list_accounts(&self, world: &mut World, domain: &str) {
        let now = world.time();
        let is_due = self.common.directories.with(domain, |directory| {
            let is_due = directory.asked_ms.is_none_or(|asked| now.saturating_sub(asked) >= LISTING_MS);
            if is_due {
                directory.asked_ms = Some(now);
            }
            is_due
        });
        if is_due {
            list(self.common.directories.clone(), world, domain.to_owned(), BTreeSet::new());
        }
    }

    /// Accounts that are new or gone, or have come or gone.
    fn tell_changes(&self, world: &mut World, domain: &str, groups: &Groups) {
        let from = self.seen.borrow().get(domain).copied().unwrap_or_default();
        let (changes, behind) = self.common.directories.with(domain, |directory| directory.since(from));
        self.seen.borrow_mut().insert(domain.to_owned(), behind);
        if changes.is_empty() {
            return;
        }
        for account in world.accounts_here().into_iter().filter(|account| account.domain() == domain) {
            let of = |online: bool| {
                groups.shown(account.as_ref()).any(|(_, _, all, those_online)| if online { those_online } else { all })
            };
            let (all, online) = (of(false), of(true));
            let concerns = |change: &&directory::Change| if change.online { online } else { all };
            for change in changes.iter().filter(concerns).filter(|change| change.account != account) {
                let item = self.item(groups, account.as_ref(), change.account.as_ref());
                self.tell(world, &account, &change.account, item);
            }
        }
    }

    /// Tells the clients of an account of a contact. If it is in the own roster too, what is kept there has to be looked up.
    fn tell(&self, world: &mut World, account: &Jid, contact: &Jid, item: Option<RosterItem>) {
        let own = world.own_subscription(account.as_ref(), contact.as_ref());
        if own.is_none_or(|own| own == Subscription::None) {
            return world.push_shared(account.as_ref(), contact, item);
        }
        let keep: rookery_store::EditRoster = Box::new(|_, _| rookery_store::Edit::Keep);
        let stored = world.stores.rosters.change(account.as_ref(), contact.as_ref(), keep);
        let (account, contact) = (account.clone(), contact.clone());
        world.wait(stored, move |world, stored| match stored {
            Ok(stored) => {
                let item = world.joined(account.as_ref(), &contact, stored.before.filter(RosterItem::visible));
                world.push_shared(account.as_ref(), &contact, item);
            }
            Err(error) => world.store_failed("telling of a contact by group", &account, &error),
        });
    }
}

impl Compiled {
    fn new(settings: Arc<Settings>) -> Self {
        let mut groups = HashMap::new();
        for domain in &settings.domains {
            let Some(options) = domain.module(NAME) else { continue };
            match Groups::read(&domain.name, options.list(GROUPS)) {
                Ok(read) if read.is_empty() => {}
                Ok(read) => drop(groups.insert(domain.name.clone(), read)),
                // The configuration was checked line by line; what remains are names that don't fit together.
                Err(why) => error!(domain = domain.name, why, "the shared roster groups are not used"),
            }
        }
        Self { settings, groups: Arc::new(groups) }
    }
}

/// Lists the accounts of a domain, page by page.
fn list(directories: Directories, world: &mut World, domain: String, mut found: BTreeSet<Jid>) {
    let page = world.stores.accounts.list(&domain, found.last().map(Jid::as_ref), PAGE);
    world.wait(page, move |world, page| match page {
        Ok(page) => {
            let is_last = page.len() < PAGE;
            found.extend(page);
            match is_last {
                true => directories.with(&domain, |directory| directory.set_all(found)),
                false => list(directories, world, domain, found),
            }
        }
        Err(error) => error!(domain, %error, "the accounts for shared roster groups could not be listed"),
    });
}

fn circle(world: &World, domain: &str, members: &Members<'_>) -> Circle {
    let mut roll = Roll::default();
    for jid in members.named.iter().filter(|jid| !members.everybody || jid.domain() != domain) {
        world.enroll(&mut roll, jid.as_ref());
    }
    Circle { members: Rc::new(roll), everybody_of: members.everybody.then(|| domain.to_owned()) }
}

fn is_empty(circle: &Circle) -> bool {
    circle.members.is_empty() && circle.everybody_of.is_none()
}

/// What the hub asks.
struct Contacts(Rc<State>);

impl SharedContacts for Contacts {
    fn relation(&self, world: &World, owner: JidRef<'_>, contact: JidRef<'_>) -> Subscription {
        self.0.relation(world, owner, contact)
    }

    fn watchers(&self, world: &World, owner: JidRef<'_>) -> Option<Circle> {
        self.0.circle(world, owner, true)
    }

    fn watched(&self, world: &World, owner: JidRef<'_>) -> Option<Circle> {
        self.0.circle(world, owner, false)
    }

    fn items(&self, world: &World, owner: JidRef<'_>) -> Vec<RosterItem> {
        let compiled = self.0.groups(world);
        let groups = compiled.groups.get(owner.domain());
        groups.map(|groups| self.0.items(groups, owner).into_values().collect()).unwrap_or_default()
    }

    fn item(&self, world: &World, owner: JidRef<'_>, contact: JidRef<'_>) -> Option<RosterItem> {
        let compiled = self.0.groups(world);
        self.0.item(compiled.groups.get(owner.domain())?, owner, contact)
    }

    fn present(&self, domain: &str) -> Vec<Jid> {
        self.0.common.directories.with(domain, |directory| directory.online()).iter().cloned().collect()
    }
}

const NAME: &str = "shared_roster";

const OPTIONS: [OptionSpec; 1] = [OptionSpec {
    key: GROUPS,
    default: || Value::List(Vec::new()),
    doc: "groups, as \"Sales: alice@example.org, bob@example.org -> Sales, Support\": members, and whose members have them as contacts; \
          @all@ is every account, @online@ every one that is there",
    check: |value| option::each(value, groups::check),
}];

const GROUPS: &str = "groups";
/// How often clients are told of changes.
const ROUND_MS: u64 = 2000;
/// How often the accounts of a domain are listed.
const LISTING_MS: u64 = 600_000;
/// Accounts that are listed at a time.
const PAGE: usize = 1000;
