//! The courier of a process, without I/O: it tracks the letters that wait for other nodes, those on
//! their way, and those that have been read.
//!
//! It gets letters, arriving entries, the handling of their letters, answers of the engine and the
//! time, and decides what to append to whose inbox. One append per node is under way at a time;
//! letters that arrive in the meantime go into the next entry, so that batches grow with the load.
//!
//! # Invariants
//!
//! * Letters of one shard to another arrive once and in the order in which they were posted, as
//!   long as both processes live: entries are numbered, a reader accepts only the next number,
//!   and a writer sends again any entry that the engine has lost.
//! * A reader that is slow gets nothing twice, since that would make it slower. Entries count as
//!   lost if the engine was unreachable, if the inbox was missing, or if the reader misses them: it
//!   has got later ones, or a reminder of their number. A writer that hears nothing for a while
//!   sends a reminder.
//! * A reader learns which entries were given up, so that neither side waits for them.
//! * A share is kept until the other side has handled the letter, or until it was refused. A
//!   confirmation covers the named entry and all before it, and the later ones except those named
//!   as still being worked on. So if a process dies, its writers still have everything that it had
//!   not handled, and one slow letter doesn't delay others.
//! * Entries that have been read are kept only while a writer waits for them: a letter without a
//!   share, and one that doesn't outlive the process, is dropped as soon as it is known to be read.
//! * Letters waiting for a node are bounded in bytes and in time; refused ones are handed back.
//!   Frames of lines have no bound here: their windows open when the other side has read, and the
//!   same event lets frames be dropped.
//! * Shard numbers have no meaning for a process with a different number of shards: letters for one
//!   of the node's earlier processes are handed back then.
//! * Positions in a stream have no meaning here: an engine may lose entries that it has accepted.
//!
//! # Layout
//!
//! `peer`: the traffic with one process, and what each side tells the other about it.

mod peer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rookery_observe::cluster::NodeTraffic;

use crate::wire::{self, CarriedMail, Malformed, NodeProcess};

/// The kind of a letter between the loops of two nodes, by which one informs the other that the
/// rows of the database have changed. Versions that don't know it skip it.
pub const NEWS: u8 = 3;
/// The kind of a letter that is mail of a shard's world.
pub const MAIL: u8 = 1;

/// A letter for a shard of another node. `S` is the share that is kept until it has been handled.
#[derive(Debug)]
pub struct CourierLetter<S> {
    /// The kind of its content.
    pub kind: u8,
    /// The writer's shard.
    pub from: u16,
    /// The reader's shard.
    pub to: u16,
    /// Its content.
    pub body: Vec<u8>,
    /// True if the node's next process may read it as well, after this one has ended.
    pub outlives: bool,
    /// True if its share is given up when the reader's process has read it. Its consequences then
    /// wait for letters that are only written once the share is gone.
    pub until_read: bool,
    /// The share that is kept until it has been handled.
    pub share: Option<S>,
}

/// A letter that its reader has not handled: the shard that wrote it, its content, and its share.
pub type ReturnedLetter<S> = (u16, (Vec<u8>, Option<S>));

/// An append to be carried out.
#[derive(Debug, PartialEq, Eq)]
pub struct Append {
    /// The process whose inbox it is.
    pub to: NodeProcess,
    /// The encoded entry: a header with confirmations, then the letters.
    pub entry: Vec<u8>,
}

/// The reason why a letter can't be accepted, with the letter.
#[derive(Debug)]
pub enum Unposted<S> {
    /// Too many letters wait for the node.
    Full(CourierLetter<S>),
    /// The shard is gone: the node is unknown, or has a process with a different number of shards.
    /// For a letter that doesn't outlive a process, that process is gone.
    Gone(CourierLetter<S>),
}

/// The engine's answer about an entry that was to be appended to an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    /// The engine has it.
    Taken,
    /// There is no such inbox.
    NoInbox,
    /// The outcome is unknown.
    Unsure,
}

/// The new part of an entry.
#[derive(Debug, PartialEq, Eq)]
pub struct ArrivedPart {
    /// The process that wrote it.
    pub from: NodeProcess,
    /// The letters in order: for each its kind, the writer's shard, the reader's, and its content.
    pub letters: Vec<(u8, u16, u16, Vec<u8>)>,
    /// True if the writer has given up letters between the last ones and these.
    pub is_torn: bool,
    /// The number to pass to [`Courier::note_handled`] when the letters have been handled; `None`
    /// if the writer doesn't wait for that.
    pub waits: Option<u64>,
}

/// The state of the traffic with all other nodes.
#[derive(Debug)]
pub struct Courier<S> {
    me: NodeProcess,
    /// True once others have taken over from this process.
    is_over: bool,
    peers: BTreeMap<u16, CourierPeer<S>>,
    /// The latest time that was passed in.
    now_ms: u64,
}

/// The state of the traffic with one node.
#[derive(Debug)]
struct CourierPeer<S> {
    process: NodeProcess,
    /// The number of its shards.
    shards: u16,
    /// The time since which nothing can be appended, or of the last sign of life since then, in
    /// milliseconds.
    away_since: Option<u64>,
    /// True if it gives no signs of life, which may not be so although its inbox is missing.
    is_silent: bool,
    queue: VecDeque<CourierLetter<S>>,
    /// Entries that the other side is not known to have read, oldest first and without a gap.
    unread: VecDeque<CourierSent<S>>,
    /// Entries that it has read but not handled, oldest first: their letters go to a new home if it
    /// dies.
    unhandled: VecDeque<CourierSent<S>>,
    /// The number of the next entry to be appended.
    cursor: u64,
    /// The last entry that the other side is known to have read.
    received: u64,
    /// The bytes of all three.
    bytes: usize,
    last_seq: u64,
    is_appending: Option<Appending>,
    /// The time of the last sign that it reads, or the last reminder, in milliseconds.
    heard_ms: u64,
    /// The first entry that it missed when missed entries were last sent again, and the time of
    /// that.
    missed: (u64, u64),
    /// The last of its entries that was read here.
    read: u64,
    /// True if entries of it are missing here, although later ones have arrived, or a reminder.
    is_missing: bool,
    /// Its entries that are not handled yet; the other side never has more unconfirmed entries than
    /// allowed.
    at_work: BTreeSet<u64>,
    /// The last entries that it knows to be handled, and read, here.
    told: (u64, u64),
    told_at: u64,
    is_urgent: bool,
    /// Its last entry for whose handling it waits.
    awaited: u64,
    /// The last numbered entry to it, preceded by the entry up to which that one confirms. The
    /// other side has read the confirmation once it says that it has read the entry.
    told_in: (u64, u64),
    /// True once the process only waits until the other side knows what was handled here.
    ends: bool,
    /// The traffic since this process has known the node, except for waiting letters.
    traffic: NodeTraffic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Appending {
    /// The entry with this number, with its numbers of letters and bytes.
    Letters(u64, usize, usize),
    /// A header, and maybe a reminder.
    Header,
}

#[derive(Debug)]
struct CourierSent<S> {
    seq: u64,
    letters: Vec<CourierLetter<S>>,
}

impl<S> Courier<S> {
    /// Returns the courier of a process that doesn't know other nodes yet.
    pub fn new(me: NodeProcess) -> Self {
        Self { me, is_over: false, peers: BTreeMap::new(), now_ms: 0 }
    }

    /// Records the process that a node has now, and its number of shards. Returns the letters that
    /// the node's last process had not handled. Since it may have read them, the shards that wrote
    /// them send them again marked as possible repetitions.
    pub fn meet(&mut self, process: NodeProcess, shards: u16) -> Vec<CourierLetter<S>> {
        let peer = self.peers.entry(process.node).or_insert_with(|| CourierPeer::new(process, shards));
        if peer.process == process {
            return Vec::new();
        }
        let last = std::mem::replace(peer, CourierPeer::new(process, shards));
        peer.traffic = last.traffic;
        last.into_letters()
    }

    /// Removes a node. Returns the letters that waited for it.
    pub fn forget(&mut self, node: u16) -> Vec<CourierLetter<S>> {
        self.peers.remove(&node).map(CourierPeer::into_letters).unwrap_or_default()
    }

    /// Returns the numbers of the known nodes.
    pub fn nodes(&self) -> Vec<u16> {
        self.peers.keys().copied().collect()
    }

    /// Records whether a process is known to be alive.
    pub fn set_present(&mut self, process: NodeProcess, is_present: bool, now_ms: u64) {
        if let Some(peer) = self.peers.get_mut(&process.node).filter(|peer| peer.process == process) {
            peer.is_silent = !is_present;
            match is_present {
                true => peer.away_since = None,
                false => _ = peer.away_since.get_or_insert(now_ms),
            }
        }
    }

    /// Accepts a letter for a shard of this process, or of its successor.
    ///
    /// # Errors
    /// The letter, if there is no room or no such shard.
    pub fn post(&mut self, to: NodeProcess, letter: CourierLetter<S>) -> Result<(), Unposted<S>> {
        let is_there = |peer: &&mut CourierPeer<S>| match letter.outlives {
            true => to.incarnation >= peer.process.incarnation,
            false => to == peer.process,
        };
        let Some(peer) = self.peers.get_mut(&to.node).filter(is_there) else { return Err(Unposted::Gone(letter)) };
        let size = letter.size();
        // Frames are always accepted: leaving one out would break its line.
        if letter.outlives && peer.bytes + size > MOST_WAITING {
            peer.traffic.refused += 1;
            return Err(Unposted::Full(letter));
        }
        peer.bytes += size;
        peer.queue.push_back(letter);
        Ok(())
    }

    /// Makes other nodes read the rows of the database at once, which they do each second in any
    /// case.
    pub fn announce_rows<'a>(&mut self, others: impl IntoIterator<Item = &'a NodeProcess>) {
        for process in others {
            let (kind, body) = (NEWS, Vec::new());
            let news = CourierLetter { kind, from: 0, to: 0, body, outlives: false, until_read: false, share: None };
            // A node that is unreachable, or has too much to read, reads them at its own time.
            _ = self.post(*process, news);
        }
    }

    /// Returns letters that have waited too long for unreachable nodes, each with the process that
    /// it was for: the lines to that process have a gap.
    pub fn take_expired(&mut self, now_ms: u64) -> Vec<(NodeProcess, CourierLetter<S>)> {
        self.now_ms = now_ms;
        if self.is_over {
            return Vec::new();
        }
        let is_late = |peer: &&mut CourierPeer<S>| peer.away_since.is_some_and(|since| now_ms >= since + PATIENCE_MS);
        let over = self.peers.values_mut().filter(is_late);
        over.flat_map(|peer| {
            let away_since = peer.away_since;
            // The numbers of entries continue, since the same process may come back. It has to
            // learn that letters are missing, even if they were never part of an entry.
            let last_seq = peer.last_seq + u64::from(!peer.queue.is_empty());
            let next = CourierPeer {
                away_since,
                is_silent: peer.is_silent,
                last_seq,
                received: last_seq,
                is_urgent: peer.is_urgent || peer.bytes > 0,
                read: peer.read,
                at_work: std::mem::take(&mut peer.at_work),
                told: peer.told,
                awaited: peer.awaited,
                ends: peer.ends,
                traffic: peer.traffic,
                ..CourierPeer::new(peer.process, peer.shards)
            };
            let letters = std::mem::replace(peer, next).into_letters();
            peer.traffic.refused += letters.len() as u64;
            let process = peer.process;
            letters.into_iter().map(move |letter| (process, letter))
        })
        .collect()
    }

    /// Records that others have taken over from this process. It sends nothing more, not even
    /// confirmations, and accepts no letters. The writers of the letters to it send them to the new
    /// homes. Its own letters are kept, so that they don't count as handled.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Returns the appends to carry out now.
    pub fn appends(&mut self, now_ms: u64, unix_ms: u64) -> Vec<Append> {
        self.now_ms = now_ms;
        if self.is_over {
            return Vec::new();
        }
        let me = self.me;
        self.peers.values_mut().filter_map(|peer| peer.append(me, now_ms, unix_ms)).collect()
    }

    /// Returns the time at which [`Courier::appends`] may return appends without further input, in
    /// milliseconds.
    pub fn next_ms(&self) -> Option<u64> {
        if self.is_over {
            return None;
        }
        self.peers.values().filter_map(CourierPeer::due).min()
    }

    /// Handles the outcome of an append.
    pub fn appended(&mut self, to: NodeProcess, outcome: AppendOutcome, now_ms: u64) {
        let Some(peer) = self.peers.get_mut(&to.node).filter(|peer| peer.process == to) else { return };
        match (peer.is_appending.take(), outcome) {
            (Some(Appending::Letters(seq, letters, bytes)), AppendOutcome::Taken) => {
                peer.traffic.sent.add(letters, bytes);
                // The other side may have asked for earlier ones meanwhile.
                peer.cursor += u64::from(peer.cursor == seq);
            }
            (_, AppendOutcome::NoInbox) => {
                peer.away_since.get_or_insert(now_ms);
                // Everything that was in the inbox is gone.
                peer.cursor = 0;
            }
            _ => {}
        }
    }

    /// Sends all unread entries again: the engine was unreachable, and may have lost anything.
    pub fn reconnected(&mut self) {
        for peer in self.peers.values_mut() {
            (peer.cursor, peer.is_appending, peer.is_urgent) = (0, None, true);
        }
    }

    /// Handles an entry from the process's own inbox. Returns its new part, if there is any; shares
    /// in letters that its writer has handled are dropped.
    ///
    /// # Errors
    /// The entry is malformed.
    pub fn arrived(&mut self, entry: &[u8]) -> Result<Option<ArrivedPart>, Malformed> {
        let (header, letters) = wire::read(entry)?;
        let peer = self.peers.get_mut(&header.from.node).filter(|peer| peer.process == header.from);
        let Some(peer) = peer.filter(|_| !self.is_over) else { return Ok(None) };
        // A node that writes again after a long silence isn't given up at once: its lease will be
        // seen soon.
        peer.away_since = peer.away_since.map(|_| self.now_ms);
        peer.heard(&header, &letters, self.now_ms);
        let is_torn = header.first > peer.read.saturating_add(1);
        if is_torn {
            peer.read = header.first - 1;
            // The writer no longer waits for them.
            peer.at_work = peer.at_work.split_off(&header.first);
        }
        let reminder = number_in(&letters, REMINDER).unwrap_or_default();
        if header.seq != peer.read.saturating_add(1) {
            // It was read before, or will arrive again in order.
            peer.is_urgent |= header.seq != 0 || reminder != 0;
            peer.is_missing |= header.seq.max(reminder) > peer.read;
            return Ok(is_torn.then(|| ArrivedPart { from: header.from, letters: Vec::new(), is_torn, waits: None }));
        }
        peer.read = header.seq;
        let waits = header.is_urgent.then_some(header.seq);
        peer.at_work.extend(waits);
        peer.awaited = waits.unwrap_or(peer.awaited);
        let letters = letters
            .iter()
            .filter(|letter| letter.kind < REMINDER)
            .map(|letter| (letter.kind, letter.from, letter.to, letter.body.to_vec()));
        let letters: Vec<_> = letters.collect();
        peer.traffic.received.add(letters.len(), entry.len());
        Ok(Some(ArrivedPart { from: header.from, letters, is_torn, waits }))
    }

    /// Handles only the confirmations in an entry, and none of its letters, since the shards are
    /// gone. An entry without letters counts as read: its writer ends as well.
    ///
    /// # Errors
    /// The entry is malformed.
    pub fn only_confirmed(&mut self, entry: &[u8]) -> Result<(), Malformed> {
        let (header, letters) = wire::read(entry)?;
        if let Some(peer) = self.peers.get_mut(&header.from.node).filter(|peer| peer.process == header.from) {
            peer.heard(&header, &letters, self.now_ms);
            let is_empty = letters.iter().all(|letter| letter.kind >= REMINDER);
            if header.seq == peer.read.saturating_add(1) && is_empty && !header.is_urgent {
                peer.read = header.seq;
            }
        }
        Ok(())
    }

    /// Records that the letters of an entry have been handled, for which its writer waits.
    pub fn note_handled(&mut self, from: NodeProcess, seq: u64) {
        if let Some(peer) = self.peers.get_mut(&from.node).filter(|peer| peer.process == from) {
            // This is true only of entries that can be named.
            peer.is_urgent |= peer.at_work.iter().take(MOST_NAMED).any(|at_work| *at_work == seq);
            peer.at_work.remove(&seq);
        }
    }

    /// Returns the bytes that wait for nodes or have not been handled there.
    pub fn waiting_bytes(&self) -> usize {
        self.peers.values().map(|peer| peer.bytes).sum()
    }

    /// Returns whether a process is known to be alive, and the traffic with it.
    pub fn traffic(&self, process: NodeProcess) -> Option<(bool, NodeTraffic)> {
        let peer = self.peers.get(&process.node).filter(|peer| peer.process == process)?;
        Some((peer.away_since.is_none(), NodeTraffic { waiting_bytes: peer.bytes as u64, ..peer.traffic }))
    }

    /// Returns whether everything that was posted has been handled.
    pub fn is_idle(&self) -> bool {
        self.peers.values().all(|peer| peer.queue.is_empty() && peer.unread.is_empty() && peer.unhandled.is_empty())
    }

    /// Returns whether the process, which accepts no letters any more, may end: everything that was
    /// posted has been handled, and the others know that everything that they have sent was handled
    /// here. Otherwise they would send the rest again, to the new homes. They have to have read
    /// that: the engine may lose a confirmation that it has taken.
    pub fn may_end(&mut self) -> bool {
        self.peers.values_mut().for_each(|peer| peer.ends = true);
        self.is_idle() && self.peers.values().all(CourierPeer::has_told)
    }
}

/// Appends a letter between couriers.
fn note(kind: u8, body: &[u8], entry: &mut Vec<u8>) {
    wire::push(&CarriedMail { kind, from: 0, to: 0, body }, entry);
}

/// Returns the highest number in letters between couriers of a kind.
fn number_in(letters: &[CarriedMail<'_>], kind: u8) -> Option<u64> {
    let found = letters.iter().filter(|letter| letter.kind == kind);
    found.filter_map(|letter| Some(u64::from_le_bytes(letter.body.try_into().ok()?))).max()
}

impl<S> CourierLetter<S> {
    /// Returns the mail among letters, each with the shard that wrote it.
    pub fn mail_of_shards(letters: Vec<Self>) -> Vec<ReturnedLetter<S>> {
        let mail = letters.into_iter().filter(|letter| letter.kind == MAIL);
        mail.map(|letter| (letter.from, (letter.body, letter.share))).collect()
    }

    fn size(&self) -> usize {
        self.body.len() + OVERHEAD
    }

    /// Returns whether the letter has to be handled by another process if its reader dies.
    fn is_awaited(&self) -> bool {
        self.outlives && !self.until_read && self.share.is_some()
    }

    fn as_mail(&self) -> CarriedMail<'_> {
        CarriedMail { kind: self.kind, from: self.from, to: self.to, body: &self.body }
    }
}

/// Returns the bytes that letters take.
fn size<'a, S: 'a>(letters: impl IntoIterator<Item = &'a CourierLetter<S>>) -> usize {
    letters.into_iter().map(CourierLetter::size).sum()
}

/// The most bytes of letters in one entry, unless it is one letter that is larger.
const LARGE: usize = 256 * 1024;
/// The most entries to one node that it isn't known to have read.
const MOST_UNREAD: u64 = 4096;
/// The kind of a letter between couriers: the last entry that was read, if that is later than the
/// last one handled. Versions that don't know it skip it.
const RECEIVED: u8 = 255;
/// The kind of a letter between couriers: [`NamedEntries`]. Versions that don't know it skip it.
const AT_WORK: u8 = 254;
/// The kind of a letter between couriers: the first entry that is missing, although later ones have
/// been appended. Versions that don't know it skip it.
const MISSING: u8 = 253;
/// The kind of a letter between couriers: the last entry that was appended. Versions that don't
/// know it skip it; letters between shards have lower numbers.
const REMINDER: u8 = 252;
/// The entry up to which all were handled except the following ones, which are numbered from the
/// first one that the header doesn't confirm.
type NamedEntries = (u64, Vec<u64>);
/// The most entries that are named in this way: most are done in order, and few remain.
const MOST_NAMED: usize = 32;
/// The most bytes that may wait for one node, or be on their way to it.
pub const MOST_WAITING: usize = 32 << 20;
/// The time for which letters wait for an unreachable node, in milliseconds.
pub const PATIENCE_MS: u64 = 30_000;
/// The time in milliseconds after which a reader is reminded of entries that it has not confirmed,
/// and after which entries that it misses are sent again.
const REMIND_MS: u64 = 5_000;
/// The time within which a writer learns that an entry was handled, in milliseconds, if it isn't
/// urgent.
const TELL_MS: u64 = 200;
/// The time between two entries without letters to a node, in milliseconds: waiting writers learn
/// of several entries at once.
const HURRY_MS: u64 = 3;
/// The bytes that a letter takes in addition to its content.
const OVERHEAD: usize = 64;

#[cfg(test)]
mod tests;
