//! The groups in force, and the roster entries of contacts by group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rookery_base::Map;
use rookery_base::lock::lock;
use rookery_hub::{Circle, Domain, Group, LoginBy, Settings, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::RosterItem;
use tracing::error;

use super::directory::Directories;
use super::groups::RosterGroups;

/// The groups and directories that all shards share.
#[derive(Debug, Clone, Default)]
pub struct CommonGroups {
    pub(super) directories: Directories,
    pub(super) compiled: Arc<Mutex<Option<Compiled>>>,
}

/// The groups of all domains, made from one generation of settings.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    pub(super) settings: Arc<Settings>,
    pub(super) groups: Arc<Map<String, RosterGroups>>,
    /// The groups of each domain that come from a source of logins.
    outside: Vec<OutsideGroups>,
}

/// The groups of one source of logins.
type OutsideGroups = Option<Arc<Vec<Group>>>;

/// A shard's state of groups.
#[derive(Debug)]
pub(super) struct GroupState {
    pub(super) common: CommonGroups,
    /// The groups that the shard used last.
    pub(super) now: Option<Compiled>,
    /// The audiences by these groups: by domain, by direction (`true` for those who see an
    /// account), and by the account's groups.
    pub(super) circles: Map<(String, bool, Vec<usize>), Circle>,
}

impl Compiled {
    /// Returns the groups; those that haven't changed are shared with `before`.
    fn new(settings: Arc<Settings>, before: Option<Compiled>) -> Self {
        let outside = settings.domains.iter().map(outside).collect();
        Self::with(settings, outside, before)
    }

    /// Returns the groups without those from sources; `None` if sources have none.
    pub(super) fn without_others(&self) -> Option<Self> {
        let is_known = self.outside.iter().any(Option::is_some);
        is_known.then(|| Self::with(self.settings.clone(), vec![None; self.outside.len()], None))
    }

    fn with(settings: Arc<Settings>, outside: Vec<OutsideGroups>, before: Option<Compiled>) -> Self {
        let mut groups = Map::default();
        for (domain, outside) in settings.domains.iter().zip(&outside) {
            let Some(options) = domain.module(NAME) else { continue };
            let mut all = RosterGroups::read(&domain.name, options.list(GROUPS)).unwrap_or_else(|why| {
                // The configuration was checked line by line; only contradictions between lines
                // remain.
                error!(domain = domain.name, why, "the shared roster groups are not used");
                RosterGroups::default()
            });
            outside.iter().for_each(|outside| all.add(outside));
            if !all.is_empty() {
                groups.insert(domain.name.clone(), all);
            }
        }
        let before = before.map(|before| before.groups).filter(|before| **before == groups);
        Self { settings, groups: before.unwrap_or_else(|| Arc::new(groups)), outside }
    }

    /// Returns whether the sources' groups are the same as when this was made.
    fn is_current(&self) -> bool {
        let same = |(domain, then): (&Domain, &OutsideGroups)| match (outside(domain), then) {
            (Some(now), Some(then)) => Arc::ptr_eq(&now, then),
            (now, then) => now.is_none() && then.is_none(),
        };
        self.settings.domains.iter().zip(&self.outside).all(same)
    }
}

fn outside(domain: &Domain) -> OutsideGroups {
    match &domain.login {
        LoginBy::Source(source) => source.groups(),
        LoginBy::Own | LoginBy::Anonymous => None,
    }
}

/// Returns the directories of existing and online accounts.
pub(super) fn directories(world: &World) -> &Directories {
    &world.state::<GroupState>().common.directories
}

/// Returns the groups of the settings in force.
pub(super) fn in_force(world: &World) -> Compiled {
    let (state, settings) = (world.state::<GroupState>(), world.settings());
    if let Some(now) = state.now.as_ref().filter(|now| Arc::ptr_eq(&now.settings, settings)) {
        return now.clone();
    }
    let mut compiled = lock(&state.common.compiled);
    let now = match compiled.take() {
        Some(compiled) if Arc::ptr_eq(&compiled.settings, settings) => compiled,
        before => Compiled::new(settings.clone(), before),
    };
    *compiled = Some(now.clone());
    now
}

/// Returns the groups in force, and caches them on this shard, so that no lock is needed.
pub(super) fn take_up(world: &mut World) -> Compiled {
    let now = in_force(world);
    let state = world.state_mut::<GroupState>();
    if !state.now.as_ref().is_some_and(|known| Arc::ptr_eq(&known.settings, &now.settings)) {
        state.circles.clear();
        state.now = Some(now.clone());
    }
    now
}

/// Does the same as [`take_up`], after checking whether the sources' groups have changed.
pub(super) fn renew(world: &mut World) -> Compiled {
    let now = take_up(world);
    if now.is_current() {
        return now;
    }
    let state = world.state_mut::<GroupState>();
    let mut compiled = lock(&state.common.compiled);
    let renewed = match compiled.take() {
        Some(compiled) if Arc::ptr_eq(&compiled.settings, &now.settings) && compiled.is_current() => compiled,
        before => Compiled::new(now.settings, before),
    };
    *compiled = Some(renewed.clone());
    drop(compiled);
    state.circles.clear();
    state.now = Some(renewed.clone());
    renewed
}

/// Returns the roster entry of a contact by group.
pub(super) fn item(
    directories: &Directories,
    groups: &RosterGroups,
    owner: JidRef<'_>,
    contact: JidRef<'_>,
) -> Option<RosterItem> {
    let (is_account, is_online) = directories.with(owner.domain(), |directory| {
        (directory.all().contains(contact.as_str()), directory.online().contains(contact.as_str()))
    });
    let has = |named: &BTreeSet<Jid>, all: bool, online: bool| {
        named.contains(contact.as_str()) || all && is_account || online && is_online
    };
    let mine = groups.key(owner);
    let shown = groups.shown_groups(&mine).filter(|&(_, named, all, online)| has(named, all, online));
    let names: Vec<String> = shown.map(|(name, ..)| name.to_owned()).collect();
    let subscription = groups.relation_of(&mine, contact);
    (!names.is_empty()).then(|| RosterItem { groups: names, subscription, ..RosterItem::new(contact.to_jid()) })
}

/// Returns the contacts by group for accounts of a domain with a [key](RosterGroups::key), which
/// may include those accounts themselves.
pub(super) fn items(
    directories: &Directories,
    groups: &RosterGroups,
    domain: &str,
    mine: &[usize],
) -> BTreeMap<Jid, RosterItem> {
    let (all, online) = directories.with(domain, |directory| (directory.all(), directory.online()));
    let mut items = BTreeMap::<Jid, RosterItem>::new();
    for (name, named, has_all, has_online) in groups.shown_groups(mine) {
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

/// The key below `[modules]`.
pub(super) const NAME: &str = "shared_roster";

/// The option with the groups.
pub(super) const GROUPS: &str = "groups";
