//! The nodes that the sessions of a shard want, by their capabilities.

use std::rc::Rc;

use rookery_base::Map;
use rookery_fanout::Link;
use rookery_hub::SessionRef;
use rookery_jid::Jid;

use super::caps::{NodeIds, PresenceCaps, texts};
use super::directed::Directed;

/// The wishes of the sessions of a shard.
#[derive(Debug, Default)]
pub(super) struct Interests {
    pub sessions: Map<Link, Interest>,
    /// The capabilities announced to single accounts, which apply there.
    pub directed: Directed,
    young: Map<Rc<PresenceCaps>, NodeIds>,
    old: Map<Rc<PresenceCaps>, NodeIds>,
    /// Capabilities that are being queried, with those who wait for the reply.
    pub asked: Map<PresenceCaps, Vec<CapsAsker>>,
    /// The number of these queries for each session.
    open: Map<SessionRef, u32>,
}

/// The owner of capabilities that are to be looked up.
#[derive(Debug, Clone)]
pub(super) enum CapsAsker {
    /// A session of this shard.
    Session(SessionRef),
    /// A remote contact that has shown them to an account.
    Afar { resource: Jid, account: Jid },
}

/// The capabilities of a session, and the nodes that it wants.
#[derive(Debug)]
pub(super) struct Interest {
    pub caps: Rc<PresenceCaps>,
    nodes: NodeIds,
}

impl Interest {
    /// Returns the nodes that the session wants notifications of, in order.
    pub(super) fn nodes(&self) -> &NodeIds {
        &self.nodes
    }
}

impl Interests {
    /// Returns whether a session wants to be notified of a node of an account.
    pub(super) fn has(&self, link: Link, owner: &Jid, node: &str) -> bool {
        let nodes = self.nodes(link, owner);
        nodes.is_some_and(|nodes| nodes.binary_search_by(|other| (**other).cmp(node)).is_ok())
    }

    fn nodes(&self, link: Link, owner: &Jid) -> Option<&NodeIds> {
        self.directed.nodes(link, owner).or_else(|| self.sessions.get(&link).map(|interest| &interest.nodes))
    }

    /// Returns the stored meaning of capabilities, which all sessions that have them share.
    pub(super) fn find(&mut self, caps: &PresenceCaps) -> Option<(Rc<PresenceCaps>, NodeIds)> {
        if let Some((caps, nodes)) = self.young.get_key_value(caps) {
            return Some((caps.clone(), nodes.clone()));
        }
        let (caps, nodes) = self.old.remove_entry(caps)?;
        self.learn(caps.clone(), nodes.clone());
        Some((caps, nodes))
    }

    /// Returns the nodes that a session wants from an account.
    pub(super) fn of(&self, link: Link, owner: &Jid) -> Vec<String> {
        self.nodes(link, owner).map(texts).unwrap_or_default()
    }

    /// Counts a query about a session's capabilities, unless too many are open.
    pub(super) fn open(&mut self, session: SessionRef) -> bool {
        let open = self.open.entry(session).or_default();
        let has_room = *open < MAX_OPEN;
        *open += u32::from(has_room);
        has_room
    }

    /// Uncounts a query about a session's capabilities.
    pub(super) fn close(&mut self, session: SessionRef) {
        if let Some(open) = self.open.get_mut(&session) {
            debug_assert!(*open > 0, "a question is closed once");
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.open.remove(&session);
            }
        }
    }

    /// Notes the nodes that capabilities stand for, for all sessions.
    pub(super) fn learn(&mut self, caps: Rc<PresenceCaps>, nodes: NodeIds) {
        if self.young.len() >= MAX_KNOWN / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(caps, nodes);
    }

    /// Notes the nodes that a session wants, and returns the new ones among them.
    pub(super) fn set(&mut self, link: Link, caps: Rc<PresenceCaps>, nodes: NodeIds) -> Vec<String> {
        let before = self.sessions.insert(link, Interest { caps, nodes: nodes.clone() });
        let before = before.map(|before| before.nodes).unwrap_or_default();
        nodes.iter().filter(|node| !before.contains(node)).map(|node| node.to_string()).collect()
    }
}

/// The most capabilities that a shard knows: there are a few hundred clients and versions.
const MAX_KNOWN: usize = 2000;
/// The most queries without a reply about one session's capabilities: a client that changes them
/// faster announces them again.
const MAX_OPEN: u32 = 8;
