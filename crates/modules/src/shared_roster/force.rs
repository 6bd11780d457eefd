//! The groups in force, and what rosters have of contacts by group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rookery_base::Map;
use rookery_base::lock::lock;
use rookery_hub::{Circle, Settings, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::RosterItem;
use tracing::error;

use super::directory::Directories;
use super::groups::Groups;

/// The groups and directories that all shards share.
#[derive(Debug, Clone, Default)]
pub struct Common {
    pub(super) directories: Directories,
    pub(super) compiled: Arc<Mutex<Option<Compiled>>>,
}

/// The groups of all domains, made of one generation of settings.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    pub(super) settings: Arc<Settings>,
    pub(super) groups: Arc<Map<String, Groups>>,
}

/// Holds what a shard knows of groups.
#[derive(Debug)]
pub(super) struct State {
    pub(super) common: Common,
    /// The groups that the shard has used last.
    pub(super) now: Option<Compiled>,
    /// The audiences by these groups: by domain, whether of those who see an account, and its
    /// groups.
    pub(super) circles: Map<(String, bool, Vec<usize>), Circle>,
}

impl Compiled {
    /// Groups that are the same as before are the same ones.
    fn new(settings: Arc<Settings>, before: Option<Compiled>) -> Self {
        let mut groups = Map::default();
        for domain in &settings.domains {
            let Some(options) = domain.module(NAME) else { continue };
            match Groups::read(&domain.name, options.list(GROUPS)) {
                Ok(read) if read.is_empty() => {}
                Ok(read) => drop(groups.insert(domain.name.clone(), read)),
                // The configuration was checked line by line; what remains are names that don't fit
                // together.
                Err(why) => error!(domain = domain.name, why, "the shared roster groups are not used"),
            }
        }
        let before = before.map(|before| before.groups).filter(|before| **before == groups);
        Self { settings, groups: before.unwrap_or_else(|| Arc::new(groups)) }
    }
}

/// Returns the accounts that there are, and those that are here.
pub(super) fn directories(world: &World) -> &Directories {
    &world.state::<State>().common.directories
}

/// Returns the groups of the settings in force.
pub(super) fn in_force(world: &World) -> Compiled {
    let (state, settings) = (world.state::<State>(), world.settings());
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

/// Returns the groups in force, and keeps them where this shard finds them without a lock.
pub(super) fn take_up(world: &mut World) -> Compiled {
    let now = in_force(world);
    let state = world.state_mut::<State>();
    if !state.now.as_ref().is_some_and(|known| Arc::ptr_eq(&known.settings, &now.settings)) {
        state.circles.clear();
        state.now = Some(now.clone());
    }
    now
}

/// Returns what a roster has of a contact by group.
pub(super) fn item(
    directories: &Directories,
    groups: &Groups,
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
    let shown = groups.shown(&mine).filter(|&(_, named, all, online)| has(named, all, online));
    let names: Vec<String> = shown.map(|(name, ..)| name.to_owned()).collect();
    let subscription = groups.relation_of(&mine, contact);
    (!names.is_empty()).then(|| RosterItem { groups: names, subscription, ..RosterItem::new(contact.to_jid()) })
}

/// Returns the contacts by group of the accounts of a domain with a [key](Groups::key); they may be
/// among them.
pub(super) fn items(
    directories: &Directories,
    groups: &Groups,
    domain: &str,
    mine: &[usize],
) -> BTreeMap<Jid, RosterItem> {
    let (all, online) = directories.with(domain, |directory| (directory.all(), directory.online()));
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

/// The key below `[modules]`.
pub(super) const NAME: &str = "shared_roster";

/// The option with the groups.
pub(super) const GROUPS: &str = "groups";
