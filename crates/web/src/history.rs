//! The server's history for the graphs of the admin page: a point every five minutes, for thirty
//! days. It is saved in the store, so that it survives a restart.
//!
//! A node's day is one entry of a list in the store, with at most 288 points. The entry is
//! rewritten with each new point: a few kilobytes every five minutes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use rookery_base::lock::lock;

use crate::WebShared;
use crate::ask::now_ms;
use crate::samples::{PERIOD, WebSample};

/// The points, oldest first, and the samples for the next one.
#[derive(Debug, Default)]
pub struct History(Mutex<HistoryPast>);

#[derive(Debug, Default)]
struct HistoryPast {
    points: VecDeque<WebSample>,
    /// The samples since the last point.
    fresh: Vec<WebSample>,
    /// True once the store's points are loaded. Until then no day is written, since it would lack
    /// them.
    is_filled: bool,
}

/// A change of the stored history.
#[derive(Debug, PartialEq)]
struct HistoryWrite {
    /// The number of the day since 1970.
    day: u64,
    bytes: Vec<u8>,
}

impl History {
    /// Returns all points, oldest first.
    pub fn all(&self) -> Vec<WebSample> {
        lock(&self.0).points.iter().cloned().collect()
    }

    /// Adds a sample. Returns the day to be written, if a point is complete.
    fn add(&self, sample: WebSample) -> Option<HistoryWrite> {
        let mut past = lock(&self.0);
        let period = |sample: &WebSample| sample.unix_ms / POINT_MS;
        let is_complete = past.fresh.last().is_some_and(|last| period(last) != period(&sample));
        let point = is_complete.then(|| summary(&std::mem::take(&mut past.fresh))).flatten();
        past.fresh.push(sample);
        let point = point?;
        let day = point.unix_ms / DAY_MS;
        past.points.push_back(point);
        while past.points.front().is_some_and(|first| first.unix_ms / DAY_MS + DAYS <= day) {
            past.points.pop_front();
        }
        if !past.is_filled {
            return None;
        }
        let of_day = past.points.iter().filter(|point| point.unix_ms / DAY_MS == day);
        Some(HistoryWrite { day, bytes: of_day.flat_map(record).collect() })
    }

    /// Puts the stored points in front of the present ones.
    fn fill(&self, kept: Vec<WebSample>) {
        let mut past = lock(&self.0);
        let first = past.points.front().map_or(u64::MAX, |first| first.unix_ms);
        let older: BTreeMap<u64, WebSample> =
            kept.into_iter().filter(|point| point.unix_ms < first).map(|point| (point.unix_ms, point)).collect();
        older.into_values().rev().for_each(|point| past.points.push_front(point));
        past.is_filled = true;
    }
}

/// Takes samples until the runtime ends, and stores their points.
pub(crate) async fn take(shared: Arc<WebShared>) {
    let mut rounds = tokio::time::interval(PERIOD);
    loop {
        rounds.tick().await;
        let census = shared.counts_of_shards().await;
        let sample = shared.samples.add(now_ms(), &census);
        // If no network may use the admin page, the graphs aren't visible.
        if let Some(sample) = sample.filter(|_| !shared.settings().admin_networks.is_empty()) {
            note(&shared, sample).await;
        }
    }
}

/// Adds a sample, and stores a completed point.
async fn note(shared: &Arc<WebShared>, sample: WebSample) {
    let write = shared.history.add(sample);
    let is_filled = lock(&shared.history.0).is_filled;
    if !is_filled && let Ok(kept) = shared.wait(shared.stores.meta.entries(LIST)).await {
        let own = kept.iter().filter(|(name, _)| is_of(name, &shared.instance.node));
        shared.history.fill(own.flat_map(|(_, bytes)| bytes.chunks_exact(RECORD).filter_map(read)).collect());
    }
    let Some(HistoryWrite { day, bytes }) = write else { return };
    let name = name(day, &shared.instance.node);
    if let Err(error) = shared.wait(shared.stores.meta.put_entry(LIST, &name, bytes)).await {
        // The next point is written with the whole day.
        tracing::warn!(%error, "the history of the graphs can't be saved");
        return;
    }
    forget(shared, day).await;
}

/// Removes days that are too old, including those of nodes that no longer exist.
async fn forget(shared: &Arc<WebShared>, today: u64) {
    let Ok(kept) = shared.wait(shared.stores.meta.entries(LIST)).await else { return };
    for (name, _) in kept {
        let day = name.split('/').next().and_then(|day| day.parse::<u64>().ok()).unwrap_or_default();
        if day + DAYS <= today {
            // A failed removal is repeated with the next point.
            let _ = shared.wait(shared.stores.meta.remove_entry(LIST, &name)).await;
        }
    }
}

fn name(day: u64, node: &str) -> String {
    format!("{day:08}/{node}")
}

fn is_of(name: &str, node: &str) -> bool {
    name.split_once('/').is_some_and(|(_, of)| of == node)
}

/// Returns the summary of samples: means of rates and sizes, maxima of waits.
fn summary(samples: &[WebSample]) -> Option<WebSample> {
    let last = samples.last()?;
    let count = samples.len() as f64;
    let mean = |value: fn(&WebSample) -> f64| samples.iter().map(value).sum::<f64>() / count;
    let worst = |value: fn(&WebSample) -> Option<f64>| samples.iter().filter_map(value).reduce(f64::max);
    let most = |value: fn(&WebSample) -> u64| samples.iter().map(value).max().unwrap_or_default();
    Some(WebSample {
        unix_ms: last.unix_ms,
        sessions: mean(|sample| sample.sessions as f64).round() as u64,
        stanzas: mean(|sample| sample.stanzas),
        deliveries: mean(|sample| sample.deliveries),
        memory: mean(|sample| sample.memory as f64) as u64,
        waiting: most(|sample| sample.waiting),
        slow_readers: most(|sample| sample.slow_readers),
        store: worst(|sample| sample.store),
        mailbox: worst(|sample| sample.mailbox),
        delivery: worst(|sample| sample.delivery),
        ..WebSample::default()
    })
}

/// Returns a point in its stored form: the seconds since 1970 and nine values of four bytes each.
fn record(point: &WebSample) -> [u8; RECORD] {
    let perhaps = |value: Option<f64>| value.map_or(f32::NAN, |value| value as f32);
    let values = [
        point.sessions as f32,
        point.stanzas as f32,
        point.deliveries as f32,
        point.memory as f32,
        point.waiting as f32,
        point.slow_readers as f32,
        perhaps(point.store),
        perhaps(point.mailbox),
        perhaps(point.delivery),
    ];
    let seconds = u32::try_from(point.unix_ms / 1000).unwrap_or(u32::MAX);
    let words = std::iter::once(seconds.to_be_bytes()).chain(values.map(f32::to_be_bytes));
    let mut record = [0; RECORD];
    record.as_chunks_mut().0.iter_mut().zip(words).for_each(|(place, word)| *place = word);
    record
}

fn read(record: &[u8]) -> Option<WebSample> {
    let mut words = record.as_chunks::<4>().0.iter().copied();
    let seconds = u32::from_be_bytes(words.next()?);
    let mut value = || words.next().map(f32::from_be_bytes);
    let count = |value: f32| if value.is_finite() { value.max(0.0) as u64 } else { 0 };
    let perhaps = |value: f32| Some(f64::from(value)).filter(|value| value.is_finite());
    Some(WebSample {
        unix_ms: u64::from(seconds) * 1000,
        sessions: count(value()?),
        stanzas: perhaps(value()?).unwrap_or_default(),
        deliveries: perhaps(value()?).unwrap_or_default(),
        memory: count(value()?),
        waiting: count(value()?),
        slow_readers: count(value()?),
        store: perhaps(value()?),
        mailbox: perhaps(value()?),
        delivery: perhaps(value()?),
        ..WebSample::default()
    })
}

/// The name of the list in the store.
const LIST: &str = "graphs";
/// The time between two points, in milliseconds.
pub const POINT_MS: u64 = 300_000;
/// The number of days that are kept.
const DAYS: u64 = 30;
const DAY_MS: u64 = 86_400_000;
/// The bytes of a stored point.
const RECORD: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(unix_ms: u64, sessions: u64) -> WebSample {
        WebSample { unix_ms, sessions, stanzas: sessions as f64, store: Some(0.25), ..WebSample::default() }
    }

    #[test]
    fn a_point_is_what_its_samples_were() {
        let history = History::default();
        history.fill(Vec::new());
        assert_eq!([0, 100_000, 200_000].map(|at| history.add(sample(at, at / 100_000))), [None, None, None]);
        let write = history.add(sample(POINT_MS, 50)).expect("a point");
        assert_eq!((write.day, write.bytes.len()), (0, RECORD));
        let [point] = &history.all()[..] else { panic!("one point") };
        assert_eq!((point.unix_ms, point.sessions, point.stanzas), (200_000, 1, 1.0));
        let read = read(&write.bytes).expect("a point");
        assert_eq!(read, *point);
        assert_eq!((read.store, read.mailbox), (Some(0.25), None));
    }

    #[test]
    fn a_month_is_kept_and_a_day_written_at_a_time() {
        let history = History::default();
        history.fill(Vec::new());
        let points = 40 * DAY_MS / POINT_MS;
        let last = (0..points).filter_map(|at| history.add(sample(at * POINT_MS, 1))).last().expect("a day");
        assert!(last.bytes.len() <= 288 * RECORD && last.day == 39, "{}", last.bytes.len());
        let all = history.all();
        assert!(all.len() <= 30 * 288 && all.len() > 29 * 288, "{}", all.len());
        assert_eq!(all[0].unix_ms / DAY_MS, 10);
    }

    #[test]
    fn what_the_store_has_comes_first_and_no_day_is_written_without_it() {
        let history = History::default();
        assert_eq!((0..3).find_map(|at| history.add(sample(DAY_MS + at * POINT_MS, 1))), None);
        history.fill(vec![sample(7_000, 2), sample(5_000, 3), sample(3 * DAY_MS, 9)]);
        let times: Vec<_> = history.all().iter().map(|point| point.unix_ms).collect();
        assert_eq!(times, [5_000, 7_000, DAY_MS, DAY_MS + POINT_MS]);
        assert!(history.add(sample(DAY_MS + 3 * POINT_MS, 1)).is_some());
    }
}
