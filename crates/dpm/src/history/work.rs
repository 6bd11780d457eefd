//! Work for an archive, and its answers.

use std::sync::Arc;

/// The readings that are recorded together: one request at one event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Series {
    /// Device, property and range in their canonical form, such as `B:ARRAY.READING[0:3]`.
    pub name: String,
    /// The event at which it is read, such as `P,1S,TRUE`.
    pub event: String,
    /// Milliseconds between readings; [`NOT_PERIODIC`] if that is unknown.
    pub period: i64,
}

/// A reading to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRow {
    /// The series that it belongs to.
    pub series: Arc<Series>,
    /// The time, in microseconds since 1970.
    pub micros: i64,
    /// The value, or all values of an array.
    pub values: Vec<f64>,
}

/// A piece of work for an archive.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryWork {
    /// Record these from now on: questions about them have answers even before the first reading.
    Declare(Vec<Arc<Series>>),
    /// Store a reading.
    Write(HistoryRow),
    /// Answer a question.
    Ask(HistoryTicket, HistoryQuestion),
}

/// The mark of the asker, which the archive returns unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryTicket {
    /// The key of the client's list that waits for the answer.
    pub list: usize,
    /// The number of the question.
    pub number: u64,
}

/// A question about recorded readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuestion {
    /// The name, as in [`Series`].
    pub name: String,
    /// The event, as in [`Series`]; the most frequent one if there is none.
    pub event: Option<String>,
    /// The selected readings.
    pub wanted: WantedReadings,
}

/// A selection of the readings of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedReadings {
    /// All readings from one time to another, both included, in microseconds since 1970.
    Span {
        /// The earliest.
        from: i64,
        /// The latest.
        to: i64,
    },
    /// The reading nearest to a time.
    Nearest {
        /// The time, in microseconds since 1970.
        at: i64,
        /// The largest distance, in microseconds.
        within: i64,
    },
}

/// The answer of an archive.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryAnswer {
    /// Readings in the order of their times, and whether there may be more.
    Points(Vec<RecordedPoint>, bool),
    /// These readings were never recorded.
    Unknown,
    /// The archive cannot be read.
    Failed,
}

/// A recorded reading.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedPoint {
    /// The time, in microseconds since 1970.
    pub micros: i64,
    /// The value, or all values of an array.
    pub values: Vec<f64>,
}

/// The period of series that are recorded on events.
pub const NOT_PERIODIC: i64 = i64::MAX;
