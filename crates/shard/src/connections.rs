//! The connections of a shard by their links.

use rookery_fanout::Link;
use slab::Slab;

use crate::connection::ShardConnection;

/// All connections of a shard. A free link is given to the next connection.
pub(crate) struct ShardConnections<S>(Slab<ShardConnection<S>>);

impl<S> Default for ShardConnections<S> {
    fn default() -> Self {
        Self(Slab::new())
    }
}

impl<S> ShardConnections<S> {
    pub(crate) fn insert(&mut self, connection: ShardConnection<S>) -> Link {
        Link::at(self.0.insert(connection))
    }

    pub(crate) fn remove(&mut self, link: Link) -> Option<ShardConnection<S>> {
        self.0.try_remove(link.index())
    }

    pub(crate) fn get(&self, link: Link) -> Option<&ShardConnection<S>> {
        self.0.get(link.index())
    }

    pub(crate) fn get_mut(&mut self, link: Link) -> Option<&mut ShardConnection<S>> {
        self.0.get_mut(link.index())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Link, &ShardConnection<S>)> {
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
