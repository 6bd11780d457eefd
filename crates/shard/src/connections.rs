//! The connections of a shard by their links.

use rookery_fanout::Link;
use slab::Slab;

use crate::connection::Connection;

/// All connections of a shard. A link that is free is given to the next one.
pub(crate) struct Connections<S>(Slab<Connection<S>>);

impl<S> Default for Connections<S> {
    fn default() -> Self {
        Self(Slab::new())
    }
}

impl<S> Connections<S> {
    pub(crate) fn insert(&mut self, connection: Connection<S>) -> Link {
        Link::at(self.0.insert(connection))
    }

    pub(crate) fn remove(&mut self, link: Link) -> Option<Connection<S>> {
        self.0.try_remove(link.index())
    }

    pub(crate) fn get(&self, link: Link) -> Option<&Connection<S>> {
        self.0.get(link.index())
    }

    pub(crate) fn get_mut(&mut self, link: Link) -> Option<&mut Connection<S>> {
        self.0.get_mut(link.index())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Link, &Connection<S>)> {
        self.0.iter().map(|(key, connection)| (Link::at(key), connection))
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        self.iter().map(|(link, _)| link).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
