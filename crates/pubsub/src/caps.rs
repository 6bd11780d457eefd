//! Capabilities: their announcement in presence, and the nodes that a reply lists (XEP-0115,
//! XEP-0060 §9.2).

use std::rc::Rc;

use rookery_fanout::Packet;
use rookery_xml::{Element, ns};

/// Ids of nodes, sorted.
pub(super) type NodeIds = Rc<[Box<str>]>;

/// The capabilities that a presence announces (XEP-0115 §4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PresenceCaps {
    pub hash: Option<String>,
    pub node: String,
    pub ver: String,
}

/// Returns the capabilities in a presence.
pub(super) fn read(presence: &Packet) -> Option<PresenceCaps> {
    memchr::memmem::find(presence.bytes(), ns::CAPS.as_bytes())?;
    let stanza = presence.stanza();
    let c = stanza.child("c", ns::CAPS)?;
    let text = |name: &str| c.attr(name).filter(|value| value.len() <= MAX_TEXT).map(|value| value.into_owned());
    Some(PresenceCaps { hash: text("hash"), node: text("node")?, ver: text("ver")? })
}

/// Returns the nodes that a reply names with `+notify`.
pub(super) fn nodes_of(answer: &Element) -> NodeIds {
    let features = answer.children().filter(|child| child.is("feature", ns::DISCO_INFO));
    let nodes = features.filter_map(|feature| feature.attr("var")?.strip_suffix("+notify"));
    let mut nodes: Vec<Box<str>> =
        nodes.filter(|node| node.len() <= MAX_TEXT).take(MAX_NODES).map(Into::into).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into()
}

/// Returns the ids of nodes as texts.
pub(super) fn texts(nodes: &NodeIds) -> Vec<String> {
    nodes.iter().map(|node| node.to_string()).collect()
}

/// The most nodes that a client may want.
const MAX_NODES: usize = 100;
/// The most bytes of a hash, or of the id of a node.
const MAX_TEXT: usize = 1023;

#[cfg(test)]
impl PresenceCaps {
    /// Returns made-up capabilities of this name.
    pub(super) fn with_name(name: &str) -> Self {
        Self { hash: None, node: name.to_owned(), ver: String::new() }
    }
}
