//! Remembers which accounts have nodes, so that the store isn't asked about accounts without any.

use std::hash::BuildHasher;

use rookery_base::{Keyed, Map};
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};

use super::limits::PEP;
use super::node::NodeKey;

/// The accounts of a shard that may have nodes, by classes of node ids. It may list accounts
/// without nodes, but lacks none that has any.
#[derive(Debug, Default)]
pub(super) struct Holders {
    hashing: Keyed,
    /// By the hash of the account, one bit for each class of node ids.
    classes: Map<u64, u32>,
    loading: HolderLoading,
    /// The number of times that homes have moved.
    moves: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum HolderLoading {
    /// Loading has not been requested yet.
    #[default]
    Never,
    /// Loading is under way; until it is done, any account may have any node.
    Now,
    /// All accounts with nodes are known.
    Done,
}

impl Holders {
    fn insert(&mut self, account: &Jid, node: &str) {
        let class = self.class(node);
        *self.classes.entry(self.hashing.hash_one(account)).or_default() |= class;
    }

    /// Returns whether an account may have any of these nodes.
    pub(super) fn may_have(&self, account: &Jid, nodes: &[String]) -> bool {
        if self.loading != HolderLoading::Done {
            return true;
        }
        let classes = self.classes.get(&self.hashing.hash_one(account)).copied().unwrap_or_default();
        nodes.iter().any(|node| classes & self.class(node) != 0)
    }

    fn class(&self, node: &str) -> u32 {
        1 << (self.hashing.hash_one(node) & 31)
    }
}

/// Returns whether the accounts of a domain have nodes.
pub(super) fn is_on(world: &World, account: JidRef<'_>) -> bool {
    world.options(account.domain(), PEP).is_some()
}

/// Notes that an account has created a node.
pub(super) fn made(world: &mut World, key: &NodeKey) {
    world.state_mut::<Holders>().insert(&key.0, &key.1);
}

/// Starts to load the accounts that have nodes, if that hasn't begun.
pub(super) fn load_holders(world: &mut World) {
    let holders = world.state_mut::<Holders>();
    if holders.loading == HolderLoading::Never {
        holders.loading = HolderLoading::Now;
        let moves = holders.moves;
        load_more_holders(world, moves, 0);
    }
}

/// Notes that homes have moved: nothing is known about accounts that have come here.
pub(super) fn moved(world: &mut World) {
    let holders = world.state_mut::<Holders>();
    holders.moves = holders.moves.wrapping_add(1);
    holders.loading = HolderLoading::Never;
}

fn load_more_holders(world: &mut World, moves: u32, after: u64) {
    let page = world.stores.pubsub.accounts_nodes(after, PAGE);
    world.wait(page, move |world, page| match page {
        // Another load has begun, or begins with the next query.
        _ if world.state::<Holders>().moves != moves => {}
        Ok(page) => {
            let here = world.shard();
            for (_, account, node) in &page {
                if world.home_of(account.as_ref()) == here {
                    world.state_mut::<Holders>().insert(account, node);
                }
            }
            match page.last() {
                Some((last, ..)) => load_more_holders(world, moves, *last),
                None => world.state_mut::<Holders>().loading = HolderLoading::Done,
            }
        }
        Err(error) => {
            let domain = world.settings().domains.first().and_then(|domain| Jid::parse(&domain.name).ok());
            if let Some(domain) = domain {
                world.store_failed("listing who has nodes", &domain, &error);
            }
            // The next query tries again.
            world.state_mut::<Holders>().loading = HolderLoading::Never;
        }
    });
}

/// The number of nodes that are listed at once.
const PAGE: usize = 10_000;
