//! Letters for other nodes, and writes to the journal, on their way out of a shard.
//!
//! Each time a shard hands something over, the thread that carries it is woken, then Redis, and
//! then the readers: that costs far more than one more letter. So a shard hands over immediately
//! after a pause, while later data waits for a few milliseconds, together with everything else that
//! comes meanwhile.
//!
//! # Invariants
//!
//! * Letters leave in order, and after the writes to the journal of all ticks in which the letters
//!   were written: no other node reads anything that the journal lacks. If Redis is slow and many
//!   writes are under way, letters wait in the shard, since they need the same Redis.
//! * Data for clients of this node and mail for its other shards leave after the writes of their
//!   tick have been handed over, unless so many are under way that they wait: nothing within a node
//!   waits for Redis. The journal of a node is written in the order in which its shards hand over,
//!   so it has no consequence without its cause.
//! * Nothing waits once the shard stops, or its node leaves. Data larger than [`LARGE_BYTES`],
//!   together with the data that waits before it, doesn't wait either.

use rookery_observe::Since;
use tracing::warn;

use crate::driver::Driver;
use crate::mailboxes::{MailboxKind, NodeLetter};
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Ends a tick that began at `since`: writes to the clients, and sends data for others, if it
    /// is time.
    pub(crate) fn let_out(&mut self, since: Since) {
        let has_others = self.world.has_journal() || self.world.shards() > self.world.own_shards();
        let is_ending = self.is_stopping() || self.common.post.is_shut();
        // The milliseconds for which data waits.
        let linger_ms = if has_others && !is_ending { self.common.post.linger_ms() } else { 0 };
        let may_leave = linger_ms == 0 || self.timing.now_ms >= self.timing.outgoing.next_ms;
        if has_others {
            self.look_up();
            self.number_lines();
        }
        let may_write = has_others && may_leave && (is_ending || self.world.may_journal());
        let mut any = may_write && self.journal();
        let is_behind = has_others && self.world.has_to_journal();
        // If this process died now, a client that has a stanza which the journal lacks would get it
        // twice. The same goes for clients of the other shards' sessions.
        let is_kept = is_behind && !may_leave;
        if !is_kept {
            self.post_mail(since);
            self.flush();
        }
        self.mark_lines();
        self.driver.sweep();
        if !has_others && self.driver.frames.is_empty() {
            return;
        }
        self.take_mail();
        let is_large = self.timing.outgoing.bytes > LARGE_BYTES;
        if is_large && is_behind {
            any |= self.journal();
        }
        if is_large && is_kept {
            self.post_mail(since);
            self.flush();
            self.mark_lines();
            self.take_mail();
        }
        if is_large || may_leave && (is_ending || !is_behind) {
            any |= self.post_afar();
            self.timing.outgoing.waits = false;
        } else {
            let has_letters = !self.timing.outgoing.letters.is_empty();
            self.timing.outgoing.waits = is_kept || has_letters && (!may_leave || self.world.may_journal());
        }
        if any {
            self.timing.outgoing.next_ms = self.timing.now_ms + linger_ms;
        }
    }

    /// Takes the mail of the world and of lines for other nodes.
    fn take_mail(&mut self) {
        let own = self.world.own_shards();
        let before = self.timing.outgoing.letters.len();
        for hop in own..self.world.shards() {
            let understood = self.world.letters_of(hop);
            for mut parcel in self.world.take_mail(hop) {
                let Some(to) = self.world.station_of(hop) else { continue };
                match parcel.encode_for(understood) {
                    Ok(Some(bytes)) => {
                        let (custody, until_read) = (parcel.take_custody(), parcel.is_handed_on());
                        let kind = MailboxKind::Mail;
                        self.timing.outgoing.letters.push(NodeLetter { to, kind, bytes, custody, until_read });
                    }
                    // A node of an earlier version doesn't get this news.
                    Ok(None) => {}
                    Err(error) => warn!(%to, %error, "mail can't be sent to another node and is dropped"),
                }
            }
        }
        for (to, frame) in std::mem::take(&mut self.driver.frames) {
            match postcard::to_allocvec(&frame) {
                Ok(bytes) => {
                    let kind = MailboxKind::Line;
                    let letter = NodeLetter { to, kind, bytes, custody: None, until_read: false };
                    self.timing.outgoing.letters.push(letter);
                }
                Err(error) => warn!(%to, %error, "a frame can't be sent to another node and is dropped"),
            }
        }
        self.timing.outgoing.bytes +=
            self.timing.outgoing.letters.iter().skip(before).map(|letter| letter.bytes.len()).sum::<usize>();
    }

    /// Hands mail for other nodes to the thread that carries it there. Returns whether there was
    /// any.
    fn post_afar(&mut self) -> bool {
        let letters = std::mem::take(&mut self.timing.outgoing.letters);
        self.timing.outgoing.bytes = 0;
        let any = !letters.is_empty();
        if any {
            self.common.post.post_afar(self.index(), letters);
        }
        any
    }
}

/// Bytes of letters that leave without waiting for others.
const LARGE_BYTES: usize = 256 * 1024;
