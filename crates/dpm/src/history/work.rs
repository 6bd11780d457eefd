//! What goes to an archive, and what it answers.

use std::sync::Arc;

/// What is recorded together: one request at one event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Series {
    /// Device, property and range in their canonical form, such as `B:ARRAY.READING[0:3]`.
    pub name: String,
    /// When it is read, such as `P,1S,TRUE`.
    pub event: String,
    /// Milliseconds between readings; [`NOT_PERIODIC`] if nobody knows.
    pub period: i64,
}

/// A reading to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What it is a reading of.
    pub series: Arc<Series>,
    /// When, in microseconds since 1970.
    pub micros: i64,
    /// The value, or all values of an array.
    pub values: Vec<f64>,
}

/// What an archive is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// These are recorded from now on: questions about them have answers even before the first reading.
    Declare(Vec<Arc<Series>>),
    /// Keep a reading.
    Write(Row),
    /// Answer.
    Ask(Ticket, Question),
}

/// Who asked. The archive hands it back as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The list.
    pub list: usize,
    /// Which of its questions.
    pub number: u64,
}

/// A question for recorded readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// As in [`Series`].
    pub name: String,
    /// As in [`Series`]; the one that is read most often if there is none.
    pub event: Option<String>,
    /// Which readings.
    pub wanted: Wanted,
}

/// Which readings of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All from one time to another, both included, in microseconds since 1970.
    Span {
        /// The earliest.
        from: i64,
        /// The latest.
        to: i64,
    },
    /// The one that is nearest to a time.
    Nearest {
        /// The time, in microseconds since 1970.
        at: i64,
        /// How far it may be away, in microseconds.
        within: i64,
    },
}

/// What an archive answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Readings in the order of their times, and whether there may be more.
    Points(Vec<Point>, bool),
    /// This was never recorded.
    Unknown,
    /// The archive cannot be read.
    Failed,
}

/// A recorded reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// When, in microseconds since 1970.
    pub micros: i64,
    /// The value, or all values of an array.
    pub values: Vec<f64>,
}

/// The period of what is recorded on events.
pub const NOT_PERIODIC: i64 = i64::MAX;
