//! Chooses the lane for an operation, and the operations that it has to wait for.
//!
//! A lane is a thread with a connection and a queue. An owner's operations go to the lane of that
//! owner, and are done in the order of the calls. The archives' writes have a separate lane, and so
//! have long reads, so that neither makes a login wait:
//!
//! - Writes to archives come after all earlier calls for their owners, such as creating the
//!   account. Later calls for the owners don't wait for them.
//! - A page of an archive comes after those and after the writes to its archive, however many
//!   operations wait for others; nothing waits for it, and pages that may be read overtake those
//!   that may not yet.
//! - Reads about many owners reflect the moment at which they run, like lists: if each waited for
//!   all lanes, they would run one after the other.
//! - Writes for many owners come after the queues of all their lanes and hold up later operations
//!   there; removing an account does so in all lanes.
//! - Lists and counts wait for nothing, and nothing waits for them.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The route of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneRoute {
    /// The lane that carries it out.
    pub(crate) on: usize,
    /// Lanes whose queued operations it waits for.
    pub(crate) behind: LaneSet,
    /// Lanes whose later operations wait for it.
    pub(crate) holds: LaneSet,
    /// True if a login waits for it.
    pub(crate) is_login: bool,
    /// The owners, as hashes, for whom it counts as the last of its lane.
    pub(crate) last_of: Vec<u64>,
    /// The lane and owner whose last operation it waits for.
    pub(crate) after: Option<(usize, u64)>,
    /// True if it may overtake operations of its lane that have to wait.
    pub(crate) overtakes: bool,
}

/// A set of lanes, with a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneSet(u64);

impl LaneSet {
    fn one(lane: usize) -> LaneSet {
        LaneSet(1 << lane)
    }

    fn and(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 | other.0)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (lane < u64::BITS as usize).then_some(lane)
        })
    }
}

/// The lanes of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// The number of lanes that owners share; they come first.
    owners: usize,
    /// The number of the lane for writes to archives: the first of the owners' if it has none of
    /// its own.
    archive: usize,
    /// The lane for reads that may take long.
    reads: usize,
}

impl Lanes {
    /// Returns this many lanes for owners, at least one, and optionally one for the archives and
    /// one for long reads; operations without a separate lane go to the first.
    pub(crate) fn new(owners: usize, has_archive: bool, has_reads: bool) -> Lanes {
        let owners = owners.clamp(1, MOST);
        let archive = if has_archive { owners } else { 0 };
        let reads = if has_reads { owners + usize::from(has_archive) } else { 0 };
        Lanes { owners, archive, reads }
    }

    /// Returns the number of lanes.
    pub(crate) fn count(self) -> usize {
        self.owners.max(self.archive + 1).max(self.reads + 1)
    }

    /// Returns the route of an operation of an owner: an account, a room, a host of nodes, a token,
    /// a name of a setting.
    pub(crate) fn owner(self, owner: &str) -> LaneRoute {
        LaneRoute { on: self.of(owner), ..LaneRoute::default() }
    }

    /// Returns the route of an operation of a login.
    pub(crate) fn login(self, account: &str) -> LaneRoute {
        LaneRoute { is_login: true, ..self.owner(account) }
    }

    /// Returns the route of a write that concerns many owners.
    pub(crate) fn write_of<'o>(self, owners: impl Iterator<Item = &'o str>) -> LaneRoute {
        let all = self.all_of(owners);
        LaneRoute { on: all.iter().next().unwrap_or_default(), behind: all, holds: all, ..LaneRoute::default() }
    }

    /// Returns the route of an operation that changes data of all owners.
    pub(crate) fn everybody(self) -> LaneRoute {
        let archive = LaneSet::one(self.archive);
        let all = (0..self.owners).map(LaneSet::one).fold(archive, LaneSet::and);
        LaneRoute { on: self.archive, behind: all, holds: all, ..LaneRoute::default() }
    }

    /// Returns the route of a write to archives.
    pub(crate) fn archive<'o>(self, owners: impl Iterator<Item = &'o str> + Clone) -> LaneRoute {
        // If all share one lane, a page comes after everything that waits there.
        let is_needed = self.reads != self.archive && self.archive >= self.owners;
        let mut last_of: Vec<_> = if is_needed { owners.clone().map(hash).collect() } else { Vec::new() };
        last_of.sort_unstable();
        last_of.dedup();
        LaneRoute { on: self.archive, behind: self.all_of(owners), last_of, ..LaneRoute::default() }
    }

    /// Returns the route of a read from an archive.
    pub(crate) fn page(self, owner: &str) -> LaneRoute {
        let (behind, after) = (LaneSet::one(self.of(owner)), Some((self.archive, hash(owner))));
        LaneRoute { behind, after, ..self.list() }
    }

    /// Returns the route of a list or a count, which reflects the moment at which it is made.
    pub(crate) fn list(self) -> LaneRoute {
        LaneRoute { on: self.reads, overtakes: self.reads >= self.owners, ..LaneRoute::default() }
    }

    fn all_of<'o>(self, owners: impl Iterator<Item = &'o str>) -> LaneSet {
        if self.owners == 1 {
            return LaneSet::one(0);
        }
        owners.map(|owner| LaneSet::one(self.of(owner))).fold(LaneSet::default(), LaneSet::and)
    }

    fn of(self, owner: &str) -> usize {
        if self.owners == 1 {
            return 0;
        }
        (hash(owner) % self.owners as u64) as usize
    }
}

fn hash(owner: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    owner.hash(&mut hasher);
    hasher.finish()
}

/// The most lanes of owners: with two more, a set of them fits 64 bits.
pub(crate) const MOST: usize = 62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_is_one_lane() {
        let lanes = Lanes::new(1, false, false);
        assert_eq!(lanes.count(), 1);
        for route in
            [lanes.owner("a"), lanes.everybody(), lanes.page("a"), lanes.list(), lanes.archive(["a"].into_iter())]
        {
            assert_eq!(route.on, 0);
            assert!(route.behind.iter().chain(route.holds.iter()).all(|lane| lane == 0), "{route:?}");
        }
    }

    #[test]
    fn long_reads_beside_one_connection_wait_for_it() {
        let lanes = Lanes::new(1, false, true);
        assert_eq!(lanes.count(), 2);
        let appended = lanes.archive(["romeo@example.org"].into_iter());
        assert_eq!((appended.on, appended.last_of.len()), (0, 0));
        let page = lanes.page("romeo@example.org");
        assert_eq!((page.on, page.behind.iter().collect::<Vec<_>>(), page.overtakes), (1, vec![0], true));
        assert_eq!(lanes.everybody().on, 0);
    }

    #[test]
    fn archives_and_long_reads_have_lanes_of_their_own() {
        let lanes = Lanes::new(8, true, true);
        assert_eq!(lanes.count(), 10);
        let own = lanes.owner("romeo@example.org").on;
        assert!(own < 8);
        let appended = lanes.archive(["romeo@example.org"].into_iter());
        assert_eq!((appended.on, appended.behind.iter().collect::<Vec<_>>()), (8, vec![own]));
        let page = lanes.page("romeo@example.org");
        assert_eq!((page.on, page.behind.iter().collect::<Vec<_>>()), (9, vec![own]));
        assert_eq!(page.after, appended.last_of.first().map(|owner| (8, *owner)));
        assert_eq!(lanes.everybody().holds.iter().collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    }
}
