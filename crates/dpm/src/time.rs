//! Time as the core sees it: handed in, never asked for.

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since some start; never goes back.
    pub millis: u64,
    /// Milliseconds since 1970, as the machine's clock says.
    pub unix_millis: i64,
}
