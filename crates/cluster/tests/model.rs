//! A small exhaustive model of moves, joins, departures, deaths and pauses: all interleavings of a
//! few nodes and two slots, for a number of faults and changes.
//!
//! The server itself decides which homes follow from which rows ([`NodeTable`]). The model follows
//! the server's code, in its own words, in the steps of a shard whose homes change
//! (`rookery_hub::moves`, `parting` and `arriving`), in fencing a process off before its row is
//! removed ([`members`](rookery_cluster::members)), and in the order of letters between two
//! processes ([`courier`](rookery_cluster::courier)). It leaves out that a home gives things up
//! after waiting for too long: here no process is late unless it is paused or dead.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use rookery_cluster::members::{LetterVersions, MemberNotes, MemberRow};
use rookery_cluster::table::NodeTable;
use rookery_fanout::View;

/// A process: its node, and the number of its start.
type ModelProcess = (u16, u32);
/// The rows of the database: the process of each node, and whether it leaves.
type ModelRows = BTreeMap<u16, (u32, bool)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ModelLetter {
    /// The writer uses these homes.
    Homes(u64),
    /// It has sent everything by these homes.
    Sent(u64),
    /// All that lives in a slot.
    Card(usize),
}

/// A process that was started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelNode {
    stands_still: bool,
    rows: ModelRows,
    acting: [bool; SLOTS],
    awaited: [bool; SLOTS],
    /// True for each slot whose content is here.
    has: [bool; SLOTS],
    /// The processes that have something for it, and the names of the homes with which they may say
    /// that this was all.
    sources: BTreeMap<ModelProcess, Vec<u64>>,
    is_parting: bool,
    heard: BTreeMap<ModelProcess, u64>,
    /// The homes by which others have sent everything.
    has_sent: BTreeMap<ModelProcess, u64>,
    gone: BTreeSet<ModelProcess>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelState {
    rows: ModelRows,
    fenced: BTreeSet<ModelProcess>,
    nodes: BTreeMap<ModelProcess, ModelNode>,
    letters: BTreeMap<(ModelProcess, ModelProcess), VecDeque<ModelLetter>>,
    /// True for each slot whose content was lost with a process.
    is_lost: [bool; SLOTS],
    /// The numbers of faults, and of starts and departures, that may still happen.
    faults: usize,
    changes: usize,
}

/// The homes that follow from rows: their name, and the node of each slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Homes {
    name: u64,
    of: [u16; SLOTS],
}

/// The server's decisions, each made once.
struct Decisions {
    made: HashMap<ModelRows, Homes>,
    slots: Vec<usize>,
}

fn processes(rows: &ModelRows) -> impl Iterator<Item = ModelProcess> {
    rows.iter().map(|(node, (incarnation, _))| (*node, *incarnation))
}

fn is_among(process: ModelProcess, rows: &ModelRows) -> bool {
    rows.get(&process.0).is_some_and(|(incarnation, _)| *incarnation == process.1)
}

fn view(rows: &ModelRows) -> Arc<View> {
    let row = |number, (incarnation, leaves)| MemberRow {
        number,
        incarnation,
        shards: 1,
        public_host: None,
        leaves,
        letters: LetterVersions::default(),
        notes: MemberNotes::default(),
        journals_from: 0,
    };
    let all: Vec<_> = rows.iter().map(|(number, found)| (format!("n{number}"), row(*number, *found))).collect();
    let (name, own) = all[0].clone();
    let mut table = NodeTable::new(name, own);
    table.update(all);
    table.view()
}

fn node_of(view: &View, slot: usize) -> u16 {
    view.station(view.home(slot)).map_or(0, |station| station.node)
}

impl Decisions {
    /// Returns decisions about two slots that move in different ways as nodes come and go: among
    /// three nodes the last has both, among the first two each has one.
    fn new() -> Self {
        let of = |nodes: &[u16]| view(&nodes.iter().map(|node| (*node, (1, false))).collect());
        let (all, first) = (of(&[1, 2, 3]), of(&[1, 2]));
        let slot = |wanted: u16| {
            let is_so = |slot: &usize| node_of(&all, *slot) == 3 && node_of(&first, *slot) == wanted;
            (0..rookery_fanout::view::SLOTS).find(is_so).expect("some slot moves so")
        };
        Self { made: HashMap::new(), slots: vec![slot(1), slot(2)] }
    }

    fn homes(&mut self, rows: &ModelRows) -> Homes {
        let slots = &self.slots;
        *self.made.entry(rows.clone()).or_insert_with(|| {
            let view = view(rows);
            Homes { name: view.name(), of: std::array::from_fn(|at| node_of(&view, slots[at])) }
        })
    }
}

impl ModelNode {
    /// Returns a process that uses these rows and has nothing.
    fn of(rows: &ModelRows) -> Self {
        Self {
            stands_still: false,
            rows: rows.clone(),
            acting: [false; SLOTS],
            awaited: [false; SLOTS],
            has: [false; SLOTS],
            sources: BTreeMap::new(),
            is_parting: false,
            heard: BTreeMap::new(),
            has_sent: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }

    fn post(&self, own: ModelProcess, state: &mut ModelState, letter: ModelLetter) {
        for to in processes(&self.rows).filter(|to| *to != own) {
            state.letters.entry((own, to)).or_default().push_back(letter);
        }
    }

    /// Adopts other rows, as `World::change_homes` does.
    fn change_homes(&mut self, own: ModelProcess, rows: &ModelRows, decisions: &mut Decisions, state: &mut ModelState) {
        let (before, homes) = (decisions.homes(&self.rows), decisions.homes(rows));
        let last = std::mem::replace(&mut self.rows, rows.clone());
        self.gone.retain(|process| is_among(*process, rows));
        self.heard.retain(|process, _| is_among(*process, rows));
        self.has_sent.retain(|process, _| is_among(*process, rows));
        self.sources.retain(|process, _| is_among(*process, rows));
        self.sources.values_mut().for_each(|names| names.push(homes.name));
        let mut sources = BTreeSet::new();
        for slot in 0..SLOTS {
            if homes.of[slot] != own.0 || self.acting[slot] {
                self.awaited[slot] = false;
            } else if !self.awaited[slot] {
                let from = (before.of[slot], last.get(&before.of[slot]).map_or(0, |found| found.0));
                let has_it = from != own && is_among(from, rows);
                (self.awaited[slot], self.acting[slot]) = (has_it, !has_it);
                sources.extend(has_it.then_some(from));
            }
        }
        self.wait_for(sources, homes.name);
        self.is_parting = true;
        self.post(own, state, ModelLetter::Homes(homes.name));
        let between: Vec<_> = state.letters.keys().copied().collect();
        for (from, to) in between {
            // Letters for a process that is gone are sent again; those from such a process are
            // ignored.
            let (is_own, is_for) = (from == own && !is_among(to, rows), to == own && !is_among(from, rows));
            if !is_own && !is_for {
                continue;
            }
            for letter in state.letters.remove(&(from, to)).unwrap_or_default() {
                match letter {
                    ModelLetter::Card(slot) if is_own => self.send(own, slot, homes, state),
                    ModelLetter::Card(slot) => state.is_lost[slot] = true,
                    ModelLetter::Homes(_) | ModelLetter::Sent(_) => {}
                }
            }
        }
    }

    /// Sends the content of a slot to its home.
    fn send(&mut self, own: ModelProcess, slot: usize, homes: Homes, state: &mut ModelState) {
        let home = homes.of[slot];
        if home == own.0 {
            self.has[slot] = true;
        } else {
            let to = (home, self.rows[&home].0);
            state.letters.entry((own, to)).or_default().push_back(ModelLetter::Card(slot));
        }
    }

    fn wait_for(&mut self, sources: BTreeSet<ModelProcess>, name: u64) {
        let sources = sources.into_iter().filter(|from| self.has_sent.get(from) != Some(&name));
        self.sources.extend(sources.map(|from| (from, vec![name])));
    }

    fn do_all_agree(&self, own: ModelProcess, homes: Homes) -> bool {
        let agrees = |other: ModelProcess| self.gone.contains(&other) || self.heard.get(&other) == Some(&homes.name);
        processes(&self.rows).filter(|other| *other != own).all(agrees)
    }

    fn read(
        &mut self,
        own: ModelProcess,
        from: ModelProcess,
        letter: ModelLetter,
        homes: Homes,
        state: &mut ModelState,
    ) {
        match letter {
            ModelLetter::Homes(name) => {
                self.gone.remove(&from);
                self.heard.insert(from, name);
            }
            ModelLetter::Sent(name) => {
                self.gone.remove(&from);
                self.has_sent.insert(from, name);
                self.sources.retain(|source, names| *source != from || !names.contains(&name));
            }
            ModelLetter::Card(slot) => self.send(own, slot, homes, state),
        }
    }

    /// Packs everything whose home is elsewhere.
    fn pack(&mut self, own: ModelProcess, homes: Homes, state: &mut ModelState) {
        for slot in (0..SLOTS).filter(|slot| homes.of[*slot] != own.0) {
            self.acting[slot] = false;
            if std::mem::take(&mut self.has[slot]) {
                self.send(own, slot, homes, state);
            }
        }
        self.is_parting = false;
        self.post(own, state, ModelLetter::Sent(homes.name));
    }
}

impl ModelState {
    fn new(decisions: &mut Decisions, faults: usize, changes: usize) -> Self {
        let rows: ModelRows = [(1, (1, false)), (2, (1, false))].into();
        let homes = decisions.homes(&rows);
        let node = |process: ModelProcess| {
            let acting = homes.of.map(|node| node == process.0);
            (process, ModelNode { acting, has: acting, ..ModelNode::of(&rows) })
        };
        let nodes = processes(&rows).map(node).collect();
        let (fenced, letters, is_lost) = (BTreeSet::new(), BTreeMap::new(), [false; SLOTS]);
        Self { nodes, rows, fenced, letters, is_lost, faults, changes }
    }

    /// Changes one running node.
    fn with(&self, own: ModelProcess, change: impl FnOnce(&mut ModelNode, &mut Self)) -> Self {
        let mut state = self.clone();
        let mut node = state.nodes[&own].clone();
        change(&mut node, &mut state);
        state.nodes.insert(own, node);
        state.letters.retain(|_, letters| !letters.is_empty());
        state
    }

    /// Ends a process, with everything that lives there. Its letters may still be read, and the
    /// letters to it remain with their writers.
    fn without(&self, own: ModelProcess) -> Self {
        let mut state = self.clone();
        let Some(node) = state.nodes.remove(&own) else { return state };
        (0..SLOTS).filter(|slot| node.has[*slot]).for_each(|slot| state.is_lost[slot] = true);
        let for_nobody: Vec<_> = state.letters.keys().copied().filter(|(from, _)| *from == own).collect();
        for between in for_nobody.into_iter().filter(|(_, to)| !state.nodes.contains_key(to)) {
            for letter in state.letters.remove(&between).unwrap_or_default() {
                if let ModelLetter::Card(slot) = letter {
                    state.is_lost[slot] = true;
                }
            }
        }
        // Letters without a writer that could send them again are lost, too.
        for ((from, to), letters) in &state.letters {
            for letter in letters.iter().filter(|_| !state.nodes.contains_key(from) && !state.nodes.contains_key(to)) {
                if let ModelLetter::Card(slot) = letter {
                    state.is_lost[*slot] = true;
                }
            }
        }
        state
    }

    fn is_silent(&self, process: ModelProcess) -> bool {
        self.nodes.get(&process).is_none_or(|node| node.stands_still)
    }

    /// Returns the next steps that a running process can take by itself.
    fn own_steps(&self, own: ModelProcess, decisions: &mut Decisions, steps: &mut Vec<(String, Self)>) {
        let node = &self.nodes[&own];
        if self.fenced.contains(&own) || !is_among(own, &self.rows) {
            // Its writes are refused, or it doesn't find its row.
            return steps.push((format!("{own:?} ends"), self.without(own)));
        }
        if node.rows != self.rows {
            let mut next = self.with(own, |node, state| node.change_homes(own, &self.rows, decisions, state));
            // It fences dead processes off before it adopts the rows.
            next.fenced.extend(processes(&node.rows).filter(|process| !is_among(*process, &self.rows)));
            steps.push((format!("{own:?} reads the rows"), next));
        }
        let homes = decisions.homes(&node.rows);
        for (&(from, to), letters) in self.letters.iter().filter(|((_, to), _)| *to == own) {
            let next = self.with(own, |node, state| {
                state.letters.get_mut(&(from, to)).map(VecDeque::pop_front);
                node.read(own, from, letters[0], homes, state);
            });
            steps.push((format!("{own:?} reads {:?} of {from:?}", letters[0]), next));
        }
        if node.is_parting && node.do_all_agree(own, homes) {
            steps.push((format!("{own:?} packs"), self.with(own, |node, state| node.pack(own, homes, state))));
        }
        if node.awaited.contains(&true) && node.sources.is_empty() {
            let begin = |node: &mut ModelNode, _: &mut Self| {
                (0..SLOTS).for_each(|slot| node.acting[slot] |= std::mem::take(&mut node.awaited[slot]));
            };
            steps.push((format!("{own:?} begins"), self.with(own, begin)));
        }
        let others = processes(&node.rows).filter(|other| *other != own && !node.gone.contains(other));
        for other in others.filter(|other| self.is_silent(*other)) {
            let note = |node: &mut ModelNode, _: &mut Self| _ = node.gone.insert(other);
            steps.push((format!("{own:?} finds {other:?} silent"), self.with(own, note)));
        }
        let has_none = !node.has.contains(&true) && !node.acting.contains(&true) && !node.awaited.contains(&true);
        let is_quiet = !self.letters.keys().any(|(from, to)| *from == own || *to == own);
        if self.rows[&own.0].1 && node.rows == self.rows && !node.is_parting && has_none && is_quiet {
            let mut next = self.without(own);
            next.rows.remove(&own.0);
            steps.push((format!("{own:?} has left"), next));
        }
    }

    /// Returns the events that may happen to processes. `at_rest` is true if the running ones have
    /// nothing to do by themselves.
    fn events(&self, at_rest: bool, decisions: &mut Decisions, events: &mut Vec<(String, Self)>) {
        let faulty = |state: Self| Self { faults: self.faults - 1, ..state };
        let stands = |own: ModelProcess, stands_still: bool| self.with(own, |node, _| node.stands_still = stands_still);
        for (&own, node) in &self.nodes {
            if node.stands_still {
                events.push((format!("{own:?} goes on"), stands(own, false)));
            } else if self.faults > 0 {
                events.push((format!("{own:?} dies"), faulty(self.without(own))));
                events.push((format!("{own:?} stands still"), faulty(stands(own, true))));
            }
        }
        // This takes seconds, in which all others have done what they could.
        let has_judge = at_rest && self.nodes.values().any(|node| !node.stands_still);
        for process in processes(&self.rows).filter(|process| has_judge && self.is_silent(*process)) {
            let mut next = self.clone();
            next.fenced.insert(process);
            next.rows.remove(&process.0);
            events.push((format!("{process:?} is taken over"), next));
        }
        for at in (1..=3).filter(|_| self.changes > 0) {
            let is_there = self.nodes.keys().any(|process| process.0 == at);
            // The running ones adopt the rows before another one serves clients.
            if !is_there && at_rest {
                events.push((format!("node {at} starts"), self.start(at, decisions)));
            }
            if is_there && self.rows.len() > 1 && self.rows.get(&at).is_some_and(|found| !found.1) {
                let mut next = Self { changes: self.changes - 1, ..self.clone() };
                next.rows.entry(at).and_modify(|found| found.1 = true);
                events.push((format!("node {at} leaves"), next));
            }
        }
    }

    /// Starts a process of a node, as `World::begin_moves` does.
    fn start(&self, at: u16, decisions: &mut Decisions) -> Self {
        let mut state = Self { changes: self.changes - 1, ..self.clone() };
        let last = self.fenced.iter().filter(|process| process.0 == at).map(|process| process.1).max().unwrap_or(0);
        let last = last.max(self.rows.get(&at).map_or(0, |found| found.0));
        state.fenced.insert((at, last));
        let own = (at, last + 1);
        state.rows.insert(at, (own.1, false));
        let (rows, homes) = (state.rows.clone(), decisions.homes(&state.rows));
        let sources: BTreeSet<ModelProcess> = processes(&rows).filter(|other| *other != own).collect();
        let gone: BTreeSet<ModelProcess> = sources.iter().copied().filter(|other| state.is_silent(*other)).collect();
        let awaited = homes.of.map(|node| node == at);
        let mut node = ModelNode { awaited, is_parting: true, gone, ..ModelNode::of(&rows) };
        node.wait_for(sources, homes.name);
        node.post(own, &mut state, ModelLetter::Homes(homes.name));
        state.nodes.insert(own, node);
        state
    }

    /// Returns a broken invariant, if there is one.
    fn broken_invariant(&self) -> Option<String> {
        (0..SLOTS).find_map(|slot| {
            let can_write = |(own, node): &(&ModelProcess, &ModelNode)| node.acting[slot] && !self.fenced.contains(own);
            let homes: Vec<_> = self.nodes.iter().filter(can_write).map(|(own, _)| *own).collect();
            if homes.len() > 1 {
                return Some(format!("slot {slot} has two homes that can write: {homes:?}"));
            }
            let here = self.nodes.values().filter(|node| node.has[slot]).count();
            let cards = self.letters.values().flatten().filter(|letter| **letter == ModelLetter::Card(slot)).count();
            match here + cards {
                0 if !self.is_lost[slot] => Some(format!("slot {slot} is nowhere, and nobody has died with it")),
                0 | 1 => None,
                places => Some(format!("what lives in slot {slot} is in {places} places")),
            }
        })
    }
}

/// Visits all states. Returns their number, or the way to a broken one.
fn explore(faults: usize, changes: usize) -> Result<usize, String> {
    let mut decisions = Decisions::new();
    let first = ModelState::new(&mut decisions, faults, changes);
    let mut ways: Vec<(usize, String)> = vec![(0, String::new())];
    let mut seen = HashSet::from([first.clone()]);
    let mut queue = VecDeque::from([(0, first)]);
    while let Some((at, state)) = queue.pop_front() {
        if let Some(broken) = state.broken_invariant() {
            let (mut way, mut step) = (vec![format!("{broken}: {state:?}")], at);
            while step > 0 {
                way.push(ways[step].1.clone());
                step = ways[step].0;
            }
            way.reverse();
            return Err(way.join("\n"));
        }
        let mut steps = Vec::new();
        let running = state.nodes.iter().filter(|(_, node)| !node.stands_still);
        running.for_each(|(own, _)| state.own_steps(*own, &mut decisions, &mut steps));
        let at_rest = steps.is_empty();
        state.events(at_rest, &mut decisions, &mut steps);
        for (step, next) in steps {
            if seen.insert(next.clone()) {
                ways.push((at, step));
                queue.push_back((ways.len() - 1, next));
            }
        }
        assert!(seen.len() < MOST_STATES, "the model is larger than it should be");
    }
    Ok(seen.len())
}

/// No process is late.
#[test]
fn a_slot_has_one_home_while_nodes_come_go_and_die() {
    for (faults, changes) in [(0, 2), (1, 1)] {
        let states = explore(faults, changes).unwrap_or_else(|way| panic!("{way}"));
        println!("{faults} faults, {changes} changes: {states} states");
        assert!(states > 100, "{states}");
    }
}

const SLOTS: usize = 2;
const MOST_STATES: usize = 1_000_000;
