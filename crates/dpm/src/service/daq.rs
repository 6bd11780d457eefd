//! Clients by gRPC: each `Read` is a client with one list, which starts at once and is over when nothing more can come.
//!
//! The number of a request is its place among those that were asked for. What such a client gets are messages of its stream, without any of HTTP/2.

use super::client::Speaks;
use super::keys::{ClientKey, Close};
use super::list::{List, Route};
use super::{Dpm, Outlets};
use crate::grpc::daq;
use crate::sdd::Shared;
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// A connected client reads by gRPC. Requests beyond those that a list may have get a status, as do those that cannot be read.
    pub fn read(&mut self, client: ClientKey, requests: &[String], now: Moment) -> Result<(), Close> {
        self.outlets.now = now;
        let state = self.outlets.clients.get_mut(client).ok_or(Close)?;
        state.speaks = Speaks::Daq;
        let list = self.open_list(client, Route::Daq).map_err(|_| Close)?;
        for (index, request) in (0..).zip(requests) {
            if request.starts_with('#') && !request.starts_with("#:") {
                // Properties of a list are for other protocols.
                self.outlets.push_status(list, index, Status::BAD_REQUEST);
            } else {
                self.add(list, index, request);
            }
        }
        self.start(list, None, now);
        Ok(())
    }

    /// Returns true if a client by gRPC has got all that it will ever get.
    pub fn is_served(&mut self, client: ClientKey) -> bool {
        let Outlets { clients, lists, .. } = &mut self.outlets;
        let Some(state) = clients.get(client).filter(|client| matches!(client.speaks, Speaks::Daq)) else {
            return false;
        };
        state.outbox.is_empty() && state.lists.iter().all(|list| lists.get_mut(*list).is_none_or(List::is_over))
    }
}

impl Outlets {
    /// Is it the list of a client by gRPC?
    pub(super) fn is_daq(&self, list: usize) -> bool {
        self.lists.get(list).is_some_and(|list| matches!(list.route, Route::Daq))
    }
}

/// Encodes a message for clients by gRPC. Is it something to them?
pub(super) fn prepare(message: &Shared, is_last: bool) -> bool {
    !message.other(|reply| daq::outcome(reply, is_last).unwrap_or_default()).is_empty()
}

/// Appends a message for the request of a number.
pub(super) fn write(ref_id: i64, message: &Shared, out: &mut Vec<u8>) {
    let outcome = message.other(|reply| daq::outcome(reply, false).unwrap_or_default());
    daq::put_reading_reply(out, u32::try_from(ref_id).unwrap_or_default(), outcome);
}
