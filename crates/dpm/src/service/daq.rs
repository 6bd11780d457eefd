//! Clients by gRPC: each `Read` is a client with one list, which starts at once and is over when nothing more can come.
//!
//! The number of a request is its place among those that were asked for. What such a client gets are messages of its stream, without any of HTTP/2.

use super::client::Speaks;
use super::keys::{ClientKey, Close};
use super::list::{List, Route};
use super::{Dpm, Outlets};
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
