//! The task SYNC: tells clients of clock events, and of devices that reach a state.
//!
//! Front-ends receive these events, and reply on them. So a client's events are a list of requests
//! like any other, which shares the front-end's replies with all readers: on a clock event the
//! device is read that `clock` in the device file names, on a state event the device of the state
//! itself. A reading means that the event has occurred; its value doesn't matter.

use super::Dpm;
use super::keys::ClientKey;
use super::list::ListRoute;
use super::sync_route::{AwaitedEvent, SyncRoute};
use crate::acnet::{AcnetHeader, PacketKind};
use crate::drf::{DrfEvent, Request};
use crate::sdd::SddMessage;
use crate::sdd::sync::{EventSource, SyncPlace, SyncReply, SyncRequest};
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// Answers a request of a client of acnetd's protocol to the task SYNC.
    pub(super) fn sync(&mut self, client: ClientKey, header: AcnetHeader, body: &[u8], is_multiple: bool, now: Moment) {
        match self.find_sync(body) {
            Some(Ok(reply)) => return self.reply_bytes(client, &header, &reply),
            Some(Err(status)) => return self.reply_status(client, &header, status),
            None => {}
        }
        let done = if is_multiple { self.register(client, header, body, now) } else { Err(Status::BAD_REQUEST) };
        if let Err(status) = done {
            self.reply_status(client, &header, status);
        }
    }

    /// Answers a request of a task of another node to the task SYNC. The flags say whether it went
    /// to all nodes, and whether many replies are wanted.
    pub(super) fn sync_of_node(
        &mut self,
        node: usize,
        header: AcnetHeader,
        body: &[u8],
        (is_for_all, is_multiple): (bool, bool),
        now: Moment,
    ) {
        let refuse = |status| header_with(header, status).datagram(&[]);
        let reply = match self.find_sync(body) {
            Some(Ok(reply)) => header.datagram(&reply),
            // A request to all nodes gets no refusal.
            _ if is_for_all => return,
            Some(Err(status)) => refuse(status),
            None if !is_multiple => refuse(Status::BAD_REQUEST),
            None => {
                let registered = self.remote_client(node, header.task_id, now).and_then(|client| {
                    self.close_stream(client, header.message);
                    self.register(client, header, body, now)
                });
                match registered {
                    Ok(()) => return,
                    Err(status) => refuse(status),
                }
            }
        };
        self.answers.push((node, reply));
    }

    /// Returns the reply to a search for the task SYNC, if this is one; `None` if it is another
    /// request. A search for a clock that nothing is known of is refused, or, if it went to all
    /// nodes, not answered.
    fn find_sync(&self, body: &[u8]) -> Option<Result<Vec<u8>, Status>> {
        let SyncRequest::SyncSearch(search) = SyncRequest::decode(body).ok()? else { return None };
        if search.clock != EventSource::TCLK || self.database.names_of_this().clock.is_none() {
            return Some(Err(Status::NO_SUCH));
        }
        let mut bytes = Vec::new();
        SyncReply::from(SyncPlace {}).encode(&mut bytes);
        Some(Ok(bytes))
    }

    /// Starts to report events to a client, as replies to its request.
    ///
    /// # Errors
    /// The status for the client, such as for an event that can't be awaited.
    fn register(&mut self, client: ClientKey, header: AcnetHeader, body: &[u8], now: Moment) -> Result<(), Status> {
        let Ok(SyncRequest::RegisterEvents(asked)) = SyncRequest::decode(body) else { return Err(Status::IVM) };
        if asked.events.is_empty() || asked.events.len() > MOST_EVENTS {
            return Err(Status::BAD_REQUEST);
        }
        let found = asked.events.iter().map(|event| self.read_event(event)).collect::<Result<Vec<_>, _>>()?;
        let (requests, events): (Vec<_>, _) = found.into_iter().unzip();
        let header = AcnetHeader { kind: PacketKind::ReplyWithMore, ..header };
        let list = self.open_list(client, ListRoute::Sync(SyncRoute::new(header, events)))?;
        for (ref_id, request) in (0..).zip(&requests) {
            self.add(list, ref_id, request);
        }
        self.start(list, None, now);
        let Some(state) = self.outlets.lists.get_mut(list) else { return Err(Status::BUSY) };
        if state.requests.values().any(|asked| asked.joined.is_none()) || state.requests.len() < requests.len() {
            self.close_list(list);
            return Err(Status::BUSY);
        }
        if let ListRoute::Sync(route) = &mut state.route {
            route.is_awake = true;
        }
        Ok(())
    }

    /// Returns the request that is answered on an event, and the event.
    fn read_event(&self, text: &str) -> Result<(String, AwaitedEvent), Status> {
        let event = text.trim_start_matches('@');
        // Only the event of this request counts.
        let parsed = Request::parse(&format!("X:X@{event}")).map_err(|error| error.status())?;
        if parsed.model.is_some() {
            return Err(Status::BAD_EVENT);
        }
        match parsed.event {
            DrfEvent::Clock { number, .. } => {
                let clock = self.database.names_of_this().clock.as_ref().ok_or(Status::BAD_EVENT)?;
                let number = i16::try_from(number).map_err(|_| Status::BAD_EVENT)?;
                Ok((format!("{clock}@{event}"), AwaitedEvent::Clock(number, 0)))
            }
            DrfEvent::State { device, .. } => {
                let request = Request::parse(&device).map_err(|error| error.status())?;
                let found = self.database.find(&request)?;
                Ok((format!("{device}@{event}"), AwaitedEvent::State(found.device.index as i32)))
            }
            _ => Err(Status::BAD_EVENT),
        }
    }
}

fn header_with(header: AcnetHeader, status: Status) -> AcnetHeader {
    AcnetHeader { status, ..header }
}

/// The most events of a request.
const MOST_EVENTS: usize = 1000;
