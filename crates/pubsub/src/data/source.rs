//! The seam between the chat and a source of items from outside.
//!
//! The server attaches a source; the source delivers its readings with
//! [`deliver`](super::deliver), on the shard that opened the node, and posts texts with
//! [`say`](super::say).

use std::sync::Arc;

use rookery_xml::Element;

/// A source of items from outside. Its methods are called on shards and must not block.
pub trait DataSource: Send + Sync {
    /// Describes a node.
    ///
    /// # Errors
    /// The reason why there is no node of that name, as a text for users.
    fn describe(&self, node: &str) -> Result<Description, String>;

    /// Returns the nodes that service discovery lists, by name. There may be others.
    fn nodes(&self) -> Arc<[DataListed]>;

    /// Starts to pass readings of a node to [`deliver`](super::deliver), on this shard. A node is
    /// opened once and then closed.
    fn open(&self, topic: &Arc<Topic>, shard: usize);

    /// Stops the readings of a node.
    fn close(&self, topic: &Topic);
}

/// A node of a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic {
    /// The service, such as `data.example.org`.
    pub host: String,
    /// The name of the node.
    pub node: String,
}

/// The description of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// A short name.
    pub title: String,
    /// A sentence about the readings; may be empty.
    pub about: String,
    /// The namespace of the payloads.
    pub payload: &'static str,
    /// The units of its numbers; may be empty.
    pub units: String,
}

/// A node in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataListed {
    /// Its name.
    pub node: String,
    /// Its title for display.
    pub title: String,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The payload that is published.
    pub payload: Element,
    /// The time of the reading, in milliseconds since 1970.
    pub unix_ms: u64,
}
