//! Kinds of front-ends, as the pool sees them.

use super::keys::EntryKey;
use super::readers::{Deliver, PoolCounters, PoolReaders};
use crate::database::{DeviceNode, FrontRequest, PropertyPlace};
use crate::stages::Begun;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{ReaderWish, When};

/// Reads from the front-ends of one kind for the pool's entries, once for all readers.
///
/// The pool begins and ends entries; the front-end passes readings to [`PoolReaders::take`].
/// Front-ends don't know clients, and the pool doesn't know protocols: it passes network input and
/// output on without examining it. A front-end that has answered a single request removes its
/// entry.
pub(super) trait FrontEnd {
    /// Input from the network.
    type Came<'a>;
    /// Output to the network.
    type Goes;

    /// Returns an event as front-ends encode it; entries with the same encoding are merged.
    ///
    /// # Errors
    /// The status that clients get for events that the front-end doesn't support.
    fn encode_event(&self, wanted: &FrontRequest, wish: &ReaderWish) -> Result<When, Status>;

    /// Returns the number of an event, if anything is read from a node on that event. It is `None`
    /// for a kind whose events take no shared resource.
    fn event(&self, node: usize, when: When) -> Option<usize>;

    /// Returns the number of the event on which an entry is read.
    fn event_of(&self, entry: EntryKey) -> Option<usize>;

    /// Returns how many more events are possible; `None` if they take no shared resource.
    fn events_left(&self) -> Option<usize>;

    /// Returns the number of requests that are outstanding.
    fn outstanding(&self) -> usize;

    /// Returns the figures of its work.
    fn counters(&self) -> PoolCounters;

    /// Starts an entry.
    fn begin(&mut self, entry: (EntryKey, u64), wanted: FrontRequest, when: When, place: &PropertyPlace);

    /// Ends an entry, which has no readers any more.
    fn end(&mut self, entry: EntryKey);

    /// Returns true if a new reader can share an entry's outstanding request: one that is answered
    /// repeatedly, or has not left yet.
    fn can_join(&self, entry: EntryKey) -> bool;

    /// Handles network input. `begun` is the start of the look-up.
    fn take(&mut self, came: Self::Came<'_>, now: Moment, begun: Begun, readers: &mut PoolReaders<'_, impl Deliver>);

    /// Does all due work.
    fn tick(&mut self, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>);

    /// Returns the time at which [`tick`](Self::tick) must be called next, in milliseconds.
    fn deadline(&self) -> Option<u64>;

    /// Takes the output. Must be called after a turn's input.
    fn flush(&mut self, now: Moment) -> std::vec::Drain<'_, Self::Goes>;

    /// Replaces the nodes by those of another database, in which existing nodes keep their numbers.
    fn replace_nodes(&mut self, nodes: &[DeviceNode]);
}
