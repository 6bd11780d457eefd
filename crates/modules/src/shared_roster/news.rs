//! News for clients when groups, or the accounts that exist, change: roster pushes, and the
//! presence of accounts that have become visible or invisible.
//!
//! A change of many accounts concerns many accounts: with `@all@` each of N clients has to be told
//! about each of N others. So a shard does it in small steps, account by account, and looks for the
//! next change only after all clients have been notified of the last one.
//!
//! # Invariants
//!
//! * Differences are computed once for all accounts that are in the same groups.
//! * A notification has the state at the time of sending, so the order of changes doesn't matter.
//! * Pending notifications take two words per account, whatever the number of contacts.

use rookery_base::Map;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::{RosterItem, Subscription};

use super::directory::Directories;
use super::force::{Compiled, directories, in_force, item, items};
use super::groups::RosterGroups;

/// The progress of notifying a shard's clients.
#[derive(Debug, Default)]
pub(super) struct RosterNews {
    told: Option<Compiled>,
    /// The last change seen of each domain's directory.
    seen: Map<String, u64>,
    /// Accounts whose clients are still to be notified.
    due: VecDeque<(Jid, Rc<ClassDifference>)>,
}

/// The difference for accounts that are in the same groups.
#[derive(Debug, Default, PartialEq, Eq)]
struct ClassDifference {
    /// Contacts whose roster entry has changed.
    contacts: Vec<Jid>,
    /// Accounts that see these now (`true`), or don't any more.
    watchers: Vec<(Jid, bool)>,
}

/// Accounts that are in the same groups: their domain, and the keys before and after.
type AccountClass = (String, Vec<usize>, Vec<usize>);

/// Looks for changes, unless clients are still being notified of the last ones.
pub(super) fn look(world: &mut World, now: &Compiled) {
    let news = world.state_mut::<RosterNews>();
    if !news.due.is_empty() {
        return;
    }
    // Accounts that were online before the first look may have missed the groups from sources.
    let told = news.told.replace(now.clone()).or_else(|| now.without_others());
    if let Some(told) = told.filter(|told| !Arc::ptr_eq(&told.groups, &now.groups)) {
        regroup(world, &told, now);
    }
    for (domain, groups) in now.groups.iter().filter(|(_, groups)| groups.need_all() || groups.need_online()) {
        changes(world, domain, groups);
    }
    step(world);
}

/// Brings rosters and presence into line with new groups.
fn regroup(world: &mut World, before: &Compiled, now: &Compiled) {
    let none = RosterGroups::default();
    let mut differences = Map::<AccountClass, Rc<ClassDifference>>::default();
    let mut due = Vec::new();
    for account in world.accounts_here() {
        let of = |all: &Compiled| all.groups.get(account.domain()).map(|groups| groups.key(account.as_ref()));
        let class = (account.domain().to_owned(), of(before).unwrap_or_default(), of(now).unwrap_or_default());
        let difference = differences.entry(class).or_insert_with_key(|(domain, old, new)| {
            let before = before.groups.get(domain).unwrap_or(&none);
            let now = now.groups.get(domain).unwrap_or(&none);
            Rc::new(difference(directories(world), domain, (before, old), (now, new)))
        });
        if **difference != ClassDifference::default() {
            due.push((account, difference.clone()));
        }
    }
    world.state_mut::<RosterNews>().due.extend(due);
}

/// Notifies clients of accounts that are new or removed, or that came online or went offline.
fn changes(world: &mut World, domain: &str, groups: &RosterGroups) {
    let from = world.state::<RosterNews>().seen.get(domain).copied().unwrap_or_default();
    let (changes, behind) = directories(world).with(domain, |directory| directory.since(from));
    world.state_mut::<RosterNews>().seen.insert(domain.to_owned(), behind);
    let those = |online: bool, wanted: bool| {
        let these = changes.iter().filter(move |change| wanted && change.online == online);
        these.map(|change| &change.account)
    };
    let lists = [false, true].map(|all| {
        [false, true].map(|online| {
            let (all, online) = (all && groups.need_all(), online && groups.need_online());
            let contacts: BTreeSet<&Jid> = those(false, all).chain(those(true, online)).collect();
            let contacts = contacts.into_iter().cloned().collect();
            Rc::new(ClassDifference { contacts, watchers: Vec::new() })
        })
    });
    if lists.iter().flatten().all(|list| list.contacts.is_empty()) {
        return;
    }
    for account in world.accounts_here().into_iter().filter(|account| account.domain() == domain) {
        let mine = groups.key(account.as_ref());
        let (mut all, mut online) = (false, false);
        for (_, _, has_all, has_online) in groups.shown_groups(&mine) {
            (all, online) = (all || has_all, online || has_online);
        }
        let [of_none, of_all] = &lists;
        let [without, with] = if all { of_all } else { of_none };
        let list = if online { with } else { without };
        if !list.contacts.is_empty() {
            world.state_mut::<RosterNews>().due.push_back((account, list.clone()));
        }
    }
}

/// Notifies the clients of some accounts, and continues a little later.
fn step(world: &mut World) {
    let mut told = 0;
    while told < STEP {
        let Some((account, difference)) = world.state_mut::<RosterNews>().due.pop_front() else { return };
        told += 1 + difference.contacts.len() + difference.watchers.len();
        tell(world, &account, &difference);
    }
    world.after(PAUSE_MS, step);
}

/// Returns the difference for accounts that had one key in the old groups, and have another in the
/// new.
fn difference(
    directories: &Directories,
    domain: &str,
    before: (&RosterGroups, &[usize]),
    now: (&RosterGroups, &[usize]),
) -> ClassDifference {
    let (old, new) = (items(directories, before.0, domain, before.1), items(directories, now.0, domain, now.1));
    let contacts: BTreeSet<&Jid> = old.keys().chain(new.keys()).collect();
    let contacts = contacts.into_iter().filter(|contact| old.get(*contact) != new.get(*contact)).cloned();
    let is_seen = |(groups, mine): (&RosterGroups, &[usize]), by: &Jid| groups.relation_of(mine, by.as_ref()).from();
    let online = directories.with(domain, |directory| directory.online());
    let (old, new) = (before.0.watchers(before.1), now.0.watchers(now.1));
    let everybody = (old.everybody || new.everybody).then_some(&*online).into_iter().flatten();
    let all: BTreeSet<&Jid> = old.named.into_iter().chain(new.named).chain(everybody).collect();
    let watchers = all.into_iter().filter(|by| is_seen(before, by) != is_seen(now, by));
    let watchers = watchers.map(|by| (by.clone(), is_seen(now, by)));
    ClassDifference { contacts: contacts.collect(), watchers: watchers.collect() }
}

/// Notifies the clients of an account of its contacts, and shows it to others or hides it from
/// them.
fn tell(world: &mut World, account: &Jid, difference: &ClassDifference) {
    let compiled = in_force(world);
    let groups = compiled.groups.get(account.domain());
    let mut items = Vec::new();
    for contact in difference.contacts.iter().filter(|contact| *contact != account) {
        let own = world.own_subscription(account.as_ref(), contact.as_ref());
        if own.is_some_and(|own| own != Subscription::None) {
            tell_of_own(world, account, contact);
            continue;
        }
        let item = groups.and_then(|groups| item(directories(world), groups, account.as_ref(), contact.as_ref()));
        items.push((contact.clone(), item));
    }
    world.push_shared(account.as_ref(), items);
    for (by, is_shown) in difference.watchers.iter().filter(|(by, _)| by != account) {
        if world.own_subscription(account.as_ref(), by.as_ref()).is_some_and(Subscription::from) {
            continue;
        }
        if *is_shown {
            let links = world.links_of(account.as_ref()).into_iter();
            links.for_each(|link| world.show_session_to(link, by.as_ref()));
        } else {
            let links = world.links_shown(account.as_ref()).into_iter();
            links.for_each(|link| world.hide_session_from(link, by.as_ref()));
        }
    }
}

/// Notifies an account of a contact that is in the user's own roster too: its stored entry has to
/// be looked up.
fn tell_of_own(world: &mut World, account: &Jid, contact: &Jid) {
    let stored = world.stores.rosters.item(account.as_ref(), contact.as_ref());
    let (account, contact) = (account.clone(), contact.clone());
    world.wait(stored, move |world, stored| match stored {
        Ok(stored) => {
            let item = world.join_parts(account.as_ref(), &contact, stored.filter(RosterItem::visible));
            world.push_shared(account.as_ref(), vec![(contact, item)]);
        }
        Err(error) => world.store_failed("telling of a contact by group", &account, &error),
    });
}

/// The number of contacts that a shard notifies its clients of at a time.
const STEP: usize = 2000;
/// The milliseconds between two such steps.
const PAUSE_MS: u64 = 10;
