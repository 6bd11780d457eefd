//! The nodes as one process sees them, and the resulting view for its shards.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;

use rookery_fanout::view::SLOTS;
use rookery_fanout::{Member, View};
use siphasher::sip::SipHasher13;

use crate::agreed::AgreedSettings;
use crate::clocks::FAR_APART_MS;
use crate::members::{JoinedMember, MemberNotes, MemberRow};
use crate::placement::{self, NodeWeights};
use crate::wire::NodeProcess;

/// The nodes, this one first. A known node keeps its place, so that hops stay the same ([`View`]).
#[derive(Debug)]
pub struct NodeTable {
    places: Vec<NodePlace>,
    /// The hash of the homes in use, as all nodes that use them compute it.
    homes: u64,
    /// The latest time of day, by its own clock, at which a process may have acted whose homes are
    /// elsewhere now, in milliseconds since 1970.
    floor_ms: u64,
}

#[derive(Debug)]
struct NodePlace {
    name: String,
    weights: NodeWeights,
    row: MemberRow,
    /// False once the node has been removed, or has come back with a different number of shards.
    is_member: bool,
}

/// The effect of an update.
#[derive(Debug, PartialEq, Eq)]
pub enum Update {
    /// There is none.
    Same,
    /// Nodes or their processes have changed. These processes are gone.
    Changed(Vec<NodeProcess>),
    /// This node has another process now, or none.
    Superseded,
}

impl NodePlace {
    fn new(name: String, row: MemberRow) -> Self {
        Self { weights: NodeWeights::of(&name), name, row, is_member: true }
    }

    fn process(&self) -> NodeProcess {
        NodeProcess { node: self.row.number, incarnation: self.row.incarnation }
    }

    /// Adopts the surroundings that a process states, which don't decide about any home. Returns
    /// its row with everything that is known of its surroundings and its versions of letters.
    fn adopt_notes(&mut self, row: MemberRow) -> MemberRow {
        if row.notes != MemberNotes::default() {
            self.row.notes.clone_from(&row.notes);
        }
        let journals_from = self.row.journals_from;
        MemberRow { letters: self.row.letters, notes: self.row.notes.clone(), journals_from, ..row }
    }
}

impl NodeTable {
    /// Returns the table of a node that doesn't know other nodes yet.
    pub fn new(name: String, row: MemberRow) -> Self {
        let mut table = Self { places: vec![NodePlace::new(name, row)], homes: 0, floor_ms: 0 };
        table.homes = table.name_of_homes();
        table
    }

    /// Returns the table of a joining node, with the rows that it found before. Nodes in these rows
    /// that are gone later have had homes that then belong to the joining node.
    pub fn joining(name: String, joined: JoinedMember, found: Vec<(String, MemberRow)>) -> Self {
        let JoinedMember { row, .. } = joined;
        let mut table = Self::new(name.clone(), row.clone());
        let others = found.into_iter().filter(|(other, _)| *other != name);
        table.update(others.chain([(name.clone(), row)]).collect());
        table
    }

    /// Returns this process.
    pub fn me(&self) -> NodeProcess {
        self.places.first().map_or(NodeProcess { node: 0, incarnation: 0 }, NodePlace::process)
    }

    /// Returns the name of this node; empty if the table has no nodes.
    pub fn name(&self) -> &str {
        self.places.first().map_or("", |place| place.name.as_str())
    }

    /// Records the time of day of a process whose homes are elsewhere now, by its own clock: ids of
    /// archives at those homes won't be below it. The time is ignored if the clock is farther ahead
    /// of this machine's than the clock of a node may be. Both are in milliseconds since 1970.
    pub fn raise_floor(&mut self, unix_ms: u64, now_unix_ms: u64) {
        self.floor_ms = self.floor_ms.max(unix_ms.min(now_unix_ms + FAR_APART_MS));
    }

    /// Returns the mark of the Redis that this process has joined with, if it knows one.
    pub fn mark(&self) -> Option<u64> {
        self.places.first().and_then(|own| own.row.notes.mark)
    }

    /// Returns the settings that this process states.
    pub fn settings(&self) -> Option<&AgreedSettings> {
        self.places.first().map(|own| &own.row.notes.settings)
    }

    /// Returns the number of slots of each node, by the nodes' numbers.
    pub fn slots(&self) -> BTreeMap<u16, u64> {
        let view = self.view();
        let mut slots = BTreeMap::new();
        for slot in 0..SLOTS as u64 {
            let home = view.station(view.hop(slot << 32)).unwrap_or_default();
            *slots.entry(home.node).or_default() += 1;
        }
        slots
    }

    /// Returns the other nodes' processes, with the names of the nodes.
    pub fn others(&self) -> Vec<(String, NodeProcess)> {
        let others = self.places.iter().skip(1).filter(|place| place.is_member);
        others.map(|place| (place.name.clone(), place.process())).collect()
    }

    /// Returns the number of the shards of a process; 0 if there is no such process.
    pub fn shards_of(&self, process: NodeProcess) -> u16 {
        let place = self.places.iter().find(|place| place.is_member && place.process() == process);
        place.map_or(0, |place| place.row.shards)
    }

    /// Returns the processes of other nodes that are gone according to the database.
    pub fn gone_processes(&self, rows: &[(String, MemberRow)]) -> Vec<NodeProcess> {
        let is_there = |process: NodeProcess| {
            rows.iter().any(|(_, row)| (row.number, row.incarnation) == (process.node, process.incarnation))
        };
        self.others().into_iter().map(|(_, process)| process).filter(|process| !is_there(*process)).collect()
    }

    /// Returns the rows without those of new nodes, if nodes are gone for good by the same rows;
    /// `None` unless there are both.
    pub fn without_new(&self, rows: &[(String, MemberRow)]) -> Option<Vec<(String, MemberRow)>> {
        let is_known = |name: &str| self.places.iter().any(|place| place.is_member && place.name == name);
        let is_there = |place: &&NodePlace| rows.iter().any(|(name, _)| *name == place.name);
        let is_any_gone = !self.places.iter().filter(|place| place.is_member).all(|place| is_there(&place));
        let known: Vec<_> = rows.iter().filter(|(name, _)| is_known(name)).cloned().collect();
        (is_any_gone && known.len() < rows.len()).then_some(known)
    }

    /// Adopts the rows of the database.
    pub fn update(&mut self, rows: Vec<(String, MemberRow)>) -> Update {
        let own = self.places.first().map(|own| (own.name.clone(), own.row.clone()));
        if !rows
            .iter()
            .any(|(name, row)| Some((name, row.incarnation)) == own.as_ref().map(|(name, row)| (name, row.incarnation)))
        {
            return Update::Superseded;
        }
        let (mut is_same, mut gone) = (true, Vec::new());
        if let Some(own) = self.places.first_mut()
            && let Some((_, row)) = rows.iter().find(|(name, _)| *name == own.name)
        {
            _ = own.adopt_notes(row.clone());
            is_same = row.leaves == own.row.leaves;
            own.row.leaves = row.leaves;
        }
        for place in self.places.iter_mut().skip(1).filter(|place| place.is_member) {
            let row = rows.iter().find(|(name, _)| *name == place.name).map(|(_, row)| row.clone());
            // A command of an earlier version leaves out the fields of a process that it doesn't
            // know.
            let row = row.map(|row| match (row.number, row.incarnation) == (place.row.number, place.row.incarnation) {
                true => place.adopt_notes(row),
                false => row,
            });
            if row.as_ref() == Some(&place.row) {
                continue;
            }
            is_same = false;
            let is_same_but_leaving =
                |row: &&MemberRow| MemberRow { leaves: place.row.leaves, ..(*row).clone() } == place.row;
            if let Some(row) = row.as_ref().filter(is_same_but_leaving) {
                place.row.leaves = row.leaves;
                continue;
            }
            gone.push(place.process());
            match row.filter(|row| (row.number, row.shards) == (place.row.number, place.row.shards)) {
                Some(row) => place.row = row,
                None => place.is_member = false,
            }
        }
        for (name, row) in rows {
            if self.places.iter().any(|place| place.is_member && place.name == name) {
                continue;
            }
            is_same = false;
            let was_there = |place: &&mut NodePlace| {
                let (old, new) = (&place.row, &row);
                place.name == name && (old.number, old.shards) == (new.number, new.shards)
            };
            match self.places.iter_mut().find(was_there) {
                Some(place) => (place.row, place.is_member) = (row, true),
                None => self.places.push(NodePlace::new(name, row)),
            }
        }
        self.homes = self.name_of_homes();
        if is_same { Update::Same } else { Update::Changed(gone) }
    }

    /// Returns whether this node's row says that it leaves the cluster, so that its homes go to
    /// others.
    pub fn leaves(&self) -> bool {
        self.places.first().is_some_and(|place| place.row.leaves)
    }

    /// Returns whether a process of another node is leaving.
    pub fn has_leaving(&self, process: NodeProcess) -> bool {
        self.places.iter().any(|place| place.process() == process && place.row.leaves)
    }

    /// Returns the homes of all addresses.
    pub fn view(&self) -> Arc<View> {
        let member = |place: &NodePlace| Member {
            node: place.row.number,
            incarnation: place.row.incarnation,
            shards: place.row.shards.max(1),
            letters: place.row.letters.newest,
        };
        let members: Vec<(usize, &NodePlace)> = self.members().collect();
        let weighed: Vec<_> = members.iter().map(|(_, place)| (&*place.name, &place.weights)).collect();
        let owners = placement::owners(&weighed);
        let place_of = |slot: usize| members.get(*owners.get(slot)?).map(|(at, _)| *at);
        let view = View::among(self.places.iter().map(member).collect(), |slot| place_of(slot).unwrap_or_default());
        let absent = self.places.iter().filter(|place| !place.is_member).map(member).collect();
        let journals_from = self.places.first().map_or(0, |own| own.row.journals_from);
        let names = self.places.iter().map(|place| (&*place.name).into()).collect();
        view.with_node_names(names)
            .with_name(self.homes, absent)
            .with_journals_from(journals_from)
            .not_before(self.floor_ms)
    }

    /// Returns a text that is the same on all nodes that use the same homes, in the same
    /// processes.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.homes)
    }

    fn name_of_homes(&self) -> u64 {
        let mut members: Vec<_> = self.places.iter().filter(|place| place.is_member).collect();
        members.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut hasher = SipHasher13::new();
        members.iter().for_each(|place| {
            hasher.write(place.name.as_bytes());
            hasher.write(&[0]);
            hasher.write_u32(place.row.incarnation);
            if place.row.leaves {
                hasher.write(b"leaves");
            }
        });
        hasher.finish()
    }

    /// Returns the content of this node's lease: the process that holds it, and the homes that it
    /// uses.
    pub fn lease(&self) -> String {
        format!("{}:{}", self.me().incarnation, self.digest())
    }

    /// Returns the nodes that have homes: those that stay or, if none does, all.
    fn members(&self) -> impl Iterator<Item = (usize, &NodePlace)> {
        let any_stays = self.places.iter().any(|place| place.is_member && !place.row.leaves);
        let has_homes = move |place: &NodePlace| place.is_member && !(any_stays && place.row.leaves);
        self.places.iter().enumerate().filter(move |(_, place)| has_homes(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::LetterVersions;

    impl Update {
        fn count_gone(self) -> usize {
            match self {
                Self::Changed(gone) => gone.len(),
                Self::Same | Self::Superseded => 0,
            }
        }
    }

    fn row(number: u16, incarnation: u32, shards: u16) -> MemberRow {
        MemberRow {
            number,
            incarnation,
            shards,
            public_host: None,
            leaves: false,
            letters: LetterVersions::default(),
            notes: MemberNotes::default(),
            journals_from: 0,
        }
    }

    fn rows(rows: &[(&str, MemberRow)]) -> Vec<(String, MemberRow)> {
        rows.iter().map(|(name, row)| ((*name).to_owned(), row.clone())).collect()
    }

    #[test]
    fn nodes_keep_their_hops_through_deaths_and_departures() {
        let mut table = NodeTable::new("n2".into(), row(2, 5, 2));
        let update = table.update(rows(&[("n1", row(1, 3, 2)), ("n2", row(2, 5, 2)), ("n3", row(3, 1, 4))]));
        assert_eq!(update, Update::Changed(vec![]));
        let before = table.view();
        let dead = NodeProcess { node: 1, incarnation: 3 };
        let again = rows(&[("n1", row(1, 4, 2)), ("n2", row(2, 5, 2)), ("n3", row(3, 1, 4))]);
        assert_eq!(table.update(again.clone()), Update::Changed(vec![dead]));
        assert_eq!(table.update(again), Update::Same);
        let after = table.view();
        for slot in 0..SLOTS as u64 {
            assert_eq!(before.hop(slot << 32), after.hop(slot << 32), "no home has moved");
        }
        let without = rows(&[("n2", row(2, 5, 2)), ("n3", row(3, 1, 8))]);
        let gone = vec![NodeProcess { node: 1, incarnation: 4 }, NodeProcess { node: 3, incarnation: 1 }];
        assert_eq!(table.update(without), Update::Changed(gone));
        let last = table.view();
        assert_eq!((after.hops(), last.hops()), (8, 16), "n3 has other shards now: they have new hops");
        for slot in 0..SLOTS as u64 {
            let hop = last.hop(slot << 32);
            assert!(!(2..8).contains(&hop), "nobody has a home on a node that is removed: {hop}");
        }
        assert_eq!(table.others(), [("n3".to_owned(), NodeProcess { node: 3, incarnation: 1 })]);
        let back = rows(&[("n1", row(1, 6, 2)), ("n2", row(2, 5, 2)), ("n3", row(3, 1, 8))]);
        assert_eq!(table.gone_processes(&back), []);
        assert_eq!(table.update(back), Update::Changed(vec![]));
        assert_eq!(table.view().hops(), 16, "a node that comes back has its former place");
        let none = rows(&[("n1", row(1, 7, 2)), ("n2", row(2, 5, 2))]);
        assert_eq!(
            table.gone_processes(&none),
            [NodeProcess { node: 1, incarnation: 6 }, NodeProcess { node: 3, incarnation: 1 }],
            "one has a successor, the other was removed"
        );
    }

    #[test]
    fn a_process_understands_what_it_has_said_first() {
        let (old, new) = (LetterVersions::default(), LetterVersions { oldest: 1, newest: 2 });
        let newer = |number, incarnation| MemberRow { letters: new, ..row(number, incarnation, 1) };
        let mut table = NodeTable::new("n1".into(), newer(1, 1));
        table.update(rows(&[("n1", newer(1, 1)), ("n2", newer(2, 1)), ("n3", row(3, 1, 1))]));
        let understood = |table: &NodeTable| table.view().members().iter().map(|one| one.letters).collect::<Vec<_>>();
        assert_eq!(understood(&table), [2, 2, 1]);
        let view = table.view();
        assert_eq!((view.letters(1), view.letters(2), view.letters(7)), (2, 1, 0));
        // A command of an earlier version has rewritten the row.
        let drained = MemberRow { leaves: true, letters: old, ..newer(2, 1) };
        let written = rows(&[("n1", newer(1, 1)), ("n2", drained), ("n3", row(3, 1, 1))]);
        assert_eq!(table.update(written.clone()), Update::Changed(vec![]), "its process is the same");
        assert_eq!(table.update(written), Update::Same);
        assert_eq!(understood(&table), [2, 2, 1]);
        let upgraded = rows(&[("n1", newer(1, 1)), ("n2", row(2, 2, 1)), ("n3", newer(3, 2))]);
        assert_eq!(table.update(upgraded).count_gone(), 2, "those are others");
        assert_eq!(understood(&table), [2, 1, 2]);
    }

    #[test]
    fn a_process_may_change_what_it_says_of_its_surroundings() {
        let with = |mark| MemberRow { notes: MemberNotes { mark, ..MemberNotes::default() }, ..row(2, 1, 1) };
        let mut table = NodeTable::new("n1".into(), row(1, 1, 1));
        table.update(rows(&[("n1", row(1, 1, 1)), ("n2", with(Some(1)))]));
        assert_eq!(table.update(rows(&[("n1", row(1, 1, 1)), ("n2", with(Some(2)))])), Update::Same);
        // A command of an earlier version has rewritten the row.
        let drained = MemberRow { leaves: true, ..with(None) };
        assert_eq!(table.update(rows(&[("n1", row(1, 1, 1)), ("n2", drained)])), Update::Changed(vec![]));
        assert_eq!(table.update(rows(&[("n1", row(1, 1, 1)), ("n2", with(Some(2)))])).count_gone(), 0);
    }

    #[test]
    fn homes_go_by_the_latest_clock_of_those_who_had_them() {
        let mut table = NodeTable::new("n1".into(), row(1, 1, 1));
        assert_eq!(table.view().not_before_ms(), 0);
        table.raise_floor(1_020_000, 1_000_000);
        table.raise_floor(1_000_000, 1_000_000);
        assert_eq!(table.view().not_before_ms(), 1_020_000);
        table.raise_floor(u64::MAX, 1_000_000);
        assert_eq!(table.view().not_before_ms(), 1_000_000 + FAR_APART_MS);
    }

    #[test]
    fn a_node_that_is_gone_goes_before_another_one_comes() {
        let mut table = NodeTable::new("n1".into(), row(1, 1, 2));
        table.update(rows(&[("n1", row(1, 1, 2)), ("n2", row(2, 1, 2)), ("n3", row(3, 1, 2))]));
        let names = |rows: Option<Vec<(String, MemberRow)>>| {
            rows.map(|rows| rows.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        let both = rows(&[("n1", row(1, 1, 2)), ("n2", row(2, 1, 2)), ("n4", row(4, 1, 2))]);
        assert_eq!(names(table.without_new(&both)), Some(vec!["n1".to_owned(), "n2".to_owned()]));
        let only_gone = rows(&[("n1", row(1, 1, 2)), ("n2", row(2, 1, 2))]);
        assert_eq!(table.without_new(&only_gone), None);
        let again = rows(&[("n1", row(1, 1, 2)), ("n2", row(2, 2, 2)), ("n3", row(3, 1, 2)), ("n4", row(4, 1, 2))]);
        assert_eq!(table.without_new(&again), None, "one that has started again keeps its homes");
    }

    #[test]
    fn a_process_whose_place_is_taken_is_told() {
        let mut table = NodeTable::new("n1".into(), row(1, 1, 1));
        assert_eq!(table.update(rows(&[("n1", row(1, 2, 1))])), Update::Superseded);
        assert_eq!(table.update(rows(&[("n2", row(2, 2, 1))])), Update::Superseded);
    }

    #[test]
    fn a_node_that_leaves_has_no_homes_and_is_there_until_it_has_gone() {
        let here = rows(&[("n1", row(1, 1, 2)), ("n2", row(2, 1, 2))]);
        let mut table = NodeTable::new("n1".into(), row(1, 1, 2));
        table.update(here.clone());
        let before = table.view();
        let leaving = rows(&[("n1", row(1, 1, 2)), ("n2", MemberRow { leaves: true, ..row(2, 1, 2) })]);
        assert_eq!(table.update(leaving.clone()), Update::Changed(vec![]), "its process is the same");
        assert_eq!(table.update(leaving), Update::Same);
        let after = table.view();
        assert!((0..SLOTS).all(|slot| after.home(slot) < 2), "n1 has all homes");
        assert!(before.name() != after.name() && after.is_present(2, 1));
        let all = here.iter().map(|(name, row)| (name.clone(), MemberRow { leaves: true, ..row.clone() })).collect();
        assert_eq!(table.update(all), Update::Changed(vec![]));
        assert!(table.leaves());
        let last = table.view();
        assert!((0..SLOTS).all(|slot| last.home(slot) == before.home(slot)), "nobody could take over");
        assert_eq!(
            table.update(rows(&[("n1", row(1, 1, 2))])),
            Update::Changed(vec![NodeProcess { node: 2, incarnation: 1 }])
        );
        assert!(!table.view().is_present(2, 1));
    }

    #[test]
    fn all_nodes_agree_about_homes() {
        let all = rows(&[("a", row(1, 1, 2)), ("b", row(2, 1, 3)), ("c", row(3, 1, 1))]);
        let tables = ["a", "b", "c"].map(|name| {
            let own = all.iter().find(|(other, _)| other == name).unwrap().1.clone();
            let mut table = NodeTable::new(name.to_owned(), own);
            table.update(all.clone());
            table
        });
        let views = tables.each_ref().map(NodeTable::view);
        for slot in 0..SLOTS as u64 {
            let homes = views.each_ref().map(|view| view.station(view.hop(slot << 32)).unwrap());
            assert!(homes.iter().all(|home| *home == homes[0]), "slot {slot}: {homes:?}");
        }
        assert!(tables.iter().all(|table| table.digest() == tables[0].digest()));
    }
}
