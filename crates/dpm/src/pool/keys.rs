//! The numbers of entries and readers.

/// The place of an entry in the pool.
pub type EntryKey = usize;

/// A reader: a client's list, and the client's number of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolReader {
    /// The key of the client's list in the service.
    pub list: usize,
    /// The client's number.
    pub ref_id: i64,
}
