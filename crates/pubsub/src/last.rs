//! Last items: sent to a resource when it begins to want a node (XEP-0163 §4.3.4).

use std::collections::BTreeMap;

use rookery_fanout::{Link, Packet, Station};
use rookery_hub::{Memo, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::pubsub::News;
use serde::{Deserialize, Serialize};

use super::afar::Afar;
use super::config::{SendLast, since};
use super::holders::{Holders, load_holders};
use super::interests::Interests;
use super::node::{Relation, hears};
use super::state::defaults;
use super::{event, legacy};

/// Tells another shard about last items that are wanted, or delivers them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum LastItems {
    /// A resource wants the last items of these nodes of these accounts.
    Wanted { resource: Jid, nodes: Vec<String>, owners: Vec<Jid> },
    /// Last items for a resource, and the shard that has more for it.
    Last { resource: Jid, packets: Vec<Packet>, more: Option<(Station, Rest)> },
    /// A resource takes more last items.
    More(Rest),
    /// A contact of an account sees its presence from now on.
    Shown { owner: Jid, contact: Jid },
}

/// The last items that a resource has not got yet.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rest {
    resource: Jid,
    nodes: Vec<String>,
    owners: Vec<Jid>,
    /// The account and node of the last item that it got.
    after: Option<(Jid, String)>,
}

impl Memo for LastItems {
    const NAME: &'static str = "pep last items";

    fn open(self, world: &mut World) {
        match self {
            Self::Wanted { resource, nodes, owners } => last_items(world, resource, nodes, owners),
            Self::More(rest) => portion(world, rest),
            Self::Last { resource, packets, more } if world.is_awaited(resource.bare_str()) => {
                world.keep_memo(Self::Last { resource, packets, more });
            }
            Self::Last { resource, packets, more } => give(world, &resource, packets, more),
            Self::Shown { owner, contact } => last_items_of(world, &owner, &contact),
        }
    }

    fn home(&self) -> Option<Jid> {
        match self {
            Self::Wanted { owners, .. } => owners.first().cloned(),
            Self::Shown { contact, .. } => Some(contact.clone()),
            Self::Last { .. } | Self::More(_) => None,
        }
    }

    /// Asks again at the current homes of its accounts, which have moved. A resource at a moved
    /// home is gone.
    fn again(self, world: &mut World) {
        match self {
            Self::Wanted { resource, nodes, owners } => ask_for_last_items(world, resource, owners, nodes),
            Self::More(Rest { resource, nodes, owners, .. }) => ask_for_last_items(world, resource, owners, nodes),
            Self::Shown { owner, contact } => shown(world, owner.as_ref(), contact.as_ref()),
            Self::Last { .. } => {}
        }
    }
}

/// Returns the shard that knows a contact's wishes: its home, or that of its domain if it is
/// remote.
fn home_of(world: &World, contact: JidRef<'_>) -> usize {
    match world.domain(contact.domain()) {
        Some(_) => world.home_of(contact),
        None => world.home_of_text(contact.domain()),
    }
}

/// Reacts to a contact that sees an account's presence from now on: its resources may want last
/// items.
pub(super) fn shown(world: &mut World, owner: JidRef<'_>, contact: JidRef<'_>) {
    let home = home_of(world, contact);
    world.send_memo(home, LastItems::Shown { owner: owner.to_jid(), contact: contact.to_jid() });
}

/// Asks the accounts that a resource sees for the last items, when it wants more nodes than before
/// (§4.3.4).
pub(super) fn ask_watched(world: &mut World, link: Link, nodes: Vec<String>) {
    let Some(resource) = world.address(link).cloned().filter(|_| !nodes.is_empty()) else { return };
    let owners = world.watched_contacts(resource.bare()).into_iter().chain([resource.to_bare()]);
    ask_for_last_items(world, resource, owners.collect(), nodes);
}

/// Asks those of these accounts that a resource sees for the last items that it wants by the
/// capabilities announced to them.
pub(super) fn ask_accounts(world: &mut World, link: Link, mut owners: Vec<Jid>, nodes: Vec<String>) {
    let Some(resource) = world.address(link).cloned().filter(|_| !nodes.is_empty()) else { return };
    let sees = |world: &World, owner: &Jid| {
        let subscription = world.subscription(resource.bare(), owner.as_ref());
        owner.as_ref() == resource.bare() || subscription.is_some_and(|subscription| subscription.to())
    };
    owners.retain(|owner| sees(world, owner));
    ask_for_last_items(world, resource, owners, nodes);
}

/// Asks these accounts for the last items of the nodes that a remote contact wants.
pub(super) fn ask_afar(world: &mut World, resource: &Jid, owners: Vec<Jid>, nodes: Vec<String>) {
    if !nodes.is_empty() {
        ask_for_last_items(world, resource.clone(), owners, nodes);
    }
}

fn ask_for_last_items(world: &mut World, resource: Jid, owners: Vec<Jid>, nodes: Vec<String>) {
    let mut shards = BTreeMap::<usize, Vec<Jid>>::new();
    for owner in owners {
        if world.domain(owner.domain()).is_some() {
            shards.entry(world.home_of(owner.as_ref())).or_default().push(owner);
        }
    }
    for (shard, owners) in shards {
        let memo = LastItems::Wanted { resource: resource.clone(), nodes: nodes.clone(), owners };
        world.send_memo(shard, memo);
    }
}

/// Asks for the last items of an account, for those resources of a contact that want them.
fn last_items_of(world: &mut World, owner: &Jid, contact: &Jid) {
    for (resource, nodes) in world.state::<Afar>().nodes_of(contact.as_ref(), owner) {
        ask_afar(world, &resource, vec![owner.clone()], nodes);
    }
    for link in world.links_of(contact.as_ref()) {
        let nodes = world.state::<Interests>().of(link, owner);
        if let Some(resource) = world.address(link).cloned().filter(|_| !nodes.is_empty()) {
            let owners = vec![owner.clone()];
            world.send_memo_home(owner.as_ref(), LastItems::Wanted { resource, nodes, owners });
        }
    }
}

/// Sends a resource the last items of nodes that it wants.
fn last_items(world: &mut World, resource: Jid, nodes: Vec<String>, mut owners: Vec<Jid>) {
    let account = resource.to_bare();
    if nodes.iter().any(|node| node == legacy::LEGACY) && owners.contains(&account) {
        legacy::tell(world, account.clone(), Some(resource.clone()));
    }
    load_holders(world);
    let holders = world.state::<Holders>();
    owners.retain(|owner| holders.may_have(owner, &nodes));
    if owners.is_empty() {
        return;
    }
    // §4.3: not to contacts that are blocked.
    world.retain_unconcealed(account, owners, move |world, owners| {
        portion(world, Rest { resource, nodes, owners, after: None });
    });
}

/// Sends a resource some of the last items that it has not got yet.
fn portion(world: &mut World, mut rest: Rest) {
    let news =
        world.stores.pubsub.news(rest.resource.bare(), rest.owners.clone(), rest.nodes.clone(), rest.after.take());
    world.wait(news, move |world, news| match news {
        Ok((news, has_more)) => {
            let packets: Vec<_> = news.iter().filter_map(|news| last_item(world, news)).collect();
            rest.after = news.into_iter().last().map(|news| (news.host, news.node));
            let resource = rest.resource.clone();
            let more = has_more.then(|| (world.station(), rest));
            if !packets.is_empty() || more.is_some() {
                let home = home_of(world, resource.as_ref());
                world.send_memo(home, LastItems::Last { resource, packets, more });
            }
        }
        Err(error) => world.store_failed("loading last items", &rest.resource, &error),
    });
}

/// Delivers last items to a resource, and asks for more once it has read them.
fn give(world: &mut World, resource: &Jid, packets: Vec<Packet>, more: Option<(Station, Rest)>) {
    if world.domain(resource.domain()).is_none() {
        // Its reading speed isn't known: it gets only what fits one portion.
        return packets.iter().for_each(|packet| world.route(packet, resource.as_ref()));
    }
    let links = world.links_of(resource.as_ref());
    let link = links.into_iter().find(|&link| world.address(link) == Some(resource));
    let Some(session) = link.and_then(|link| world.reference(link)) else { return };
    // They are sent after the news that wait for the account.
    world.bundle(packets, resource);
    if let Some((station, rest)) = more {
        world.when_room(session, move |world| {
            // If that process has gone, the accounts' next home begins again.
            if let Some(shard) = world.shard_of(station) {
                world.send_memo(shard, LastItems::More(rest));
            }
        });
    }
}

/// Returns the last item of a node, if it is due.
fn last_item(world: &mut World, news: &News) -> Option<Packet> {
    let config = defaults(&news.host, &news.node).read(&news.config);
    let relation = Relation { sees_presence: news.sees_presence, groups: news.groups.clone() };
    let is_due = config.send_last == SendLast::OnSubAndPresence && config.persist_items;
    let is_old = news.item.unix_ms < since(&config, world.time());
    if !is_due || is_old || !hears(&config, news.affiliation, &relation) {
        return None;
    }
    let key = (news.host.clone(), news.node.clone());
    event::last(world, &key, &config, &news.item)
}
