//! Work that enters a world from another thread of its process: the web front, the data pool.
//!
//! An errand is a closure that gets the whole world. It never travels from shard to shard: mail
//! between shards is data, see [`crate::mail`].

use crate::World;

/// Work for a world, from outside of all worlds.
pub struct Errand(Box<dyn FnOnce(&mut World) + Send>);

impl std::fmt::Debug for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Errand")
    }
}

impl Errand {
    /// Packs work for the shard that gets it.
    pub fn new(work: impl FnOnce(&mut World) + Send + 'static) -> Self {
        Self(Box::new(work))
    }
}

impl World {
    /// Runs work that came from another thread. It belongs to nobody's custody.
    pub fn run(&mut self, errand: Errand) {
        self.in_custody(None, |world| (errand.0)(world));
    }
}
