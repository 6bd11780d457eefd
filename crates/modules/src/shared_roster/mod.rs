//! Shared roster groups: contacts that the operator gives to accounts. Whoever is in a group finds its members in the roster and sees their presence,
//! without asking anybody.
//!
//! # Layout
//!
//! [`groups`]: the groups as they are written, and who sees whom, pure. [`directory`]: which accounts there are, and which are here, for the groups of
//! everybody. `news`: what clients hear when it changes. Here: what the hub asks ([`SharedContacts`]).
//!
//! # Invariants
//!
//! * Nothing here asks the store for an account's sake: membership is in memory, the same for all shards. The accounts of a domain are listed once
//!   in a while, by one shard, and only if a group has them all.
//! * The audience of a presence is kept ready for all members who are in the same groups, and what a change of the groups means is found out once for
//!   all of these.
//!
//! # What is left out
//!
//! Members of other servers. A group of all that are there goes by sessions that take messages. Whoever is in the own roster too has the name that
//! is kept there.

pub mod directory;
pub mod groups;
mod news;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rookery_fanout::{Link, StanzaType};
use rookery_hub::{
    Circle, Delivery, Hooks, Module, OptionSpec, Phase, Roll, Settings, SharedContacts, Stanzas, Value, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::option;
use rookery_store::{RosterItem, Subscription};
use rookery_xml::Kind;
use tracing::error;

use directory::Directories;
use groups::{Groups, Members};
use news::News;

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
    news: News,
    circles: RefCell<Circles>,
}

/// The audiences: by domain, whether of those who see an account, and its groups.
type Circles = HashMap<(String, bool, Vec<usize>), Circle>;

impl SharedRoster {
    /// The module of one shard.
    pub fn new(common: Common) -> Self {
        let (now, news, circles) = Default::default();
        Self { state: Rc::new(State { common, now, news, circles }) }
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

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("RFC 6121", "members of other servers")]
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
        let directories = self.state.common.directories.clone();
        hooks.account_removed(move |_, account| {
            directories.with(account.domain(), |directory| directory.gone(&account.bare().to_jid()));
        });
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
        let now = match compiled.take() {
            Some(compiled) if Arc::ptr_eq(&compiled.settings, settings) => compiled,
            before => Compiled::new(settings.clone(), before),
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
        let mine = groups.key(owner);
        let key = (owner.domain().to_owned(), of_watchers, mine.clone());
        if let Some(circle) = self.circles.borrow().get(&key) {
            return Some(circle.clone()).filter(|circle| !is_empty(circle));
        }
        let members = if of_watchers { groups.watchers(&mine) } else { groups.watched(&mine) };
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
        let mine = groups.key(owner);
        let shown = groups.shown(&mine).filter(|&(_, named, all, online)| has(named, all, online));
        let names: Vec<String> = shown.map(|(name, ..)| name.to_owned()).collect();
        let subscription = groups.relation_of(&mine, contact);
        (!names.is_empty()).then(|| RosterItem { groups: names, subscription, ..RosterItem::new(contact.to_jid()) })
    }

    /// The contacts by group of the accounts of a domain with a [key](Groups::key); they may be among them.
    fn items(&self, groups: &Groups, domain: &str, mine: &[usize]) -> BTreeMap<Jid, RosterItem> {
        let (all, online) = self.common.directories.with(domain, |directory| (directory.all(), directory.online()));
        let mut items = BTreeMap::<Jid, RosterItem>::new();
        for (name, named, has_all, has_online) in groups.shown(mine) {
            let all = has_all.then_some(&*all).into_iter().flatten();
            let online = has_online.then_some(&*online).into_iter().flatten();
            for jid in named.iter().chain(all).chain(online) {
                let item = items.entry(jid.clone()).or_insert_with(|| {
                    let subscription = groups.relation_of(mine, jid.as_ref());
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
        let Some(account) = world.address(link).map(Jid::to_bare) else { return };
        if self.has_everybody(world, account.domain()) {
            self.common.directories.with(account.domain(), |directory| directory.came(&account));
        }
    }

    fn went(&self, world: &World, link: Link) {
        let Some(account) = world.address(link).map(Jid::to_bare) else { return };
        let others = world.links_of(account.as_ref()).into_iter().filter(|&other| other != link);
        let mut others = others.filter_map(|link| world.session_at(link));
        if self.has_everybody(world, account.domain()) && !others.any(|session| session.takes_messages()) {
            self.common.directories.with(account.domain(), |directory| directory.went(&account));
        }
    }

    fn has_everybody(&self, world: &World, domain: &str) -> bool {
        self.groups(world).groups.get(domain).is_some_and(|groups| groups.need_all() || groups.need_online())
    }

    /// Looks for what has changed since the last round, to tell the clients of this shard.
    fn round(self: &Rc<Self>, world: &mut World) {
        let now = self.groups(world);
        let lists = world.shard() == 0;
        for (domain, _) in now.groups.iter().filter(|(_, groups)| lists && groups.need_all()) {
            self.list_accounts(world, domain);
        }
        self.news.look(self, world, &now);
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
            list(self.common.directories.clone(), world, domain.to_owned(), None, BTreeSet::new());
        }
    }
}

impl Compiled {
    /// Groups that are the same as before are the same ones.
    fn new(settings: Arc<Settings>, before: Option<Compiled>) -> Self {
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
        let before = before.map(|before| before.groups).filter(|before| **before == groups);
        Self { settings, groups: before.unwrap_or_else(|| Arc::new(groups)) }
    }
}

/// Lists the accounts of a domain, page by page, each behind the last one of the page before in the order of the store: addresses have another one.
fn list(directories: Directories, world: &mut World, domain: String, last: Option<Jid>, mut found: BTreeSet<Jid>) {
    let page = world.stores.accounts.list(&domain, last.as_ref().map(Jid::as_ref), PAGE);
    world.wait(page, move |world, page| match page {
        Ok(page) => {
            let is_last = page.len() < PAGE;
            let last = page.last().cloned();
            found.extend(page);
            match is_last {
                true => directories.with(&domain, |directory| directory.set_all(found)),
                false => list(directories, world, domain, last, found),
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
        let Some(groups) = compiled.groups.get(owner.domain()) else { return Vec::new() };
        let mut items = self.0.items(groups, owner.domain(), &groups.key(owner));
        items.remove(owner.bare_str());
        items.into_values().collect()
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
