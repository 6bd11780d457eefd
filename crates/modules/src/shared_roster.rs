//! Shared roster groups: contacts that the operator assigns to accounts. A member of a group finds
//! the others in the roster and sees their presence, without a subscription request.
//!
//! # Layout
//!
//! [`groups`]: the configured groups, and who sees whom, as pure functions. [`directory`]: the
//! existing accounts, and those online, for groups of all accounts. `force`: the groups in force.
//! `news`: notifications of clients about changes. This file: the answers to the hub
//! ([`SharedContacts`]).
//!
//! # Invariants
//!
//! * Nothing here asks the store about a single account: membership is in memory, the same for all
//!   shards. The accounts of a domain are listed periodically, by one shard, and only if a group
//!   contains them all.
//! * The audience of a presence is kept ready for all members of the same groups, and the effect
//!   of a change of the groups is computed once for all of these.
//! * Groups from a source of logins are read in each round, so shards differ for at most one round.
//!
//! # Left out
//!
//! Members of other servers. A group of all online accounts counts sessions that accept messages. A
//! name in the user's own roster wins.

pub mod directory;
mod force;
pub mod groups;
mod news;

use rookery_base::Map;
use std::collections::BTreeSet;
use std::rc::Rc;

use rookery_fanout::{Link, StanzaType, Station};
use rookery_hub::{
    Bound, Carry, Circle, Delivery, Hooks, Memo, Module, OptionSpec, Passage, Phase, Roll, SharedContacts, Stanzas,
    Value, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::option;
use rookery_store::{RosterItem, Subscription};
use rookery_xml::Kind;
use tracing::error;

use directory::{OnlineNews, OtherProcess};
pub use force::CommonGroups;
use force::{GROUPS, GroupState, NAME, directories, in_force, item, items, renew, take_up};
use groups::GroupMembers;
use news::RosterNews;

/// The module that gives accounts the contacts that the operator assigns.
#[derive(Debug)]
pub struct SharedRoster {
    common: CommonGroups,
}

impl SharedRoster {
    /// Makes the module of one shard.
    pub fn new(common: CommonGroups) -> Self {
        Self { common }
    }
}

impl Module for SharedRoster {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users have contacts that the operator assigns to them, by groups"
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

    fn bounds(&self) -> &'static [Bound] {
        directory::BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(GroupState { common: self.common.clone(), now: None, circles: Map::default() });
        hooks.state(RosterNews::default());
        hooks.shared_contacts(SharedContacts {
            relation,
            watchers: |world, owner| circle(world, owner, true),
            watched: |world, owner| circle(world, owner, false),
            has_watched,
            each_watcher,
            items: items_of,
            item: item_of,
        });
        hooks.reachable(|world, link| came(world, link));
        hooks.session_ended(|world, link| went(world, link));
        hooks.session_carried(|_, _| Carry::Nothing, back);
        hooks.account_removed(|world, account| {
            directories(world).with(account.domain(), |directory| directory.remove_account(&account.bare().to_jid()));
        });
        hooks.memo::<OnlineNews>();
        hooks.every(ROUND_MS, round);
        let subscribe = Stanzas::of(Kind::Presence, &[StanzaType::Subscribe]);
        // A contact by group needn't be asked for a subscription.
        hooks.before_route(Phase::Act, subscribe, |world, Passage { packet, to, .. }| {
            let relation = packet.sender().map(|sender| relation(world, sender.bare(), to.bare()));
            if relation.is_some_and(Subscription::to) { Delivery::Taken } else { Delivery::Pass }
        });
    }
}

fn relation(world: &World, owner: JidRef<'_>, contact: JidRef<'_>) -> Subscription {
    let groups = in_force(world);
    groups.groups.get(owner.domain()).map_or(Subscription::None, |groups| groups.relation(owner, contact))
}

/// Returns the accounts that see an account, or those that it sees.
fn circle(world: &mut World, owner: JidRef<'_>, of_watchers: bool) -> Option<Circle> {
    let compiled = take_up(world);
    let groups = compiled.groups.get(owner.domain())?;
    let mine = groups.key(owner);
    let key = (owner.domain().to_owned(), of_watchers, mine.clone());
    if let Some(circle) = world.state::<GroupState>().circles.get(&key) {
        return Some(circle.clone()).filter(|circle| !is_empty(circle));
    }
    let members = if of_watchers { groups.watchers(&mine) } else { groups.watched_by(&mine) };
    let mut roll = Roll::default();
    for jid in named_members(&members, owner.domain()) {
        world.enroll(&mut roll, jid.as_ref());
    }
    let everybody_of = members.everybody.then(|| owner.domain().to_owned());
    let circle = Circle { members: Rc::new(roll), everybody_of };
    world.state_mut::<GroupState>().circles.insert(key, circle.clone());
    Some(circle).filter(|circle| !is_empty(circle))
}

fn has_watched(world: &World, owner: JidRef<'_>) -> bool {
    let compiled = in_force(world);
    let mut shown = compiled.groups.get(owner.domain()).into_iter();
    shown.any(|groups| {
        groups.shown_groups(&groups.key(owner)).any(|(_, named, all, online)| all || online || !named.is_empty())
    })
}

fn each_watcher(world: &World, owner: JidRef<'_>) -> Vec<Jid> {
    let compiled = in_force(world);
    let Some(groups) = compiled.groups.get(owner.domain()) else { return Vec::new() };
    let members = groups.watchers(&groups.key(owner));
    let online = directories(world).with(owner.domain(), |directory| directory.online());
    let present = members.everybody.then_some(&*online).into_iter().flatten();
    named_members(&members, owner.domain()).chain(present).cloned().collect()
}

fn items_of(world: &World, owner: JidRef<'_>) -> Vec<RosterItem> {
    let compiled = in_force(world);
    let Some(groups) = compiled.groups.get(owner.domain()) else { return Vec::new() };
    let mut items = items(directories(world), groups, owner.domain(), &groups.key(owner));
    items.remove(owner.bare_str());
    items.into_values().collect()
}

fn item_of(world: &World, owner: JidRef<'_>, contact: JidRef<'_>) -> Option<RosterItem> {
    item(directories(world), in_force(world).groups.get(owner.domain())?, owner, contact)
}

fn came(world: &World, link: Link) {
    let Some(account) = world.address(link).map(Jid::to_bare) else { return };
    if has_everybody(world, account.domain()) {
        directories(world).with(account.domain(), |directory| directory.came(&account, world.station().node != 0));
    }
}

fn back(world: &mut World, link: Link, _: Option<&[u8]>) {
    if world.session_at(link).is_some_and(rookery_hub::Session::takes_messages) {
        came(world, link);
    }
}

fn went(world: &World, link: Link) {
    let Some(account) = world.address(link).map(Jid::to_bare) else { return };
    let others = world.links_of(account.as_ref()).into_iter().filter(|&other| other != link);
    let mut others = others.filter_map(|link| world.session_at(link));
    if has_everybody(world, account.domain()) && !others.any(|session| session.takes_messages()) {
        directories(world).with(account.domain(), |directory| directory.remove_online(&account));
    }
}

fn has_everybody(world: &World, domain: &str) -> bool {
    in_force(world).groups.get(domain).is_some_and(|groups| groups.need_all() || groups.need_online())
}

/// Looks for changes since the last round, to notify the clients of this shard.
fn round(world: &mut World) {
    let now = renew(world);
    let lists = world.shard() == 0;
    for (domain, _) in now.groups.iter().filter(|(_, groups)| lists && groups.need_all()) {
        list_accounts(world, domain);
    }
    if lists && world.station().node != 0 {
        tell_nodes(world);
    }
    news::look(world, &now);
}

/// Tells other nodes who is online here, and forgets the accounts of nodes that have gone.
fn tell_nodes(world: &mut World) {
    let is_there = |station: &Station| world.station_on(station.node, |_| 0) == Some(*station);
    let stations = world.other_nodes().into_iter().filter_map(|hop| world.station_of(hop)).filter(is_there);
    let stations: Vec<Station> = stations.collect();
    let present: Vec<OtherProcess> = stations.iter().map(|station| (station.node, station.incarnation)).collect();
    let own = (world.station().node, world.station().incarnation);
    let mut news = Vec::new();
    for domain in directories(world).domains() {
        directories(world).with(&domain, |directory| {
            directory.keep_processes(&present);
            directory.keep_own(|account| world.home_of(account.as_ref()) < world.own_shards());
            news.extend(directory.news(&domain, own, &present));
        });
    }
    for news in news {
        let (node, incarnation) = news.to;
        if let Some(shard) = world.shard_of(Station { node, incarnation, shard: 0 }) {
            world.send_memo(shard, news);
        }
    }
}

impl Memo for OnlineNews {
    const NAME: &'static str = "shared roster online";

    fn open(self, world: &mut World) {
        let domain = self.domain.clone();
        directories(world).with(&domain, |directory| directory.apply_news(self));
    }

    fn refused(self, world: &mut World) {
        directories(world).with(&self.domain, |directory| directory.greet_again(self.to));
    }
}

/// Asks for the list of a domain's accounts, every [`LISTING_MS`].
fn list_accounts(world: &mut World, domain: &str) {
    let now = world.time();
    let is_due = directories(world).with(domain, |directory| {
        let is_due = directory.asked_ms.is_none_or(|asked| now.saturating_sub(asked) >= LISTING_MS);
        if is_due {
            directory.asked_ms = Some(now);
        }
        is_due
    });
    if is_due {
        list(world, domain.to_owned(), None, BTreeSet::new());
    }
}

/// Lists the accounts of a domain, page by page. Each page begins after the last account of the
/// previous one, in the order of the store, which differs from that of addresses.
fn list(world: &mut World, domain: String, last: Option<Jid>, mut found: BTreeSet<Jid>) {
    let page = world.stores.accounts.list(&domain, last.as_ref().map(Jid::as_ref), PAGE);
    world.wait(page, move |world, page| match page {
        Ok(page) => {
            let is_last = page.len() < PAGE;
            let last = page.last().cloned();
            found.extend(page);
            match is_last {
                true => directories(world).with(&domain, |directory| directory.set_all(found)),
                false => list(world, domain, last, found),
            }
        }
        Err(error) => error!(domain, %error, "the accounts for shared roster groups couldn't be listed"),
    });
}

/// Returns the named members of a circle, in addition to the whole domain if it belongs to the
/// circle.
fn named_members<'g>(members: &'g GroupMembers<'g>, domain: &'g str) -> impl Iterator<Item = &'g Jid> {
    members.named.iter().copied().filter(move |jid| !members.everybody || jid.domain() != domain)
}

fn is_empty(circle: &Circle) -> bool {
    circle.members.is_empty() && circle.everybody_of.is_none()
}

const OPTIONS: [OptionSpec; 1] = [OptionSpec {
    key: GROUPS,
    default: || Value::List(Vec::new()),
    doc: "groups, as \"Sales: alice@example.org, bob@example.org -> Sales, Support\": the members, and the groups whose members have them as contacts; @all@ is every account, @online@ every account that is online",
    check: |value| option::each(value, groups::check),
}];

/// Milliseconds between two rounds of notifications.
const ROUND_MS: u64 = 2000;
/// Milliseconds between two listings of a domain's accounts.
const LISTING_MS: u64 = 600_000;
/// The number of accounts that are listed at a time.
const PAGE: usize = 1000;
