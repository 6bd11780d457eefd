//! Remembers which accounts have nodes, so that the store isn't asked about accounts without any.
//!
//! An import creates nodes in a process of its own, and marks that in the store
//! ([`WRITTEN_BESIDE`]). As long as logins need this knowledge, the mark is read every five
//! seconds; after a change, all accounts are read again.

use std::hash::BuildHasher;

use rookery_base::{Keyed, Map};
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_store::Pending;
use rookery_store::meta::WRITTEN_BESIDE;

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
    /// The number of loads and checks that have begun, and of moves of homes: of two that run at
    /// the same time, the older one ends.
    turns: u32,
    /// The store's [`WRITTEN_BESIDE`] from before the load.
    mark: Option<Vec<u8>>,
    /// The time after which that is read again, in milliseconds since 1970.
    check_at: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum HolderLoading {
    /// Loading has not been requested yet.
    #[default]
    Never,
    /// Loading or checking is under way; until it is done, any account may have any node.
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
pub(super) fn note_node(world: &mut World, key: &NodeKey) {
    world.state_mut::<Holders>().insert(&key.0, &key.1);
}

/// Starts to load the accounts that have nodes, if that hasn't begun, or if another process may
/// have created nodes since.
pub(super) fn load_holders(world: &mut World) {
    let now = world.time();
    let holders = world.state_mut::<Holders>();
    let is_loaded = holders.loading == HolderLoading::Done;
    if holders.loading == HolderLoading::Now || is_loaded && now < holders.check_at {
        return;
    }
    holders.loading = HolderLoading::Now;
    holders.check_at = now + CHECK_MS;
    holders.turns = holders.turns.wrapping_add(1);
    let turn = holders.turns;
    let mark = world.stores.meta.get(WRITTEN_BESIDE);
    in_turn(world, turn, mark, move |world, mark| {
        let holders = world.state_mut::<Holders>();
        match is_loaded && holders.mark == mark {
            true => holders.loading = HolderLoading::Done,
            false => {
                holders.mark = mark;
                load_more_holders(world, turn, 0);
            }
        }
    });
}

/// Notes that homes have moved: nothing is known about accounts that have come here.
pub(super) fn moved(world: &mut World) {
    let holders = world.state_mut::<Holders>();
    holders.turns = holders.turns.wrapping_add(1);
    holders.loading = HolderLoading::Never;
}

fn load_more_holders(world: &mut World, turn: u32, after: u64) {
    let page = world.stores.pubsub.accounts_nodes(after, PAGE);
    in_turn(world, turn, page, move |world, page| {
        let here = world.shard();
        for (_, account, node) in &page {
            if world.home_of(account.as_ref()) == here {
                world.state_mut::<Holders>().insert(account, node);
            }
        }
        match page.last() {
            Some((last, ..)) => load_more_holders(world, turn, *last),
            None => world.state_mut::<Holders>().loading = HolderLoading::Done,
        }
    });
}

/// Continues with what the store returns, unless another load has begun or is due.
fn in_turn<T: 'static>(world: &mut World, turn: u32, asked: Pending<T>, then: impl FnOnce(&mut World, T) + 'static) {
    world.wait(asked, move |world, read| match read {
        _ if world.state::<Holders>().turns != turn => {}
        Ok(read) => then(world, read),
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

/// The time for which nodes that another process has created may stay unknown, in milliseconds.
const CHECK_MS: u64 = 5_000;
