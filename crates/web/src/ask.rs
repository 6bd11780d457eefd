//! Questions to the shards, for the API and the admin page: an operation runs on one of them, and
//! its result comes back here. Nothing blocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rookery_base::{Abandoned, Awaited, Completer};
use rookery_hub::World;
use rookery_jid::Jid;
use rookery_operations::{Gathered, Outcome, Refusal, invitations};
use rookery_portability::export::to_unnamed_file;
use rookery_shard::{ShardCensus, StreamReport};
use rookery_store::{Invitation, Pending};
use tokio::time::timeout;
use tracing::{error, warn};

use crate::WebShared;
use crate::body::Body;

/// The place where an operation leaves its outcome.
pub type OperationAnswer<T> = Completer<Outcome<T>>;

impl WebShared {
    /// Runs an operation on a shard.
    ///
    /// # Errors
    /// The reason why it wasn't carried out, or [`Refusal::Late`] if no answer came in time, as
    /// when the server stops.
    pub async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut World, OperationAnswer<T>) + Send + 'static,
    ) -> Outcome<T> {
        wait_for(self.door.ask(work)).await
    }

    /// Waits for another part of the process.
    ///
    /// # Errors
    /// [`Refusal::Late`] if no answer came in time, or the other part has gone.
    pub async fn patiently<T>(&self, answer: Awaited<T>) -> Outcome<T> {
        timeout(PATIENCE, answer).await.map_err(|_| Refusal::Late)?.map_err(|Abandoned| Refusal::Late)
    }

    /// Waits for a store.
    ///
    /// # Errors
    /// The error of the store, or [`Refusal::Late`] if it doesn't answer in time.
    pub async fn wait<T>(&self, pending: Pending<T>) -> Outcome<T> {
        timeout(PATIENCE, pending).await.map_err(|_| Refusal::Late)?.map_err(Refusal::from)
    }

    /// Returns all data of an account, as the body of a response (XEP-0227).
    ///
    /// # Errors
    /// The store or the disk failed.
    pub async fn export(&self, account: Jid) -> Outcome<Body> {
        let _turn = self.exports.acquire().await.map_err(|_| Refusal::Late)?;
        let (folder, stores) = (self.exports_folder.clone(), self.stores.clone());
        let write = move || {
            let mut damaged = |what: &str| warn!(what, "an export is incomplete");
            let file = to_unnamed_file(&account, &folder, &stores, &mut damaged).map_err(|error| error.to_string())?;
            let len = file.metadata().map_err(|error| error.to_string())?.len();
            Ok::<_, String>(Body::file(file, 0, len))
        };
        let written = tokio::task::spawn_blocking(write).await.map_err(|_| EXPORT)?;
        written.map_err(|cause| {
            error!(cause, "an account can't be exported");
            EXPORT
        })
    }

    /// Returns the counts of the shards, without examining each session.
    pub async fn counts_of_shards(&self) -> ShardCensus {
        let door = self.door.clone();
        tokio::task::spawn_blocking(move || door.counts()).await.unwrap_or_default()
    }

    /// Returns the counts of the shards of all nodes, examining each session. The other nodes are
    /// asked [by a question](rookery_shard::elsewhere::CensusElsewhere).
    pub async fn census_of_all(&self) -> ShardCensus {
        let elsewhere = self.door.census_elsewhere();
        let mut census = self.census().await;
        if let Ok(elsewhere) = self.patiently(elsewhere).await {
            elsewhere.add_to(&mut census);
        }
        census
    }

    /// Returns the streams of all nodes with other servers and components, sorted by their names.
    ///
    /// # Errors
    /// The server is stopping.
    pub async fn servers_of_all(&self) -> Outcome<Gathered<StreamReport>> {
        let (door, elsewhere) = (self.door.clone(), self.door.servers_elsewhere());
        let mut items = tokio::task::spawn_blocking(move || door.servers()).await.map_err(|_| Refusal::Late)?;
        let elsewhere = self.patiently(elsewhere).await?;
        items.extend(elsewhere.answers.into_iter().flatten().map(StreamReport::from));
        items.sort();
        Ok(Gathered { items, is_partial: elsewhere.missing > 0 })
    }

    /// Ends the streams of all nodes with a domain or component. Returns their number, and whether
    /// a part of the server has not answered.
    ///
    /// # Errors
    /// The server is stopping.
    pub async fn close_servers_of_all(&self, remote: &str, locals: Option<Vec<String>>) -> Outcome<(usize, bool)> {
        let (door, own, here) = (self.door.clone(), remote.to_owned(), locals.clone());
        let elsewhere = self.door.close_servers_elsewhere(remote.to_owned(), locals);
        let closed = tokio::task::spawn_blocking(move || door.close_servers(&own, here));
        let closed = closed.await.map_err(|_| Refusal::Late)?;
        let elsewhere = self.patiently(elsewhere).await?;
        Ok((closed + elsewhere.answers.iter().sum::<usize>(), elsewhere.missing > 0))
    }

    /// Remembers who has made a link. If that fails, the link is valid all the same.
    pub async fn remember_maker(&self, made: &Invitation, maker: &str) {
        if let Err(refusal) = self.wait(invitations::remember_maker(&self.stores, made, maker, now_ms())).await {
            warn!(domain = made.domain, %refusal, "the author of a link couldn't be stored");
        }
    }

    /// Returns the counts of the shards, examining each session.
    pub async fn census(&self) -> ShardCensus {
        let door = self.door.clone();
        // The task fails only if the runtime is stopping.
        tokio::task::spawn_blocking(move || door.census()).await.unwrap_or_default()
    }
}

/// Waits for the answer of a shard.
async fn wait_for<T>(answer: Awaited<Outcome<T>>) -> Outcome<T> {
    timeout(PATIENCE, answer).await.map_err(|_| Refusal::Late)?.map_err(|Abandoned| Refusal::Late)?
}

/// Returns the current time, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// The refusal for an export that was interrupted.
const EXPORT: Refusal = Refusal::Failed("the export");
/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use rookery_base::one_shot;
    use rookery_store::StoreError;

    use super::*;

    #[test]
    fn a_shard_that_is_gone_is_late_and_only_the_store_fails_as_the_store() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (answer, awaited) = one_shot::<Outcome<()>>();
        drop(answer);
        assert_eq!(runtime.block_on(wait_for(awaited)), Err(Refusal::Late));
        let (answer, awaited) = one_shot::<Outcome<()>>();
        answer.complete(Err(Refusal::Store(StoreError::Closed)));
        assert_eq!(runtime.block_on(wait_for(awaited)), Err(Refusal::Store(StoreError::Closed)));
    }
}
