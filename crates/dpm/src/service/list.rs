//! Lists: requests that a client makes together.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::ClientKey;
use super::playlist::Playlist;
use super::session::ProvenSession;
use super::sync_route::SyncRoute;
use crate::acnet::AcnetHeader;
use crate::drf;
use crate::plot::PlotKey;
use crate::pool::EntryKey;
use crate::status::Status;

/// A list that a client has opened, with its requests.
#[derive(Debug)]
pub(super) struct ClientList {
    /// The client's number for the list.
    pub(super) id: i32,
    pub(super) client: ClientKey,
    pub(super) route: ListRoute,
    pub(super) requests: BTreeMap<i64, Asked>,
    /// The data model of requests that name none.
    pub(super) model: Option<String>,
    pub(super) is_started: bool,
    /// True if it has an entry among the heartbeats.
    pub(super) is_beating: bool,
    /// The epoch at which it was opened; `epoch` is that of its last stop. Queued messages of the
    /// list count only if they are at least as new as the first, and readings of its requests only
    /// if they are at least as new as the second.
    pub(super) opened: u32,
    pub(super) epoch: u32,
    /// The time when something was last sent, in milliseconds.
    pub(super) sent_at: u64,
    /// Requests that lost readings.
    pub(super) overflowed: BTreeSet<i64>,
    /// Requests that are answered from the archive.
    pub(super) playlist: Playlist,
    /// The smallest number of a request that was not over when that was last checked; each start
    /// checks all again.
    pub(super) over_before: i64,
    /// The proof of its client, if it wants to set.
    pub(super) session: Option<Box<ProvenSession>>,
    /// Settings that wait for front-ends.
    pub(super) batches: usize,
}

/// The route by which a list's messages reach its client.
#[derive(Debug)]
pub(super) enum ListRoute {
    /// In frames.
    Tcp,
    /// As replies to a request of ACNET.
    Acnet(AcnetHeader),
    /// As messages of gRPC.
    Daq,
    /// As reports of events, which are replies to a request of ACNET.
    Sync(SyncRoute),
    /// As one message of gRPC when all settings have a status; contains the number of requests of
    /// each setting.
    Settings(Vec<usize>),
}

/// The source that a request reads from.
#[derive(Debug, Clone, Copy)]
pub(super) enum JoinedSource {
    /// An entry of the pool, and the event on which it is read if that counts towards a bound.
    Entry(EntryKey, Option<usize>),
    /// A fast plot of a front-end.
    Plot(PlotKey),
}

/// A request on a list.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Result<Box<drf::Request>, Status>,
    /// The source that it reads from, if there is one.
    pub(super) joined: Option<JoinedSource>,
    /// True if it was added after the last start.
    pub(super) is_new: bool,
    /// True if its error was sent after the last start.
    pub(super) is_told: bool,
    /// True if the request has its final answer, since a one-shot reading isn't repeated.
    pub(super) is_done: bool,
}

impl ClientList {
    /// Returns true if the list was started and no more messages can come. Requests that were found
    /// to be over are not looked at again, so all calls together cost one look at each.
    pub(super) fn is_over(&mut self) -> bool {
        if let ListRoute::Settings(_) = self.route {
            return self.batches == 0;
        }
        if !self.is_started || !self.playlist.is_empty() {
            return false;
        }
        let running = self.requests.range(self.over_before..).find(|(_, asked)| asked.joined.is_some());
        self.over_before = running.map_or(i64::MAX, |(ref_id, _)| *ref_id);
        running.is_none()
    }

    /// Returns the request with a given number, or the error in it.
    pub(super) fn request(&self, ref_id: i64) -> Option<Result<&drf::Request, Status>> {
        let asked = self.requests.get(&ref_id)?;
        Some(asked.request.as_deref().map_err(|status| *status))
    }
}
