//! Kinds of front-ends, as the pool sees them.

use super::keys::EntryKey;
use super::readers::{Deliver, Readers};
use crate::database::{Node, Wanted};
use crate::status::Status;
use crate::time::Moment;
use crate::when::When;

/// Asks the front-ends of one kind for what the pool wants, once for all readers.
///
/// The pool says which entries begin and end; the front-end gives what it reads to
/// [`Readers::take`]. Nothing here knows of clients, and the pool knows of no protocol. An entry
/// that was asked for once is forgotten by the front-end that has answered it.
pub(super) trait FrontEnd {
    /// Returns an event as the front-end is told it, if it can be told that: entries for which it
    /// is told the same are one.
    ///
    /// # Errors
    /// The status that clients get for events that it doesn't know.
    fn told(&self, wanted: &Wanted, when: When) -> Result<When, Status>;

    /// Asks for one thing more.
    fn begin(&mut self, entry: (EntryKey, u64), wanted: Wanted, when: When);

    /// Asks for it no longer: it has no readers any more.
    fn end(&mut self, entry: EntryKey);

    /// Returns true if what the front-end was asked for an entry is not older than now.
    fn can_join(&self, entry: EntryKey) -> bool;

    /// Does what is due.
    fn tick(&mut self, now: Moment, readers: &mut Readers<'_, impl Deliver>);

    /// Returns when [`tick`](Self::tick) has something to do next, in milliseconds.
    fn deadline(&self) -> Option<u64>;

    /// Takes on the nodes of another database, which has the same ones under the same numbers.
    fn replace_nodes(&mut self, nodes: &[Node]);
}
