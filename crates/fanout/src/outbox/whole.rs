//! Assertions about an outbox between two calls. Builds for tests and simulations check them;
//! others don't.

use super::item::{OutboxItem, rendered_len};
use super::queue::QueueTally;
use super::{Link, Outboxes};

impl Outboxes {
    /// Asserts that the numbers of a session's outbox are those of its items.
    ///
    /// # Panics
    /// In builds with assertions, if they are not.
    pub(super) fn assert_whole(&self, link: Link) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Some(slot) = self.slots.get(link) else { return };
        let (Some(queue), Some(address)) = (&slot.queue, &slot.address) else { return };
        let unacked = queue.managed.as_ref().map_or(0, |managed| managed.unacked.len());
        if queue.items.len() + unacked > MOST_ASSERTED {
            return;
        }
        let size = |item: &OutboxItem| rendered_len(&item.packet, address, item.to);
        let sum = |items: &mut dyn Iterator<Item = &OutboxItem>| {
            items.fold((QueueTally::default(), 0), |(mut paced, mut bytes), item| {
                if item.paced {
                    paced = QueueTally { items: paced.items + 1, bytes: paced.bytes + size(item) };
                } else {
                    bytes += size(item);
                }
                (paced, bytes)
            })
        };
        let (paced, bytes) = sum(&mut queue.items.iter());
        debug_assert_eq!(queue.bytes, bytes, "bytes that wait are those of the items");
        let counted = queue.paced_tally();
        debug_assert_eq!((counted.items, counted.bytes), (paced.items, paced.bytes), "paced items");
        debug_assert!(self.waiting >= bytes + paced.bytes, "the shard counts what its sessions do");
        let first = queue.items.front().map(|item| item.wire_len(address, slot.transport));
        debug_assert!(queue.taken == 0 || first.is_some_and(|first| queue.taken < first), "the first item is begun");
        if let Some(managed) = &queue.managed {
            let (paced, bytes) = sum(&mut managed.unacked.iter());
            debug_assert_eq!(managed.bytes, bytes + paced.bytes, "bytes that are not acknowledged");
            let all = queue.all_paced();
            debug_assert_eq!(all.items - counted.items, paced.items, "paced items that are not acknowledged");
            debug_assert!(managed.uncounted <= queue.items.len(), "what precedes the count still waits");
            let stanzas = managed.unacked.iter().all(|item| item.to != super::To::Nobody);
            debug_assert!(stanzas, "elements that aren't stanzas are not acknowledged");
            debug_assert!(managed.ahead == 0 || managed.unacked.is_empty(), "acknowledged in order");
        }
    }
}

/// The number of items of an outbox above which it isn't checked: each check goes through all of
/// them.
const MOST_ASSERTED: usize = 200;
