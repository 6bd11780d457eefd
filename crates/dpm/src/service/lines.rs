//! The rows of the overview that others show as well.

/// A front-end in the overview, with the state of what is read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontEndLine {
    /// The name of the front-end's node.
    pub name: String,
    /// The protocol by which it is asked.
    pub protocol: &'static str,
    /// The number of things that are read from it: one property of a device at one event each.
    pub things: usize,
    /// The number of those whose last reading failed, or that were never read.
    pub silent: usize,
    /// The number of those that are late by more than a period.
    pub late: usize,
    /// The number of their readers.
    pub readers: usize,
    /// The milliseconds since the last good reading; `None` if there was none.
    pub heard: Option<u64>,
}
