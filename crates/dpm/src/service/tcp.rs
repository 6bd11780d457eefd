//! DPM over TCP: frames of a length and a message, one list for each connection.

use super::Dpm;
use super::keys::ClientKey;
use crate::sdd::request::Request;
use crate::sdd::{SddMessage, reply};
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// Executes a message.
    pub(super) fn take_message(&mut self, client: ClientKey, message: &[u8], now: Moment) {
        let Some(list) = self.outlets.clients.get(client).and_then(|client| client.lists.first().copied()) else {
            return;
        };
        let Ok(request) = Request::decode(message) else {
            // The number of the request can't be known, so the status is for the list.
            self.outlets.push_status(list, 0, Status::IVM);
            return;
        };
        let own = self.outlets.lists.get(list).map(|list| list.id);
        if request.list_id().is_some_and(|id| Some(id) != own) {
            self.outlets.push_status(list, 0, Status::NO_SUCH_LIST);
            return;
        }
        match request {
            Request::AddToList(add) => self.add(list, add.ref_id, &add.drf_request),
            Request::RemoveFromList(remove) => self.remove(list, remove.ref_id),
            Request::ClearList(_) => self.clear(list),
            Request::StopList(_) => self.stop(list),
            Request::StartList(start) => {
                self.start(list, start.model, now);
                self.outlets.push_of_list(list, reply::StartList { list_id: own.unwrap_or_default(), status: 0 });
            }
            Request::Authenticate(step) => match self.authenticate(list, &step.token.0, now) {
                Ok(answer) => self.outlets.push_of_list(list, answer),
                Err(status) => self.outlets.push_status(list, 0, status),
            },
            Request::EnableSettings(signed) => {
                let status = self.enable(list, &signed.mic.0, &signed.message.0, now);
                self.outlets.push_status(list, 0, status);
            }
            Request::ApplySettings(settings) => self.apply(list, settings, now),
            // A connection's list is opened together with it.
            Request::OpenList(_) | Request::ServiceDiscovery(_) => {
                self.outlets.push_status(list, 0, Status::BAD_REQUEST)
            }
        }
    }
}

impl Request {
    /// Returns the list that a request is about, if there is one.
    pub(super) fn list_id(&self) -> Option<i32> {
        Some(match self {
            Self::ServiceDiscovery(_) | Self::OpenList(_) => return None,
            Self::AddToList(request) => request.list_id,
            Self::RemoveFromList(request) => request.list_id,
            Self::StartList(request) => request.list_id,
            Self::StopList(request) => request.list_id,
            Self::ClearList(request) => request.list_id,
            Self::Authenticate(request) => request.list_id,
            Self::EnableSettings(request) => request.list_id,
            Self::ApplySettings(request) => request.list_id,
        })
    }
}
