//! The requests that are recorded, and the work for the archive.

use std::sync::Arc;

use crate::drf::{DrfEvent, Request};
use crate::history::{HistoryQuestion, HistoryRow, HistoryTicket, HistoryWork, Series};
use crate::pool::{EntryKey, PoolReader};
use crate::sdd::reply::Reply;
use crate::sdd::{SddMessage, SharedReply};
use crate::status::Status;

/// The requests that are recorded, and the work for the archive.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    /// True if there is an archive.
    pub(super) is_on: bool,
    /// The recordings by the numbers of their readers; `None` for requests that are no longer
    /// recorded.
    pub(super) recorded: Vec<Option<Recorded>>,
    pub(super) work: Vec<HistoryWork>,
    /// The requests that cannot be recorded.
    pub(super) failed: Vec<(Request, Status)>,
    /// The number of readings that the archive did not take.
    pub(super) lost: u64,
}

#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) series: Arc<Series>,
    pub(super) entry: EntryKey,
}

impl Recorder {
    /// Handles a message for one of the recorder's readers. Only numbers are recorded.
    pub(super) fn take(&mut self, number: i64, message: &SharedReply) {
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
        self.work.push(HistoryWork::Write(HistoryRow { series: Arc::clone(&recorded.series), micros, values }));
    }

    /// Adds a question to the archive's work.
    pub(super) fn ask(&mut self, ticket: HistoryTicket, question: HistoryQuestion) {
        self.work.push(HistoryWork::Ask(ticket, question));
    }

    pub(super) fn running(&self) -> impl Iterator<Item = (usize, EntryKey)> {
        let numbered = self.recorded.iter().enumerate();
        numbered.filter_map(|(number, recorded)| Some((number, recorded.as_ref()?.entry)))
    }
}

/// Returns the name under which a request is recorded, whatever its event and source.
pub(super) fn name(request: &Request) -> String {
    Request { event: DrfEvent::Default, model: None, ..request.clone() }.to_string()
}

/// Returns the event at which a request is recorded; `None` if the request leaves it open.
pub(super) fn event(event: &DrfEvent) -> Option<String> {
    let at_once = true;
    let event = match event {
        DrfEvent::Default | DrfEvent::Immediate => return None,
        // The recorded event is the same whether or not a client wants its first reading at once.
        DrfEvent::Periodic { period, .. } => DrfEvent::Periodic { period: *period, at_once },
        DrfEvent::OnChange { period, .. } => DrfEvent::OnChange { period: *period, at_once },
        other => other.clone(),
    };
    Some(event.to_string().trim_start_matches('@').to_owned())
}

/// The number of the list of the recorder's readers, which no client's list has.
pub(super) const LIST: usize = usize::MAX;

/// Returns true for a reader of the recorder.
pub(super) fn is_recorder(reader: PoolReader) -> bool {
    reader.list == LIST
}
