//! The seam between the chat and whatever gives items from outside.
//!
//! The server joins a source; the source gives what it reads with [`deliver`], on the shard that it was told, and has things said with [`say`].

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_xml::Element;

use super::subscriptions::Subscriptions;
use super::{DataLetter, NAME, pace};

/// Gives items from outside. Its methods are called on shards and must not wait for anything.
pub trait Source: Send + Sync {
    /// What a node is, or why there is none of that name, in words for people.
    fn describe(&self, node: &str) -> Result<Description, String>;

    /// The nodes that service discovery lists, by name. There may be others.
    fn nodes(&self) -> Arc<[Listed]>;

    /// Gives from now on what it reads to [`deliver`], on this shard. A node is opened once and then closed.
    fn open(&self, topic: &Arc<Topic>, shard: usize);

    /// Gives no more.
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

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// A short name.
    pub title: String,
    /// What is read, in a sentence; may be empty.
    pub about: String,
    /// The namespace of the payloads.
    pub payload: &'static str,
    /// Of what its numbers are; may be empty.
    pub units: String,
}

/// A node in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub node: String,
    /// What it is.
    pub title: String,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// What is published.
    pub payload: Element,
    /// When it was read, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// What the modules of all shards have in common. Clones mean the same.
#[derive(Clone, Default)]
pub struct Data(Arc<Common>);

/// The same for all shards.
#[derive(Default)]
pub struct Common {
    source: OnceLock<Arc<dyn Source>>,
    pub(super) subscriptions: Subscriptions,
    /// Nodes that are open, on all shards.
    pub(super) open: AtomicUsize,
}

impl std::ops::Deref for Data {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.0
    }
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Data").field("is_joined", &self.0.source.get().is_some()).finish_non_exhaustive()
    }
}

impl Data {
    /// Joins a source, before the shards start. Only the first one counts.
    pub fn join(&self, source: Arc<dyn Source>) {
        let _ = self.0.source.set(source);
    }

    pub(super) fn source(&self) -> Option<&Arc<dyn Source>> {
        self.0.source.get()
    }
}

/// Gives a shard what was read of nodes that were opened there.
pub fn deliver(world: &mut World, readings: Vec<(Arc<Topic>, Reading)>) {
    pace::take(world, readings);
}

/// Says something in a room, in the name of the service of a domain. Any shard will do.
pub fn say(world: &mut World, domain: &str, room: &Jid, text: String) {
    let services = world.options(domain, NAME).map(|options| options.text("host"));
    let Some(host) = services.map(|host| host.replace('@', domain)) else { return };
    world.send_letter_home(room.as_ref(), DataLetter::Say { host, room: room.clone(), text });
}
