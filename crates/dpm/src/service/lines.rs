//! The rows of the overview that others show as well.

/// A front-end in the overview, with the state of what is read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontEndLine {
    /// The name of the front-end's node.
    pub name: String,
    /// The protocol by which it is asked.
    pub protocol: &'static str,
    /// The things that are read from it, those of which no good reading has come, and those that
    /// are late by more than a period.
    pub things: usize,
    /// The silent ones among them.
    pub silent: usize,
    /// The late ones among them.
    pub late: usize,
    /// The readers of them.
    pub readers: usize,
    /// The milliseconds since a good reading came; `None` if none has.
    pub heard: Option<u64>,
}
