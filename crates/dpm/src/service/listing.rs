//! Lists as clients use them: opened, filled, started, stopped and closed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Dpm;
use super::keys::{ClientKey, FIRST_LIST};
use super::list::{Asked, ClientList, JoinedSource, ListRoute};
use super::playlist::Playlist;
use super::share::{CommonThing, Good};
use crate::database::{FoundTarget, FrontRequest, Stored};
use crate::drf;
use crate::history::{HistoryQuestion, HistorySource};
use crate::plot;
use crate::pool::PoolReader;
use crate::sdd::SharedReply;
use crate::sdd::reply::{self, Reply};
use crate::show;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{ReaderWish, When};

/// The way in which a request is served.
pub(super) enum RequestPlan {
    /// Not at all: it only exists to be set.
    Nothing,
    /// By an entry of the pool, at its event.
    Read(ReaderWish),
    /// By a plot, with this many tens of microseconds between points.
    Plot(FrontRequest, u16),
    /// From the archive.
    Play(HistoryQuestion),
}

impl Dpm {
    /// Opens a list and sends its number.
    pub(super) fn open_list(&mut self, client: ClientKey, route: ListRoute) -> Result<usize, Status> {
        self.check_share(client, Good::Lists, 1)?;
        if self.outlets.lists.len() >= self.options.all_lists {
            return Err(Status::BUSY);
        }
        while self.list_ids.contains_key(&self.next_list) {
            self.next_list = self.next_list.checked_add(1).unwrap_or(FIRST_LIST);
        }
        let id = self.next_list;
        self.next_list = id.checked_add(1).unwrap_or(FIRST_LIST);
        let epoch = self.outlets.next_epoch();
        let list = self.outlets.lists.insert(ClientList {
            id,
            client,
            route,
            requests: BTreeMap::new(),
            model: None,
            is_started: false,
            is_beating: false,
            opened: epoch,
            epoch,
            sent_at: 0,
            overflowed: BTreeSet::new(),
            playlist: Playlist::default(),
            over_before: i64::MIN,
            session: None,
            batches: 0,
        });
        if let Some(state) = self.outlets.clients.get_mut(client) {
            state.lists.insert(list);
        }
        self.count(client, Good::Lists, 1);
        self.list_ids.insert(id, list);
        self.outlets.push_of_list(list, reply::OpenList { list_id: id });
        Ok(list)
    }

    /// Deletes a list with all its queued messages.
    pub(super) fn close_list(&mut self, list: usize) {
        self.halt(list);
        let Some(state) = self.outlets.lists.try_remove(list) else { return };
        self.forget_requests(state.client, state.requests.len());
        self.count(state.client, Good::Lists, -1);
        self.list_ids.remove(&state.id);
        if let Some(client) = self.outlets.clients.get_mut(state.client) {
            client.lists.remove(&list);
        }
    }

    /// Adds a request to a list. An error in it is reported at once; a text that begins with `#` is
    /// a property of the list.
    pub(super) fn add(&mut self, list: usize, ref_id: i64, text: &str) {
        let Some(state) = self.outlets.lists.get_mut(list) else { return };
        if text.starts_with('#') && !text.starts_with("#:") {
            state.take_property(text);
            return;
        }
        let client = state.client;
        if !state.requests.contains_key(&ref_id) {
            let is_full = state.requests.len() >= self.options.requests || self.requests >= self.options.all_requests;
            if is_full || self.check_share(client, Good::Requests, 1).is_err() {
                self.outlets.push_status(list, ref_id, Status::OUTOMEM);
                return;
            }
            self.requests += 1;
            self.count(client, Good::Requests, 1);
        }
        let Some(state) = self.outlets.lists.get_mut(list) else { return };
        let request = drf::Request::parse(text).map(Box::new).map_err(drf::Error::status);
        let error = request.as_ref().err().copied();
        let joined = state.requests.get(&ref_id).and_then(|asked| asked.joined);
        let asked = Asked { request, joined, is_new: true, is_told: error.is_some(), is_done: false };
        state.requests.insert(ref_id, asked);
        if let Some(status) = error {
            self.outlets.push_status(list, ref_id, status);
        }
    }

    /// Removes a request from a list and stops its data.
    pub(super) fn remove(&mut self, list: usize, ref_id: i64) {
        let Some(state) = self.outlets.lists.get_mut(list) else { return };
        state.overflowed.remove(&ref_id);
        state.playlist.remove(ref_id);
        let client = state.client;
        let Some(asked) = state.requests.remove(&ref_id) else { return };
        self.forget_requests(client, 1);
        if let Some(joined) = asked.joined {
            self.leave(joined, PoolReader { list, ref_id });
        }
        // The removed request may have been the one that was being played back.
        self.outlets.play_on(list);
    }

    /// Stops a list and keeps its requests.
    pub(super) fn stop(&mut self, list: usize) {
        self.halt(list);
        let epoch = self.outlets.next_epoch();
        if let Some(state) = self.outlets.lists.get_mut(list) {
            state.is_started = false;
            state.overflowed.clear();
            state.playlist.clear();
            // Queued messages for its requests are not sent any more.
            state.epoch = epoch;
        }
    }

    /// Stops a list and deletes its requests.
    pub(super) fn clear(&mut self, list: usize) {
        self.stop(list);
        if let Some(state) = self.outlets.lists.get_mut(list) {
            let (client, count) = (state.client, state.requests.len());
            state.requests.clear();
            self.forget_requests(client, count);
        }
    }

    pub(super) fn forget_requests(&mut self, client: ClientKey, count: usize) {
        self.requests -= count;
        self.count(client, Good::Requests, -(count as isize));
    }

    /// Starts a list, or applies the changes since its start. Running requests continue.
    pub(super) fn start(&mut self, list: usize, model: Option<String>, now: Moment) {
        let Some(state) = self.outlets.lists.get_mut(list) else { return };
        if model.is_some() {
            state.model = model;
        }
        let model = state.model.clone();
        let mut requests = std::mem::take(&mut state.requests);
        for (ref_id, asked) in &mut requests {
            self.start_one(PoolReader { list, ref_id: *ref_id }, asked, model.as_deref(), now);
        }
        let Some(state) = self.outlets.lists.get_mut(list) else { return };
        state.requests = requests;
        (state.is_started, state.over_before) = (true, i64::MIN);
        if !std::mem::replace(&mut state.is_beating, true) {
            self.heartbeats.push(Reverse((now.millis + SILENCE, state.id)));
        }
        self.outlets.play_on(list);
    }

    pub(super) fn start_one(&mut self, reader: PoolReader, asked: &mut Asked, model: Option<&str>, now: Moment) {
        if let Some(joined) = asked.joined.take_if(|_| asked.is_new) {
            self.leave(joined, reader);
        }
        let found = match &asked.request {
            Err(status) => Err(*status),
            Ok(request) => self.find(request, model, now),
        };
        if asked.is_new
            && let Some(list) = self.outlets.lists.get_mut(reader.list)
        {
            list.playlist.remove(reader.ref_id);
        }
        asked.is_new = false;
        let started = found.and_then(|(target, plan)| {
            self.outlets.push_reply(reader.list, reader.ref_id, &target.device.info(target.form).into());
            if asked.is_done || asked.joined.is_some() {
                return Ok(());
            }
            let wish = match plan {
                RequestPlan::Nothing => return Ok(()),
                RequestPlan::Plot(wanted, period) => {
                    asked.joined = Some(self.join_plot(&target, wanted, period, reader, now)?);
                    return Ok(());
                }
                RequestPlan::Play(question) => {
                    asked.is_done = true;
                    self.outlets.play_request(reader.list, reader.ref_id, question);
                    return Ok(());
                }
                RequestPlan::Read(wish) => wish,
            };
            asked.is_done = wish.when == When::Once;
            let answer: Reply = match target.stored {
                Stored::FrontEnd(wanted) => {
                    let (joined, current) = self.join_entry(&target, wanted, wish, reader, now)?;
                    asked.joined = Some(joined);
                    if let Some(current) = current {
                        self.outlets.push(reader, &current, false);
                    }
                    return Ok(());
                }
                Stored::Text(text) => show::text(text, now.unix_millis),
                Stored::Number(number) => show::number(number, now.unix_millis),
                Stored::Nothing => show::status(Status::SUCCESS, now.unix_millis, 0),
            };
            self.outlets.push_reply(reader.list, reader.ref_id, &answer);
            Ok(())
        });
        let is_told = std::mem::take(&mut asked.is_told);
        if let Err(status) = started
            && !is_told
        {
            self.outlets.push_status(reader.list, reader.ref_id, status);
        }
    }

    pub(super) fn find(
        &self,
        request: &drf::Request,
        model: Option<&str>,
        now: Moment,
    ) -> Result<(FoundTarget, RequestPlan), Status> {
        let source = HistorySource::parse(request.model.as_deref().or(model).unwrap_or_default())?;
        let target = self.database.find(request)?;
        let plan = match (source, &target.stored) {
            (HistorySource::Live | HistorySource::FastPlot, Stored::FrontEnd(wanted)) => {
                match plot::period(&target.device, target.form, wanted, &target.event)? {
                    Some(period) => RequestPlan::Plot(*wanted, period),
                    None => {
                        ReaderWish::of(&target.event, &self.database)?.map_or(RequestPlan::Nothing, RequestPlan::Read)
                    }
                }
            }
            (HistorySource::Live | HistorySource::FastPlot, _) => {
                ReaderWish::of(&target.event, &self.database)?.map_or(RequestPlan::Nothing, RequestPlan::Read)
            }
            (recorded, _) => RequestPlan::Play(self.question(request, &recorded, now)?),
        };
        Ok((target, plan))
    }

    /// Makes readers that can't have a plot poll instead, at the highest possible rate.
    pub(super) fn poll_instead(&mut self, now: Moment) {
        for reader in self.plots.take_handed_back() {
            self.uncount_plot(reader);
            let asked = self.outlets.lists.get(reader.list).and_then(|list| list.requests.get(&reader.ref_id));
            let Some(Ok(request)) = asked.map(|asked| &asked.request) else { continue };
            let joined = self.database.find(request).and_then(|target| {
                let Stored::FrontEnd(wanted) = target.stored else { return Err(Status::NOPROP) };
                let wish = ReaderWish::of(&target.event, &self.database)?.ok_or(Status::BAD_EVENT)?;
                self.join_entry(&target, wanted, wish, reader, now)
            });
            let asked = self.outlets.lists.get_mut(reader.list).and_then(|list| list.requests.get_mut(&reader.ref_id));
            if let Some(asked) = asked {
                asked.joined = joined.as_ref().ok().map(|(joined, _)| *joined);
            }
            match joined {
                Ok((_, Some(current))) => self.outlets.push(reader, &current, false),
                Ok((_, None)) => {}
                Err(status) => self.outlets.push_status(reader.list, reader.ref_id, status),
            }
        }
    }

    /// Stops all reading for a list.
    pub(super) fn halt(&mut self, list: usize) {
        let Some(state) = self.outlets.lists.get_mut(list) else { return };
        let joined: Vec<(i64, JoinedSource)> =
            state.requests.iter_mut().filter_map(|(ref_id, asked)| Some((*ref_id, asked.joined.take()?))).collect();
        // The latest first: those are found fastest.
        for (ref_id, joined) in joined.into_iter().rev() {
            self.leave(joined, PoolReader { list, ref_id });
        }
    }

    pub(super) fn leave(&mut self, joined: JoinedSource, reader: PoolReader) {
        match joined {
            JoinedSource::Entry(entry, event) => {
                self.pool.leave(entry, reader);
                if let Some(event) = event {
                    self.uncount_common(reader, CommonThing::Event(event));
                }
            }
            JoinedSource::Plot(plot) => {
                self.plots.leave(plot, reader);
                self.uncount_common(reader, CommonThing::Plot(plot));
            }
        }
    }

    /// Attaches a reader to an entry of the pool. The current value is also returned, if there is
    /// one and the reader wants it.
    pub(super) fn join_entry(
        &mut self,
        target: &FoundTarget,
        wanted: FrontRequest,
        wish: ReaderWish,
        reader: PoolReader,
        now: Moment,
    ) -> Result<(JoinedSource, Option<Arc<SharedReply>>), Status> {
        let left = self.pool.events_left(&wanted).filter(|_| wish.when != When::Once);
        if let Some(left) = left {
            let event = self.pool.event(&wanted, &wish).map(CommonThing::Event);
            self.check_common(reader, Good::Events, event, left)?;
        }
        let (entry, current) = self.pool.join(wanted, wish, &target.device, target.form, reader, now)?;
        let event = self.pool.event_of(entry).filter(|_| left.is_some());
        if let Some(event) = event {
            self.count_common(reader, CommonThing::Event(event));
        }
        Ok((JoinedSource::Entry(entry, event), current))
    }

    pub(super) fn join_plot(
        &mut self,
        target: &FoundTarget,
        wanted: FrontRequest,
        period: u16,
        reader: PoolReader,
        now: Moment,
    ) -> Result<JoinedSource, Status> {
        let running = self.plots.running_plot(&wanted, period).map(CommonThing::Plot);
        self.check_common(reader, Good::Plots, running, self.plots.ids_left())?;
        let plot = self.plots.join(wanted, period, &target.device, target.form, reader, now);
        self.count_common(reader, CommonThing::Plot(plot));
        Ok(JoinedSource::Plot(plot))
    }

    pub(super) fn check_common(
        &self,
        reader: PoolReader,
        good: Good,
        common: Option<CommonThing>,
        left: usize,
    ) -> Result<(), Status> {
        let list = self.outlets.lists.get(reader.list).ok_or(Status::NO_SUCH_LIST)?;
        let client = self.outlets.clients.get(list.client).ok_or(Status::NOT_CONNECTED)?;
        let who = (list.client, client.address);
        self.shares.check_common(&self.options, &client.held, who, good, common, left)
    }

    pub(super) fn count_common(&mut self, reader: PoolReader, common: CommonThing) {
        let Some(key) = self.outlets.lists.get(reader.list).map(|list| list.client) else { return };
        let Some(client) = self.outlets.clients.get_mut(key) else { return };
        self.shares.join(Some(&mut client.held), key, client.address, common);
    }

    pub(super) fn uncount_common(&mut self, reader: PoolReader, common: CommonThing) {
        let Some(key) = self.outlets.lists.get(reader.list).map(|list| list.client) else { return };
        let Some(client) = self.outlets.clients.get_mut(key) else { return };
        self.shares.leave(Some(&mut client.held), key, client.address, common);
    }

    /// Stops counting a reader of a plot.
    pub(super) fn uncount_plot(&mut self, reader: PoolReader) {
        let asked = self.outlets.lists.get(reader.list).and_then(|list| list.requests.get(&reader.ref_id));
        if let Some(JoinedSource::Plot(plot)) = asked.and_then(|asked| asked.joined) {
            self.uncount_common(reader, CommonThing::Plot(plot));
        }
    }

    /// Sends heartbeats to clients of started lists that got no message for a while.
    pub(super) fn beat(&mut self, now: Moment) {
        while let Some(Reverse((due, id))) = self.heartbeats.peek().copied() {
            if due > now.millis {
                break;
            }
            self.heartbeats.pop();
            let Some(key) = self.list_ids.get(&id).copied() else { continue };
            let Some(list) = self.outlets.lists.get_mut(key) else { continue };
            if !list.is_started {
                list.is_beating = false;
                continue;
            }
            let mut next = list.sent_at + SILENCE;
            if next <= now.millis {
                let is_waiting = self.outlets.clients.get(list.client).is_some_and(|client| !client.outbox.is_empty());
                // A client that isn't reading needs no heartbeat on top.
                if !is_waiting {
                    self.outlets.push_of_list(key, reply::ListStatus { list_id: id, status: 0 });
                }
                next = now.millis + SILENCE;
            }
            self.heartbeats.push(Reverse((next, id)));
        }
    }
}

/// The silence after which a list's client gets a heartbeat, in milliseconds.
pub(super) const SILENCE: u64 = 2000;
