//! History: readings that were recorded, and answers from them to requests with `<-LOGGER…` after
//! the device.
//!
//! The database file names the readings to record (`[[record]]`). The recorder reads through the
//! pool like any other reader, so a device that is shown and recorded at the same event is read
//! once. Engineering values are recorded, as clients saw them at the time; a change of a device's
//! scaling doesn't change its history.
//!
//! - [`HistorySource`] is the text after `<-`.
//! - [`HistoryWork`] goes to a [`HistoryArchive`], which returns [`HistoryAnswer`]s. The archive is
//!   SQLite on a thread of its own; nothing that serves clients waits for it.
//!
//! Invariants:
//! - An answer includes everything that was handed over before its question.
//! - An answer is bounded in points and bytes; for more, the client asks again from the end of the
//!   answer.
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
