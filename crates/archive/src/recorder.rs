//! Records messages in the archives.
//!
//! Messages are delivered at once; they go to the store in groups. On a busy server the messages of
//! each user touch pages of the database that no other message does: written one by one, the pages
//! cost more than the messages. A query of an archive sees what still waits, since that is written
//! before the query runs.
//!
//! # Invariants
//!
//! * Nothing waits for the archive; a message that is not recorded has no id.
//! * While the store is unreachable, recorded messages wait and are written once it is back, and
//!   their custody is kept until then. Messages that the store refuses for good, for example
//!   because the disk is full, are missing from the archive, counted and logged; a sender that
//!   could misunderstand the acknowledgement gets an error.
//! * Waiting messages and those that the store hasn't confirmed have one bound together. Once half
//!   of it is used, no sender gets more than a quarter of it: a sender that writes more than the
//!   disk can take loses its own messages, not those of others. Beyond the bound, messages of
//!   senders that get acknowledgements are refused, and those of others are only delivered.
//! * Nobody adds more to all archives of a shard in a day than an option allows: a bound for each
//!   archive alone would let one sender who writes to everybody fill them all.
//! * A server that is stopped writes everything first. If it is killed, archives lack the last
//!   second's messages that weren't acknowledged (XEP-0198); messages for absent users are in the
//!   offline store.
//! * Messages in custody are acknowledged when they are written, so they are collected for a
//!   shorter time.

use rookery_base::{Keyed, Map};
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;

use rookery_fanout::Packet;
use rookery_hub::failure::condition;
use rookery_hub::{Custody, Timer, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{ArchiveOf, ArchivedMessage, StoreError};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Writer, ns};
use tracing::{info, warn};

use super::id::{self, Ids};
use super::noted::NotedId;
use super::options::RecordOptions;

/// The messages that a shard has to write into archives, and their counts.
#[derive(Default)]
pub struct ArchiveRecorder {
    keys: Keyed,
    waiting: WaitingGroup,
    /// Bytes that the store has not confirmed.
    unconfirmed: usize,
    /// Bytes that wait or are not confirmed, by cause: see [`cause`].
    caused: Caused,
    today: Day,
    /// Accounts that were removed, and when: for a while, messages recorded in their names don't
    /// wait, and older ones that still wait are dropped.
    removed: Vec<(Jid, u64)>,
    /// Groups that an unreachable store has not taken.
    again: Vec<RecordGroup>,
    /// The messages that the store has not confirmed, by archive and mark.
    marked: Map<(Jid, u64), MarkedMessage>,
    /// The last wait before the store was asked again, in milliseconds; 0 while it is reachable.
    away_ms: u64,
    /// The time of the last log line about an unreachable store, in milliseconds.
    told_ms: Option<u64>,
    /// True after such a line, until another one says that the store is back.
    is_told: bool,
}

/// A message on its way to the store.
struct RecordedMessage {
    /// The cause of the message: see [`cause`].
    cause: u8,
    /// True if its sender gets an acknowledgement.
    is_in_custody: bool,
    /// The mark under which its id is noted.
    mark: Option<u64>,
    message: ArchivedMessage,
}

/// A message by whose mark repetitions are recognised.
struct MarkedMessage {
    id: u64,
    /// The shares of repetitions, which wait for the store as the message does.
    custody: Vec<Custody>,
}

/// Messages that are written together.
struct RecordGroup {
    messages: Arc<[ArchivedMessage]>,
    /// For each message its cause, true if it is in custody, and its mark.
    notes: Vec<(u8, bool, Option<u64>)>,
    /// The shares of everything that waits for it.
    custody: Rc<[Custody]>,
    /// The time of the first attempt to write it, in milliseconds.
    since_ms: u64,
}

/// A group that is being collected. The messages of one owner are in one heap.
#[derive(Default)]
struct WaitingGroup {
    heaps: [Vec<RecordedMessage>; HEAPS],
    count: usize,
    bytes: usize,
    /// The latest moment at which it is written.
    timer: Option<Timer>,
    /// The shares of everything that waits for it.
    custody: Vec<Custody>,
}

/// Bytes by cause.
struct Caused([usize; CAUSES]);

impl Default for Caused {
    fn default() -> Self {
        Self([0; CAUSES])
    }
}

impl Caused {
    fn of(&mut self, cause: u8) -> &mut usize {
        &mut self.0[usize::from(cause) % CAUSES]
    }
}

/// The bytes recorded in a day, by sender.
#[derive(Default)]
struct Day {
    /// Days since 1970.
    number: u64,
    /// The bytes that senders have used, in units of [`DAY_UNIT`]; [`u32::MAX`] once the limit is
    /// reached. Places are assigned by keyed hashes: few senders share one, nobody can choose
    /// theirs, and there is no table that grows.
    spent: Vec<u32>,
}

/// The bytes that a sender has left today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftToday {
    Enough,
    /// None: this message is the first one that would exceed the limit.
    JustSpent,
    Nothing,
}

impl Day {
    /// Counts bytes for the sender with this hash, who may use `most` bytes a day.
    fn spend(&mut self, hash: u64, bytes: usize, most: u64, now_ms: u64) -> LeftToday {
        let today = now_ms / DAY_MS;
        if self.number != today || self.spent.is_empty() {
            self.number = today;
            self.spent.clear();
            self.spent.resize(DAY_PLACES, 0);
        }
        let Some(spent) = self.spent.get_mut((hash >> 8) as usize % DAY_PLACES) else { return LeftToday::Enough };
        if *spent == u32::MAX {
            return LeftToday::Nothing;
        }
        let after = u64::from(*spent) + (bytes as u64).div_ceil(DAY_UNIT);
        let is_allowed = after * DAY_UNIT <= most;
        *spent = u32::try_from(after).ok().filter(|_| is_allowed).unwrap_or(u32::MAX);
        if is_allowed { LeftToday::Enough } else { LeftToday::JustSpent }
    }
}

impl ArchiveRecorder {
    /// Returns whether this many more bytes of a cause may wait.
    fn has_room(&mut self, cause: u8, bytes: usize) -> bool {
        let all = self.unconfirmed + self.waiting.bytes + bytes;
        let own = *self.caused.of(cause) + bytes;
        all <= MAX_BYTES && (all <= MAX_BYTES / 2 || own <= MAX_BYTES / 4)
    }

    /// Counts bytes for their sender, and returns whether they are within its `a_day` bytes of
    /// today; 0 means no limit.
    fn may_spend(&mut self, by: JidRef<'_>, hash: u64, bytes: usize, a_day: u64, now_ms: u64) -> bool {
        if a_day == 0 {
            return true;
        }
        let left = self.today.spend(hash, bytes, a_day, now_ms);
        if left == LeftToday::JustSpent {
            let account = by.bare_str();
            warn!(
                account,
                bytes = a_day,
                "this sender has reached its daily limit in archives; further messages are delivered, but not archived"
            );
        }
        left == LeftToday::Enough
    }

    fn is_removed(&mut self, now_ms: u64, owner: JidRef<'_>) -> bool {
        if self.removed.is_empty() {
            return false;
        }
        let is_idle = self.unconfirmed == 0;
        self.removed.retain(|(_, at_ms)| !is_idle || at_ms + GATHER_MS > now_ms);
        self.removed.iter().any(|(account, at_ms)| at_ms + GATHER_MS > now_ms && account.as_ref() == owner.bare())
    }
}

/// Returns a number for the sender with this hash. Few others share it, and nobody can choose it:
/// there is no table to fill.
fn cause(hash: u64) -> u8 {
    hash as u8
}

/// A message to be recorded.
#[derive(Debug)]
pub struct ArchiveRecord<'a> {
    /// The owner of the archive: the bare JID of an account or room whose home this shard is.
    pub owner: JidRef<'a>,
    /// The kind of owner.
    pub of: ArchiveOf,
    /// The sender; for a room, the room itself.
    pub by: JidRef<'a>,
    /// The other party of the conversation; for a room the occupant JID.
    pub with: Jid,
    /// True to record it only if the other party is in the account's roster.
    pub contacts_only: bool,
    /// The stanza: with `from` and `to` for an account, without `to` for a room (XEP-0313 §5.1.2).
    pub stanza: Vec<u8>,
    /// The mark by which other nodes recognise it if this node dies; `None` if none would look for
    /// it.
    pub mark: Option<u64>,
    /// The id that it had before, if it had one.
    pub id: Option<u64>,
}

/// Records a message, and returns the id for its `<stanza-id/>` (XEP-0313 §3.4). `None` if the
/// archive will lack it: the store is too far behind, or the sender has reached its daily limit.
pub fn record(world: &mut World, record: ArchiveRecord<'_>) -> Option<String> {
    let options = RecordOptions::of(world, record.owner.domain());
    let most = match record.of {
        ArchiveOf::Account => options.account_bytes,
        ArchiveOf::Room => options.room_bytes,
    };
    let a_day = options.day_bytes;
    let (now_ms, is_stopping, custody) = (world.time(), world.is_stopping(), world.custody());
    let after_ms = world.time_after_others();
    let archives = world.state_mut::<ArchiveRecorder>();
    let bytes = record.stanza.len() + BYTES_PER_MESSAGE;
    let hash = archives.keys.hash_one(record.by.bare_str());
    let cause = cause(hash);
    if !archives.has_room(cause, bytes) || !archives.may_spend(record.by, hash, bytes, a_day, now_ms) {
        world.counters.archive_lost += 1;
        return None;
    }
    let id = record.id.unwrap_or_else(|| world.state_mut::<Ids>().next(after_ms));
    let archives = world.state_mut::<ArchiveRecorder>();
    let ArchiveRecord { owner, of, with, contacts_only, stanza, mark, .. } = record;
    let message = ArchivedMessage { owner: owner.bare().to_jid(), of, id, with, contacts_only, stanza, most };
    let heap = archives.keys.hash_one(message.owner.as_str()) as usize % HEAPS;
    let recorded = RecordedMessage { cause, is_in_custody: custody.is_some(), mark, message };
    *archives.caused.of(cause) += bytes;
    let (count, bytes) = archives.waiting.put(heap, recorded, bytes);
    let is_urgent = custody.is_some_and(|custody| archives.waiting.keep(custody));
    if count >= GROUP || bytes >= GROUP_BYTES || is_stopping || archives.is_removed(now_ms, owner) {
        write(world);
    } else if count == 1 || is_urgent {
        write_in(world, if is_urgent { GATHER_IN_CUSTODY_MS } else { GATHER_MS });
    }
    if let Some(mark) = mark {
        let owner = owner.bare().to_jid();
        // The shares of repetitions stay with the first message of that mark.
        let marked = world.state_mut::<ArchiveRecorder>().marked.entry((owner.clone(), mark));
        marked.or_insert(MarkedMessage { id, custody: Vec::new() });
        world.note_memo(&owner.to_string(), mark, Some(&NotedId { owner, mark, id }));
    }
    Some(id::text(id))
}

/// Finds a message with this mark that the store hasn't confirmed yet. Returns its id. The
/// repetition that is being handled is acknowledged when the store has the message.
pub(super) fn find_marked(world: &mut World, message: &(Jid, u64)) -> Option<u64> {
    let custody = world.custody();
    let marked = world.state_mut::<ArchiveRecorder>().marked.get_mut(message)?;
    if marked.custody.len() >= MOST_REPETITIONS {
        return None;
    }
    marked.custody.extend(custody);
    Some(marked.id)
}

/// Drops the messages that wait for the archive of a removed account, which the store has deleted:
/// they mustn't get into the archive of the name's next owner. Later messages go to the store at
/// once, before that can happen.
pub(super) fn forget(world: &mut World, owner: JidRef<'_>) {
    let now_ms = world.time();
    let archives = world.state_mut::<ArchiveRecorder>();
    archives.waiting.forget(owner, &mut archives.caused);
    archives.marked.retain(|(marked, _), _| marked.as_ref() != owner.bare());
    archives.removed.push((owner.bare().to_jid(), now_ms));
}

/// Sets the time at which waiting messages are written.
fn write_in(world: &mut World, delay_ms: u64) {
    let timer = world.after(delay_ms, write);
    if let Some(later) = world.state_mut::<ArchiveRecorder>().waiting.timer.replace(timer) {
        world.cancel(later);
    }
}

/// Writes the waiting messages: those of one owner together, since they are adjacent in the store,
/// and in portions, so that others get their turn at the store in between.
pub fn write(world: &mut World) {
    let WaitingGroup { heaps, timer, custody, .. } = std::mem::take(&mut world.state_mut::<ArchiveRecorder>().waiting);
    if let Some(timer) = timer {
        world.cancel(timer);
    }
    let custody: Rc<[Custody]> = custody.into();
    let mut portion = Vec::new();
    for mut heap in heaps {
        portion.append(&mut heap);
        if portion.len() >= PORTION {
            append(world, std::mem::take(&mut portion), custody.clone());
        }
    }
    if !portion.is_empty() {
        append(world, portion, custody);
    }
}

fn append(world: &mut World, portion: Vec<RecordedMessage>, custody: Rc<[Custody]>) {
    let notes = portion.iter().map(|recorded| (recorded.cause, recorded.is_in_custody, recorded.mark)).collect();
    let messages: Arc<[_]> = portion.into_iter().map(|recorded| recorded.message).collect();
    world.state_mut::<ArchiveRecorder>().unconfirmed += messages.iter().map(size).sum::<usize>();
    let since_ms = world.time();
    ask(world, RecordGroup { messages, notes, custody, since_ms });
}

/// Asks the store to take a group.
fn ask(world: &mut World, group: RecordGroup) {
    let appended = world.stores.archive.append(group.messages.clone());
    world.wait(appended, move |world, appended| match appended {
        Ok(()) => {
            drop(end_group(world, &group));
            note_reachable(world);
        }
        Err(error) if error.is_outage() && !world.is_stopping() => wait_for_store(world, group, &error),
        Err(error) => handle_refusal(world, &group, &error),
    });
}

/// Stops counting a group that the store has answered for. Returns the shares of repetitions.
fn end_group(world: &mut World, group: &RecordGroup) -> Vec<Custody> {
    let archives = world.state_mut::<ArchiveRecorder>();
    for (message, (cause, ..)) in group.messages.iter().zip(&group.notes) {
        debug_assert!(archives.unconfirmed >= size(message), "what the store was given was counted");
        archives.unconfirmed = archives.unconfirmed.saturating_sub(size(message));
        debug_assert!(*archives.caused.of(*cause) >= size(message), "a cause has what it caused");
        *archives.caused.of(*cause) -= size(message);
    }
    let mut repetitions = Vec::new();
    for (message, (.., mark)) in group.messages.iter().zip(&group.notes) {
        if let Some(mark) = mark {
            let (key, all) = ((message.owner.clone(), *mark), &mut world.state_mut::<ArchiveRecorder>().marked);
            if all.get(&key).is_some_and(|marked| marked.id == message.id) {
                repetitions.extend(all.remove(&key).into_iter().flat_map(|marked| marked.custody));
            }
            world.note_memo::<NotedId>(message.owner.as_str(), *mark, None);
        }
    }
    repetitions
}

/// Keeps a group until the store is back.
fn wait_for_store(world: &mut World, group: RecordGroup, error: &StoreError) {
    world.counters.store_errors += 1;
    let now_ms = world.time();
    let archives = world.state_mut::<ArchiveRecorder>();
    let is_first = archives.again.is_empty();
    archives.again.push(group);
    if !is_first {
        return;
    }
    let delay_ms = (archives.away_ms * 2).clamp(AGAIN_MS, MOST_AGAIN_MS);
    archives.away_ms = delay_ms;
    // An overloaded store takes one group and gives up the next.
    let is_new = archives.told_ms.is_none_or(|told| now_ms >= told + TELL_MS);
    if is_new && !std::mem::replace(&mut archives.is_told, true) {
        archives.told_ms = Some(now_ms);
        warn!(%error, "the store can't be reached: messages for archives wait");
    }
    world.in_custody(None, |world| world.after(delay_ms, ask_again));
}

/// Asks the store again for the groups that it hasn't taken, without messages of removed accounts.
fn ask_again(world: &mut World) {
    let again = std::mem::take(&mut world.state_mut::<ArchiveRecorder>().again);
    for group in again {
        let removed = &world.state::<ArchiveRecorder>().removed;
        let is_gone = |message: &ArchivedMessage| {
            removed.iter().any(|(account, at_ms)| *at_ms >= group.since_ms && *account == message.owner)
        };
        if !group.messages.iter().any(is_gone) {
            ask(world, group);
            continue;
        }
        let split = |gone: bool| {
            let all = group.messages.iter().zip(&group.notes).filter(|(message, _)| is_gone(message) == gone);
            let (messages, notes): (Vec<_>, Vec<_>) = all.map(|(message, note)| (message.clone(), *note)).unzip();
            RecordGroup { messages: messages.into(), notes, custody: group.custody.clone(), since_ms: group.since_ms }
        };
        let (gone, rest) = (split(true), split(false));
        drop(end_group(world, &gone));
        ask(world, rest);
    }
}

/// Notes that the store has accepted something, so that it is reachable again.
fn note_reachable(world: &mut World) {
    let archives = world.state_mut::<ArchiveRecorder>();
    archives.away_ms = 0;
    if std::mem::take(&mut archives.is_told) {
        info!("the store can be reached again: waiting messages go into archives");
    }
}

/// Handles a group that the archives will lack. First, the senders that would get acknowledgements
/// are notified.
fn handle_refusal(world: &mut World, group: &RecordGroup, error: &StoreError) {
    let repetitions = end_group(world, group);
    let count = group.messages.len();
    world.counters.store_errors += 1;
    world.counters.archive_lost += count as u64;
    warn!(%error, messages = count, "messages are missing from archives, because the store refused them");
    let told = group.messages.iter().zip(&group.notes).filter(|(_, (_, is_in_custody, _))| *is_in_custody);
    // The group doesn't know which share is whose, so it refuses all of them. A sender that isn't
    // told sends messages again that the archives have, which is better than losing some.
    group.custody.iter().chain(&repetitions).for_each(Custody::refuse);
    let (telling, told_all) = Custody::apart();
    world.in_custody(Some(telling), |world| {
        for (message, _) in told {
            tell_sender(world, message, condition(error));
        }
    });
    // The errors may be on their way to other shards: until they are there, nothing is settled.
    let custody = group.custody.clone();
    world.in_custody(None, |world| world.wait(told_all, move |_, _| drop((custody, repetitions))));
}

/// Tells the sender of a message that it was delivered, but is missing from an archive.
fn tell_sender(world: &mut World, message: &ArchivedMessage, condition: Condition) {
    let Ok(packet) = Packet::from_bytes(&message.stanza) else { return };
    let error = StanzaError::new(condition).with_text("the message was delivered, but could not be archived");
    match message.of {
        ArchiveOf::Account => {
            let to = if packet.sender().is_some_and(|from| from.bare() == message.owner.as_ref()) {
                &message.with
            } else {
                &message.owner
            };
            world.bounce(&packet, to.as_ref(), error);
        }
        ArchiveOf::Room => {
            // The room's copy has the occupant's own address.
            let stanza = packet.stanza();
            let who = stanza.child("x", ns::MUC_USER).and_then(|x| {
                let item = x.children().find(|child| child.is("item", ns::MUC_USER))?;
                item.attr("jid").map(|jid| jid.to_string())
            });
            let Some(who) = who.and_then(|who| Jid::parse(&who).ok()) else { return };
            let mut reply = Writer::new("message");
            reply.attr("type", "error").opt_attr("id", packet.id().as_deref()).attr("from", message.owner.as_str());
            error.write(&mut reply);
            world.route_built(&reply.finish(), &who);
        }
    }
}

/// Returns the error for a message that would be acknowledged although the store is too far behind
/// to archive it.
pub fn refusal(world: &mut World, by: JidRef<'_>, bytes: usize) -> Option<StanzaError> {
    world.custody()?;
    let archives = world.state_mut::<ArchiveRecorder>();
    let cause = cause(archives.keys.hash_one(by.bare_str()));
    let is_full = !archives.has_room(cause, bytes + BYTES_PER_MESSAGE);
    is_full.then(|| StanzaError::new(Condition::ResourceConstraint).with_text("archives can't accept the message now"))
}

impl WaitingGroup {
    /// Adds a message; returns the number of waiting messages and of their bytes.
    fn put(&mut self, heap: usize, message: RecordedMessage, bytes: usize) -> (usize, usize) {
        if let Some(heap) = self.heaps.get_mut(heap) {
            heap.push(message);
        }
        self.count += 1;
        self.bytes += bytes;
        debug_assert!(bytes >= BYTES_PER_MESSAGE, "a message takes more than its text");
        (self.count, self.bytes)
    }

    /// Drops the messages of an owner.
    fn forget(&mut self, owner: JidRef<'_>, caused: &mut Caused) {
        for heap in &mut self.heaps {
            heap.retain(|RecordedMessage { cause, message, .. }| {
                let is_kept = message.owner.as_ref() != owner.bare();
                if !is_kept {
                    debug_assert!(self.count > 0 && self.bytes >= size(message), "what waits is counted");
                    self.count -= 1;
                    self.bytes -= size(message);
                    *caused.of(*cause) -= size(message);
                }
                is_kept
            });
        }
    }

    /// Adds a share that waits for it; returns whether it is the first one.
    fn keep(&mut self, custody: Custody) -> bool {
        self.custody.push(custody);
        self.custody.len() == 1
    }
}

/// Returns the bytes that a message takes in memory.
fn size(message: &ArchivedMessage) -> usize {
    message.stanza.len() + BYTES_PER_MESSAGE
}

/// The number of places in [`Day::spent`]: 256 KiB in each shard.
const DAY_PLACES: usize = 1 << 16;
/// The unit in which a place counts, in bytes.
const DAY_UNIT: u64 = 64;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// The number of causes.
const CAUSES: usize = 256;
/// The longest time for which a group is collected, in milliseconds.
const GATHER_MS: u64 = 1000;
/// The time after which an unreachable store is asked again, in milliseconds; it doubles each
/// time.
const AGAIN_MS: u64 = 1000;
/// The longest time between two such questions.
const MOST_AGAIN_MS: u64 = 30_000;
/// The most repetitions of one message that wait for the store with it; a further one counts as a
/// message of its own.
const MOST_REPETITIONS: usize = 16;
/// The time between two log lines about an unreachable store, in milliseconds.
const TELL_MS: u64 = 60_000;
/// The same as [`GATHER_MS`], from the first message whose sender waits for an acknowledgement.
const GATHER_IN_CUSTODY_MS: u64 = 100;
/// The number of waiting messages at which a group is written.
const GROUP: usize = 20_000;
/// The bytes of waiting messages at which a group is written.
const GROUP_BYTES: usize = 8 << 20;
/// The number of heaps into which waiting messages are divided.
const HEAPS: usize = 32;
/// The messages that one transaction writes; up to a heap more.
const PORTION: usize = 500;
/// The most bytes that wait in one shard or that the store hasn't confirmed.
const MAX_BYTES: usize = 32 << 20;
/// The bytes that a message takes in addition to its stanza.
const BYTES_PER_MESSAGE: usize = 256;
