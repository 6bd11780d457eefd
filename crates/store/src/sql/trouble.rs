//! Informs operators and their probes when the database can't be written to, such as when a disk is
//! full, or can't be reached.

use crate::StoreError;
use std::collections::{BTreeSet, HashMap};
use std::mem::Discriminant;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_base::lock::lock;

/// The trouble that keeps the store from working. The workers record it, and any thread may read
/// it.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<TroubleState>);

#[derive(Debug, Default)]
struct TroubleState {
    /// The reason why the last write failed.
    error: Option<StoreError>,
    /// The lanes without a connection, and the reason why the last one was lost.
    lost: BTreeSet<usize>,
    why: Option<StoreError>,
    /// The time when the first of them was lost, in milliseconds since 1970.
    since_ms: u64,
    told: HashMap<Discriminant<StoreError>, Instant>,
    /// True while the last log line about connections says that the database can't be reached.
    is_told_lost: bool,
}

impl Trouble {
    /// Returns the reason why the last write failed, if that was the database's fault, or why it
    /// can't be reached.
    pub(crate) fn get(&self) -> Option<StoreError> {
        let state = self.state();
        state.error.clone().or_else(|| state.why.clone())
    }

    /// Returns the time since which the database can't be reached, in milliseconds since 1970.
    pub(crate) fn away_since_ms(&self) -> Option<u64> {
        let state = self.state();
        (!state.lost.is_empty()).then_some(state.since_ms)
    }

    /// Returns the error for an operation that can't wait any longer: the database is away, or too
    /// slow.
    pub(crate) fn too_late(&self) -> StoreError {
        let state = self.state();
        let mut why = state.why.clone();
        match why.as_mut().and_then(StoreError::words_mut) {
            Some(engine) => StoreError::Away { engine: engine.clone(), since_ms: state.since_ms },
            None => StoreError::Busy,
        }
    }

    /// Returns true if the last write failed, and the database was the reason.
    pub(crate) fn is_unwritable(&self) -> bool {
        self.state().error.is_some()
    }

    /// Returns whether an error is the database's fault, and will occur again.
    pub(crate) fn is_of(error: &StoreError) -> bool {
        matches!(error, StoreError::Full(_) | StoreError::ReadOnly(_) | StoreError::Corrupt(_) | StoreError::Io(_))
    }

    /// Records that a write failed, and returns whether that is the database's fault. This is
    /// logged at most once a minute: on a full disk, a line for each failure would be one more
    /// thing to write.
    pub(crate) fn note_failure(&self, error: &StoreError) -> bool {
        if !Trouble::is_of(error) {
            return false;
        }
        let mut state = self.state();
        if state.is_to_be_told(error) {
            tracing::error!(%error, "nothing can be stored; existing data can still be read");
        }
        state.error = Some(error.clone());
        true
    }

    /// Records that a write succeeded.
    pub(crate) fn succeeded(&self) {
        let mut state = self.state();
        if state.error.take().is_some() {
            tracing::info!("the database accepts writes again");
        }
    }

    /// Records that a lane has no connection.
    pub(crate) fn lost(&self, lane: usize, error: &StoreError) {
        let mut state = self.state();
        if state.lost.is_empty() {
            state.since_ms = now_ms();
        }
        state.lost.insert(lane);
        state.why = Some(error.clone());
        if state.is_to_be_told(error) {
            state.is_told_lost = true;
            tracing::error!(%error, "the database can't be reached; chat continues, and anything that needs the database waits for a while");
        }
    }

    /// Records that a lane has a connection again.
    pub(crate) fn found(&self, lane: usize) {
        let mut state = self.state();
        if state.lost.remove(&lane) && state.lost.is_empty() {
            state.why = None;
            // Connections that come and go within the minute would fill the log.
            if std::mem::take(&mut state.is_told_lost) {
                tracing::info!("the database can be reached again");
            }
        }
    }

    /// Records that operations were given up after waiting in the queue for too long.
    pub(crate) fn overdue(&self, operations: usize) {
        if self.state().is_to_be_told(&StoreError::Busy) {
            tracing::error!(operations, "the database takes too long: waiting operations are given up");
        }
    }

    /// Locks the state. Nothing panics under the lock.
    fn state(&self) -> MutexGuard<'_, TroubleState> {
        lock(&self.0)
    }
}

impl TroubleState {
    /// Returns whether no error of this kind was logged recently.
    fn is_to_be_told(&mut self, error: &StoreError) -> bool {
        let (kind, now) = (std::mem::discriminant(error), Instant::now());
        let is_new = self.told.get(&kind).is_none_or(|told| now.duration_since(*told) >= PERIOD);
        if is_new {
            self.told.insert(kind, now);
        }
        is_new
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

const PERIOD: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::EngineWords;

    #[test]
    fn what_waited_in_vain_learns_since_when_the_database_is_away() {
        let trouble = Trouble::default();
        assert_eq!((trouble.too_late(), trouble.away_since_ms()), (StoreError::Busy, None), "it is slow");
        let engine = EngineWords { database: "of a test".into(), message: "gone".into() };
        for lane in [1, 2] {
            trouble.lost(lane, &StoreError::Lost(engine.clone()));
        }
        let since_ms = trouble.away_since_ms().expect("a time");
        assert_eq!(trouble.too_late(), StoreError::Away { engine, since_ms });
        assert!(
            trouble.too_late().is_outage() && trouble.too_late().to_string().contains("has been unreachable since 20")
        );
        trouble.found(1);
        assert_eq!(trouble.away_since_ms(), Some(since_ms), "another lane lacks it");
        trouble.found(2);
        assert_eq!((trouble.too_late(), trouble.away_since_ms()), (StoreError::Busy, None));
    }

    #[test]
    fn the_log_has_each_cause_once_a_minute() {
        let engine = || EngineWords { database: "of a test".into(), message: "on demand".into() };
        let mut state = TroubleState::default();
        for error in [StoreError::Full(engine()), StoreError::Lost(engine()), StoreError::Busy] {
            assert!(state.is_to_be_told(&error), "{error}");
            assert!((0..1000).all(|_| !state.is_to_be_told(&error)), "{error}");
        }
        let a_minute_ago = Instant::now().checked_sub(PERIOD).expect("a clock that has run for a minute");
        state.told.values_mut().for_each(|told| *told = a_minute_ago);
        assert!(state.is_to_be_told(&StoreError::Busy) && !state.is_to_be_told(&StoreError::Busy));
    }
}
