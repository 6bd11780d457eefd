//! The DNS records that domains should have, and their current state, for the admin page; the
//! look-up is done by the part that knows the configuration.
//!
//! # Invariants
//!
//! * One look-up runs at a time: reloading the page again and again causes no flood of queries.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// A record with the answer of DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The record, as a line of a zone file.
    pub line: String,
    /// The answer of DNS.
    pub answer: RecordAnswer,
}

/// The answer of DNS about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordAnswer {
    /// The record exists.
    There,
    /// There is no record of this name and type.
    Missing,
    /// The record has this other value.
    Elsewhere(String),
    /// DNS gave no answer, or an invalid one.
    None,
}

/// A handle on the part that looks records up.
#[derive(Clone)]
pub struct Looker {
    look: Arc<RecordLook>,
    turn: Arc<Semaphore>,
}

type RecordLook = dyn Fn(&str) -> Result<Vec<Record>, String> + Send + Sync;

impl Looker {
    /// Returns a handle; `look` returns the records of a domain, and may wait for DNS on the thread
    /// that calls it.
    pub fn new(look: impl Fn(&str) -> Result<Vec<Record>, String> + Send + Sync + 'static) -> Self {
        Self { look: Arc::new(look), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Looks up the records of a domain.
    ///
    /// # Errors
    ///
    /// A text if DNS can't be queried at all, or another look-up is in progress.
    pub(crate) async fn look(&self, domain: String) -> Result<Vec<Record>, String> {
        let Ok(turn) = self.turn.clone().try_acquire_owned() else {
            return Err("DNS is being asked for somebody else; try again in a moment".into());
        };
        let look = self.look.clone();
        let looked = spawn_blocking(move || {
            let found = look(&domain);
            drop(turn);
            found
        });
        looked.await.unwrap_or_else(|_| Err("DNS can't be asked".into()))
    }
}

impl fmt::Debug for Looker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Looker")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::runtime::Builder;

    #[test]
    fn one_look_goes_on_at_a_time() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let (go, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let looker = Looker::new(move |domain| {
            wait.lock().expect("the end").recv().expect("a word");
            Ok(vec![Record { line: domain.to_owned(), answer: RecordAnswer::There }])
        });
        runtime.block_on(async {
            let first = tokio::spawn({
                let looker = looker.clone();
                async move { looker.look("localhost".into()).await }
            });
            while looker.turn.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            assert!(looker.look("localhost".into()).await.expect_err("a second look").contains("somebody else"));
            go.send(()).expect("a look");
            let found = first.await.expect("an end").expect("records");
            assert_eq!(found, [Record { line: "localhost".into(), answer: RecordAnswer::There }]);
            go.send(()).expect("a look");
            assert!(looker.look("localhost".into()).await.is_ok(), "a third, behind them");
        });
    }
}
