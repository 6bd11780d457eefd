//! Playback: answers to requests from the recording, in pieces.
//!
//! A list asks the archive one question at a time, and asks for the next piece when its client has
//! read most of its waiting output. So neither the archive's queue nor a client's outbox grows with
//! the size of a request. A list that is stopped leaves its question behind; therefore the
//! unanswered questions of an address are counted, too, and its lists wait for each other.
//!
//! The readings of a number are sent in `TimedScalarArray`s, each reading of an array in a
//! `ScalarArray`, whose time is in microseconds; an empty message of the same kind ends them. A
//! single reading is an ordinary reply.

use std::sync::Arc;

use super::keys::ClientKey;
use super::playlist::Playback;
use super::{Dpm, Outlets, recorder};
use crate::drf::Request;
use crate::grpc::daq;
use crate::history::{HistoryAnswer, HistoryQuestion, HistorySource, HistoryTicket, RecordedPoint, WantedReadings};
use crate::pool::PoolReader;
use crate::sdd::SharedReply;
use crate::sdd::reply::{self, Reply};
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// Returns the question to the archive that a request amounts to.
    pub(super) fn question(
        &self,
        request: &Request,
        source: &HistorySource,
        now: Moment,
    ) -> Result<HistoryQuestion, Status> {
        if !self.outlets.recorder.is_on {
            return Err(Status::INVALID_DATASOURCE);
        }
        if source.logger().is_some_and(|logger| !self.is_logger(logger)) {
            return Err(Status::NO_NODE);
        }
        let wanted = source.selection(now.unix_millis).ok_or(Status::INVALID_DATASOURCE)?;
        Ok(HistoryQuestion { name: recorder::name(request), event: recorder::event(&request.event), wanted })
    }

    /// Returns whether a name, in upper case, is the name of our recording.
    fn is_logger(&self, name: &str) -> bool {
        let names = self.database.names_of_this();
        let of_node = || names.aliases.iter().chain([&self.options.name]).any(|known| known.to_string() == name);
        names.loggers.iter().any(|known| known == name) || of_node()
    }

    /// Handles an answer of the archive.
    pub fn take_answer(&mut self, ticket: HistoryTicket, answer: HistoryAnswer, now: Moment) {
        self.outlets.now = now;
        let next = self.outlets.questions.close(ticket.number);
        self.outlets.take_played(ticket, answer);
        if let Some(next) = next {
            if let Some(list) = self.outlets.lists.get_mut(next) {
                list.playlist.is_waiting = false;
            }
            self.outlets.play_on(next);
        }
    }
}

impl Outlets {
    /// Begins the playback of a request.
    pub(super) fn play_request(&mut self, list: usize, ref_id: i64, question: HistoryQuestion) {
        let timestamp = match question.wanted {
            WantedReadings::Span { from, .. } => from / 1000,
            WantedReadings::Nearest { at, .. } => at / 1000,
        };
        if let Some(state) = self.lists.get_mut(list) {
            state.playlist.push(Playback { ref_id, question, timestamp, is_array: false });
        }
    }

    /// Asks the archive for a list's next piece, unless a question is outstanding or too much waits
    /// for the client.
    pub(super) fn play_on(&mut self, list: usize) {
        let Some(has_room) = self.lists.get(list).map(|list| self.has_room(list.client)) else { return };
        let Some(state) = self.lists.get_mut(list) else { return };
        let Some(client) = self.clients.get(state.client) else { return };
        let waits = client.outbox.bytes() > self.queue / 2 || !has_room;
        if waits || state.playlist.asked.is_some() || state.playlist.is_waiting {
            return;
        }
        let Some((_, playback)) = state.playlist.waiting.first_key_value() else { return };
        match self.questions.ask(client.address, list) {
            None => state.playlist.is_waiting = true,
            Some(number) => {
                state.playlist.asked = Some(number);
                self.recorder.ask(HistoryTicket { list, number }, playback.question.clone());
            }
        }
    }

    /// Plays the archive's answer, if it is still wanted.
    fn take_played(&mut self, ticket: HistoryTicket, answer: HistoryAnswer) {
        let Some(list) = self.lists.get_mut(ticket.list) else { return };
        if list.playlist.asked.take_if(|asked| *asked == ticket.number).is_none() {
            return;
        }
        let Some((place, mut playback)) = list.playlist.waiting.pop_first() else { return };
        let goes_on = self.play(ticket.list, &mut playback, answer);
        if let Some(list) = self.lists.get_mut(ticket.list) {
            if goes_on {
                list.playlist.waiting.insert(place, playback);
            } else {
                list.playlist.places.remove(&playback.ref_id);
            }
        }
        self.play_on(ticket.list);
    }

    /// Continues the playback for a client that has read some of its output.
    pub(super) fn play_on_for(&mut self, client: ClientKey) {
        let Some(state) = self.clients.get(client) else { return };
        let plays = |list: &usize| self.lists.get(*list).is_some_and(|list| !list.playlist.is_empty());
        let lists: Vec<usize> = state.lists.iter().copied().filter(plays).collect();
        for list in lists {
            self.play_on(list);
        }
    }

    /// Sends an answer's readings. Returns whether there are more to ask for.
    fn play(&mut self, list: usize, playback: &mut Playback, answer: HistoryAnswer) -> bool {
        let ref_id = playback.ref_id;
        let (points, more) = match answer {
            HistoryAnswer::Unknown => {
                self.push_status(list, ref_id, Status::NO_NODE);
                return false;
            }
            HistoryAnswer::Failed => {
                self.push_status(list, ref_id, Status::INTERNAL);
                return false;
            }
            HistoryAnswer::Points(points, more) => (points, more),
        };
        if let WantedReadings::Nearest { .. } = playback.question.wanted {
            match points.into_iter().next() {
                Some(point) => self.push_reply(list, ref_id, &single(point)),
                None => self.push_status(list, ref_id, Status::LJ_NO_DATA),
            }
            return false;
        }
        let last = points.last().map(|point| point.micros);
        playback.is_array |= points.iter().any(|point| point.values.len() != 1);
        if playback.is_array {
            for point in points {
                self.push_record(list, ref_id, point.micros, point.values);
            }
        } else if !points.is_empty() {
            self.push_reply(list, ref_id, &piece(playback.timestamp, &points));
        }
        if let (true, Some(last), WantedReadings::Span { to, .. }) = (more, last, playback.question.wanted) {
            playback.question.wanted = WantedReadings::Span { from: last.saturating_add(1), to };
            return true;
        }
        if playback.is_array {
            self.push_record(list, ref_id, 0, Vec::new());
        } else {
            self.push_reply(list, ref_id, &piece(playback.timestamp, &[]));
        }
        false
    }

    /// Sends one reading of an array, or the end of the readings. Its time is in microseconds,
    /// unlike in other messages of that kind.
    fn push_record(&mut self, list: usize, ref_id: i64, micros: i64, data: Vec<f64>) {
        let other = self.is_daq(list).then(|| daq::recorded_array(micros, &data));
        let reply = reply::ScalarArray { timestamp: micros, data, ..Default::default() };
        let Some(shared) = SharedReply::new(&reply.into()) else { return };
        if let Some(other) = other {
            shared.other_encoding(|_| other);
        }
        self.push(PoolReader { list, ref_id }, &Arc::new(shared), false);
    }
}

/// Returns some readings of a number, or the end of the readings.
fn piece(timestamp: i64, points: &[RecordedPoint]) -> Reply {
    let data = points.iter().filter_map(|point| point.values.first().copied()).collect();
    let micros = points.iter().map(|point| point.micros).collect();
    reply::TimedScalarArray { timestamp, data, micros, ..Default::default() }.into()
}

fn single(point: RecordedPoint) -> Reply {
    let timestamp = point.micros / 1000;
    match point.values.as_slice() {
        [data] => reply::Scalar { timestamp, data: *data, ..Default::default() }.into(),
        _ => reply::ScalarArray { timestamp, data: point.values, ..Default::default() }.into(),
    }
}
