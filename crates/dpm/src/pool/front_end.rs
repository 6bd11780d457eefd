//! Kinds of front-ends, as the pool sees them.

use super::keys::EntryKey;
use super::readers::{Deliver, PoolCounters, PoolReaders};
use crate::database::{DeviceNode, FrontRequest, PropertyPlace};
use crate::stages::Begun;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{ReaderWish, When};

/// Asks the front-ends of one kind for what the pool wants, once for all readers.
///
/// The pool says which entries begin and end; the front-end gives what it reads to
/// [`PoolReaders::take`]. Nothing here knows of clients, and the pool knows of no protocol: it
/// hands on what came from the network and what goes there without looking at it. An entry that was
/// asked for once is forgotten by the front-end that has answered it.
pub(super) trait FrontEnd {
    /// Something that came from the network.
    type Came<'a>;
    /// Something that goes to the network.
    type Goes;

    /// Returns an event as front-ends encode it; entries with the same encoding are merged.
    ///
    /// # Errors
    /// The status that clients get for events that it doesn't know.
    fn told(&self, wanted: &FrontRequest, wish: &ReaderWish) -> Result<When, Status>;

    /// Returns the number of an event, if anything is read from a node on that event. It is `None`
    /// for a kind whose events take nothing of what all readers share.
    fn event(&self, node: usize, when: When) -> Option<usize>;

    /// Returns the number of the event on which an entry is read.
    fn event_of(&self, entry: EntryKey) -> Option<usize>;

    /// Returns how many more events there may be; `None` if they take nothing of what all share.
    fn events_left(&self) -> Option<usize>;

    /// Returns the number of requests that are outstanding.
    fn outstanding(&self) -> usize;

    /// Returns the figures of what it did.
    fn counters(&self) -> PoolCounters;

    /// Asks for one thing more.
    fn begin(&mut self, entry: (EntryKey, u64), wanted: FrontRequest, when: When, place: &PropertyPlace);

    /// Asks for it no longer: it has no readers any more.
    fn end(&mut self, entry: EntryKey);

    /// Returns true if what the front-end was asked for an entry is not older than now.
    fn can_join(&self, entry: EntryKey) -> bool;

    /// Takes what came from the network. `begun`: when the look-up began.
    fn take(&mut self, came: Self::Came<'_>, now: Moment, begun: Begun, readers: &mut PoolReaders<'_, impl Deliver>);

    /// Does what is due.
    fn tick(&mut self, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>);

    /// Returns when [`tick`](Self::tick) has something to do next, in milliseconds.
    fn deadline(&self) -> Option<u64>;

    /// Sends what has to be sent. To be called when a turn's input is taken.
    fn flush(&mut self, now: Moment) -> std::vec::Drain<'_, Self::Goes>;

    /// Takes on the nodes of another database, which has the same ones under the same numbers.
    fn replace_nodes(&mut self, nodes: &[DeviceNode]);
}
