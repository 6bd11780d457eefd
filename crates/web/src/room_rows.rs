//! Rooms with their current use, for the lists of the admin page and the API: the occupants, and
//! the time of the last message.
//!
//! The directory of rooms knows neither, so that activity in rooms costs it nothing. The sizes come
//! from the rooms in memory, the times from the archives, by one look-up in an index for each room
//! of a list.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rookery_jid::Jid;
use rookery_operations::rooms::{self, RoomListing};
use rookery_operations::{Gathered, Outcome, archives};

use crate::WebShared;
use crate::ask::OperationAnswer;

/// A room of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoomRow {
    /// The room as its directory lists it.
    pub listing: RoomListing,
    /// Its occupants, counted by nick; `None` if a part of the server hasn't answered.
    pub occupants: Option<usize>,
    /// The time of the newest message in its archive, in milliseconds since 1970.
    pub newest_ms: Option<u64>,
}

/// A part of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RoomRows {
    /// The rooms, in the order of the list.
    pub rows: Vec<RoomRow>,
    /// True if there are more after them.
    pub has_more: bool,
    /// True if only the first [`MOST_SORTED`] rooms, by their addresses, were sorted.
    pub is_cut: bool,
}

/// The orders of rooms, other than that of their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoomOrder {
    /// Those with the most occupants first.
    Occupants,
    /// Those with the newest messages first.
    Activity,
}

impl WebShared {
    /// Returns rooms of a service in the order of their addresses, after a given one.
    ///
    /// # Errors
    /// The store or the shards don't answer in time.
    pub async fn rooms_by_address(&self, host: &str, after: Option<Jid>, limit: usize) -> Outcome<RoomRows> {
        let mut found = self.listings(host, after, limit).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        Ok(RoomRows { rows: self.rows(found).await?, has_more, is_cut: false })
    }

    /// Returns rooms of a service in another order, after a number of them.
    ///
    /// # Errors
    /// As [`WebShared::rooms_by_address`].
    pub async fn rooms_sorted(&self, host: &str, order: RoomOrder, skip: usize, limit: usize) -> Outcome<RoomRows> {
        let mut found = self.listings(host, None, MOST_SORTED).await?;
        let is_cut = found.len() > MOST_SORTED;
        found.truncate(MOST_SORTED);
        let rows = sorted(self.rows(found).await?, order);
        let has_more = rows.len() > skip.saturating_add(limit);
        Ok(RoomRows { rows: rows.into_iter().skip(skip).take(limit).collect(), has_more, is_cut })
    }

    async fn listings(&self, host: &str, after: Option<Jid>, limit: usize) -> Outcome<Vec<RoomListing>> {
        let host = host.to_owned();
        self.ask(move |world, answer| rooms::list(world, &host, after, limit, |_, found| answer.complete(found))).await
    }

    async fn rows(&self, found: Vec<RoomListing>) -> Outcome<Vec<RoomRow>> {
        let work = |world: &mut _, answer: OperationAnswer<_>| {
            rooms::largest(world, MOST_SIZES, |_, sizes| answer.complete(Ok(sizes)));
        };
        let Gathered { items, is_partial } = self.ask(work).await?;
        let is_whole = !is_partial && items.len() < MOST_SIZES;
        let sizes: BTreeMap<_, _> = items.into_iter().map(|size| (size.room, size.occupants)).collect();
        // All questions are queued before the first answer is awaited.
        let newest: Vec<_> =
            found.iter().map(|listing| archives::newest(&self.stores, listing.room.as_ref())).collect();
        let mut rows = Vec::with_capacity(found.len());
        for (listing, newest) in found.into_iter().zip(newest) {
            // Nobody is in a room that no shard has in memory.
            let occupants = sizes.get(&listing.room).copied().or(is_whole.then_some(0));
            rows.push(RoomRow { listing, occupants, newest_ms: self.wait(newest).await? });
        }
        Ok(rows)
    }
}

fn sorted(mut rows: Vec<RoomRow>, order: RoomOrder) -> Vec<RoomRow> {
    // Sorting is stable: equal ones stay in the order of their addresses.
    match order {
        RoomOrder::Occupants => rows.sort_by_key(|row| Reverse(row.occupants)),
        RoomOrder::Activity => rows.sort_by_key(|row| Reverse(row.newest_ms)),
    }
    rows
}

/// The most rooms that are sorted, since each one's archive has to be read for that.
pub(crate) const MOST_SORTED: usize = 2000;
/// The most rooms in memory whose sizes are asked for.
const MOST_SIZES: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_sorted_by_use_and_then_by_address() {
        let row = |name: &str, occupants, newest_ms| {
            let room = Jid::parse(&format!("{name}@rooms.example")).expect("an address");
            let listing = RoomListing { room, name: name.into(), is_public: true, is_persistent: true };
            RoomRow { listing, occupants, newest_ms }
        };
        let rows =
            vec![row("a", Some(0), None), row("b", Some(7), Some(1)), row("c", Some(0), Some(9)), row("d", None, None)];
        let names = |order| {
            let rows = sorted(rows.clone(), order);
            rows.iter().map(|row| row.listing.name.clone()).collect::<Vec<_>>().concat()
        };
        assert_eq!(names(RoomOrder::Occupants), "bacd");
        assert_eq!(names(RoomOrder::Activity), "cbad");
    }
}
