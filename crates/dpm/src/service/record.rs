//! The recorder: a reader of its own in the pool, whose readings go to the archive.

use std::sync::Arc;

use super::{Dpm, Outlets};
use crate::drf::{Event, Request};
use crate::history::{NOT_PERIODIC, Row, Series, Ticket, Work};
use crate::pool::{EntryKey, Reader};
use crate::sdd::reply::Reply;
use crate::sdd::{Message, Shared};
use crate::status::Status;
use crate::time::Moment;
use crate::when::Wish;

/// What is recorded, and what the archive is to do.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    /// Is there an archive?
    pub(super) is_on: bool,
    /// By the number of the reader; what is not recorded any more is gone.
    recorded: Vec<Option<Recorded>>,
    work: Vec<Work>,
    /// What cannot be recorded.
    failed: Vec<(Request, Status)>,
    /// Readings that the archive did not take.
    pub(super) lost: u64,
}

#[derive(Debug)]
struct Recorded {
    series: Arc<Series>,
    entry: EntryKey,
}

impl Dpm {
    /// There is an archive: what the database says is recorded from now on, and questions for history are asked of it.
    pub fn record(&mut self, now: Moment) {
        self.outlets.recorder.is_on = true;
        self.outlets.recorder.failed.clear();
        let old: Vec<(usize, EntryKey)> = self.outlets.recorder.running().collect();
        let mut declared = Vec::new();
        for request in self.database.records().to_vec() {
            let reader = Reader { list: LIST, ref_id: self.outlets.recorder.recorded.len() as i64 };
            match self.join_recorder(&request, reader, now) {
                Ok(entry) => {
                    let series = Arc::new(series(&request));
                    declared.push(Arc::clone(&series));
                    self.outlets.recorder.recorded.push(Some(Recorded { series, entry }));
                }
                Err(status) => self.outlets.recorder.failed.push((request, status)),
            }
        }
        // What is read on is not interrupted: the old readers leave after the new ones have come.
        for (number, entry) in old {
            self.pool.leave(entry, Reader { list: LIST, ref_id: number as i64 });
            self.outlets.recorder.recorded[number] = None;
        }
        self.outlets.recorder.work.push(Work::Declare(declared));
    }

    /// What the database says and cannot be recorded, with the reason: a front-end that does not know its event.
    pub fn unrecorded(&self) -> &[(Request, Status)] {
        &self.outlets.recorder.failed
    }

    /// So many readings were not recorded because the archive did not follow.
    pub fn lost_for_history(&mut self, lost: u64) {
        self.outlets.recorder.lost = lost;
    }

    /// What the archive is to do. To be called after each turn's input.
    pub fn take_work(&mut self) -> Vec<Work> {
        std::mem::take(&mut self.outlets.recorder.work)
    }

    fn join_recorder(&mut self, request: &Request, reader: Reader, now: Moment) -> Result<EntryKey, Status> {
        let target = self.database.find(request)?;
        let wish = Wish::of(&target.event, &self.database)?.ok_or(Status::BAD_EVENT)?;
        let crate::database::Stored::FrontEnd(wanted) = target.stored else { return Err(Status::NOPROP) };
        Ok(self.pool.join(wanted, wish, &target.device, target.form, reader, now)?.0)
    }
}

impl Recorder {
    /// Takes a message for one of the recorder's readers. Only numbers are recorded.
    pub(super) fn take(&mut self, number: i64, message: &Shared) {
        let place = usize::try_from(number).ok().and_then(|number| self.recorded.get(number));
        let Some(Some(recorded)) = place else { return };
        let mut bytes = Vec::new();
        message.write(0, &mut bytes);
        let (timestamp, values) = match Reply::decode(&bytes) {
            Ok(Reply::Scalar(scalar)) => (scalar.timestamp, vec![scalar.data]),
            Ok(Reply::ScalarArray(array)) => (array.timestamp, array.data),
            _ => return,
        };
        let micros = timestamp.saturating_mul(1000);
        self.work.push(Work::Write(Row { series: Arc::clone(&recorded.series), micros, values }));
    }

    /// Asks the archive.
    pub(super) fn ask(&mut self, ticket: Ticket, question: crate::history::Question) {
        self.work.push(Work::Ask(ticket, question));
    }

    fn running(&self) -> impl Iterator<Item = (usize, EntryKey)> {
        let numbered = self.recorded.iter().enumerate();
        numbered.filter_map(|(number, recorded)| Some((number, recorded.as_ref()?.entry)))
    }
}

impl Outlets {
    /// Is it a reader of the recorder?
    pub(super) fn is_recorder(reader: Reader) -> bool {
        reader.list == LIST
    }
}

fn series(request: &Request) -> Series {
    let period = match &request.event {
        Event::Periodic { period, .. } | Event::OnChange { period, .. } => period.millis() as i64,
        _ => NOT_PERIODIC,
    };
    Series { name: name(request), event: event(&request.event).unwrap_or_default(), period }
}

/// What a request is recorded as, whatever its event and source.
pub(super) fn name(request: &Request) -> String {
    Request { event: Event::Default, model: None, ..request.clone() }.to_string()
}

/// When it is recorded. `None` if the request leaves it open.
pub(super) fn event(event: &Event) -> Option<String> {
    let at_once = true;
    let event = match event {
        Event::Default | Event::Immediate => return None,
        // Whether a client wants its first reading at once is nothing to the archive.
        Event::Periodic { period, .. } => Event::Periodic { period: *period, at_once },
        Event::OnChange { period, .. } => Event::OnChange { period: *period, at_once },
        other => other.clone(),
    };
    Some(event.to_string().trim_start_matches('@').to_owned())
}

/// The list of the recorder's readers: no client's list has this number.
const LIST: usize = usize::MAX;
