//! Output for clients: queued for each, written when the socket is ready.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::keys::ClientKey;
use super::list::ListRoute;
use super::outbox::OutboxMessage;
use super::room::STEP;
use super::sync_route::SyncRoute;
use super::{Outlets, daq_messages, packets};
use crate::pool::PoolReader;
use crate::sdd::{SddMessage, SharedReply, reply::Reply};
use crate::show;
use crate::status::Status;

impl Outlets {
    /// Queues a message for a reader, unless too much is waiting. `is_last` means that no more will
    /// come for this request.
    pub(super) fn push(&mut self, reader: PoolReader, message: &Arc<SharedReply>, is_last: bool) {
        if self.is_daq(reader.list) && !daq_messages::prepare(message, is_last) {
            return;
        }
        let Some(list) = self.lists.get_mut(reader.list) else { return };
        let mut report = None;
        match &mut list.route {
            // A fault in a setting is reported in its status.
            ListRoute::Settings(_) => return,
            ListRoute::Sync(route) => {
                report = message.decode().and_then(|reply| route.report(reader.ref_id, &reply));
                if report.is_none() {
                    return;
                }
            }
            ListRoute::Tcp | ListRoute::Acnet(_) | ListRoute::Daq => {}
        }
        let key = list.client;
        let Some(client) = self.clients.get_mut(key) else { return };
        if !self.room.makes(client, self.queue) {
            self.dropped += 1;
            client.has_lost = true;
            if list.overflowed.len() < OVERFLOWED {
                list.overflowed.insert(reader.ref_id);
            }
            return;
        }
        list.sent_at = self.now.millis;
        if let Some(report) = report {
            let (list, opened) = (reader.list as u32, list.opened);
            client.outbox.push(OutboxMessage::OfList { list, opened, message: report.into() });
            return self.touch(key);
        }
        let mut message = Arc::clone(message);
        if matches!(list.route, ListRoute::Acnet(_)) && message.size() > packets::LARGEST {
            let truncated = show::status(Status::TRUNC_REPLY, self.now.unix_millis, 0);
            let Some(status) = SharedReply::new(&truncated) else { return };
            message = Arc::new(status);
        }
        let epoch = list.epoch;
        client.outbox.push(OutboxMessage::Shared { list: reader.list as u32, epoch, ref_id: reader.ref_id, message });
        self.touch(key);
    }

    /// Queues a status for a request of a list.
    pub(super) fn push_status(&mut self, list: usize, ref_id: i64, status: Status) {
        self.push_reply(list, ref_id, &show::status(status, self.now.unix_millis, 0));
    }

    /// Queues a reply for a request of a list; the reply's own number is ignored.
    pub(super) fn push_reply(&mut self, list: usize, ref_id: i64, reply: &Reply) {
        if let Some(shared) = SharedReply::new(reply) {
            self.push(PoolReader { list, ref_id }, &Arc::new(shared), true);
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
        match (&state.route, reply.into()) {
            (ListRoute::Settings(parts), Reply::ApplySettings(applied)) => {
                message = daq_messages::setting_reply(parts, &applied.status);
            }
            (ListRoute::Settings(_) | ListRoute::Sync(_), _) => return,
            (_, reply) => reply.encode(&mut message),
        }
        if let Some(client) = self.clients.get_mut(key) {
            client.outbox.push(OutboxMessage::OfList { list: list as u32, opened, message: message.into() });
            self.touch(key);
        }
    }

    /// Queues bytes that are sent as they are.
    pub(super) fn frame(&mut self, client: ClientKey, bytes: Vec<u8>) {
        if let Some(state) = self.clients.get_mut(client) {
            state.outbox.push(OutboxMessage::Framed(bytes.into()));
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
                Some(ListRoute::Tcp) => packets::frame(out, |out| item.write(out)),
                Some(ListRoute::Daq) => item.write_daq(out),
                Some(ListRoute::Settings(_)) => item.write(out),
                Some(ListRoute::Acnet(header) | ListRoute::Sync(SyncRoute { header, .. })) => {
                    packets::data(header, true, out, |out| item.write(out));
                }
                None => {}
            }
        }
        let is_relieved = client.outbox.bytes() <= self.queue / 2;
        let lists = match is_relieved && std::mem::take(&mut client.has_lost) {
            true => client.lists.clone(),
            false => BTreeSet::new(),
        };
        self.give_room(key);
        for list in lists {
            let lost = self.lists.get_mut(list).map(|list| std::mem::take(&mut list.overflowed)).unwrap_or_default();
            for ref_id in lost {
                let lost = show::status(Status::REPLY_OVERFLOW, self.now.unix_millis, 0);
                if let Some(shared) = SharedReply::new(&lost) {
                    self.push(PoolReader { list, ref_id }, &Arc::new(shared), false);
                }
            }
        }
    }

    /// Returns a number that no list has had recently.
    pub(super) fn next_epoch(&mut self) -> u32 {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }

    pub(super) fn touch(&mut self, key: ClientKey) {
        if let Some(client) = self.clients.get_mut(key)
            && !std::mem::replace(&mut client.is_dirty, true)
        {
            let dirty = if client.speaks.is_node() { &mut self.dirty_remotes } else { &mut self.dirty };
            dirty.push(key);
        }
    }
}

/// The most requests of a list whose loss of readings is remembered.
pub(super) const OVERFLOWED: usize = 100_000;

impl Outlets {
    /// Returns true if more may wait for a client, and takes room for it.
    pub(super) fn makes_room(&mut self, client: ClientKey) -> bool {
        let Self { clients, room, queue, .. } = self;
        clients.get_mut(client).is_some_and(|client| room.makes(client, *queue))
    }

    /// Returns true if a client has room for replies to further requests.
    pub(super) fn has_room(&self, client: ClientKey) -> bool {
        let Some(client) = self.clients.get(client) else { return false };
        // The number of waiting bytes only changes when bytes are sent or queued, after which this
        // is called again.
        client.outbox.bytes() < self.queue.min((client.steps + 1) * STEP)
    }

    /// Frees the room of output that a client has read.
    pub(super) fn give_room(&mut self, client: ClientKey) {
        let Some(client) = self.clients.get_mut(client) else { return };
        let needed = client.outbox.bytes() / STEP;
        if client.steps >= needed {
            client.is_full = false;
        }
        if client.steps > needed {
            self.room.give(client.address, client.steps - needed);
            client.steps = needed;
        }
    }

    /// Frees all room of a client.
    pub(super) fn leave_room(&mut self, client: ClientKey) {
        let Some(client) = self.clients.get_mut(client) else { return };
        self.room.give(client.address, std::mem::take(&mut client.steps));
    }
}
