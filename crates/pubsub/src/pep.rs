//! XEP-0163: Personal Eventing Protocol. Every account is a host of nodes, whose news reach contacts without a subscription.
//!
//! # Who hears of an account's news
//!
//! Beside those with a subscription to a node: the resources of the account, and of the contacts who see its presence, that want that node by their
//! capabilities (`interest`). Nothing is kept for that with the account: its home knows its contacts, and the home of a contact knows the
//! contact's resources. A publication goes as one letter to each shard that is home to any of the contacts, with one packet; there, those
//! resources get it that want it.
//!
//! When a resource becomes available, or wants more than before, it gets the last items. Its home sends one letter to each shard that is home to any of
//! its contacts, with all it wants; there, one question to the store answers for all those contacts. A filter in memory keeps those out of
//! the question who have no such node: for each account that has nodes 32 bits, one for each class of node ids (`Holders`). So a login
//! costs nothing where nobody has news, and at most one question per shard where somebody has little.
//!
//! Last items come in portions: each shard sends the next when the resource has read its last one. So contacts can't publish more than a
//! client takes at login; and an item that is too large for a notification is announced without its payload.
//!
//! Capabilities in directed presence count for the account that it went to (§4.3.2): it hears nothing else of a client that tells them in no
//! other way.
//!
//! # Strangers
//!
//! To who doesn't see the account's presence, every node that they may not use looks as one for those who do: whether it exists or
//! not, whether the account exists or not.
//!
//! # Left out
//!
//! Presence from other servers is not looked at for capabilities: contacts there hear of news by subscriptions. Nor are the hashes of XEP-0390 read:
//! clients send those of XEP-0115 beside them. Last items don't follow a subscription to presence that an account of another server grants.

use rookery_base::{Keyed, Map};
use std::collections::BTreeMap;
use std::hash::BuildHasher;

use rookery_fanout::{Link, Packet, StanzaType};
use rookery_hub::{
    Bound, Delivery, Hooks, Iq, Letter, Module, OptionSpec, Passage, Phase, Stanzas, Target, Wanted, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_store::pubsub::{Affiliation, News};
use rookery_xml::{Kind, ns};
use serde::{Deserialize, Serialize};

use super::config::{Access, Config, SendLast};
use super::interest::{self, Interests};
use super::node::{Node, Relation};
use super::notify::Contacts;
use super::publish::since;
use super::request::{Action, Call};
use super::state::{Key, Nodes, defaults};
use super::{approval, bookmarks, discovery, limits, notify, relation, run};

/// Lets every account have nodes.
#[derive(Debug)]
pub struct PersonalEventing;

/// Holds what a shard remembers of the nodes of its accounts, and of those who want to hear of others'.
#[derive(Debug, Default)]
pub(super) struct Pep {
    pub(super) nodes: Nodes,
    pub(super) interests: Interests,
    holders: Holders,
}

impl Module for PersonalEventing {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users publish avatars, keys, moods, bookmarks, and their contacts see them"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("XEP-0163", "1.2.2"),
            ("XEP-0292", "0.12.0"),
            ("XEP-0223", "1.1.1"),
            ("XEP-0222", "1.0"),
            ("XEP-0080", "1.10.0"),
            ("XEP-0084", "1.1.4"),
            ("XEP-0107", "1.2.2"),
            ("XEP-0118", "1.3.0"),
            ("XEP-0172", "1.1"),
            ("XEP-0402", "1.2.0"),
            ("XEP-0411", "1.1.0"),
        ]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0163", "capabilities in presence from other servers: contacts there hear of news by subscriptions")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        limits::OF_ACCOUNTS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        for feature in discovery::FEATURES.into_iter().chain(discovery::MORE_FEATURES).chain(FEATURES) {
            hooks.feature(Target::Account, feature);
        }
        // Many clients look for them at the domain.
        let of_pubsub = |feature: &&'static str| feature.starts_with(ns::PUBSUB);
        let all = discovery::FEATURES.into_iter().chain(discovery::MORE_FEATURES).chain(FEATURES);
        for feature in all.filter(of_pubsub) {
            hooks.feature(Target::Server, feature);
        }
        hooks.state(Pep::default());
        hooks.letter::<PepLetter>();
        for namespace in [ns::PUBSUB, ns::PUBSUB_OWNER] {
            hooks.iq(Target::Account, namespace, asked);
        }
        hooks.presence(interest::presence);
        let available = Stanzas::of(Kind::Presence, &[StanzaType::Available]);
        let unavailable = Stanzas::of(Kind::Presence, &[StanzaType::Unavailable]);
        for wanted in [Wanted::from(available).naming(&[ns::CAPS]), Wanted::from(unavailable)] {
            hooks.before_route(Phase::Record, wanted, |world, Passage { packet, to, .. }| {
                interest::directed(world, packet, to);
                Delivery::Pass
            });
        }
        hooks.shown(shown);
        hooks.account_removed(|world, _| {
            for shard in 0..world.shards() {
                world.send_letter(shard, PepLetter::Removed);
            }
        });
        let normal = Stanzas::of(Kind::Message, &[StanzaType::Normal]);
        hooks.before_route(Phase::Act, Wanted::from(normal).naming(&[ns::DATA_FORMS]), decided);
    }
}

/// The key below `[modules]`.
pub const NAME: &str = "pep";

const OPTIONS: [OptionSpec; 8] = [
    limits::OWN_NODES,
    limits::ITEMS,
    limits::OWN_ITEM_BYTES,
    limits::IMAGE_BYTES,
    limits::NODE_BYTES,
    limits::ACCOUNT_BYTES,
    limits::SUBSCRIPTIONS,
    limits::ACCOUNT_SUBSCRIPTIONS,
];

/// Tells another shard what concerns the accounts or the resources at home there.
#[derive(Debug, Serialize, Deserialize)]
enum PepLetter {
    /// Resources of these accounts that want the node get the packet.
    Event { packet: Packet, node: String, to: Vec<Jid> },
    /// A resource wants the last items of these nodes of these accounts.
    Wanted { resource: Jid, nodes: Vec<String>, owners: Vec<Jid> },
    /// Last items for a resource, and the shard that has more for it.
    Last { resource: Jid, packets: Vec<Packet>, more: Option<(usize, Rest)> },
    /// A resource takes more last items.
    More(Rest),
    /// An account was removed: what is at hand may still know it.
    Removed,
    /// A contact of an account sees its presence from now on.
    Shown { owner: Jid, contact: Jid },
}

/// Last items that a resource has not got yet.
#[derive(Debug, Serialize, Deserialize)]
struct Rest {
    resource: Jid,
    nodes: Vec<String>,
    owners: Vec<Jid>,
    /// Account and node of the last that it has got.
    after: Option<(Jid, String)>,
}

impl Letter for PepLetter {
    const NAME: &'static str = "pep";

    fn open(self, world: &mut World) {
        match self {
            Self::Event { packet, node, to } => give_event(world, &packet, &node, to),
            Self::Wanted { resource, nodes, owners } => last_items(world, resource, nodes, owners),
            Self::More(rest) => portion(world, rest),
            Self::Last { resource, packets, more } => give(world, &resource, packets, more),
            Self::Shown { owner, contact } => last_items_of(world, &owner, &contact),
            Self::Removed => world.state_mut::<Pep>().nodes.forget_all(),
        }
    }
}

/// Hears that a contact sees an account's presence from now on: its resources may want last items.
fn shown(world: &mut World, owner: JidRef<'_>, contact: JidRef<'_>) {
    if world.domain(contact.domain()).is_some() {
        let letter = PepLetter::Shown { owner: owner.to_jid(), contact: contact.to_jid() };
        world.send_letter_home(contact, letter);
    }
}

/// A request to an account about its nodes.
fn asked(world: &mut World, iq: Iq) {
    let action = match Action::read(&iq) {
        Ok(action) => action,
        Err(error) => return world.reply_error(&iq, error),
    };
    related(world, iq, move |world, call| {
        if let Some((call, action)) = bookmarks::node(world, call, action) {
            run(world, call, action);
        }
    });
}

/// Goes on with a request once it is known how the account sees who asks.
fn related(world: &mut World, iq: Iq, then: impl FnOnce(&mut World, Call) + 'static) {
    if iq.is_own() {
        let relation = Relation { sees_presence: true, groups: Vec::new() };
        return then(world, Call { iq, relation: Some(relation) });
    }
    let account = iq.to.clone();
    relation(world, &account, Call { iq, relation: None }, |world, call| {
        if let Some(call) = call {
            then(world, call);
        }
    });
}

/// An owner's decision about a subscription to an own node (XEP-0060 §8.6).
fn decided(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    // Most messages are for others, and pass by a look at a few bytes.
    let is_own = to.is_bare() && packet.from_escaped().starts_with(to.as_str().as_bytes());
    if !is_own || packet.sender().is_none_or(|sender| sender.bare() != to) {
        return Delivery::Pass;
    }
    let host = to.to_jid();
    if approval::node_of(packet, &host).is_none() {
        return Delivery::Pass;
    }
    approval::message(world, packet, &host);
    Delivery::Taken
}

/// Answers service discovery about a node of an account.
pub fn discovered(world: &mut World, iq: Iq) {
    let is_info = iq.payload.ns() == ns::DISCO_INFO;
    let node = iq.payload.attr("node").unwrap_or_default().to_owned();
    related(world, iq, move |world, call| match is_info {
        true => discovery::node_info(world, call, &node),
        false => discovery::node_items(world, call, &node),
    });
}

/// Goes on with the nodes of an account, for a list of what it has.
pub fn nodes(world: &mut World, iq: Iq, then: impl FnOnce(&mut World, &Iq, Vec<(String, String)>) + 'static) {
    related(world, iq, |world, call| discovery::account_nodes(world, call, then));
}

/// Tells whether the accounts of a domain have nodes.
pub(super) fn is_on(world: &World, account: JidRef<'_>) -> bool {
    world.options(account.domain(), NAME).is_some()
}

/// Notes that an account has made a node.
pub(super) fn made(world: &mut World, key: &Key) {
    world.state_mut::<Pep>().holders.insert(&key.0, &key.1);
}

/// Gives a notification to those who want it without a subscription.
pub(super) fn notify(world: &mut World, key: &Key, node: &Node, packet: &Packet, contacts: &Contacts) {
    let own = Relation { sees_presence: true, groups: Vec::new() };
    let all = contacts.iter().chain([(&key.0, &own)]);
    let mut shards = BTreeMap::<usize, Vec<Jid>>::new();
    for (contact, relation) in all {
        let hears = hears(&node.config, node.affiliation(contact.as_ref()), relation);
        // §4.3.1: nobody gets it twice, and nobody who is blocked gets it at all.
        let hears = hears && !world.conceals(key.0.as_ref(), None, contact.as_ref());
        if hears && world.domain(contact.domain()).is_some() && !node.is_subscribed(contact.as_ref()) {
            shards.entry(world.home_of(contact.as_ref())).or_default().push(contact.clone());
        }
    }
    for (shard, to) in shards {
        world.send_letter(shard, PepLetter::Event { packet: packet.clone(), node: key.1.clone(), to });
    }
}

/// Gives a notification to those resources of accounts that want it.
fn give_event(world: &mut World, packet: &Packet, node: &str, to: Vec<Jid>) {
    let Some(owner) = packet.sender() else { return };
    let mut wanting = Vec::new();
    for account in to {
        let links = world.links_of(account.as_ref());
        let interests = &world.state::<Pep>().interests;
        let links = links.into_iter().filter(|&link| interests.has(link, &owner, node));
        wanting.extend(links.filter_map(|link| interest::address(world, link)));
    }
    world.fan_out(packet, wanting.iter().map(Jid::as_ref));
}

/// A resource wants more nodes than before: the accounts that it sees are asked for the last items (§4.3.4).
pub(super) fn wanted(world: &mut World, link: Link, nodes: Vec<String>) {
    let Some(resource) = interest::address(world, link).filter(|_| !nodes.is_empty()) else { return };
    let owners = world.watched(resource.bare()).into_iter().chain([resource.to_bare()]);
    ask_for_last_items(world, resource, owners.collect(), nodes);
}

/// Asks those of these accounts that a resource sees for the last items of the nodes that it has
/// told them it wants.
pub(super) fn wanted_of(world: &mut World, link: Link, mut owners: Vec<Jid>, nodes: Vec<String>) {
    let Some(resource) = interest::address(world, link).filter(|_| !nodes.is_empty()) else { return };
    let sees = |world: &World, owner: &Jid| {
        let subscription = world.subscription(resource.bare(), owner.as_ref());
        owner.as_ref() == resource.bare() || subscription.is_some_and(|subscription| subscription.to())
    };
    owners.retain(|owner| sees(world, owner));
    ask_for_last_items(world, resource, owners, nodes);
}

fn ask_for_last_items(world: &mut World, resource: Jid, owners: Vec<Jid>, nodes: Vec<String>) {
    let mut shards = BTreeMap::<usize, Vec<Jid>>::new();
    for owner in owners {
        if world.domain(owner.domain()).is_some() {
            shards.entry(world.home_of(owner.as_ref())).or_default().push(owner);
        }
    }
    for (shard, owners) in shards {
        let letter = PepLetter::Wanted { resource: resource.clone(), nodes: nodes.clone(), owners };
        world.send_letter(shard, letter);
    }
}

/// Asks for the last items of an account for those resources of a contact that want them.
fn last_items_of(world: &mut World, owner: &Jid, contact: &Jid) {
    for link in world.links_of(contact.as_ref()) {
        let nodes = world.state::<Pep>().interests.of(link, owner);
        if let Some(resource) = interest::address(world, link).filter(|_| !nodes.is_empty()) {
            let owners = vec![owner.clone()];
            world.send_letter_home(owner.as_ref(), PepLetter::Wanted { resource, nodes, owners });
        }
    }
}

/// Sends a resource the last items of nodes that it wants.
fn last_items(world: &mut World, resource: Jid, nodes: Vec<String>, mut owners: Vec<Jid>) {
    let account = resource.to_bare();
    if nodes.iter().any(|node| node == bookmarks::LEGACY) && owners.contains(&account) {
        bookmarks::tell(world, account.clone(), Some(resource.clone()));
    }
    load_holders(world);
    let holders = &world.state::<Pep>().holders;
    owners.retain(|owner| holders.may_have(owner, &nodes));
    if owners.is_empty() {
        return;
    }
    // §4.3: not to whom they block.
    world.unconcealed(account, owners, move |world, owners| {
        portion(world, Rest { resource, nodes, owners, after: None });
    });
}

/// Sends a resource some of the last items that it has not got.
fn portion(world: &mut World, mut rest: Rest) {
    let news =
        world.stores.pubsub.news(rest.resource.bare(), rest.owners.clone(), rest.nodes.clone(), rest.after.take());
    world.wait(news, move |world, news| match news {
        Ok((news, has_more)) => {
            let packets: Vec<_> = news.iter().filter_map(|news| last_item(world, news)).collect();
            rest.after = news.into_iter().last().map(|news| (news.host, news.node));
            let resource = rest.resource.clone();
            let more = has_more.then(|| (world.shard(), rest));
            if !packets.is_empty() || more.is_some() {
                let home = world.home_of(resource.as_ref());
                world.send_letter(home, PepLetter::Last { resource, packets, more });
            }
        }
        Err(error) => world.store_failed("loading last items", &rest.resource, &error),
    });
}

/// Gives a resource its last items, and asks for more when it has read them.
fn give(world: &mut World, resource: &Jid, packets: Vec<Packet>, more: Option<(usize, Rest)>) {
    let links = world.links_of(resource.as_ref());
    let link = links.into_iter().find(|&link| world.address(link) == Some(resource));
    let Some(session) = link.and_then(|link| world.reference(link)) else { return };
    world.give_bundle(session.link, packets);
    if let Some((shard, rest)) = more {
        world.when_room(session, move |world| world.send_letter(shard, PepLetter::More(rest)));
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
    notify::last(world, &key, &config, &news.item)
}

/// Whether somebody hears of a node without a subscription: an auto-subscriber (XEP-0060 §9.1), or one of the whitelist.
fn hears(config: &Config, affiliation: Option<Affiliation>, relation: &Relation) -> bool {
    match affiliation {
        Some(Affiliation::Owner | Affiliation::Publisher | Affiliation::Member) => return true,
        Some(Affiliation::PublishOnly | Affiliation::Outcast) => return false,
        None => {}
    }
    match config.access {
        Access::Open | Access::Presence => relation.sees_presence,
        Access::Roster => {
            relation.sees_presence && config.roster_groups.iter().any(|group| relation.groups.contains(group))
        }
        Access::Authorize | Access::Whitelist => false,
    }
}

/// Which accounts of a shard may have nodes of which names: never too few.
#[derive(Debug, Default)]
struct Holders {
    hashing: Keyed,
    /// By the hash of the account, one bit for each class of node ids.
    classes: Map<u64, u32>,
    loading: Loading,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Loading {
    /// Nobody has asked.
    #[default]
    Never,
    /// Until it is done, everybody may have anything.
    Now,
    /// All are known.
    Done,
}

impl Holders {
    fn insert(&mut self, account: &Jid, node: &str) {
        let class = self.class(node);
        *self.classes.entry(self.hashing.hash_one(account)).or_default() |= class;
    }

    fn may_have(&self, account: &Jid, nodes: &[String]) -> bool {
        if self.loading != Loading::Done {
            return true;
        }
        let classes = self.classes.get(&self.hashing.hash_one(account)).copied().unwrap_or_default();
        nodes.iter().any(|node| classes & self.class(node) != 0)
    }

    fn class(&self, node: &str) -> u32 {
        1 << (self.hashing.hash_one(node) & 31)
    }
}

/// Begins to learn who has nodes, if nobody has yet.
fn load_holders(world: &mut World) {
    let holders = &mut world.state_mut::<Pep>().holders;
    if holders.loading == Loading::Never {
        holders.loading = Loading::Now;
        load_more_holders(world, 0);
    }
}

fn load_more_holders(world: &mut World, after: u64) {
    let page = world.stores.pubsub.accounts_nodes(after, PAGE);
    world.wait(page, move |world, page| match page {
        Ok(page) => {
            let here = world.shard();
            for (_, account, node) in &page {
                if world.home_of(account.as_ref()) == here {
                    world.state_mut::<Pep>().holders.insert(account, node);
                }
            }
            match page.last() {
                Some((last, ..)) => load_more_holders(world, *last),
                None => world.state_mut::<Pep>().holders.loading = Loading::Done,
            }
        }
        Err(error) => {
            let domain = world.settings().domains.first().and_then(|domain| Jid::parse(&domain.name).ok());
            if let Some(domain) = domain {
                world.store_failed("listing who has nodes", &domain, &error);
            }
            // The next one who asks tries again.
            world.state_mut::<Pep>().holders.loading = Loading::Never;
        }
    });
}

/// What accounts have and services don't.
const FEATURES: [&str; 9] = [
    ns::PUBSUB,
    "urn:xmpp:bookmarks-conversion:0",
    "urn:xmpp:bookmarks:1#compat",
    "urn:xmpp:bookmarks:1#compat-pep",
    "http://jabber.org/protocol/pubsub#auto-subscribe",
    "http://jabber.org/protocol/pubsub#filtered-notifications",
    "http://jabber.org/protocol/pubsub#last-published",
    "http://jabber.org/protocol/pubsub#presence-notifications",
    "http://jabber.org/protocol/pubsub#pubsub-on-a-jid",
];
/// Nodes that are listed at once.
const PAGE: usize = 10_000;
