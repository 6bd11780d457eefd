//! Homes that move from one live node to another: which shard acts for which addresses.
//!
//! A view says where homes are to be. Nodes learn of a new one at different times, and moving the
//! data of a home takes a while, so each shard of a cluster knows for which slots it *acts*: it
//! alone has the sessions and rooms. The old home acts until it has packed them (`parting`), the
//! new one from the moment when it has taken everything up (`arriving`); until then it keeps
//! stanzas for them.
//!
//! # Invariants
//!
//! * At most one shard acts for a slot, as long as late processes aren't later than the times
//!   below.
//! * No shard uses a new view before the sessions that leave by it have come to rest: answers to
//!   them would wait at their new homes, while the sessions wait for the answers.
//! * Mail between two accounts keeps its order through a move. The old home packs once all others
//!   have adopted the new view and have said so after their last mail by the old one. The new home
//!   processes nothing of its own until the old one has said, after its last card, that it has sent
//!   everything.
//! * A process without a cluster has no such state, and each check for it tests a pointer.

use std::collections::{BTreeMap, BTreeSet};

use rookery_fanout::view::SLOTS;
use rookery_fanout::{Addresses, Packet, Station, View};
use rookery_jid::JidRef;
use rookery_stream::error::Condition;

use crate::World;
use crate::acting::{Moves, MovesProcess, PartingStage, Whereabouts, process, process_of};
use crate::journaled::before;
use crate::mail::{Mail, Parcel};
use crate::passage::Notes;

impl World {
    /// Notes the first view of a cluster. If `is_joining`, others may have the data of this shard's
    /// homes.
    pub(crate) fn begin_moves(&mut self, is_joining: bool) {
        let view = self.here.view.clone();
        if !view.is_shared() {
            return;
        }
        self.begin_journal();
        let (mut moves, shard) = (Box::<Moves>::default(), self.shard());
        let slots: Vec<u16> = (0..SLOTS).filter(|slot| view.home(*slot) == shard).map(|slot| slot as u16).collect();
        // Other nodes have had these homes since an earlier journal was written, and changed them.
        let past = before(process(self.here.station), view.journals_from());
        let has_past = !past.is_empty();
        let set = if is_joining || has_past { &mut moves.awaited } else { &mut moves.acting };
        slots.iter().for_each(|slot| set.set(usize::from(*slot), true));
        if is_joining {
            let others = view.present().filter(|member| process_of(*member) != process(self.here.station));
            others.for_each(|member| moves.wait_for(member, view.name()));
            moves.parting = Some((PartingStage::Agreeing, 0));
        }
        self.people.moves = Some(moves);
        self.look_back(past, &slots);
        // They died while this process joined: the data that they would have sent is in their
        // journals, and no other node has these homes.
        for process in view.absent().iter().copied().map(process_of).filter(|_| is_joining) {
            self.read_journal(process, slots.clone());
        }
        if is_joining || has_past {
            self.look_when_late();
        }
        if is_joining {
            self.say_homes();
        }
    }

    /// Compares the view with the previous one: which homes leave, and which arrive.
    pub(crate) fn change_homes(&mut self, before: &View) {
        let (view, shard, own) = (self.here.view.clone(), self.shard(), process(self.here.station));
        let now_ms = self.clock.now_ms;
        let Some(moves) = &mut self.people.moves else { return };
        let are_present: BTreeSet<MovesProcess> = view.present().map(process_of).collect();
        moves.gone.retain(|gone| are_present.contains(gone));
        moves.heard.retain(|station, _| are_present.contains(&process(*station)));
        let was_awaiting = !moves.awaited.is_empty();
        // Processes that had something for this shard, and have died, may not have sent it.
        let has_died = |source: &Station| Some(process(*source)).filter(|source| !are_present.contains(source));
        let died: BTreeSet<MovesProcess> = moves.sources.keys().filter_map(has_died).collect();
        moves.sources.retain(|source, _| are_present.contains(&process(*source)));
        moves.sources.values_mut().for_each(|names| names.push(view.name()));
        let (mut sources, mut dead) = (BTreeSet::new(), BTreeMap::<MovesProcess, Vec<u16>>::new());
        for slot in 0..SLOTS {
            let is_mine = view.home(slot) == shard;
            if !is_mine || moves.acting.has(slot) {
                moves.awaited.set(slot, false);
                continue;
            }
            if moves.awaited.has(slot) {
                continue;
            }
            let from = before.station(before.home(slot)).map(process);
            match from.filter(|from| *from != own) {
                Some(from) if !are_present.contains(&from) => {
                    moves.awaited.set(slot, true);
                    dead.entry(from).or_default().push(slot as u16);
                }
                // A silent process may continue, until it is fenced off and no longer a member.
                Some(from) => {
                    moves.awaited.set(slot, true);
                    sources.insert(from);
                }
                None => moves.acting.set(slot, true),
            }
        }
        let awaited = (0..SLOTS).filter(|slot| moves.awaited.has(*slot)).map(|slot| slot as u16);
        let awaited: Vec<u16> = if died.is_empty() { Vec::new() } else { awaited.collect() };
        for process in died {
            let slots = dead.entry(process).or_default();
            slots.extend(&awaited);
            slots.sort_unstable();
            slots.dedup();
        }
        let having = view.present().filter(|member| sources.contains(&process_of(*member)));
        having.for_each(|member| moves.wait_for(member, view.name()));
        // A process that has died may not have taken what others sent it last; they get that back.
        let has_just_changed = moves.times.changed_ms.replace(now_ms).is_some_and(|at_ms| now_ms < at_ms + JUST_MS);
        if has_just_changed && !dead.is_empty() {
            let others = view.present().filter(|member| process_of(*member) != own);
            let gone = moves.gone.clone();
            others
                .filter(|member| !gone.contains(&process_of(*member)))
                .for_each(|member| moves.wait_for(member, view.name()));
        }
        moves.parting = Some((PartingStage::Agreeing, now_ms));
        if !was_awaiting || !dead.is_empty() || !sources.is_empty() {
            moves.late.since_ms = None;
            moves.times.awaiting_since_ms = now_ms;
        }
        for (process, slots) in dead {
            self.read_journal(process, slots);
        }
        self.look_when_late();
        self.say_homes();
        // Some of the mail that waits may be for others now.
        self.open_kept();
    }

    /// Makes the shard check for late processes, even if nothing else happens.
    fn look_when_late(&mut self) {
        self.after(LATE_MS + 1, |_| {});
        self.after(LATE_MS + PATIENCE_MS + 1, |_| {});
    }

    /// Tells all other shards which view this one uses: its earlier mail went by the previous one.
    fn say_homes(&mut self) {
        let (from, view) = (self.here.station, self.here.view.name());
        for hop in self.other_shards() {
            self.post(hop, Mail::Homes { from, view });
        }
    }

    /// Tells all other shards that the sessions which leave this one by a coming view send nothing
    /// more, and that everything they have sent is settled.
    pub fn say_at_rest(&mut self, coming: &View) {
        let (from, view) = (self.here.station, name_of_rest(coming));
        for hop in self.other_shards() {
            self.post(hop, Mail::Homes { from, view });
        }
    }

    /// Returns whether a coming view moves homes from one living process to another. If so, no
    /// shard uses the view before the sessions that leave have come to rest.
    pub fn has_parting_by(&self, coming: &View) -> bool {
        if self.people.moves.is_none() {
            return false;
        }
        let before = &self.here.view;
        // There are many more slots than shards.
        let stations = |view: &View| (0..view.hops()).map(|hop| view.station(hop)).collect::<Vec<_>>();
        let (stations_before, stations_coming) = (stations(before), stations(coming));
        let of = |stations: &[Option<Station>], hop: usize| stations.get(hop).copied().flatten();
        let moved = (0..SLOTS).filter_map(|slot| {
            let from = of(&stations_before, before.home(slot));
            from.filter(|_| from != of(&stations_coming, coming.home(slot)))
        });
        let moved: BTreeSet<Station> = moved.collect();
        !moved.is_empty() && moved.iter().all(|from| coming.is_present(from.node, from.incarnation))
    }

    /// Returns whether, on all other shards that are still heard from, the sessions that leave by a
    /// coming view have come to rest.
    pub fn do_all_rest(&self, coming: &View) -> bool {
        let Some(moves) = &self.people.moves else { return true };
        let names = [Some(name_of_rest(coming)), Some(coming.name())];
        self.other_shards().into_iter().filter_map(|hop| self.station_of(hop)).all(|station| {
            !coming.is_present(station.node, station.incarnation)
                || moves.gone.contains(&process(station))
                || moves.heard.get(&station).is_some_and(|heard| names.contains(&heard.goes_by))
        })
    }

    /// Tells all other shards that this one has sent everything that it had for them by this view.
    pub(crate) fn say_sent(&mut self) {
        let (from, view) = (self.here.station, self.here.view.name());
        for hop in self.other_shards() {
            self.post(hop, Mail::Sent { from, view });
        }
    }

    pub(crate) fn other_shards(&self) -> Vec<usize> {
        let view = &self.here.view;
        let is_there = |hop: &usize| {
            let station = view.station(*hop);
            *hop != self.shard() && station.is_some_and(|station| view.is_present(station.node, station.incarnation))
        };
        (0..self.shards()).filter(is_there).collect()
    }

    /// Handles the report of another shard: that it uses a view, or has sent everything by
    /// it.
    pub(crate) fn heard_of(&mut self, from: Station, view: u64, has_sent: bool) {
        let Some(moves) = &mut self.people.moves else { return };
        moves.gone.remove(&process(from));
        let heard = moves.heard.entry(from).or_default();
        match has_sent {
            false => heard.goes_by = Some(view),
            true => {
                heard.has_sent_by = Some(view);
                if moves.sources.get(&from).is_some_and(|names| names.contains(&view)) {
                    moves.sources.remove(&from);
                }
            }
        }
    }

    /// Notes that a process is silent: nobody waits for it to adopt the same homes. It keeps its
    /// own until it is fenced off.
    pub fn departed(&mut self, node: u16, incarnation: u32) {
        if let Some(moves) = &mut self.people.moves {
            moves.gone.insert((node, incarnation));
        }
    }

    /// Returns the number of times that this shard continued without data that others had not sent
    /// in time: their data may have been lost, or processed twice.
    pub fn lateness(&self) -> u64 {
        self.people.moves.as_ref().map_or(0, |moves| moves.late.times)
    }

    /// Returns whether homes of this shard move, or may.
    pub fn is_moving(&self) -> bool {
        let moves = self.people.moves.as_ref();
        moves.is_some_and(|moves| moves.parting.is_some() || !moves.awaited.is_empty() || moves.arrived.are_there())
    }

    /// Returns whether a shard of a cluster has nothing that another node would miss: no homes, no
    /// sessions, and nothing on its way.
    pub fn has_moved_out(&self) -> bool {
        let is_out = |moves: &Moves| {
            let has_homes = !moves.acting.is_empty() || !moves.awaited.is_empty();
            !has_homes && moves.leaving.is_empty() && moves.journals.is_empty()
        };
        !self.is_moving()
            && self.people.moves.as_ref().is_some_and(|moves| is_out(moves) && !moves.sending.is_under_way)
    }

    /// Returns whether all other shards use the view of this one, or are known to report nothing
    /// more.
    pub(crate) fn do_all_agree(&self) -> bool {
        let Some(moves) = &self.people.moves else { return true };
        let name = Some(self.here.view.name());
        self.other_shards().into_iter().filter_map(|hop| self.station_of(hop)).all(|station| {
            moves.gone.contains(&process(station))
                || moves.heard.get(&station).is_some_and(|heard| heard.goes_by == name)
        })
    }

    /// Returns whether all shards that had something for this one have sent it.
    pub(crate) fn have_all_sent(&self) -> bool {
        self.people.moves.as_ref().is_none_or(|moves| moves.sources.is_empty() && moves.journals.is_empty())
    }

    /// Returns where an address with this hash is.
    pub(crate) fn whereabouts(&self, hash: u64) -> Whereabouts {
        let hop = self.hop(hash);
        match &self.people.moves {
            Some(moves) if moves.acting.has(View::slot(hash)) => Whereabouts::Here,
            Some(_) if hop == self.shard() => Whereabouts::Awaited,
            None if hop == self.shard() => Whereabouts::Here,
            _ => Whereabouts::Elsewhere(hop),
        }
    }

    /// Returns whether this shard acts for a text: the sessions, or the room, are here and nowhere
    /// else.
    pub fn acts_for(&self, text: &str) -> bool {
        self.whereabouts(self.hash(text)) == Whereabouts::Here
    }

    /// Returns whether the data at the home of a text, which this is, has yet to arrive from
    /// another node, or its sessions have yet to continue.
    pub fn is_awaited(&self, text: &str) -> bool {
        self.is_expected(text) || self.is_returning(self.hash(text), text)
    }

    /// Returns whether anything at the homes here has yet to arrive from another node, or has to
    /// wait for sessions that have yet to continue.
    pub(crate) fn may_be_awaited(&self) -> bool {
        self.people.moves.is_some() || !self.people.returning.sessions.is_empty()
    }

    /// Returns whether the data at the home of a text, which this is, has yet to arrive from
    /// another node.
    pub fn is_expected(&self, text: &str) -> bool {
        self.people.moves.is_some() && self.whereabouts(self.hash(text)) == Whereabouts::Awaited
    }

    /// Returns whether sessions of an account are here that are not available again yet.
    fn is_returning(&self, hash: u64, bare: &str) -> bool {
        if self.people.returning.sessions.is_empty() {
            return false;
        }
        let user = self.user_named(hash, bare).and_then(|user| self.people.users.get(user as usize));
        let mut links = user.into_iter().flat_map(|user| &user.links);
        links.any(|&link| self.reference(link).is_some_and(|session| self.people.returning.session(session).is_some()))
    }

    /// Returns whether this shard has any homes, or will have.
    pub fn has_homes(&self) -> bool {
        let view = &self.here.view;
        !view.is_shared() || (0..SLOTS).any(|slot| view.home(slot) == self.shard())
    }

    /// Deals with a stanza for an account that this shard doesn't act for: keeps it, or sends it
    /// on. Returns `false` if it is to be delivered here.
    #[cold]
    pub(crate) fn is_put_off(&mut self, hash: u64, packet: &Packet, to: JidRef<'_>, notes: &Notes) -> bool {
        // A stanza that comes back from a session has passed the modules.
        let whereabouts = if notes.has_passed { Whereabouts::Here } else { self.whereabouts(hash) };
        match whereabouts {
            Whereabouts::Here => return false,
            Whereabouts::Awaited => {
                let mail = Mail::Route { to: to.to_jid(), packet: packet.clone() };
                self.keep_mail(mail, packet.bytes().len());
            }
            Whereabouts::Elsewhere(hop) => self.post(hop, Mail::Route { to: to.to_jid(), packet: packet.clone() }),
        }
        true
    }

    /// Returns those of some addresses that this shard acts for; for the others, `mail` is kept or
    /// forwarded. `None` if it acts for all. If `of_presence`, stanzas about sessions that aren't
    /// available again yet wait, too.
    #[cold]
    pub(crate) fn sift(
        &mut self,
        to: &Addresses,
        (bytes, of_presence): (usize, bool),
        mail: impl Fn(Addresses) -> Mail,
    ) -> Option<Addresses> {
        let whereabouts = |world: &Self, hash: u64, name: &str| match world.whereabouts(hash) {
            Whereabouts::Here if of_presence && world.is_returning(hash, name) => Whereabouts::Awaited,
            whereabouts => whereabouts,
        };
        if to.iter().all(|(hash, name)| whereabouts(self, hash, name) == Whereabouts::Here) {
            return None;
        }
        let (mut here, mut awaited) = (Addresses::default(), Addresses::default());
        let mut elsewhere = BTreeMap::<usize, Addresses>::new();
        for (hash, name) in to.iter() {
            match whereabouts(self, hash, name) {
                Whereabouts::Here => here.push(hash, name),
                Whereabouts::Awaited => awaited.push(hash, name),
                Whereabouts::Elsewhere(hop) => elsewhere.entry(hop).or_default().push(hash, name),
            }
        }
        if !awaited.is_empty() {
            let bytes = bytes + awaited.len() * NAME_BYTES;
            self.keep_mail(mail(awaited), bytes);
        }
        for (hop, names) in elsewhere {
            self.post(hop, mail(names));
        }
        Some(here)
    }

    /// Makes mail wait until its destination has arrived.
    pub(crate) fn keep_mail(&mut self, mail: Mail, bytes: usize) {
        let custody = self.custody();
        let bytes = bytes + MAIL_BYTES;
        let (kept, kept_bytes) = &mut self.waiting.kept;
        if *kept_bytes + bytes > MOST_KEPT_BYTES {
            return self.refuse_mail(mail, &Condition::ResourceConstraint);
        }
        *kept_bytes += bytes;
        kept.push_back(Parcel { mail, custody });
    }

    /// Opens the mail that waits, in its order: what still has to wait does so again.
    pub(crate) fn open_kept(&mut self) {
        let (kept, _) = std::mem::take(&mut self.waiting.kept);
        for Parcel { mail, custody } in kept {
            self.in_custody(custody, |world| world.open(mail));
        }
    }

    /// Passes a stanza for a service to the shard that acts for its subject, which is named by a
    /// text. Keeps the stanza if this shard will act for it, and returns `false` if it already
    /// does.
    pub fn serve_at_home(&mut self, text: &str, packet: &Packet, to: JidRef<'_>) -> bool {
        match self.whereabouts(self.hash(text)) {
            Whereabouts::Here => false,
            Whereabouts::Awaited => {
                self.keep_mail(Mail::Service { to: to.to_jid(), packet: packet.clone() }, packet.bytes().len());
                true
            }
            Whereabouts::Elsewhere(home) => {
                self.route_to_service(home, packet, to);
                true
            }
        }
    }

    /// Keeps a memo about sessions that have still to arrive.
    pub fn keep_memo<L: crate::memo::Memo>(&mut self, memo: L) {
        self.keep_mail(Mail::Memo(Box::new(memo)), MEMO_BYTES);
    }
}

/// Returns the name that a shard reports for its view while it rests for a coming one. No view has
/// it, so processes that don't know of rests take it for a view that they don't know.
fn name_of_rest(coming: &View) -> u64 {
    !coming.name()
}

/// The time for which others may be late, in milliseconds. It is longer than the time between two
/// readings of the database's rows by a node.
pub(crate) const LATE_MS: u64 = 10_000;
/// Milliseconds for which a new home waits longer than the old one, which may be late itself.
pub(crate) const PATIENCE_MS: u64 = 10_000;
/// Milliseconds within which a process that died may have been about to get homes: longer than it
/// takes until others notice its death.
const JUST_MS: u64 = 60_000;
/// Bytes of mail that may wait on a shard for arriving homes.
const MOST_KEPT_BYTES: usize = 64 << 20;
/// Bytes that mail takes besides its content, that a name takes, and that a small memo takes.
const MAIL_BYTES: usize = 256;
const NAME_BYTES: usize = 64;
const MEMO_BYTES: usize = 2048;

/// The bounds of mail that waits, for the page of limits.
pub const BOUNDS: &[rookery_observe::Bound] = &[
    rookery_observe::Bound::on(
        "mail for accounts and rooms that are on their way to this node",
        rookery_observe::Per::Shard,
        rookery_observe::Most::Fixed(MOST_KEPT_BYTES as u64),
        rookery_observe::Unit::Bytes,
    )
    .or("the sender gets <resource-constraint/>"),
    crate::untold::ERRORS_BOUND,
];
