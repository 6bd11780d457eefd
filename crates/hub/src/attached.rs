//! The components of a cluster: each may connect to any node.
//!
//! Stanzas for a component pass the home of its name, as stanzas for other servers do. But a
//! component stays on the node to which it has connected, on the shard of that process which stands
//! for its name. The home is told about this, and forwards stanzas there.
//!
//! # Invariants
//!
//! * A stanza for a component goes to the home of its name, and from there to one shard at most.
//! * A home keeps only configured components, and processes that are in the view.
//! * A process that has components announces them again whenever homes have moved.

use rookery_fanout::Station;
use serde::{Deserialize, Serialize};

use crate::World;
use crate::memo::Memo;
use crate::parts::Attached;

/// Tells the home of a component's name whether it is connected to a shard of another process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Attachment {
    name: String,
    shard: Station,
    is_there: bool,
}

impl Memo for Attachment {
    const NAME: &'static str = "hub attachment";

    fn open(self, world: &mut World) {
        if !world.is_component(&self.name) {
            return;
        }
        let shards = world.out.attached.elsewhere.entry(self.name.into()).or_default();
        shards.retain(|shard| *shard != self.shard);
        if self.is_there && shards.len() < MOST_SHARDS {
            shards.push(self.shard);
        }
    }
}

impl World {
    /// Notes that a component is connected to this shard, or is no longer.
    pub(crate) fn attach(&mut self, name: &str, is_here: bool) {
        if is_here {
            self.out.attached.here.insert(name.into());
        } else {
            self.out.attached.here.remove(name);
        }
        self.tell_attached(name, is_here);
    }

    fn tell_attached(&mut self, name: &str, is_there: bool) {
        let home = self.home_of_text(name);
        if home >= self.own_shards() {
            self.send_memo(home, Attachment { name: name.to_owned(), shard: self.station(), is_there });
        }
    }

    /// Tells the homes, if they are in other processes now, which components are connected here,
    /// and forgets processes that are gone.
    pub(crate) fn attach_again(&mut self) {
        let view = self.here.view.clone();
        self.out.attached.elsewhere.retain(|_, shards| {
            shards.retain(|shard| view.hop_to(*shard).is_some());
            !shards.is_empty()
        });
        for name in self.out.attached.here.iter().cloned().collect::<Vec<_>>() {
            self.tell_attached(&name, true);
        }
    }

    /// Returns the next shard for stanzas to a remote domain, or a component; this one if they
    /// leave here.
    pub(crate) fn way_to(&self, domain: &str) -> usize {
        let Attached { here, elsewhere } = &self.out.attached;
        let home = self.home_of_text(domain);
        if self.shards() == self.own_shards() {
            return home;
        }
        if here.contains(domain) {
            return self.shard();
        }
        let shards = if home == self.shard() { elsewhere.get(domain) } else { None };
        shards.and_then(|shards| shards.iter().find_map(|shard| self.shard_of(*shard))).unwrap_or(home)
    }
}

/// The shards of other processes that a component may be connected to.
const MOST_SHARDS: usize = 64;
