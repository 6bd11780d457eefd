//! Real-time block lists for rooms: hashes of abusers' addresses that operators share through a
//! publish-subscribe node.
//!
//! The list is a node of another server (or this one) whose items are named by the SHA-256 of an
//! address, in hexadecimal: of a bare JID, or of a domain. One shard of each node of a cluster
//! subscribes and fetches the items. Of all these shards one is notified of changes, and tells the
//! other nodes; all shards look the hashes up. Stanzas from a listed address of another server to a
//! room, to enter or to speak, are refused as from an outcast. Accounts of this server are its own
//! operator's business, unless the operator wants them treated alike. If the operator wants that,
//! listed servers and addresses are excluded altogether: nothing is accepted from them or sent to
//! them.
//!
//! # Invariants
//!
//! * Only the configured service changes a list. If it can't be reached, the known list stays in
//!   force, and the service is tried again soon.
//! * Without a list, or without hashes, a stanza costs one check of a flag.

use rookery_base::{Map, Set};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use rookery_base::hex;
use rookery_base::lock::{read, write};
use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Answer, Delivery, Hooks, Memo, Module, OptionSpec, Passage, Phase, Stanzas, Value, Verdict, World};
use rookery_jid::{Jid, JidRef, prepare};
use rookery_modkit::option;
use rookery_rooms::turn_away;
use rookery_stream::error::Condition;
use rookery_xml::{Element, Kind, ns};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tracing::{info, warn};

/// The module that keeps listed abusers out of rooms.
#[derive(Debug)]
pub struct Rtbl {
    lists: Lists,
}

/// The hashes, by the service and node that they come from; clones share the data.
#[derive(Debug, Clone, Default)]
pub struct Lists(Arc<RtblShared>);

#[derive(Debug, Default)]
struct RtblShared {
    any: AtomicBool,
    hashes: RwLock<Map<ListSource, Set<ListedHash>>>,
}

type ListedHash = [u8; 32];

/// The service and node that a list comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ListSource {
    service: Jid,
    node: String,
}

impl Rtbl {
    /// Returns the module of one shard. All shards share the lists.
    pub fn new(lists: Lists) -> Self {
        Self { lists }
    }
}

impl Module for Rtbl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "rooms keep out abusers listed by other operators"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("Real-time block lists", "sha256 of JIDs")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        let stanzas = Stanzas::of(Kind::Presence, &[StanzaType::Available]).and(Stanzas::MESSAGES);
        hooks.state(self.lists.clone());
        hooks.memo::<ListChanged>();
        hooks.before_service(Phase::Guard, stanzas, guard);
        hooks.border(lets_cross);
        hooks.to_domain(Phase::Act, event);
        hooks.every(ROUND_MS, |world| {
            if world.shard() == 0 {
                follow(world);
            }
        });
    }
}

impl Lists {
    fn has(&self, list: &ListSource) -> bool {
        self.read(|lists| lists.contains_key(list))
    }

    fn change(&self, list: &ListSource, change: impl FnOnce(&mut Set<ListedHash>)) {
        let mut lists = write(&self.0.hashes);
        change(lists.entry(list.clone()).or_default());
        self.0.any.store(lists.values().any(|hashes| !hashes.is_empty()), Ordering::Relaxed);
    }

    fn keep_only(&self, wanted: &Set<ListSource>) {
        let mut lists = write(&self.0.hashes);
        lists.retain(|list, _| wanted.contains(list));
        self.0.any.store(lists.values().any(|hashes| !hashes.is_empty()), Ordering::Relaxed);
    }

    /// Returns whether one of these lists contains an address or its domain.
    fn name(&self, wanted: &[ListSource], address: JidRef<'_>) -> bool {
        let hashes = [hash(address.bare_str()), hash(address.domain())];
        self.read(|lists| {
            let mut lists = wanted.iter().filter_map(|list| lists.get(list));
            lists.any(|list| hashes.iter().any(|hash| list.contains(hash)))
        })
    }

    fn read<T>(&self, ask: impl FnOnce(&Map<ListSource, Set<ListedHash>>) -> T) -> T {
        ask(&read(&self.0.hashes))
    }
}

/// Returns whether an address of another server may communicate with a domain.
fn lets_cross(world: &World, remote: JidRef<'_>, domain: &str) -> bool {
    if !world.state::<Lists>().0.any.load(Ordering::Relaxed) {
        return true;
    }
    if !world.options(domain, NAME).is_some_and(|options| options.switch(SERVERS)) {
        return true;
    }
    let lists = lists_of(world, domain);
    // Otherwise a list's keeper couldn't remove its own entry again.
    let keeps_one = lists.iter().any(|list| list.service.domain() == remote.domain());
    keeps_one || !world.state::<Lists>().name(&lists, remote)
}

/// Filters stanzas for a room, or for an occupant of one.
fn guard(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    if !world.state::<Lists>().0.any.load(Ordering::Relaxed)
        || to.local().is_none()
        || packet.type_() == StanzaType::Error
    {
        return Delivery::Pass;
    }
    let Some(sender) = packet.sender() else { return Delivery::Pass };
    let domain = world.domain_of(to.domain()).map(|domain| domain.name.clone()).unwrap_or_default();
    let options = world.options(&domain, NAME);
    if world.is_ours(sender.domain()) && !options.is_some_and(|options| options.switch(LOCAL)) {
        return Delivery::Pass;
    }
    if !world.state::<Lists>().name(&lists_of(world, &domain), sender.as_ref()) {
        return Delivery::Pass;
    }
    info!(%sender, room = %to, "a listed address was kept out of a room");
    turn_away(world, packet, to, Condition::Forbidden);
    Delivery::Taken
}

/// Returns the lists that a domain uses.
fn lists_of(world: &World, domain: &str) -> Vec<ListSource> {
    let options = world.options(domain, NAME);
    let texts = options.map(|options| options.list(LISTS)).unwrap_or_default();
    texts.iter().filter_map(|text| list(text)).collect()
}

/// Subscribes to lists that aren't loaded yet and fetches them; every [`REFRESH_MS`] it does so for
/// all of them.
fn follow(world: &mut World) {
    let (settings, lists) = (world.settings().clone(), world.state::<Lists>().clone());
    let mut all = Set::default();
    let is_due = world.uptime_ms() % REFRESH_MS < ROUND_MS;
    for domain in &settings.domains {
        for list in lists_of(world, &domain.name) {
            let is_new = all.insert(list.clone());
            if is_new && (is_due || !lists.has(&list)) {
                lists.change(&list, |_| {});
                subscribe(world, &domain.name, list);
            }
        }
    }
    lists.keep_only(&all);
}

/// Subscribes to a list and fetches it (XEP-0060 §6.1, §6.5.2).
fn subscribe(world: &mut World, domain: &str, list: ListSource) {
    let wanted = Element::new("subscribe", ns::PUBSUB).with_attr("node", &list.node).with_attr("jid", domain);
    let items = Element::new("items", ns::PUBSUB).with_attr("node", &list.node);
    let request = |child| Element::new("pubsub", ns::PUBSUB).with_child(child);
    world.ask(domain, &list.service, true, &request(wanted), |_, _| {});
    let (service, asker) = (list.service.clone(), domain.to_owned());
    world.ask(domain, &service, false, &request(items), move |world, answer| match answer {
        Answer::Result(Some(pubsub)) => {
            let items = pubsub.child("items", ns::PUBSUB);
            let found = items.into_iter().flat_map(Element::children).filter_map(read_hash).take(MAX_HASHES);
            world.state::<Lists>().change(&list, |hashes| *hashes = found.collect());
        }
        other => {
            let reason = match &other {
                Answer::Result(_) => "an empty reply",
                Answer::Error { condition, .. } => condition,
                Answer::Nothing => "no reply",
            };
            warn!(service = %list.service, node = list.node, reason, "a block list for rooms can't be fetched; trying again later");
            world.after(RETRY_MS, move |world| {
                // The operator may have removed the list from the configuration meanwhile.
                if world.state::<Lists>().has(&list) {
                    subscribe(world, &asker, list);
                }
            });
        }
    });
}

/// Applies items that were published or retracted (XEP-0060 §7.1.2.1, §7.2.2.1).
fn event(world: &mut World, packet: &Packet, to: JidRef<'_>) -> Verdict {
    let Some(sender) = packet.sender().filter(|_| packet.kind() == Kind::Message) else { return Verdict::Pass };
    let wanted = lists_of(world, to.domain());
    if wanted.iter().all(|list| list.service != sender) {
        return Verdict::Pass;
    }
    let stanza = packet.stanza();
    let Some(event) = stanza.children().find(|child| child.is("event", ns::PUBSUB_EVENT)) else { return Verdict::Pass };
    let event = event.element();
    for items in event.children() {
        let list = wanted.iter().find(|list| list.service == sender && items.attr("node") == Some(&list.node));
        let Some(list) = list else { continue };
        let changes = match items.name() {
            "items" => items.children().filter_map(ListChange::of).collect(),
            "purge" | "delete" => vec![ListChange::Empty],
            _ => continue,
        };
        let memo = ListChanged { list: list.clone(), changes };
        world.tell_other_nodes(&memo);
        memo.open(world);
    }
    Verdict::Taken
}

/// Tells the other nodes of changes in a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ListChanged {
    list: ListSource,
    changes: Vec<ListChange>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum ListChange {
    Add(ListedHash),
    Remove(ListedHash),
    Empty,
}

impl ListChange {
    /// Returns the change that an item stands for; `None` if its name isn't a hash.
    fn of(item: &Element) -> Option<Self> {
        let hash = read_hash(item)?;
        Some(if item.name() == "retract" { ListChange::Remove(hash) } else { ListChange::Add(hash) })
    }

    fn apply(self, hashes: &mut Set<ListedHash>) {
        match self {
            ListChange::Add(hash) if hashes.len() < MAX_HASHES => _ = hashes.insert(hash),
            ListChange::Add(_) => {}
            ListChange::Remove(hash) => _ = hashes.remove(&hash),
            ListChange::Empty => hashes.clear(),
        }
    }
}

impl Memo for ListChanged {
    const NAME: &'static str = "rtbl changes";

    fn open(self, world: &mut World) {
        let lists = world.state::<Lists>();
        // A list that this node hasn't asked for yet is fetched whole.
        if lists.has(&self.list) {
            lists.change(&self.list, |hashes| self.changes.into_iter().for_each(|change| change.apply(hashes)));
        }
    }
}

/// Returns the hash that is the name of an item.
fn read_hash(item: &Element) -> Option<ListedHash> {
    hex::decode(item.attr("id")?)
}

fn hash(text: &str) -> ListedHash {
    Sha256::digest(text.as_bytes()).into()
}

/// Parses a list as an operator writes it: service, space, node.
fn list(text: &str) -> Option<ListSource> {
    let (service, node) = text.trim().split_once(' ')?;
    let service = prepare(service).ok()?.as_ref().to_jid();
    Some(ListSource { service, node: node.trim().to_owned() }).filter(|list| !list.node.is_empty())
}

/// The key below `[modules]`.
const NAME: &str = "rtbl";

const OPTIONS: [OptionSpec; 3] = [
    OptionSpec {
        key: LISTS,
        default: || Value::List(Vec::new()),
        doc: "block lists, each a service and a node, e.g. [\"blocklist.example.org muc_bans_sha256\"]",
        check: |value| {
            option::each(value, |text| match list(text) {
                Some(_) => Ok(()),
                None => Err(format!("{text:?} isn't a list; write a service, a space and a node")),
            })
        },
    },
    OptionSpec {
        key: LOCAL,
        default: || Value::Switch(false),
        doc: "true also keeps out accounts of this server, which makes sense if anyone can register",
        check: option::any,
    },
    OptionSpec {
        key: SERVERS,
        default: || Value::Switch(false),
        doc: "true excludes listed servers and addresses altogether, not only from rooms",
        check: option::any,
    },
];

const LOCAL: &str = "local";
const SERVERS: &str = "servers";
const LISTS: &str = "lists";
/// Milliseconds between two checks for lists that need a subscription.
const ROUND_MS: u64 = 5_000;
/// Milliseconds until a list that couldn't be fetched is requested again.
const RETRY_MS: u64 = 30_000;
/// Milliseconds after which the lists are fetched again.
const REFRESH_MS: u64 = 6 * 3_600_000;
/// The most hashes of one list.
const MAX_HASHES: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_named_by_a_hash() {
        let item = |id: &str| Element::new("item", ns::PUBSUB).with_attr("id", id);
        let id: String = hex::encode(hash("a@x.example"));
        assert_eq!(read_hash(&item(&id)), Some(hash("a@x.example")));
        for wrong in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32)] {
            assert_eq!(read_hash(&item(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn a_list_is_a_service_and_a_node() {
        let found = list("lists.example.org  muc_bans_sha256").unwrap();
        assert_eq!((found.service.as_str(), found.node.as_str()), ("lists.example.org", "muc_bans_sha256"));
        for wrong in ["", "lists.example.org", "lists.example.org ", "@ node"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }
}
