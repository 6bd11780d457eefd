//! Reads the inbox of a process.
//!
//! # Invariants
//!
//! * An answer has about as many bytes as a slow link carries while Redis counts as reachable,
//!   however far behind the reader is. Otherwise a link that is only slow would break the
//!   connection, and everything would be sent and read again.
//! * Large answers come over a connection of their own, on which no lease waits behind them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::RedisError;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::carrying::SECOND;
use crate::engine::{InboxEntries, RedisConnection, RedisEngine, START};
use crate::service::{LINGER, ServiceEvent};
use crate::wire::NodeProcess;

/// A reader of an inbox.
pub(crate) struct InboxReader {
    pub engine: RedisEngine,
    /// The connection for everything else.
    pub shared: RedisConnection,
    pub me: NodeProcess,
    /// Notified when letters leave over that connection.
    pub leaving: Arc<Notify>,
}

/// The number of entries that are read at once.
#[derive(Debug)]
struct InboxPace {
    /// The most entries that are read at once, if the next ones are as large as the last ones.
    most: usize,
    /// The mean size of the last entries, in bytes.
    mean: usize,
}

impl InboxPace {
    fn new() -> Self {
        Self { most: 1, mean: 0 }
    }

    /// Returns the number of entries to read.
    fn count(&self) -> usize {
        self.most.min(AT_ONCE_BYTES.checked_div(self.mean).unwrap_or(self.most)).max(1)
    }

    /// Notes the entries that came when `asked` were requested. Larger ones may follow, so the
    /// number of requested entries at most doubles.
    fn note(&mut self, asked: usize, entries: &InboxEntries) {
        let bytes: usize = entries.iter().map(|(_, entry)| entry.len()).sum();
        if let Some(mean) = bytes.checked_div(entries.len()) {
            self.mean = mean;
            self.most = (2 * asked).min(AT_ONCE);
        }
    }
}

impl InboxReader {
    /// Reads until the events aren't received any more: entries that follow a pause are read at
    /// once. If entries follow each other closely, the next ones are read together, and requested
    /// when letters leave for Redis anyway, so that it is woken once for both.
    ///
    /// # Errors
    /// The error of the system or of Redis, after which the connection is unusable.
    pub(crate) async fn read(self, events: &UnboundedSender<ServiceEvent>) -> Result<(), RedisError> {
        let Self { engine, mut shared, me, leaving } = self;
        let mut connection = engine.connect_patiently().await?;
        let (mut position, mut trimmed) = (START.to_owned(), Instant::now());
        let (mut pace, mut is_all) = (InboxPace::new(), false);
        // The number of consecutive empty reads; `None` if entries don't follow closely.
        let mut in_vain = None;
        loop {
            let asked = Instant::now();
            let is_shared = in_vain.is_some() && is_all;
            let count = pace.count().min(if is_shared { SHARED_AT_ONCE } else { AT_ONCE });
            let entries = match is_shared {
                true => shared.read_now(me, &position, count).await?,
                false => connection.read(me, &position, count).await?,
            };
            in_vain = match in_vain {
                Some(reads) if entries.is_empty() => Some(reads + 1).filter(|reads| *reads < IN_VAIN),
                None if asked.elapsed() >= LINGER => None,
                _ => Some(0),
            };
            is_all = entries.len() < count;
            pace.note(count, &entries);
            if let Some((last, _)) = entries.last() {
                position.clone_from(last);
                let entries = entries.into_iter().map(|(_, entry)| entry).collect();
                if events.send(ServiceEvent::Read(entries)).is_err() {
                    return Ok(());
                }
            }
            if trimmed.elapsed() >= SECOND {
                trimmed = Instant::now();
                connection.trim(me, &position).await?;
            }
            if in_vain.is_some() && is_all {
                _ = tokio::time::timeout(LONGEST_LINGER, leaving.notified()).await;
            }
        }
    }
}

/// The most entries that are read at once, and over the connection that is shared with leases.
const AT_ONCE: usize = 64;
const SHARED_AT_ONCE: usize = 8;
/// The most bytes of entries that are read at once, unless it is one entry, or they are larger than
/// the last ones.
const AT_ONCE_BYTES: usize = 1 << 20;
/// The longest time for which reading a busy inbox waits for outgoing letters to be sent along
/// with.
const LONGEST_LINGER: Duration = Duration::from_millis(5);
/// The number of consecutive empty reads before the next one waits for an entry.
const IN_VAIN: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of entries that are requested one after the other while each has this
    /// many bytes.
    fn counts(pace: &mut InboxPace, bytes: usize, times: usize) -> Vec<usize> {
        let step = |_| {
            let count = pace.count();
            pace.note(count, &vec![(String::new(), vec![0; bytes]); count]);
            count
        };
        (0..times).map(step).collect()
    }

    #[test]
    fn entries_that_are_read_at_once_are_bounded_in_bytes() {
        let mut pace = InboxPace::new();
        assert_eq!(counts(&mut pace, 1_000, 8), [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!(counts(&mut pace, 256 << 10, 3), [64, 4, 4], "larger ones follow");
        assert_eq!(counts(&mut pace, 16 << 20, 3), [4, 1, 1], "one is larger than that");
        pace.note(1, &Vec::new());
        assert_eq!(counts(&mut pace, 1_000, 3), [1, 2, 4]);
    }
}
