//! History: readings that were recorded, and answers from them to requests with `<-LOGGER…` behind
//! the device.
//!
//! What is recorded stands in the database file (`[[record]]`). The recorder reads through the pool
//! like any other reader, so a device that is shown and recorded at the same event is read once.
//! Recorded are engineering values, as clients saw them at the time; a change of a device's scaling
//! changes no history.
//!
//! - [`HistorySource`] is what stands behind `<-`.
//! - [`HistoryWork`] goes to an [`HistoryArchive`], [`HistoryAnswer`] comes back. The archive is
//!   SQLite on a thread of its own; nothing that serves clients waits for it.
//!
//! Invariants:
//! - Everything that was handed over before a question counts for its answer.
//! - An answer is bounded in points and bytes; who wants more asks again from where it ended.
//! - The archive is bounded in age and size: the oldest readings go first.

mod archive;
mod source;
mod work;

pub use archive::{HistoryArchive, HistoryBounds};
pub use source::HistorySource;
pub use work::{
    HistoryAnswer, HistoryQuestion, HistoryRow, HistoryTicket, HistoryWork, NOT_PERIODIC, RecordedPoint, Series,
    WantedReadings,
};
