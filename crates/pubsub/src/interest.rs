//! What clients want to be notified of, from their capabilities (XEP-0060 §9.2, XEP-0115).
//!
//! A client says in its presence by a hash what it can do; the features behind the hash are asked for once per server shard, by a service discovery
//! request of its domain. Only the nodes to which `+notify` is appended are kept, and for each session that
//! is available a reference to them. A hash is known to all sessions only if it is that of the answer: a client that lies about
//! its hash lies for itself alone (XEP-0115 §9.1). What it says to single accounts only is in `directed`.

use rookery_base::Map;
use std::rc::Rc;

use rookery_fanout::{Link, Packet, StanzaType};
use rookery_hub::ask::Answer;
use rookery_hub::{SessionRef, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::caps;
use rookery_xml::{Element, ns};

use super::directed::Directed;
use super::pep::{self, Pep};

/// Ids of nodes, sorted.
pub(super) type Nodes = Rc<[Box<str>]>;

/// What the sessions of a shard want.
#[derive(Debug, Default)]
pub(super) struct Interests {
    sessions: Map<Link, Interest>,
    /// The capabilities told to single accounts, which count there.
    directed: Directed,
    young: Map<Rc<Caps>, Nodes>,
    old: Map<Rc<Caps>, Nodes>,
    /// Capabilities that somebody is being asked for, with those who wait for the answer.
    asked: Map<Caps, Vec<SessionRef>>,
    /// The number of these questions that are about capabilities of a session.
    open: Map<SessionRef, u32>,
}

#[derive(Debug)]
struct Interest {
    caps: Rc<Caps>,
    nodes: Nodes,
}

/// The capabilities that a presence announces (XEP-0115 §4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Caps {
    hash: Option<String>,
    node: String,
    ver: String,
}

impl Interests {
    /// Tells whether a session wants to be notified of a node of an account.
    pub(super) fn has(&self, link: Link, owner: &Jid, node: &str) -> bool {
        let nodes = self.nodes(link, owner);
        nodes.is_some_and(|nodes| nodes.binary_search_by(|other| (**other).cmp(node)).is_ok())
    }

    fn nodes(&self, link: Link, owner: &Jid) -> Option<&Nodes> {
        self.directed.nodes(link, owner).or_else(|| self.sessions.get(&link).map(|interest| &interest.nodes))
    }

    /// What is known of capabilities, which all sessions that have them share.
    fn known(&mut self, caps: &Caps) -> Option<(Rc<Caps>, Nodes)> {
        if let Some((caps, nodes)) = self.young.get_key_value(caps) {
            return Some((caps.clone(), nodes.clone()));
        }
        let (caps, nodes) = self.old.remove_entry(caps)?;
        self.learn(caps.clone(), nodes.clone());
        Some((caps, nodes))
    }

    /// Returns the nodes that a session wants of an account.
    pub(super) fn of(&self, link: Link, owner: &Jid) -> Vec<String> {
        self.nodes(link, owner).map(texts).unwrap_or_default()
    }

    /// Opens a question about capabilities of a session, unless too many are open.
    fn open(&mut self, session: SessionRef) -> bool {
        let open = self.open.entry(session).or_default();
        let has_room = *open < MAX_OPEN;
        *open += u32::from(has_room);
        has_room
    }

    fn close(&mut self, session: SessionRef) {
        if let Some(open) = self.open.get_mut(&session) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.open.remove(&session);
            }
        }
    }

    fn learn(&mut self, caps: Rc<Caps>, nodes: Nodes) {
        if self.young.len() >= MAX_KNOWN / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(caps, nodes);
    }

    /// Notes what a session wants, and returns what of that is new.
    fn set(&mut self, link: Link, caps: Rc<Caps>, nodes: Nodes) -> Vec<String> {
        let before = self.sessions.insert(link, Interest { caps, nodes: nodes.clone() });
        let before = before.map(|before| before.nodes).unwrap_or_default();
        nodes.iter().filter(|node| !before.contains(node)).map(|node| node.to_string()).collect()
    }
}

/// Returns what the sessions of the shard want.
fn interests(world: &mut World) -> &mut Interests {
    &mut world.state_mut::<Pep>().interests
}

/// Hears that the presence of a session has changed.
pub(super) fn presence(world: &mut World, link: Link) {
    let presence = world.session_at(link).and_then(|session| session.presence.as_ref());
    let (is_available, caps) = (presence.is_some(), presence.and_then(read));
    let interests = interests(world);
    if !is_available {
        interests.directed.forget(link);
    }
    let Some(caps) = caps else {
        interests.sessions.remove(&link);
        return;
    };
    if interests.sessions.get(&link).is_some_and(|interest| *interest.caps == caps) {
        return;
    }
    interests.directed.forget(link);
    if let Some(session) = world.reference(link) {
        find_out(world, session, caps);
    }
}

/// Hears that a session has sent presence to an account (XEP-0163 §4.3.2). One without capabilities
/// says nothing of them (XEP-0115 §8.4).
pub(super) fn directed(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    let is_account = to.local().is_some() && world.domain(to.domain()).is_some();
    let Some(sender) = packet.sender().filter(|_| is_account) else { return };
    let links = world.links_of(sender.as_ref());
    let link = links.into_iter().find(|&link| world.address(link) == Some(&sender));
    let Some(session) = link.and_then(|link| world.reference(link)) else { return };
    let account = to.bare().to_jid();
    let interests = interests(world);
    if packet.type_() == StanzaType::Unavailable {
        return interests.directed.take_back(session.link, &account);
    }
    let Some(caps) = read(packet) else { return };
    if interests.sessions.get(&session.link).is_some_and(|interest| *interest.caps == caps) {
        // What it broadcasts says the same.
        return interests.directed.take_back(session.link, &account);
    }
    if interests.directed.tell(session.link, &caps, &account) {
        find_out(world, session, caps);
    }
}

/// Notes what capabilities of a session mean, if need be after asking.
fn find_out(world: &mut World, session: SessionRef, caps: Caps) {
    let interests = interests(world);
    if let Some((caps, nodes)) = interests.known(&caps) {
        return note(world, session, &caps, &nodes);
    }
    if !interests.open(session) {
        return;
    }
    if let Some(waiting) = interests.asked.get_mut(&caps) {
        return waiting.push(session);
    }
    interests.asked.insert(caps.clone(), Vec::new());
    ask(world, session, caps);
}

/// Asks a session what its capabilities are (§6.2).
fn ask(world: &mut World, session: SessionRef, caps: Caps) {
    let Some(address) = world.session(session).and_then(|_| address(world, session.link)) else {
        interests(world).close(session);
        return next(world, caps);
    };
    let query = Element::new("query", ns::DISCO_INFO).with_attr("node", format!("{}#{}", caps.node, caps.ver));
    world.ask(address.domain(), &address, false, &query, move |world, answer| {
        let answer = if let Answer::Result(answer) = answer { answer } else { None };
        answered(world, session, caps, answer);
    });
}

fn answered(world: &mut World, session: SessionRef, caps: Caps, answer: Option<Element>) {
    interests(world).close(session);
    let answer = answer.filter(|answer| answer.is("query", ns::DISCO_INFO));
    let Some(answer) = answer else { return next(world, caps) };
    let nodes = nodes_of(&answer);
    let is_true = caps.hash.as_ref().is_some_and(|hash| caps::is_hash_of(hash, &caps.ver, &answer));
    let shared = Rc::new(caps.clone());
    note(world, session, &shared, &nodes);
    if !is_true {
        return next(world, caps);
    }
    let interests = interests(world);
    interests.learn(shared.clone(), nodes.clone());
    let waiting = interests.asked.remove(&caps).unwrap_or_default();
    waiting.iter().for_each(|&session| interests.close(session));
    for session in waiting {
        note(world, session, &shared, &nodes);
    }
}

/// Asks the next session that has these capabilities: nobody has told yet what they are.
fn next(world: &mut World, caps: Caps) {
    let interests = interests(world);
    match interests.asked.get_mut(&caps).and_then(Vec::pop) {
        Some(session) => ask(world, session, caps),
        None => drop(interests.asked.remove(&caps)),
    }
}

/// Notes the nodes that a session wants, if it still lives and still has these capabilities, for
/// all or for single accounts.
fn note(world: &mut World, session: SessionRef, caps: &Rc<Caps>, nodes: &Nodes) {
    let Some(found) = world.session(session) else { return };
    let is_broadcast = found.presence.as_ref().and_then(read).as_ref() == Some(&**caps);
    let interests = interests(world);
    let new = is_broadcast.then(|| interests.set(session.link, caps.clone(), nodes.clone()));
    let accounts = interests.directed.learn(session.link, caps, nodes);
    pep::wanted(world, session.link, new.unwrap_or_default());
    pep::wanted_of(world, session.link, accounts, texts(nodes));
}

/// Returns the capabilities in a presence.
fn read(presence: &Packet) -> Option<Caps> {
    memchr::memmem::find(presence.bytes(), ns::CAPS.as_bytes())?;
    let stanza = presence.stanza();
    let c = stanza.child("c", ns::CAPS)?;
    let text = |name: &str| c.attr(name).filter(|value| value.len() <= MAX_TEXT).map(|value| value.into_owned());
    Some(Caps { hash: text("hash"), node: text("node")?, ver: text("ver")? })
}

/// Returns the nodes that an answer names with `+notify`.
fn nodes_of(answer: &Element) -> Nodes {
    let features = answer.children().filter(|child| child.is("feature", ns::DISCO_INFO));
    let nodes = features.filter_map(|feature| feature.attr("var")?.strip_suffix("+notify"));
    let mut nodes: Vec<Box<str>> =
        nodes.filter(|node| node.len() <= MAX_TEXT).take(MAX_NODES).map(Into::into).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into()
}

fn texts(nodes: &Nodes) -> Vec<String> {
    nodes.iter().map(|node| node.to_string()).collect()
}

/// Returns the address of a session.
pub(super) fn address(world: &World, link: Link) -> Option<Jid> {
    world.address(link).cloned()
}

/// Capabilities that a shard knows: there are some hundred clients and versions.
const MAX_KNOWN: usize = 2000;
/// Nodes that a client may want.
const MAX_NODES: usize = 100;
/// Questions about one session's capabilities that may be without an answer: a client that changes them faster says so again.
const MAX_OPEN: u32 = 8;
/// Bytes of a hash, or of the id of a node.
const MAX_TEXT: usize = 1023;

#[cfg(test)]
impl Caps {
    /// Capabilities of that name.
    pub(super) fn named(name: &str) -> Self {
        Self { hash: None, node: name.to_owned(), ver: String::new() }
    }
}
