//! The way of messages into the archives.
//!
//! What is said is delivered at once; it goes to the store in groups, which costs a fraction of writing each by itself. Whoever asks for an archive
//! sees what waits, since it is written before the question is put.
//!
//! # Invariants
//!
//! * Nobody waits for the archive. What the store doesn't take is missing there, counted and logged; a message that is not recorded has no id.
//! * What waits and what the store has not confirmed is bounded together.
//! * A server that stops has written everything. When it is killed, archives lack what came in the last quarter of a second; what was for users who
//!   were away is in the offline store.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rookery_hub::{Timer, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{ArchiveOf, ArchivedMessage};
use tracing::warn;

use super::id::{self, Ids};

/// The archives of a shard. Clones mean the same.
#[derive(Clone, Default)]
pub struct Archives(Rc<State>);

#[derive(Default)]
struct State {
    ids: Ids,
    waiting: RefCell<Waiting>,
    /// Bytes that the store has not confirmed.
    unconfirmed: Cell<usize>,
    /// Under which id the message that a session is sending was recorded for its sender.
    sent: Cell<Option<u64>>,
}

/// A group in the making.
#[derive(Default)]
struct Waiting {
    messages: Vec<ArchivedMessage>,
    bytes: usize,
    /// When it is written, at the latest.
    timer: Option<Timer>,
}

impl std::fmt::Debug for Archives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archives").field("waiting", &self.0.waiting.borrow().messages.len()).finish_non_exhaustive()
    }
}

/// A message to be recorded.
#[derive(Debug)]
pub struct Record<'a> {
    /// Whose archive: the bare JID of an account or room whose home this shard is.
    pub owner: JidRef<'a>,
    /// What that is.
    pub of: ArchiveOf,
    /// The other party of the conversation; in a room the occupant JID.
    pub with: Jid,
    /// Record it only if the other party is in the account's roster.
    pub contacts_only: bool,
    /// The stanza: with `from` and `to` for an account, without `to` for a room (XEP-0313 §5.1.2).
    pub stanza: Vec<u8>,
}

impl Archives {
    /// Records a message, and answers the id for its `<stanza-id/>` (XEP-0313 §3.4). `None`: the store is too far behind, and the archive lacks it.
    pub fn record(&self, world: &mut World, record: Record<'_>) -> Option<String> {
        self.record_id(world, record).map(id::text)
    }

    pub(super) fn record_id(&self, world: &mut World, record: Record<'_>) -> Option<u64> {
        let bytes = record.stanza.len() + BYTES_PER_MESSAGE;
        let state = &*self.0;
        if state.unconfirmed.get() + state.waiting.borrow().bytes + bytes > MAX_BYTES {
            world.counters.archive_lost += 1;
            return None;
        }
        let id = state.ids.next(world.time());
        let Record { owner, of, with, contacts_only, stanza } = record;
        let message = ArchivedMessage { owner: owner.bare().to_jid(), of, id, with, contacts_only, stanza };
        let (count, bytes) = {
            let mut waiting = state.waiting.borrow_mut();
            waiting.bytes += bytes;
            waiting.messages.push(message);
            (waiting.messages.len(), waiting.bytes)
        };
        if count >= GROUP || bytes >= GROUP_BYTES || world.is_stopping() {
            self.write(world);
        } else if count == 1 {
            let archives = self.clone();
            let timer = world.after(GATHER_MS, move |world| archives.write(world));
            state.waiting.borrow_mut().timer = Some(timer);
        }
        Some(id)
    }

    /// Writes what waits.
    pub fn write(&self, world: &mut World) {
        let Waiting { messages, bytes, timer } = self.0.waiting.take();
        if let Some(timer) = timer {
            world.cancel(timer);
        }
        if messages.is_empty() {
            return;
        }
        let (state, count) = (self.0.clone(), messages.len());
        state.unconfirmed.set(state.unconfirmed.get() + bytes);
        let appended = world.stores.archive.append(messages);
        world.wait(appended, move |world, appended| {
            state.unconfirmed.set(state.unconfirmed.get().saturating_sub(bytes));
            if let Err(error) = appended {
                world.counters.store_errors += 1;
                world.counters.archive_lost += count as u64;
                warn!(%error, messages = count, "archives lack messages that the store did not take");
            }
        });
    }

    /// Remembers under which id the message that a session is sending was recorded for its sender.
    pub(super) fn set_sent(&self, id: Option<u64>) {
        self.0.sent.set(id);
    }

    /// The id that [`Archives::set_sent`] was given last, once.
    pub(crate) fn take_sent(&self) -> Option<String> {
        self.0.sent.take().map(id::text)
    }
}

/// How long a group gathers, milliseconds.
const GATHER_MS: u64 = 250;
/// Messages of a group.
const GROUP: usize = 1000;
/// Bytes of a group.
const GROUP_BYTES: usize = 1 << 20;
/// Bytes that wait in one shard, or are not confirmed by the store.
const MAX_BYTES: usize = 16 << 20;
/// What a message takes besides its stanza.
const BYTES_PER_MESSAGE: usize = 256;
