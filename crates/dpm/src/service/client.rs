//! A client's connection: what it speaks, what it sent, what waits for it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::keys::{ClientKey, Close};
use super::list::Route;
use super::outbox::{Item, Outbox};
use super::raw::Raw;
use super::share::{Address, Held};
use super::{Dpm, Outlets, daq, greeting, raw, tcp};
use crate::pool::Reader;
use crate::sdd::{Message, Shared, reply::Reply};
use crate::show;
use crate::status::Status;
use crate::time::Moment;

/// A client.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) speaks: Speaks,
    /// Bytes that make no whole frame yet.
    pub(super) input: Vec<u8>,
    pub(super) outbox: Outbox,
    pub(super) lists: BTreeSet<usize>,
    /// The client's address and port; `None` for a client that this process has no socket of.
    pub(super) from: Option<SocketAddr>,
    /// For whom it counts.
    pub(super) address: Address,
    /// Its part of what all clients share.
    pub(super) held: Held,
    /// Steps of room that it has taken for what waits for it.
    pub(super) steps: usize,
    /// There was no more when it needed some.
    pub(super) is_full: bool,
    /// Until when it has to say what it speaks, or end the frame that it began, in milliseconds.
    pub(super) speaks_by: Option<u64>,
    /// There is an entry for it among those who are waited for.
    pub(super) is_waited_for: bool,
    /// Proofs of who it is that failed.
    pub(super) failures: u32,
    /// Settings that it tried without a proof and that were logged.
    pub(super) unproved: usize,
    is_dirty: bool,
}

/// What a client speaks.
#[derive(Debug, Default)]
pub(super) enum Speaks {
    /// It has not said.
    #[default]
    Unknown,
    /// DPM over TCP, with one list.
    Dpm,
    /// acnetd's client protocol.
    Raw(Raw),
    /// gRPC: nothing comes from it any more.
    Daq,
    /// It watches, and has nothing to say.
    Top,
}

impl Client {
    /// Returns a client of an address, or of this process.
    pub(super) fn new(from: Option<SocketAddr>, address: Address) -> Self {
        Self { from, address, ..Self::default() }
    }
}

impl Dpm {
    /// Takes as many whole frames as there are, and tells how many bytes they were. Whoever does not read what it is owed is not listened to.
    pub(super) fn take_input(&mut self, client: ClientKey, input: &[u8], now: Moment) -> Result<usize, Close> {
        let mut taken = 0;
        while let Some(rest) = input.get(taken..).filter(|rest| !rest.is_empty()) {
            let has_room = self.outlets.makes_room(client);
            let Some(state) = self.outlets.clients.get(client) else { return Err(Close) };
            if !has_room {
                break;
            }
            let used = match state.speaks {
                Speaks::Unknown => self.greet(client, rest, now)?,
                Speaks::Dpm => match frame(rest)? {
                    Some(frame) => {
                        self.take_message(client, frame, now);
                        PREFIX + frame.len()
                    }
                    None => 0,
                },
                Speaks::Top => return Err(Close),
                Speaks::Raw(_) => match frame(rest)? {
                    Some(frame) => {
                        self.take_frame(client, frame, now)?;
                        PREFIX + frame.len()
                    }
                    None => 0,
                },
                Speaks::Daq => return Err(Close),
            };
            if used == 0 {
                break;
            }
            taken += used;
        }
        Ok(taken)
    }

    fn greet(&mut self, client: ClientKey, input: &[u8], now: Moment) -> Result<usize, Close> {
        let from = self.outlets.clients.get(client).and_then(|client| client.from);
        let is_near = from.is_none_or(|from| from.ip().is_loopback());
        let (speaks, used) = match greeting::read(input, is_near)? {
            None => return Ok(0),
            Some((greeting::Greeting::Dpm, used)) => (Speaks::Dpm, used),
            Some((greeting::Greeting::Raw, used)) => (Speaks::Raw(Raw::default()), used),
            Some((greeting::Greeting::Top, used)) => {
                self.watch(client, now);
                (Speaks::Top, used)
            }
            Some((greeting::Greeting::Refused(answer), _)) => {
                self.outlets.frame(client, answer.as_bytes().to_vec());
                return Err(Close);
            }
        };
        let opens = matches!(speaks, Speaks::Dpm);
        if let Some(state) = self.outlets.clients.get_mut(client) {
            state.speaks = speaks;
            state.speaks_by = None;
        }
        if opens {
            self.open_list(client, Route::Tcp).map_err(|_| Close)?;
        }
        Ok(used)
    }
}

impl Outlets {
    /// Queues a message for a reader, unless too much is waiting. `is_last` tells that no more will come for this request.
    pub(super) fn push(&mut self, reader: Reader, message: &Arc<Shared>, is_last: bool) {
        if self.is_daq(reader.list) && !daq::prepare(message, is_last) {
            return;
        }
        let Some(list) = self.lists.get_mut(reader.list) else { return };
        let key = list.client;
        let Some(client) = self.clients.get_mut(key) else { return };
        if !self.room.makes(client, self.queue) {
            self.dropped += 1;
            if list.overflowed.len() < OVERFLOWED {
                list.overflowed.insert(reader.ref_id);
            }
            return;
        }
        list.sent_at = self.now.millis;
        let mut message = Arc::clone(message);
        if matches!(list.route, Route::Acnet(_)) && message.size() > raw::LARGEST {
            let truncated = show::status(Status::TRUNC_REPLY, self.now.unix_millis, 0);
            let Some(status) = Shared::new(&truncated) else { return };
            message = Arc::new(status);
        }
        let epoch = list.epoch;
        client.outbox.push(Item::Shared { list: reader.list as u32, epoch, ref_id: reader.ref_id, message });
        self.touch(key);
    }

    /// Queues a status for a request of a list.
    pub(super) fn push_status(&mut self, list: usize, ref_id: i64, status: Status) {
        self.push_reply(list, ref_id, &show::status(status, self.now.unix_millis, 0));
    }

    /// Queues a reply for a request of a list; its own number does not count.
    pub(super) fn push_reply(&mut self, list: usize, ref_id: i64, reply: &Reply) {
        if let Some(shared) = Shared::new(reply) {
            self.push(Reader { list, ref_id }, &Arc::new(shared), true);
        }
    }

    /// Queues a reply of a list as a whole.
    pub(super) fn push_of_list(&mut self, list: usize, reply: impl Into<Reply>) {
        if self.is_daq(list) {
            return;
        }
        let Some(state) = self.lists.get_mut(list) else { return };
        state.sent_at = self.now.millis;
        let (key, opened) = (state.client, state.opened);
        let mut message = Vec::new();
        reply.into().encode(&mut message);
        if let Some(client) = self.clients.get_mut(key) {
            client.outbox.push(Item::OfList { list: list as u32, opened, message: message.into() });
            self.touch(key);
        }
    }

    /// Queues bytes as they are.
    pub(super) fn frame(&mut self, client: ClientKey, bytes: Vec<u8>) {
        if let Some(state) = self.clients.get_mut(client) {
            state.outbox.push(Item::Framed(bytes.into()));
            self.touch(client);
        }
    }

    pub(super) fn render(&mut self, key: ClientKey, out: &mut Vec<u8>, limit: usize) {
        let Some(client) = self.clients.get_mut(key) else { return };
        client.is_dirty = false;
        while out.len() < limit {
            let Some(item) = client.outbox.pop() else { break };
            let Some(list) = item.list() else {
                item.write(out);
                continue;
            };
            let list = self.lists.get(list).filter(|list| item.counts(list));
            match list.map(|list| &list.route) {
                Some(Route::Tcp) => tcp::frame(out, |out| item.write(out)),
                Some(Route::Daq) => item.write_daq(out),
                Some(Route::Acnet(header)) => raw::data(header, true, out, |out| item.write(out)),
                None => {}
            }
        }
        let is_relieved = client.outbox.bytes() <= self.queue / 2;
        self.give_room(key);
        let Some(client) = self.clients.get(key) else { return };
        let lists = if is_relieved { client.lists.clone() } else { BTreeSet::new() };
        for list in lists {
            let lost = self.lists.get_mut(list).map(|list| std::mem::take(&mut list.overflowed)).unwrap_or_default();
            for ref_id in lost {
                let lost = show::status(Status::REPLY_OVERFLOW, self.now.unix_millis, 0);
                if let Some(shared) = Shared::new(&lost) {
                    self.push(Reader { list, ref_id }, &Arc::new(shared), false);
                }
            }
        }
    }

    /// Returns a number that no list has had lately.
    pub(super) fn next_epoch(&mut self) -> u32 {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }

    fn touch(&mut self, key: ClientKey) {
        if let Some(client) = self.clients.get_mut(key)
            && !std::mem::replace(&mut client.is_dirty, true)
        {
            self.dirty.push(key);
        }
    }
}

/// The frame that bytes begin with, if it is whole. Both protocols begin frames with a length.
fn frame(input: &[u8]) -> Result<Option<&[u8]>, Close> {
    let Some((prefix, rest)) = input.split_first_chunk::<PREFIX>() else { return Ok(None) };
    match u32::from_be_bytes(*prefix) as usize {
        length if length > FRAME => Err(Close),
        length => Ok(rest.get(..length)),
    }
}

/// Requests of a list whose loss of readings is remembered.
const OVERFLOWED: usize = 100_000;
/// The length in front of a frame, in bytes.
const PREFIX: usize = 4;
/// The largest frame that a client may send, in bytes.
pub const FRAME: usize = 128 << 10;
