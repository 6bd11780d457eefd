//! What clients want to be notified of, from their capabilities (XEP-0060 §9.2, XEP-0115).
//!
//! A client says in its presence by a hash what it can do; the features behind the hash are asked for once per server shard, by a service discovery
//! request of its domain. Only the nodes to which `+notify` is appended are kept, and for each session that
//! is available a reference to them. A hash is known to all sessions only if it is that of the answer: a client that lies about
//! its hash lies for itself alone (XEP-0115 §9.1).

use std::collections::HashMap;
use std::rc::Rc;

use rookery_fanout::{Link, Packet};
use rookery_hub::ask::Answer;
use rookery_hub::{SessionRef, World};
use rookery_jid::Jid;
use rookery_xml::{Element, Limits, Stanza, ns};

use super::pep::{self, Pep};
use crate::caps;

/// Ids of nodes, sorted.
pub(super) type Nodes = Rc<[Box<str>]>;

/// What the sessions of a shard want.
#[derive(Debug, Default)]
pub(super) struct Interests {
    sessions: HashMap<Link, Interest>,
    young: HashMap<Rc<Caps>, Nodes>,
    old: HashMap<Rc<Caps>, Nodes>,
    /// Capabilities that somebody is being asked for, with those who wait for the answer.
    asked: HashMap<Caps, Vec<SessionRef>>,
}

#[derive(Debug)]
struct Interest {
    caps: Rc<Caps>,
    nodes: Nodes,
}

/// The capabilities that a presence announces (XEP-0115 §4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Caps {
    hash: Option<String>,
    node: String,
    ver: String,
}

impl Interests {
    /// Whether a session wants to be notified of a node.
    pub(super) fn has(&self, link: Link, node: &str) -> bool {
        let interest = self.sessions.get(&link);
        interest.is_some_and(|interest| interest.nodes.binary_search_by(|other| (**other).cmp(node)).is_ok())
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

    /// What a session wants.
    pub(super) fn of(&self, link: Link) -> Vec<String> {
        let nodes = self.sessions.get(&link).map(|interest| interest.nodes.iter());
        nodes.into_iter().flatten().map(|node| node.to_string()).collect()
    }

    fn learn(&mut self, caps: Rc<Caps>, nodes: Nodes) {
        if self.young.len() >= MAX_KNOWN / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(caps, nodes);
    }

    /// Notes what a session wants; what of that is new.
    fn set(&mut self, link: Link, caps: Rc<Caps>, nodes: Nodes) -> Vec<String> {
        let before = self.sessions.insert(link, Interest { caps, nodes: nodes.clone() });
        let before = before.map(|before| before.nodes).unwrap_or_default();
        nodes.iter().filter(|node| !before.contains(node)).map(|node| node.to_string()).collect()
    }
}

/// The presence of a session has changed.
pub(super) fn presence(pep: &Rc<Pep>, world: &mut World, link: Link) {
    let caps = world.session_at(link).and_then(|session| session.presence.as_ref()).and_then(read);
    let Some(caps) = caps else {
        pep.interests.borrow_mut().sessions.remove(&link);
        return;
    };
    let Some(session) = reference(world, link) else { return };
    let mut interests = pep.interests.borrow_mut();
    if interests.sessions.get(&link).is_some_and(|interest| *interest.caps == caps) {
        return;
    }
    if let Some((caps, nodes)) = interests.known(&caps) {
        let new = interests.set(link, caps, nodes);
        drop(interests);
        return pep::wanted(world, link, new);
    }
    if let Some(waiting) = interests.asked.get_mut(&caps) {
        return waiting.push(session);
    }
    interests.asked.insert(caps.clone(), Vec::new());
    drop(interests);
    ask(pep, world, session, caps);
}

/// Asks a session what its capabilities are (§6.2).
fn ask(pep: &Rc<Pep>, world: &mut World, session: SessionRef, caps: Caps) {
    let Some(address) = world.outboxes.address(session.link).cloned() else { return next(pep, world, caps) };
    let query = Element::new("query", ns::DISCO_INFO).with_attr("node", format!("{}#{}", caps.node, caps.ver));
    let pep = pep.clone();
    world.ask(address.domain(), &address, false, &query, move |world, answer| {
        let answer = if let Answer::Result(answer) = answer { answer } else { None };
        answered(&pep, world, session, caps, answer);
    });
}

fn answered(pep: &Rc<Pep>, world: &mut World, session: SessionRef, caps: Caps, answer: Option<Element>) {
    let answer = answer.filter(|answer| answer.is("query", ns::DISCO_INFO));
    let Some(answer) = answer else { return next(pep, world, caps) };
    let nodes = nodes_of(&answer);
    let is_true = caps.hash.as_ref().is_some_and(|hash| caps::is_hash_of(hash, &caps.ver, &answer));
    let shared = Rc::new(caps.clone());
    note(pep, world, session, &shared, &nodes);
    if !is_true {
        return next(pep, world, caps);
    }
    let waiting = {
        let mut interests = pep.interests.borrow_mut();
        interests.learn(shared.clone(), nodes.clone());
        interests.asked.remove(&caps).unwrap_or_default()
    };
    for session in waiting {
        note(pep, world, session, &shared, &nodes);
    }
}

/// Nobody has told yet what these capabilities are: the next one who has them is asked.
fn next(pep: &Rc<Pep>, world: &mut World, caps: Caps) {
    let session = {
        let mut interests = pep.interests.borrow_mut();
        let waiting = interests.asked.get_mut(&caps);
        let session = waiting.and_then(Vec::pop);
        if session.is_none() {
            interests.asked.remove(&caps);
        }
        session
    };
    if let Some(session) = session {
        ask(pep, world, session, caps);
    }
}

/// Notes what a session wants, if it still lives and still has these capabilities.
fn note(pep: &Rc<Pep>, world: &mut World, session: SessionRef, caps: &Rc<Caps>, nodes: &Nodes) {
    let presence = world.session(session).and_then(|found| found.presence.as_ref());
    if presence.and_then(read).as_ref() != Some(&**caps) {
        return;
    }
    let new = pep.interests.borrow_mut().set(session.link, caps.clone(), nodes.clone());
    pep::wanted(world, session.link, new);
}

/// The capabilities in a presence.
fn read(presence: &Packet) -> Option<Caps> {
    memchr::memmem::find(presence.bytes(), ns::CAPS.as_bytes())?;
    let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
    let stanza = Stanza::parse(presence.bytes(), &limits).ok()?;
    let c = stanza.child("c", ns::CAPS)?;
    let text = |name: &str| c.attr(name).filter(|value| value.len() <= MAX_TEXT).map(|value| value.into_owned());
    Some(Caps { hash: text("hash"), node: text("node")?, ver: text("ver")? })
}

/// The nodes that an answer names with `+notify`.
fn nodes_of(answer: &Element) -> Nodes {
    let features = answer.children().filter(|child| child.is("feature", ns::DISCO_INFO));
    let nodes = features.filter_map(|feature| feature.attr("var")?.strip_suffix("+notify"));
    let mut nodes: Vec<Box<str>> =
        nodes.filter(|node| node.len() <= MAX_TEXT).take(MAX_NODES).map(Into::into).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into()
}

fn reference(world: &World, link: Link) -> Option<SessionRef> {
    world.session_at(link).map(|session| SessionRef { link, serial: session.serial })
}

/// The address of a session.
pub(super) fn address(world: &World, link: Link) -> Option<Jid> {
    world.outboxes.address(link).cloned()
}

/// Capabilities that a shard knows: there are some hundred clients and versions.
const MAX_KNOWN: usize = 2000;
/// Nodes that a client may want.
const MAX_NODES: usize = 100;
/// Bytes of a hash, or of the id of a node.
const MAX_TEXT: usize = 1023;
