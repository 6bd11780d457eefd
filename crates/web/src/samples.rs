//! Recent counts of the server: a sample every five seconds, for an hour. The graphs of the admin
//! page are drawn from them, and `rookery doctor` uses them.
//!
//! A sample asks the shards for their counters, which costs each a copy of a few kilobytes; their
//! sessions aren't examined.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use rookery_base::lock::lock;
use rookery_observe::{Counters, Histogram, MulticastStage};
use rookery_shard::ShardCensus;

/// The samples, oldest first.
#[derive(Debug, Default)]
pub struct Samples(Mutex<SampleRing>);

#[derive(Debug, Default)]
struct SampleRing {
    samples: VecDeque<WebSample>,
    /// The counters of the last sample.
    before: Option<(u64, Counters, u64)>,
    /// The day of the last sample, and the messages that came before it began.
    today: Option<SampledDay>,
    /// The times since the start as they were once a minute, oldest first.
    times: VecDeque<(u64, SampledTimes)>,
}

/// The times that the server took for what people wait for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampledTimes {
    /// The waits for the store.
    pub store: Histogram,
    /// The waits of letters between shards.
    pub mailbox: Histogram,
    /// The times from reading a stanza to writing its copies.
    pub delivery: Histogram,
}

impl SampledTimes {
    fn of(counters: &Counters) -> Self {
        let Counters { store_waits, mailbox, delivery, .. } = counters;
        Self { store: store_waits.total(), mailbox: mailbox.clone(), delivery: delivery.clone() }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            store: self.store.since(&before.store),
            mailbox: self.mailbox.since(&before.mailbox),
            delivery: self.delivery.since(&before.delivery),
        }
    }
}

/// A day, UTC, and the messages that had come since the start before it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SampledDay {
    /// Days since 1970.
    day: u64,
    /// Messages; 0 on the day of the start.
    messages_before: u64,
}

/// The state at one moment, and the rates since the sample before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WebSample {
    /// The time of the sample, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The number of sessions on all shards of this process.
    pub sessions: u64,
    /// Incoming stanzas per second.
    pub stanzas: f64,
    /// Copies given to sessions, per second.
    pub deliveries: f64,
    /// Bytes of memory of the process.
    pub memory: u64,
    /// Bytes waiting for sessions.
    pub waiting: u64,
    /// Sessions with more waiting bytes than the soft limit of their outboxes.
    pub slow_readers: u64,
    /// The 99th percentile of waits for the store, in seconds; `None` without any.
    pub store: Option<f64>,
    /// The 99th percentile of the waits of letters between shards, in seconds; `None` without any.
    pub mailbox: Option<f64>,
    /// The 99th percentile of the time from reading a stanza to writing its copies, in seconds;
    /// `None` without any.
    pub delivery: Option<f64>,
    /// The number of operations that the database has refused since the sample before.
    pub refused: u64,
    /// The number of times that sessions which sent too fast were slowed down since the sample
    /// before.
    pub throttled: u64,
    /// Seconds of CPU per second that each stage of a multicast took, in the order of
    /// [`MulticastStage::ALL`].
    pub stages: [f64; MulticastStage::ALL.len()],
}

impl Samples {
    /// Adds a sample of the shards, and returns it; `None` if one of them doesn't answer.
    pub fn add(&self, unix_ms: u64, census: &ShardCensus) -> Option<WebSample> {
        let mut ring = lock(&self.0);
        let sample = WebSample {
            unix_ms,
            sessions: census.sessions as u64,
            memory: memory(),
            waiting: census.unread.bytes as u64,
            slow_readers: census.unread.slow_readers as u64,
            ..ring.before.as_ref().map_or_else(WebSample::default, |before| rates(before, unix_ms, census))
        };
        // A missing shard would look like a drop to zero.
        if !census.coverage.is_whole() {
            return None;
        }
        let (day, messages) = (unix_ms / DAY_MS, census.counters.messages_in);
        match ring.today {
            Some(today) if today.day == day => {}
            known => ring.today = Some(SampledDay { day, messages_before: known.map_or(0, |_| messages) }),
        }
        ring.before = Some((unix_ms, census.counters.clone(), census.deliveries));
        if ring.times.back().is_none_or(|(last_ms, _)| last_ms + MINUTE_MS <= unix_ms) {
            ring.times.push_back((unix_ms, SampledTimes::of(&census.counters)));
        }
        if ring.times.len() > MOST_MINUTES {
            ring.times.pop_front();
        }
        ring.samples.push_back(sample.clone());
        if ring.samples.len() > MOST {
            ring.samples.pop_front();
        }
        Some(sample)
    }

    /// Returns how many of the messages since the start came before the current day, UTC; 0 if the
    /// server started today.
    pub fn messages_before_today(&self) -> u64 {
        lock(&self.0).today.map_or(0, |today| today.messages_before)
    }

    /// Returns the times from a moment on, in milliseconds since 1970, to the last sample: to the
    /// minute, and at most a quarter of an hour.
    pub fn times_since(&self, unix_ms: u64) -> SampledTimes {
        let ring = lock(&self.0);
        let Some((_, now, _)) = &ring.before else { return SampledTimes::default() };
        let before = ring.times.iter().find(|(taken_ms, _)| *taken_ms >= unix_ms);
        before.map(|(_, before)| SampledTimes::of(now).since(before)).unwrap_or_default()
    }

    /// Returns all samples, oldest first.
    pub fn all(&self) -> Vec<WebSample> {
        lock(&self.0).samples.iter().cloned().collect()
    }
}

fn rates((before_ms, before, delivered): &(u64, Counters, u64), unix_ms: u64, census: &ShardCensus) -> WebSample {
    let seconds = (unix_ms.saturating_sub(*before_ms) as f64 / 1000.0).max(0.001);
    let now = &census.counters;
    let came = |counters: &Counters| counters.messages_in + counters.presence_in + counters.iqs_in;
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let most = |now: &Histogram, before| now.since(before).quantile(0.99).map(|ns| ns as f64 / 1e9);
    WebSample {
        stanzas: rate(came(now), came(before)),
        deliveries: rate(census.deliveries, *delivered),
        store: most(&now.store_waits.total(), &before.store_waits.total()),
        mailbox: most(&now.mailbox, &before.mailbox),
        delivery: most(&now.delivery, &before.delivery),
        refused: now.store_errors.saturating_sub(before.store_errors),
        throttled: now.throttled.saturating_sub(before.throttled),
        stages: MulticastStage::ALL.map(|stage| {
            let taken = now.stages.of(stage).time.saturating_sub(before.stages.of(stage).time);
            taken.as_secs_f64() / seconds
        }),
        ..WebSample::default()
    }
}

/// Returns the resident memory of this process, in bytes; 0 if the system doesn't report it.
fn memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}

/// A minute in milliseconds.
const MINUTE_MS: u64 = 60_000;
/// The number of minutes for which the times are kept.
const MOST_MINUTES: usize = 15;
/// A day in milliseconds.
const DAY_MS: u64 = 86_400_000;
/// The time between two samples.
pub const PERIOD: Duration = Duration::from_secs(5);
/// The number of samples that are kept: an hour's.
const MOST: usize = 720;

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_shard::Coverage;

    fn census(messages: u64, deliveries: u64) -> ShardCensus {
        let counters = Counters { messages_in: messages, ..Counters::default() };
        ShardCensus {
            coverage: Coverage { shards: 1, answered: 1, ..Coverage::default() },
            counters,
            deliveries,
            sessions: 7,
            ..ShardCensus::default()
        }
    }

    #[test]
    fn rates_are_those_between_samples() {
        let samples = Samples::default();
        samples.add(10_000, &census(100, 1000));
        samples.add(15_000, &census(150, 3000));
        let [first, second] = &samples.all()[..] else { panic!("two samples") };
        assert_eq!((first.stanzas, first.sessions, first.store), (0.0, 7, None));
        assert_eq!((second.stanzas, second.deliveries), (10.0, 400.0));
        samples.add(20_000, &ShardCensus { coverage: Coverage { shards: 1, ..Coverage::default() }, ..census(0, 0) });
        assert_eq!(samples.all().len(), 2, "a shard that is silent makes no fall");
    }

    #[test]
    fn times_are_those_of_the_last_minutes() {
        let samples = Samples::default();
        let mut all = census(0, 0);
        for second in (0..1200).step_by(5) {
            // A wave at the start, and then one a second.
            let (ns, times) = if second == 5 { (1 << 30, 1000) } else { (1 << 10, 5) };
            all.counters.delivery.record_many(ns, times);
            samples.add(second * 1000, &all);
        }
        let since = |second: u64| samples.times_since(second * 1000).delivery;
        assert_eq!((since(0).count(), since(0).quantile(0.99)), (1195 - 300, Some(1 << 10)), "a quarter of an hour");
        assert_eq!(since(1000).count(), 1195 - 1020);
        assert_eq!(Samples::default().times_since(0), SampledTimes::default());
        samples.add(1_200_000, &all);
        assert_eq!(samples.times_since(1_200_001), SampledTimes::default());
    }

    #[test]
    fn messages_of_other_days_are_not_of_today() {
        let samples = Samples::default();
        let before = |unix_ms, messages| {
            samples.add(unix_ms, &census(messages, 0));
            samples.messages_before_today()
        };
        assert_eq!((before(DAY_MS - 5000, 100), before(DAY_MS - 1, 120)), (0, 0), "the day of the start");
        assert_eq!((before(DAY_MS, 150), before(DAY_MS + 5000, 190)), (150, 150));
        assert_eq!(before(2 * DAY_MS, 200), 200);
    }

    #[test]
    fn only_an_hour_is_kept() {
        let samples = Samples::default();
        let added = (0..2 * MOST as u64).filter_map(|number| samples.add(number * 5000, &census(number, number)));
        assert_eq!(added.count(), 2 * MOST);
        assert_eq!(samples.all().len(), MOST);
        assert_eq!(samples.all()[0].unix_ms, MOST as u64 * 5000);
    }

    #[test]
    fn the_system_tells_of_memory() {
        assert!(memory() > 1 << 20);
    }
}
