//! Counts the work of a shard, and measures its ticks: how long copies and mail take. The clock is
//! read twice per tick, and once per envelope.

use std::time::Duration;

use rookery_base::count_of;
use rookery_hub::mail::Parcel;
use rookery_hub::{Errand, Module, World};
use rookery_observe::{Since, Slow, slow};

use crate::census::{Carrier, GaugeRead, ShardCensus};
use crate::driver::Driver;
use crate::mailboxes::Posted;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Adds the counts of this shard. It looks at each session once if details are requested.
    pub(crate) fn be_counted(&self, census: &mut ShardCensus) {
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
        for (domain, seen) in self.world.sources_seen() {
            // All shards share these.
            census.logins.sources.insert((domain.to_owned(), seen.name), seen);
        }
        let Some(details) = &mut census.details else {
            census.connections += self.connections.len();
            return;
        };
        for gauge in self.world.registry().modules().flat_map(Module::gauges) {
            let read = details.gauges.entry(gauge.name).or_insert(GaugeRead { help: gauge.help, count: 0 });
            read.count += (gauge.read)(&self.world);
        }
        census.connections += self.connections.iter().filter(|(_, connection)| connection.is_connected()).count();
        for (link, connection) in self.connections.iter().filter(|(_, connection)| connection.in_world) {
            let Some(address) = self.world.address(link) else { continue };
            let transport = connection.is_connected().then(|| connection.wire.transport());
            let carrier = Carrier { transport, tls: connection.is_encrypted() };
            *details.by_domain.entry((address.domain().to_owned(), carrier)).or_default() += 1;
        }
    }

    /// Returns the shard's counters so far, for the tick that begins.
    pub(crate) fn begin_work(&mut self, ready: usize) -> TickWork {
        self.world.counters.path.begin_tick(self.index());
        let counters = &self.world.counters;
        TickWork {
            since: Since::now(),
            ready,
            envelopes: 0,
            messages: counters.messages_in,
            presence: counters.presence_in,
            iqs: counters.iqs_in,
            copies: self.world.outboxes.pushed_total(),
        }
    }

    /// Measures how long the copies took that are written in this tick. The time of those that came
    /// by mail counts from the beginning of the tick that sent it. A long tick is recorded with its
    /// work.
    pub(crate) fn measure(&mut self, work: &TickWork) {
        self.world.counters.path.end_tick();
        let lasted = work.since.elapsed();
        slow().note(Slow::Tick, lasted, || self.words_of(work));
        let mut own = self.world.outboxes.pushed_total() - work.copies;
        if own == 0 {
            return;
        }
        let counters = &mut self.world.counters;
        for (since, copies) in self.measured.by_mail.drain(..) {
            own = own.saturating_sub(copies);
            counters.delivery.record_many(nanoseconds(since), copies);
        }
        if own > 0 {
            counters.delivery.record_many(in_nanoseconds(lasted), own);
        }
    }

    #[cold]
    fn words_of(&self, work: &TickWork) -> (String, String, String) {
        let counters = &self.world.counters;
        let of = |count: u64, thing| (count > 0).then(|| count_of(count, thing));
        let copies = self.world.outboxes.pushed_total() - work.copies;
        let done = [
            of(counters.messages_in - work.messages, "message"),
            of(counters.presence_in - work.presence, "presence stanza"),
            of(counters.iqs_in - work.iqs, "request"),
            (copies > 0).then(|| if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") }),
            (work.ready > 0).then(|| format!("{} with input", count_of(work.ready as u64, "connection"))),
            of(work.envelopes as u64, "letter"),
        ];
        let done: Vec<_> = done.into_iter().flatten().collect();
        let what =
            if done.is_empty() { "nothing from outside: timers, answers of the store".into() } else { done.join(", ") };
        (what, format!("shard {}", self.index()), "clients of this shard had to wait for it".into())
    }

    /// Opens mail of another shard.
    pub(crate) fn mail(&mut self, mail: Vec<Parcel>, posted: Posted) {
        self.count_copies(posted, |world| mail.into_iter().for_each(|mail| world.mail(mail)));
    }

    /// Runs work of another thread.
    pub(crate) fn errand(&mut self, errand: Errand, posted: Posted) {
        self.count_copies(posted, |world| world.run(errand));
    }

    fn count_copies(&mut self, posted: Posted, work: impl FnOnce(&mut World)) {
        let waited = posted.at.elapsed();
        self.world.counters.mailbox.record_time(waited);
        slow().note(Slow::Mailbox, waited, || {
            let why = "the shard was busy with something else, or the machine is";
            ("mail or an errand".into(), format!("shard {}", self.index()), why.into())
        });
        let before = self.world.outboxes.pushed_total();
        work(&mut self.world);
        let copies = self.world.outboxes.pushed_total() - before;
        if copies > 0 {
            self.measured.by_mail.push((posted.since, copies));
        }
    }
}

/// The work that a shard had done when a tick began.
pub(crate) struct TickWork {
    /// The beginning of the tick.
    pub(crate) since: Since,
    ready: usize,
    /// The envelopes that it found in its mailbox.
    pub(crate) envelopes: usize,
    messages: u64,
    presence: u64,
    iqs: u64,
    copies: u64,
}

fn nanoseconds(since: Since) -> u64 {
    in_nanoseconds(since.elapsed())
}

fn in_nanoseconds(lasted: Duration) -> u64 {
    u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX)
}
