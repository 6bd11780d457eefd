//! Counts what a shard does, and measures its ticks: how long copies and mail take. Two readings
//! of the clock per tick, and one per letter.

use rookery_hub::mail::Parcel;
use rookery_hub::{Errand, World};
use rookery_observe::Since;

use crate::census::{Carrier, Census};
use crate::driver::Driver;
use crate::mailboxes::Posted;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Adds what this shard counts. It looks at each session once if details are asked for.
    pub(crate) fn be_counted(&self, census: &mut Census) {
        census.coverage.answered += 1;
        census.counters += &self.world.counters;
        census.users += self.world.census().users;
        census.sessions += self.world.session_count();
        census.deliveries += self.world.outboxes.pushed_total();
        census.unread.bytes += self.world.outboxes.waiting_total();
        census.tasks += self.world.tasks_waiting();
        census.unread.slow_readers += self.world.outboxes.slow_readers();
        if let Some(federating) = &self.federating {
            federating.servers.count(&mut census.servers);
        }
        if !census.is_detailed {
            census.connections += self.connections.len();
            return;
        }
        census.connections += self.connections.iter().filter(|(_, connection)| connection.is_connected()).count();
        for (link, connection) in self.connections.iter().filter(|(_, connection)| connection.in_world) {
            let Some(address) = self.world.address(link) else { continue };
            let transport = connection.is_connected().then(|| connection.wire.transport());
            let carrier = Carrier { transport, tls: connection.is_encrypted() };
            *census.by_domain.entry((address.domain().to_owned(), carrier)).or_default() += 1;
        }
    }

    /// Counts how long the copies of this tick took, which are written now: those of mail from when
    /// the tick began that sent it.
    pub(crate) fn measure(&mut self, since: Since, delivered: u64) {
        let mut own = self.world.outboxes.pushed_total() - delivered;
        if own == 0 {
            return;
        }
        let counters = &mut self.world.counters;
        for (since, copies) in self.measured.by_mail.drain(..) {
            own = own.saturating_sub(copies);
            counters.delivery.record_many(nanoseconds(since), copies);
        }
        if own > 0 {
            counters.delivery.record_many(nanoseconds(since), own);
        }
    }

    /// Opens mail of another shard.
    pub(crate) fn mail(&mut self, mail: Vec<Parcel>, posted: Posted) {
        self.count_copies(posted, |world| mail.into_iter().for_each(|mail| world.mail(mail)));
    }

    /// Does work of another thread.
    pub(crate) fn errand(&mut self, errand: Errand, posted: Posted) {
        self.count_copies(posted, |world| world.run(errand));
    }

    fn count_copies(&mut self, posted: Posted, work: impl FnOnce(&mut World)) {
        self.world.counters.mailbox.record_time(posted.at.elapsed());
        let before = self.world.outboxes.pushed_total();
        work(&mut self.world);
        let copies = self.world.outboxes.pushed_total() - before;
        if copies > 0 {
            self.measured.by_mail.push((posted.since, copies));
        }
    }
}

fn nanoseconds(since: Since) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
